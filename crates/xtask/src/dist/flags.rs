//! What the compilers and the linker are asked for, so that the program is small and holds
//! no path of the machine that built it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{order, text_of};
use crate::places::{self, repository};

/// One way to decompress in place of one for each processor and size: what a board stores is
/// small.
const ZSTD_SMALL: [&str; 4] = [
    "-DHUF_FORCE_DECOMPRESS_X1",
    "-DZSTD_FORCE_DECOMPRESS_SEQUENCES_SHORT",
    "-DZSTD_NO_INLINE",
    "-DDYNAMIC_BMI2=0",
];

/// Functions that differ in constants only are kept once. Only some versions of LLVM know it.
/// (Its outliner saves a twentieth, but takes code out of loops that measure.)
const MERGED: &str = "-Cllvm-args=-enable-global-merge-func";

/// Parts of cargo that are not stable yet: the standard library from its sources, for size.
/// Its parts for a panic follow the profile.
const OWN_LIBRARY: [&str; 2] = [
    "-Zbuild-std=std,panic_abort,panic_unwind",
    "-Zbuild-std-features=optimize_for_size",
];

/// What is built.
#[derive(Clone, Copy)]
pub(super) struct Program {
    /// The feature set for boards.
    pub(super) for_boards: bool,
    /// Its profile has no way back from a panic.
    pub(super) ends_at_panics: bool,
}

/// The words for the compiler and linker of Rust, for that of C, and for cargo.
pub(super) struct Flags {
    rust: Vec<String>,
    c: Vec<String>,
    cargo: Vec<&'static str>,
    variables: Vec<(&'static str, &'static str)>,
    /// The toolchain has all that makes the program smaller.
    pub(super) are_complete: bool,
}

impl Flags {
    /// Those of a target, for sources in a folder.
    pub(super) fn of(target: &str, program: Program, sources: &Path) -> Result<Self> {
        let home = std::env::var("CARGO_HOME")
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
            .context("CARGO_HOME")?;
        let library = library_sources()?;
        let maps = [
            (sources.display().to_string(), "/punctual"),
            (home, "/cargo"),
            (library.display().to_string(), "/rust"),
        ];
        let mut flags = Self {
            rust: prefixes("--remap-path-prefix", &maps),
            c: prefixes("-ffile-prefix-map", &maps),
            cargo: Vec::new(),
            variables: Vec::new(),
            are_complete: true,
        };
        if library.join("library/Cargo.lock").is_file() {
            flags.cargo.extend(OWN_LIBRARY);
            flags.variables.push(("RUSTC_BOOTSTRAP", "1"));
        } else {
            flags.lack("a smaller standard library: rustup component add rust-src");
        }
        if knows(MERGED)? {
            flags.rust.push(MERGED.to_owned());
        } else {
            flags.lack("merging of similar functions: this compiler's LLVM cannot");
        }
        // Relocations of the static program as a bitmap, not as 24 bytes each.
        if target.starts_with("x86_64") {
            flags.link("-Wl,-z,pack-relative-relocs");
        }
        // Those of glibc make dynamic programs unless asked otherwise.
        if target.contains("-gnu") {
            flags.rust.push("-Ctarget-feature=+crt-static".to_owned());
        }
        if program.for_boards {
            flags.c.extend(ZSTD_SMALL.map(str::to_owned));
        }
        if program.ends_at_panics {
            flags.rust.push("-Cforce-unwind-tables=no".to_owned());
            flags.c.push("-fno-asynchronous-unwind-tables".to_owned());
        }
        match toolchain_linker()? {
            Some(folder) => {
                flags.link(&format!("-B{}", folder.display()));
                flags.link("-fuse-ld=lld");
                // Functions of the same code are kept once.
                flags.link("-Wl,--icf=all");
                if program.ends_at_panics {
                    flags.discard_unwinding();
                }
                if !program.for_boards {
                    let folder = places::target().join("packages");
                    flags.rust.push("-Csymbol-mangling-version=v0".to_owned());
                    flags.script(&order::script(target, &folder)?);
                }
            }
            None => flags.lack("folding of equal code: this toolchain has no lld"),
        }
        Ok(flags)
    }

    /// Gives them to a command of cargo.
    pub(super) fn put_on(&self, command: &mut Command) {
        command
            .args(&self.cargo)
            .env("RUSTFLAGS", self.rust.join(" "))
            .env("CFLAGS", self.c.join(" "))
            .envs(self.variables.iter().copied());
    }

    fn lack(&mut self, what: &str) {
        println!("SKIP {what}");
        self.are_complete = false;
    }

    /// A fifth of the program is the way back from a panic. Functions that drop values, and
    /// those of the standard library, have an entry even with these options.
    fn discard_unwinding(&mut self) {
        self.link("-Wl,--no-eh-frame-hdr");
        self.script(&repository().join("packaging/board.ld"));
    }

    /// Where the linker puts what.
    fn script(&mut self, path: &Path) {
        self.link(&format!("-Wl,-T,{}", path.display()));
    }

    fn link(&mut self, word: &str) {
        self.rust.push(format!("-Clink-arg={word}"));
    }
}

fn prefixes(option: &str, maps: &[(String, &str)]) -> Vec<String> {
    maps.iter()
        .map(|(from, to)| format!("{option}={from}={to}"))
        .collect()
}

/// The folder of the standard library's sources, where the toolchain has them.
fn library_sources() -> Result<PathBuf> {
    let root = text_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    Ok(Path::new(&root).join("lib/rustlib/src/rust"))
}

/// Whether the compiler's LLVM takes an option; it is asked for something that it must know.
fn knows(option: &str) -> Result<bool> {
    let mut compiler = Command::new("rustc");
    compiler.args([option, "--print=target-cpus"]);
    Ok(compiler.output().context("rustc")?.status.success())
}

/// The folder with the `ld.lld` that comes with the toolchain, where it does.
fn toolchain_linker() -> Result<Option<PathBuf>> {
    let libraries = text_of(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let folder = Path::new(&libraries).with_file_name("bin/gcc-ld");
    Ok(folder.join("ld.lld").is_file().then_some(folder))
}
