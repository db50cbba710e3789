//! Crates and files must agree with ARCHITECTURE.md.

mod circles;
mod dependencies;
mod named_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .canonicalize()
        .unwrap()
}

fn short(name: &str) -> String {
    name.strip_prefix("punctual-").unwrap_or(name).to_owned()
}

/// Returns the dependencies that ARCHITECTURE.md lists.
fn dependencies_on_the_page() -> BTreeMap<String, BTreeSet<String>> {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = page
        .split("## Dependencies")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap()
        .to_owned();
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix("|"))
        .filter(|line| !line.starts_with("crate"))
        .map(|line| {
            let mut columns = line.split('|');
            let (name, knows) = (columns.next().unwrap(), columns.next().unwrap());
            let knows = knows
                .split(',')
                .map(|k| k.trim().to_owned())
                .filter(|k| !k.is_empty());
            (name.trim().to_owned(), knows.collect())
        })
        .collect()
}

/// Returns cargo's metadata of the workspace.
fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the dependencies in cargo's metadata, without those of tests.
fn dependencies_in_the_code() -> BTreeMap<String, BTreeSet<String>> {
    metadata()["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let knows = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .filter_map(|dependency| dependency["name"].as_str())
                .filter(|name| name.starts_with("punctual"))
                .map(short);
            (short(package["name"].as_str().unwrap()), knows.collect())
        })
        .collect()
}

#[test]
fn dependencies_are_those_of_the_page() {
    assert_eq!(dependencies_in_the_code(), dependencies_on_the_page());
}

#[test]
fn dependencies_make_no_circle() {
    fn below(name: &str, all: &BTreeMap<String, BTreeSet<String>>, path: &[&str]) {
        assert!(!path.contains(&name), "a circle: {path:?} -> {name}");
        let path = [path, &[name]].concat();
        for next in &all[name] {
            below(next, all, &path);
        }
    }
    let all = dependencies_in_the_code();
    for name in all.keys() {
        below(name, &all, &[]);
    }
}

/// Returns all Rust files of a crate, with their text.
fn sources(name: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    let mut files = Vec::new();
    walk(&folder(name).join("src"), &mut files);
    files
}

/// Returns the folder of a crate: `crates/GROUP/NAME`, or `NAME` for crates for developers.
fn folder(name: &str) -> PathBuf {
    let groups = std::fs::read_dir(root().join("crates")).unwrap();
    groups
        .map(|group| group.unwrap().path().join(name))
        .chain([root().join(name)])
        .find(|folder| folder.join("Cargo.toml").is_file())
        .unwrap()
}

fn crates() -> BTreeSet<String> {
    dependencies_in_the_code().into_keys().collect()
}

#[test]
fn modules_make_no_circle() {
    let mut found = Vec::new();
    for name in crates() {
        let src = folder(&name).join("src");
        let circles = circles::in_crate(&src);
        found.extend(circles.iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(found.is_empty(), "parts of circles:\n{}", found.join("\n"));
}

/// Returns the names of the modules that a file declares and that are files of their own.
fn declared_modules(text: &str) -> Vec<String> {
    let items = syn::parse_file(text).unwrap().items.into_iter();
    let modules = items.filter_map(|item| match item {
        syn::Item::Mod(module) => Some(module),
        _ => None,
    });
    let in_folder = |module: &syn::ItemMod| {
        module.content.is_none() && !module.attrs.iter().any(|one| one.path().is_ident("path"))
    };
    let modules = modules.filter(in_folder);
    modules.map(|module| module.ident.to_string()).collect()
}

/// A module with modules of its own is the file `mod.rs` of their folder.
#[test]
fn modules_with_modules_are_mod_rs() {
    for name in crates() {
        for (path, text) in sources(&name) {
            let is_folder = ["lib.rs", "main.rs", "mod.rs"].map(|file| path.ends_with(file));
            let inner = declared_modules(&text);
            assert!(
                inner.is_empty() || is_folder.contains(&true),
                "{} declares {inner:?}: move it to {}",
                path.display(),
                path.with_extension("").join("mod.rs").display()
            );
        }
    }
}

#[test]
fn only_modules_in_files_are_declared() {
    let text = "mod a;\n#[path = \"x.rs\"]\nmod b;\nmod c {}\n#[cfg(test)]\nmod tests;";
    assert_eq!(declared_modules(text), ["a", "tests"]);
}

/// What verbs have in common is in the folders next to `verbs`.
#[test]
fn verbs_do_not_depend_on_each_other() {
    let src = folder("punctual").join("src");
    let found = circles::between_modules_of(&src, "verbs");
    let found: Vec<String> = (found.into_iter())
        // The list of schemas names the types of all verbs.
        .filter(|example| !example.starts_with("verbs::schema "))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

/// Returns the code of a file without tests and comments.
fn code(text: &str) -> String {
    let mut code = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            skip_item(&mut lines);
        } else if !line.trim_start().starts_with("//") {
            code.push(line);
        }
    }
    code.join("\n")
}

/// Skips an item that is formatted by rustfmt: its attributes, and all lines from its first line to
/// its closing brace.
fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let mut lines = lines.skip_while(|line| line.trim_start().starts_with("#["));
    let Some(first) = lines.next() else { return };
    if first.ends_with([';', '}', ',']) {
        return;
    }
    let indent = first.len() - first.trim_start().len();
    let closes = |line: &str| {
        line.len() - line.trim_start().len() == indent && line.trim_start().starts_with('}')
    };
    lines.find(|line| closes(line));
}

