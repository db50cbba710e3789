//! A process that ends with the test that started it.

use std::process::Child;

/// A child process, killed on drop even if the test fails. Otherwise it would keep the output
/// stream of the tests open.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
