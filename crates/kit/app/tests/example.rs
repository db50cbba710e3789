//! Runs the example.
#![allow(clippy::unwrap_used, dead_code)]

#[path = "../examples/control_loop.rs"]
mod control_loop;

/// Runs the example in a separate thread, so that the scheduling policy that it sets ends with the
/// thread.
#[test]
fn a_loop_with_everything_right() {
    let length = std::time::Duration::from_millis(200);
    let example = std::thread::spawn(move || control_loop::control(length));
    example.join().unwrap().unwrap();
}
