//! Tests the header and the library from C11 and C++17 programs. Each example is compiled with all
//! warnings as errors, and run.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EXAMPLES: [&str; 5] = [
    "control_loop",
    "cache_pair",
    "shared_state",
    "deadline_task",
    "tcp_sender",
];

/// A language: compiler, standard, and file extension.
const C: (&str, &str, &str) = ("cc", "-std=c11", "c");
const CPP: (&str, &str, &str) = ("c++", "-std=c++17", "cpp");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the path of the library, which was built for this test in the same target directory.
fn library() -> PathBuf {
    let folder = std::env::current_exe().unwrap();
    let folder = folder.parent().unwrap();
    let places = [folder.to_owned(), folder.parent().unwrap().to_owned()];
    let found = places.iter().map(|place| place.join("libpunctual_kit.a"));
    found.into_iter().find(|path| path.exists()).unwrap()
}

/// Returns whether this compiler is installed, and reports a skipped test if it is not.
fn has(compiler: &str) -> bool {
    let there = Command::new(compiler).arg("--version").output().is_ok();
    if !there {
        punctual_testing::skip!(Program, "no compiler {compiler}");
    }
    there
}

fn compile((compiler, standard, _): (&str, &str, &str), source: &Path, program: &Path) -> Output {
    Command::new(compiler)
        .args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"])
        .arg("-I")
        .arg(root().join("include"))
        .arg(source)
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(program)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let bytes = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs the examples of a language. They are compiled, or taken from the folder in
/// `PUNCTUAL_KIT_EXAMPLES`, for an emulated machine without compilers.
fn examples_run(language: (&str, &str, &str)) {
    let built = std::env::var_os("PUNCTUAL_KIT_EXAMPLES").map(PathBuf::from);
    let built = built.map(|folder| folder.join(language.2));
    match &built {
        Some(folder) if !folder.exists() => {
            punctual_testing::skip!(Program, "no examples in {}", folder.display());
            return;
        }
        None if !has(language.0) => return,
        _ => {}
    }
    let folder = tempfile::tempdir().unwrap();
    for name in EXAMPLES {
        let program = match &built {
            Some(built) => built.join(name),
            None => {
                let source = root().join(format!("examples/{name}.{}", language.2));
                let program = folder.path().join(name);
                let output = compile(language, &source, &program);
                assert!(output.status.success(), "{name}: {}", text(&output));
                program
            }
        };
        let mut command = Command::new(&program);
        if name == "control_loop" {
            command.arg("200");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        assert!(!output.stdout.is_empty(), "{name}");
    }
}

#[test]
fn c_examples_build_and_run() {
    examples_run(C);
}

#[test]
fn cpp_examples_build_and_run() {
    examples_run(CPP);
}

/// Wrong arguments lead to an error number with a message, never to a crash.
#[test]
fn wrong_arguments_are_refused() {
    for language in [C, CPP] {
        if !has(language.0) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("wrong");
        let source = folder.path().join(format!("wrong.{}", language.2));
        std::fs::copy(root().join("tests/wrong.c"), &source).unwrap();
        let output = compile(language, &source, &program);
        assert!(output.status.success(), "{}", text(&output));
        let output = Command::new(&program).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
}

/// Allocations in C and C++ are counted if the interposing file is compiled in; otherwise, creating
/// the guard fails. The test covers the dynamic C library and wrapping by the linker.
#[test]
fn allocations_are_counted_or_refused() {
    if !has(C.0) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let interposed = root().join("interpose/punctual_malloc.c");
    let wrapped = [
        "malloc",
        "calloc",
        "realloc",
        "free",
        "aligned_alloc",
        "posix_memalign",
    ]
    .map(|name| format!("-Wl,--wrap={name}"));
    let wrap = [&["-DPUNCTUAL_MALLOC_WRAP".to_owned()][..], &wrapped].concat();
    let ways: [(&str, bool, &[String]); 3] = [
        ("without", false, &[]),
        ("interposed", true, &[]),
        ("wrapped", true, &wrap),
    ];
    for (name, compiled_in, flags) in ways {
        let program = folder.path().join(name);
        let mut command = Command::new(C.0);
        command
            .args([
                C.1,
                "-Wall",
                "-Wextra",
                "-Werror",
                "-O1",
                "-D_GNU_SOURCE",
                "-I",
            ])
            .arg(root().join("include"))
            .arg(root().join("tests/allocations.c"))
            .args(compiled_in.then_some(&interposed))
            .args(flags)
            .arg(library())
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        let argument = (!compiled_in).then_some("refused");
        let output = Command::new(&program).args(argument).output().unwrap();
        assert!(
            output.status.success(),
            "{name}: {} {}",
            output.status,
            text(&output)
        );
    }
}

/// The flags that pkg-config reports are sufficient for linking.
#[test]
fn pkg_config_template_names_the_library() {
    let template = std::fs::read_to_string(root().join("punctual-kit.pc.in")).unwrap();
    let file = template
        .replace("@prefix@", "/opt/punctual")
        .replace("@version@", env!("CARGO_PKG_VERSION"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("punctual-kit.pc"), file).unwrap();
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs", "punctual-kit"])
        .env("PKG_CONFIG_PATH", folder.path())
        .output();
    let Ok(output) = output else {
        punctual_testing::skip!(Program, "no pkg-config");
        return;
    };
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("-I/opt/punctual/include"), "{said}");
    assert!(said.contains("-lpunctual_kit"), "{said}");
}