#[test]
fn code_scan_skips_only_test_items() {
    let text = "use a;\n#[cfg(test)]\nmod testing;\nuse b;\n// no\n#[cfg(test)]\n#[path = \"x\"]\n\
                mod tests {\n    fn c() {\n    }\n}\nfn d() {\n    #[cfg(test)]\n    e();\n    f();\n}";
    assert_eq!(code(text), "use a;\nuse b;\nfn d() {\n    f();\n}");
}

/// `cargo run` must have a default program, because the first command in the README relies on it.
#[test]
fn one_program_runs_where_none_is_named() {
    let metadata = metadata();
    let default: Vec<&str> = (metadata["workspace_default_members"].as_array().unwrap())
        .iter()
        .map(|id| id.as_str().unwrap())
        .collect();
    let programs: Vec<&str> = (metadata["packages"].as_array().unwrap().iter())
        .filter(|package| default.contains(&package["id"].as_str().unwrap()))
        .flat_map(|package| package["targets"].as_array().unwrap())
        .filter(|target| target["kind"][0] == "bin")
        .map(|target| target["name"].as_str().unwrap())
        .collect();
    assert_eq!(programs, ["punctual"]);
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    let may = ["rt", "trace", "app", "capi"];
    for name in crates().iter().filter(|name| !may.contains(&name.as_str())) {
        for (path, text) in sources(name) {
            assert!(
                !code(&text).contains("allow(unsafe_code)"),
                "{}",
                path.display()
            );
        }
    }
}

/// Each call of `serde_json` with a type compiles the type once more. Types have one writer and one
/// reader instead, which `to_json!` and `from_json!` create.
#[test]
fn typed_json_has_one_door() {
    let doors = [
        // The writer and the reader of all types.
        "model/src/json.rs",
        // Read the version of a document before the document.
        "model/src/recording/mod.rs",
        "model/src/machine/fact_set.rs",
        // Read untyped values only.
        "formats/src/import/object.rs",
        "postgres/src/receive.rs",
        // Writes a type of a library.
        "formats/src/lateness/firefox.rs",
    ];
    let of_tests = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy();
        let in_folder = path.components().any(|part| part.as_os_str() == "tests");
        in_folder || name.ends_with("tests.rs") || name == "testing.rs"
    };
    for name in crates().iter().filter(|name| *name != "xtask") {
        for (path, text) in sources(name) {
            if of_tests(&path) || doors.iter().any(|door| path.ends_with(door)) {
                continue;
            }
            for line in code(&text)
                .lines()
                .filter(|line| line.contains("serde_json::"))
            {
                let found = [
                    "from_str",
                    "from_slice",
                    "from_reader",
                    "from_value",
                    "to_string",
                ]
                .into_iter()
                .chain(["to_vec", "to_writer", "to_value"])
                .any(|call| line.contains(call));
                assert!(!found, "{}: use ToJson or FromJson: {line}", path.display());
            }
        }
    }
}

