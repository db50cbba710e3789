//! Compiler flags that keep paths of the build machine out of the program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::text_of;

/// The flags for the compilers of Rust and C.
pub(super) struct Flags {
    rust: Vec<String>,
    c: Vec<String>,
}

impl Flags {
    /// Returns the flags of a target, for sources in a folder.
    pub(super) fn new(target: &str, sources: &Path) -> Result<Self> {
        let home = std::env::var("CARGO_HOME")
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
            .context("CARGO_HOME")?;
        let root = text_of(Command::new("rustc").args(["--print", "sysroot"]))?;
        let maps = [
            (sources.display().to_string(), "/punctual"),
            (home, "/cargo"),
            (format!("{root}/lib/rustlib/src/rust"), "/rust"),
        ];
        let mut flags = Self {
            rust: prefixes("--remap-path-prefix", &maps),
            c: prefixes("-ffile-prefix-map", &maps),
        };
        // Rust links dynamically with glibc by default.
        if target.contains("-gnu") {
            flags.rust.push("-Ctarget-feature=+crt-static".to_owned());
        }
        Ok(flags)
    }

    /// Adds the flags to a cargo command.
    pub(super) fn put_on(&self, command: &mut Command) {
        command
            .env("RUSTFLAGS", self.rust.join(" "))
            .env("CFLAGS", self.c.join(" "));
    }
}

fn prefixes(option: &str, maps: &[(String, &str)]) -> Vec<String> {
    maps.iter()
        .map(|(from, to)| format!("{option}={from}={to}"))
        .collect()
}
