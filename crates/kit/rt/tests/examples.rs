//! Runs the examples.
#![allow(clippy::unwrap_used, dead_code)] // a test runs a part of an example

#[path = "../examples/cache_pair.rs"]
mod cache_pair;
#[path = "../examples/deadline_task.rs"]
mod deadline_task;
#[path = "../examples/periodic.rs"]
mod periodic;
#[path = "../examples/shared_state.rs"]
mod shared_state;
#[path = "../examples/tcp_sender.rs"]
mod tcp_sender;

/// Runs in a separate thread, so that the scheduling policy that the example sets ends with the
/// thread.
fn runs<E: std::fmt::Debug + 'static>(example: fn() -> Result<(), E>) {
    std::thread::spawn(move || example().unwrap())
        .join()
        .unwrap();
}

#[test]
fn a_loop_of_one_kilohertz() {
    runs(periodic::main);
}

/// A CPU that this test may use.
#[test]
fn producer_and_consumer_share_a_cache() {
    let cpus = punctual_rt::affinity::current().unwrap();
    let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
    cache_pair::run(first, last).unwrap();
    cache_pair::run(first, first).unwrap();
}

#[test]
fn a_state_that_threads_share() {
    runs(shared_state::main);
}

#[test]
fn a_deadline_task() {
    runs(deadline_task::main);
}

#[test]
fn a_sender_over_tcp() {
    runs(tcp_sender::main);
}
