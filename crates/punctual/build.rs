//! Asks the linker for relocations as a bitmap, a hundredth of their usual size: a megabyte
//! that is read at each start.

use std::env;
use std::process::Command;

/// The first version of glibc whose loader reads them.
const READS_BITMAPS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    // What is built for another machine meets a loader that nobody knows here.
    let is_own = env::var("HOST").is_ok_and(|host| host == target);
    if is_own && target.contains("-linux-gnu") && glibc() >= Some(READS_BITMAPS) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's glibc; `None` where it does not say.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    // "glibc 2.36"
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
