use std::process::Command;

use super::bpf::OBJECT;

/// Returns the compiler that builds the object and the matching `strip`. Other versions generate
/// different instructions.
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
fn the_objects_are_those_of_their_sources() {
    let Some([clang, strip]) = clang_14() else {
        punctual_testing::skip!(
            Program,
            "no clang 14 with llvm-strip: BPF objects are not compared with their sources"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/build.sh");
    let status = Command::new("sh")
        .arg(script)
        .arg(folder.path())
        .envs([("CLANG", clang), ("LLVM_STRIP", strip)])
        .status()
        .unwrap();
    assert!(status.success());
    for (name, object) in [
        ("watch.bpf.o", crate::watch::OBJECT),
        ("lint.bpf.o", OBJECT),
        ("jobs.bpf.o", crate::jobs::OBJECT),
        ("late.bpf.o", crate::late::OBJECT),
        ("steal.bpf.o", crate::steal::OBJECT),
        ("stops.bpf.o", crate::stops::OBJECT),
        ("profile.bpf.o", crate::profile::OBJECT),
    ] {
        let same = std::fs::read(folder.path().join(name)).unwrap() == object;
        assert!(
            same,
            "bpf/{name} is not made from its source: run bpf/build.sh"
        );
    }
}
