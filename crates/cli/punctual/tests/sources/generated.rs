//! The generated pages in docs/ must agree with the program.
//!
//! `PUNCTUAL_UPDATE_PAGES=1 cargo test -p punctual --test sources generated` writes them.

use std::path::Path;

use crate::common::Sandbox;

#[test]
fn the_checks_have_their_page() {
    let page = Sandbox::new().done("doctor --list");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/checks.md");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/checks.md is not what `punctual doctor --list` says"
    );
}

#[test]
fn the_rules_of_lint_have_their_page() {
    let page = Sandbox::new().done("app lint --list");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/lint.md");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept, page,
        "docs/lint.md is not what `punctual app lint --list` says"
    );
}

#[test]
fn each_probe_has_its_page() {
    let place = Sandbox::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/probes");
    let update = std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some();
    let mut names: Vec<String> = Vec::new();
    for probe in punctual_probes::PROBES {
        let page = place.done(&format!("measure --list {}", probe.name));
        let path = folder.join(format!("{}.md", probe.name));
        if update {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &page).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            kept,
            page,
            "{} is not what `punctual measure --list {}` says",
            path.display(),
            probe.name
        );
        names.push(format!("{}.md", probe.name));
    }
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        assert!(names.contains(&name), "docs/probes/{name} is of no probe");
    }
}

#[test]
fn the_compatible_commands_have_their_page() {
    let page = Sandbox::new().done("compat --page");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/compat.md");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept,
        page,
        "{} is not what `punctual compat --page` says",
        path.display()
    );
}

#[test]
fn all_settings_have_their_page() {
    let place = Sandbox::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/settings.md");
    let page = place.done("tune settings --markdown");
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let says = "is not what `punctual tune settings --markdown` says";
    assert_eq!(kept, page, "{} {says}", path.display());
}

#[test]
fn the_exit_codes_have_their_page() {
    let help = Sandbox::new().done("--help");
    let codes = &help[help.find("Exit codes:").unwrap()..];
    let codes = codes.split("\n\nExamples:").next().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/exit-codes.md");
    let kept = std::fs::read_to_string(&path).unwrap();
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        let (head, rest) = kept.split_once("Exit codes:").unwrap();
        let (_, tail) = rest.split_once("\n```\n").unwrap();
        std::fs::write(&path, format!("{head}{}\n```\n{tail}", codes.trim_end())).unwrap();
        return;
    }
    assert!(
        kept.contains(codes.trim_end()),
        "docs/exit-codes.md does not have what `punctual --help` says: {codes}"
    );
}

#[test]
fn the_readme_counts_probes_and_loads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    // All probes except that of timers, which has a row of its own.
    let probes = punctual_probes::PROBES.len() - 1;
    let loads = punctual_loads::LOADS.len();
    for count in [
        format!("| {probes} other probes |"),
        format!("| {loads} loads,"),
    ] {
        assert!(readme.contains(&count), "README.md does not say {count}");
    }
}

/// Compares a page with its generated text, or writes it.
fn is_kept(name: &str, page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../../docs/{name}"));
    if std::env::var_os("PUNCTUAL_UPDATE_PAGES").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, page, "docs/{name} is not what the tables say");
}

#[test]
fn the_loads_have_their_page() {
    let mut page = String::from(
        "# Loads\n\n`--load NAME` or `--load NAME:PARAMETER=VALUE,…` disturbs the machine while \
         it is measured, at\nnormal priority; repeat the option to add loads. A load ends with the \
         run, also when punctual\nis killed.\n",
    );
    for load in punctual_loads::LOADS {
        let mut facts = match load.kind {
            punctual_loads::LoadKind::Threads => "Threads".to_owned(),
            punctual_loads::LoadKind::Processes => "Processes".to_owned(),
        };
        if let Some(program) = load.needs {
            facts += &format!("; needs the program `{program}`");
        }
        if let Some(bare) = load.bare {
            facts += &format!("; what stands after the colon is `{bare}`");
        }
        page += &format!(
            "\n## {}\n\n{}.\n\n{facts}.\n",
            load.name,
            sentence(load.summary)
        );
        if load.parameters.is_empty() {
            continue;
        }
        page += "\n| parameter | default | |\n|---|---|---|\n";
        for parameter in load.parameters {
            let default = parameter.default.map(|value| format!("`{value}`"));
            page += &format!(
                "| `{}` | {} | {} |\n",
                parameter.name,
                default.as_deref().unwrap_or("none"),
                parameter.help.replace('|', "\\|")
            );
        }
    }
    is_kept("loads.md", &page);
}

/// Returns the text with a capital letter at the beginning.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[test]
fn the_formats_have_their_page() {
    let mut page = String::from(
        "# Formats\n\n## Written by `export`\n\n\
         | `--format` | content | ending | needs `--samples` |\n|---|---|---|---|\n",
    );
    for format in punctual_formats::FORMATS {
        let samples = if format.needs_samples { "yes" } else { "no" };
        let summary = format.summary.replace('|', "\\|");
        let (name, ending) = (format.name, format.extension);
        page += &format!("| `{name}` | {summary} | `.{ending}` | {samples} |\n");
    }
    page += "| `perfetto` | causes of outliers and the events around them, for ui.perfetto.dev | `.pftrace` | no |\n";
    page += "| `trace-dat` | trace events around outliers, for trace-cmd and KernelShark | `.dat` | no |\n";
    page += "\n## Read by `import`\n\nThe kind of a file is detected from its content; \
             `--format` names it.\n";
    for import in punctual_formats::IMPORTS {
        let samples = if import.has_samples {
            "The file holds each sample."
        } else {
            "The file holds no single samples."
        };
        page += &format!(
            "\n### {}\n\n{}.\n\n{}\n\n{samples}\n",
            import.name,
            sentence(import.summary),
            import.documentation.trim()
        );
    }
    is_kept("formats.md", &page);
}

#[test]
fn the_schemas_have_their_page() {
    let help = Sandbox::new().done("schema --help");
    let mut page = String::from(
        "# Schemas\n\n`punctual schema OF` prints the JSON Schema of the output of a command. \
         Later versions\nadd keys. If a key of a recording is renamed or removed, the number in its \
         key `schema`\nincreases. `punctual import` reads recordings of all earlier schemas.\n\n\
         | `OF` | written by |\n|---|---|\n",
    );
    // In a narrow terminal, the lines are wrapped.
    let (_, listed) = help.split_once("Possible values:").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    let rows = listed.split("- ").filter_map(|entry| {
        let (name, of) = entry.split_once(':')?;
        let of: Vec<&str> = of.split_whitespace().collect();
        Some(format!("| `{}` | {} |\n", name.trim(), of.join(" ")))
    });
    let rows: Vec<String> = rows.collect();
    assert!(rows.len() > 20, "only {} types in: {help}", rows.len());
    page.extend(rows);
    is_kept("schemas.md", &page);
}
