//! Asks the linker for a smaller program, where it can make one that this machine runs.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is asked for, each where a program linked with it runs.
const SMALLER: [&str; 2] = [
    // Relocations as a bitmap, a hundredth of their usual size: a megabyte that is read at
    // each start. glibc reads them from 2.36 on.
    "-Wl,-z,pack-relative-relocs",
    // Functions of the same code are kept once. lld can, GNU ld cannot.
    "-Wl,--icf=all",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    // What is built for another machine meets a loader that nobody knows here.
    let is_own = env::var("HOST").is_ok_and(|host| host == target);
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        return;
    };
    for argument in SMALLER {
        if is_own && runs_with(argument, &folder) {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}

/// Whether a small program that is linked with this argument runs. It is linked as the
/// program will be: by the same compiler and linker, with the same flags.
fn runs_with(argument: &str, folder: &Path) -> bool {
    let (source, program) = (folder.join("small.rs"), folder.join("small"));
    // Printing makes it hold relocations.
    if fs::write(&source, "fn main() { println!(\"{:?}\", Some(1)); }").is_err() {
        return false;
    }
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={}", linker.display()));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let linked = compiler
        .args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()))
        .arg(format!("-Clink-arg={argument}"))
        .arg("-o")
        .args([&program, &source])
        .output();
    linked.is_ok_and(|output| output.status.success())
        && Command::new(&program)
            .output()
            .is_ok_and(|output| output.status.success())
}