#[test]
fn only_host_and_tune_access_proc_sys() {
    // `app` reads its own identity, because applications use that crate without `host`. Only
    // strings that are a path count, because messages may contain a file name. `checks` names facts
    // by their paths but does not open them (`checks_touch_nothing`). `testing` and `xtask` are not
    // part of the program. They classify and examine programs that they run.
    for name in crates().iter().filter(|name| {
        !["host", "tune", "rt", "app", "checks", "testing", "xtask"].contains(&name.as_str())
    }) {
        for (path, text) in sources(name) {
            // The open files of the program itself do not count as facts of /proc.
            let code = code(&text).replace("\"/proc/self/fd/", "");
            // The table of settings contains file names, but does not open the files.
            if path.ends_with("setting/mod.rs") || path.to_string_lossy().contains("setting/table/")
            {
                continue;
            }
            for start in ["\"/proc", "\"/sys", "\"/dev/cpu"] {
                let for_tests = path.to_string_lossy().contains("/testing");
                let found = code.contains(start) && !for_tests;
                assert!(!found, "{} has {start}", path.display());
            }
        }
    }
}

/// This place lets no thread exit as a real-time thread.
#[test]
fn one_place_sets_scheduling_policies() {
    let ways = [
        "SYS_sched_setattr",
        "SYS_sched_setscheduler",
        "SYS_sched_setparam",
        "libc::sched_setscheduler",
        "libc::sched_setparam",
        "pthread_setsched",
        "pthread_attr_setsched",
    ];
    let mut found = Vec::new();
    for name in crates() {
        for (path, text) in sources(&name) {
            let code = code(&text);
            if ways.iter().any(|way| code.contains(way)) {
                found.push(path.file_name().unwrap().to_owned());
            }
        }
    }
    assert_eq!(found, ["sched_attr.rs"]);
}

/// Files that are named by a user must be written with `files`, which does not follow links of
/// other users. Reads, waits and child processes must have a limit.
#[test]
fn crates_warn_of_calls_past_files() {
    let others = ["testing", "xtask"];
    for name in crates()
        .iter()
        .filter(|name| !others.contains(&name.as_str()))
    {
        let warns = sources(name).iter().any(|(path, text)| {
            let top = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
            top && text.contains("#![cfg_attr(not(test), warn(clippy::disallowed_methods))]")
        });
        assert!(warns, "{name} does not warn of clippy::disallowed_methods");
    }
}

#[test]
fn checks_touch_nothing() {
    for (path, text) in sources("checks") {
        let code = code(&text);
        for start in [
            "std::fs",
            "std::net",
            "std::process",
            "std::env",
            "File::",
            "println!",
        ] {
            assert!(!code.contains(start), "{} has {start}", path.display());
        }
    }
}

#[test]
fn crates_state_purpose_and_forbidden_knowledge() {
    for member in crates() {
        let page = ["lib.rs", "main.rs"]
            .iter()
            .find_map(|name| std::fs::read_to_string(folder(&member).join("src").join(name)).ok())
            .unwrap();
        for word in ["**For:**", "**Knows:**", "**Must not know:**"] {
            assert!(page.contains(word), "{member} does not say {word}");
        }
    }
}

#[test]
fn files_are_short() {
    for name in crates() {
        for (path, text) in sources(&name) {
            let lines = code(&text).lines().count();
            assert!(lines <= 500, "{} has {lines} lines of code", path.display());
        }
    }
}

/// Crates without doc tests (`doctest = false`) must not have examples.
#[test]
fn examples_in_the_documentation_are_run() {
    for name in crates() {
        let manifest = folder(&name).join("Cargo.toml");
        if !std::fs::read_to_string(manifest)
            .unwrap()
            .contains("doctest = false")
        {
            continue;
        }
        for (path, text) in sources(&name) {
            let comments = text.lines().map(str::trim_start);
            let fences = comments
                .filter_map(|line| line.strip_prefix("///").or(line.strip_prefix("//!")))
                .filter_map(|line| line.trim().strip_prefix("```"));
            // Every second fence ends a block.
            for language in fences.step_by(2) {
                let runs = ["", "rust", "no_run", "should_panic"].contains(&language);
                assert!(!runs, "{}: an example that no test runs", path.display());
            }
        }
    }
}
