use std::process::Command;

use super::bpf::{OBJECT, ROWS_BYTES, comm_rows};
use super::layout::Row;

/// The compiler that makes the object, and its strip: another version makes other
/// instructions.
fn clang_14() -> Option<[&'static str; 2]> {
    [["clang-14", "llvm-strip-14"], ["clang", "llvm-strip"]]
        .into_iter()
        .find(|[clang, strip]| {
            let version = Command::new(clang).arg("--version").output();
            version.is_ok_and(|v| String::from_utf8_lossy(&v.stdout).contains("version 14."))
                && Command::new(strip).arg("--version").output().is_ok()
        })
}

#[test]
fn the_object_is_that_of_its_source() {
    let Some([clang, strip]) = clang_14() else {
        punctual_testing::skip!(
            "no clang 14 with llvm-strip: the BPF object is not compared with its source"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("watch.bpf.o");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/build.sh");
    let status = Command::new("sh")
        .arg(script)
        .arg(&made)
        .envs([("CLANG", clang), ("LLVM_STRIP", strip)])
        .status()
        .unwrap();
    assert!(status.success());
    let same = std::fs::read(&made).unwrap() == OBJECT;
    assert!(
        same,
        "bpf/watch.bpf.o is not made from bpf/watch.bpf.c: run bpf/build.sh"
    );
}

#[test]
fn rows_fit_the_memory_that_is_allowed() {
    for cpus in [1, 2, 64, 128] {
        let bytes = comm_rows(cpus) as usize * cpus * size_of::<Row>();
        assert!(
            bytes <= ROWS_BYTES.max(16 * cpus * size_of::<Row>()),
            "{cpus}"
        );
    }
}
