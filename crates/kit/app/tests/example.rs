//! The example is built and run.
#![allow(clippy::unwrap_used, dead_code)]

#[path = "../examples/control_loop.rs"]
mod control_loop;

/// In a thread of its own: a policy that it leaves behind ends with it.
#[test]
fn a_loop_with_everything_right() {
    let length = std::time::Duration::from_millis(200);
    let example = std::thread::spawn(move || control_loop::control(length));
    example.join().unwrap().unwrap();
}
