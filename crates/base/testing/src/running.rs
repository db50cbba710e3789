//! A process that ends with the test that started it.

use std::process::Child;

/// Killed when this is dropped, also where the test fails: one that ran on would hold
/// the output of the tests open.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
