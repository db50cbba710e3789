//! Programs of the workspace that a test of another package runs.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a program that another package builds. cargo only tells a test about the
/// programs of its own package, so this is the file next to the folder of the test program. Builds
/// the program if it is missing.
///
/// # Panics
/// Panics if the program cannot be built.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    // target/debug/deps/TEST
    let folder = test.ancestors().nth(2).unwrap_or(Path::new("."));
    let path = folder.join(name);
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", name])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        let is_built = built.is_ok_and(|status| status.success()) && path.exists();
        assert!(
            is_built,
            "{} is missing: cargo build -p {name}",
            path.display()
        );
    }
    path
}
