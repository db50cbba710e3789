//! Tests the pages of the handbook and the examples for other systems. All of them must be
//! reachable, valid, and name only options that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

fn repository() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")).unwrap()
}

/// Returns all files below a folder with one of these extensions.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_dir() {
                waiting.push(path);
            } else if ending.is_some_and(|ending| endings.contains(&ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns the targets of Markdown links, except external links and links within the page.
fn links(text: &str) -> Vec<String> {
    let mut inside = false;
    let prose = text.lines().filter(|line| {
        inside ^= line.starts_with("```");
        !inside
    });
    let prose: Vec<&str> = prose.collect();
    let parts = prose.join("\n");
    let found = parts.split("](").skip(1);
    let targets = found.filter_map(|rest| rest.split([')', ' ']).next());
    targets
        .map(|target| target.split('#').next().unwrap_or_default().to_owned())
        .filter(|target| !target.is_empty() && !target.contains("://"))
        .collect()
}

#[test]
fn handbook_pages_are_listed_and_links_resolve() {
    let docs = repository().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = links(&summary).iter().map(|link| docs.join(link)).collect();
    let mut wrong = Vec::new();
    for page in files(&docs, &["md"]) {
        if !listed.contains(&page) && !page.ends_with("SUMMARY.md") {
            wrong.push(format!("{} is not in SUMMARY.md", page.display()));
        }
        for link in links(&fs::read_to_string(&page).unwrap()) {
            if !page.parent().unwrap().join(&link).exists() {
                wrong.push(format!("{}: {link} is not there", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_handbook_is_built_by_mdbook() {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new("mdbook");
    command.arg("build").arg("--dest-dir").arg(out.path());
    match command.arg(repository().join("docs")).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(_) => punctual_testing::skip!(Program, "mdbook is not installed"),
    }
}

/// The programs of the workspace for users.
const PROGRAMS: [&str; 2] = ["punctual", "punctual-server"];

/// Returns the commands in a text that call one of the programs, with their options.
fn commands(text: &str) -> Vec<Vec<String>> {
    let joined = text
        .replace("\\\n", " ")
        .replace([';', '|'], "\n")
        .replace("&&", "\n");
    let mut found = Vec::new();
    for line in folded(&joined).lines() {
        // A command can also be in JSON notation: ["punctual", "check", …].
        let line = line
            .replace("\", \"", " ")
            .replace(['"', '`', '[', ']'], " ");
        let words: Vec<&str> = line.split_whitespace().collect();
        let starts = words.iter().enumerate().filter(|(place, word)| {
            let before = place.checked_sub(1).map(|place| words[place]);
            let calls = [None, Some("sudo"), Some("-"), Some("run:"), Some("$")];
            let named = |end| before.is_some_and(|word: &str| word.ends_with(end));
            PROGRAMS.contains(word) && (calls.contains(&before) || named(':') || named(','))
        });
        for (place, _) in starts {
            let line = words[place..]
                .iter()
                .take_while(|word| !word.starts_with('#'));
            let line: Vec<String> = line.map(|word| (*word).to_owned()).collect();
            // In `name: punctual`, the word is a name and not a command.
            found.extend((line.len() > 1).then_some(line));
        }
    }
    found
}

/// Joins the lines of each folded scalar (`>`) in YAML.
fn folded(text: &str) -> String {
    let (mut out, mut depth) = (String::new(), None);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        match depth {
            Some(outer) if indent > outer && !line.trim().is_empty() => {
                out.push(' ');
                out.push_str(line.trim());
                continue;
            }
            _ => depth = None,
        }
        out.push('\n');
        match line.strip_suffix('>') {
            Some(head) => {
                out.push_str(head);
                depth = Some(indent);
            }
            None => out.push_str(line),
        }
    }
    out
}

/// Returns the help of a program and verb. The help of each verb is read only once.
fn help_of(words: &[String]) -> Option<String> {
    static KNOWN: Mutex<BTreeMap<Vec<String>, Option<String>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap();
    let ask = || {
        let (program, verbs) = words.split_first().unwrap();
        let path = match program.as_str() {
            "punctual" => PathBuf::from(env!("CARGO_BIN_EXE_punctual")),
            other => punctual_testing::program(other),
        };
        let output = Command::new(path).args(verbs).arg("--help").output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let usage = format!("Usage: {}", words.join(" "));
        (output.status.success() && text.contains(&usage)).then_some(text)
    };
    known.entry(words.to_vec()).or_insert_with(ask).clone()
}

/// Returns the verb or option in a command line that does not exist, if any.
fn unknown(words: &[String]) -> Option<String> {
    // The words after `--` belong to another program.
    let words: Vec<String> = words
        .iter()
        .take_while(|word| *word != "--")
        .cloned()
        .collect();
    let is_verb = |word: &&String| {
        let letters = word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        letters && !word.starts_with('-')
    };
    let verbs: Vec<String> = words.iter().take_while(is_verb).take(4).cloned().collect();
    // Find the longest sequence of first words that is a verb. The words after it are arguments.
    let help = (2..=verbs.len())
        .rev()
        .find_map(|count| help_of(&verbs[..count]));
    let Some(help) = help else {
        return Some(format!("no such verb: {}", words.join(" ")));
    };
    if let [_, compat, tool, ..] = words.as_slice()
        && compat == "compat"
        && punctual_compat::TOOLS
            .iter()
            .any(|known| known.program() == *tool)
    {
        // The options that follow belong to the older tool.
        return None;
    }
    let marks = |c: char| c.is_whitespace() || ",=[<".contains(c);
    let known = |option: &str| help.split(marks).any(|word| word == option);
    let is_option = |word: &&String| {
        let after = word.strip_prefix('-').unwrap_or_default();
        !after.is_empty() && !after.starts_with(|c: char| c.is_ascii_digit())
    };
    let options = words.iter().filter(is_option);
    let mut names = options.map(|word| word.split('=').next().unwrap_or(word));
    let missing = names.find(|name| !known(name));
    missing.map(|name| format!("no option {name}: {}", words.join(" ")))
}

#[test]
fn documented_options_exist() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut all = files(&repository().join("examples"), &["yml", "yaml", "sh"]);
    // The other pages are generated.
    for folder in ["docs/subjects", "docs/how-to"] {
        all.extend(files(&repository().join(folder), &["md"]));
    }
    all.push(repository().join("docs/getting-started.md"));
    for file in all {
        let text = fs::read_to_string(&file).unwrap();
        let is_page = file.extension().is_some_and(|ending| ending == "md");
        // On a page, only the lines to be copied and the table cells are checked, not the
        // sentences.
        let wanted = |line: &&str| !is_page || line.starts_with(['$', '|']);
        let lines: Vec<&str> = text.lines().filter(wanted).collect();
        let calls = commands(&lines.join("\n"));
        assert!(!calls.is_empty(), "{} calls nothing", file.display());
        count += calls.len();
        let problems = calls.iter().filter_map(|words| unknown(words));
        wrong.extend(problems.map(|problem| format!("{}: {problem}", file.display())));
    }
    assert!(count >= 12, "only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_option_in_example_is_detected() {
    let wrong =
        commands("      run: >\n        sudo punctual check --nonsense\n        --time 2s\n");
    assert_eq!(wrong, [["punctual", "check", "--nonsense", "--time", "2s"]]);
    assert!(unknown(&wrong[0]).unwrap().contains("--nonsense"));
    let verb = commands("punctual chek --time 2s");
    assert!(unknown(&verb[0]).unwrap().contains("no such verb"));
    assert_eq!(unknown(&commands("punctual tune verify")[0]), None);
    assert_eq!(unknown(&commands("punctual-server run --login")[0]), None);
    let verb = commands("punctual-server serve");
    assert!(unknown(&verb[0]).unwrap().contains("no such verb"));
}

#[test]
fn examples_parse() {
    let folder = repository().join("examples");
    let packaging = repository().join("packaging");
    let mut manifests = files(&folder, &["yml", "yaml"]);
    manifests.extend(files(&packaging, &["yml", "yaml"]));
    for file in manifests {
        let text = fs::read_to_string(&file).unwrap();
        let parsed = yaml_rust2::YamlLoader::load_from_str(&text);
        assert_eq!(parsed.unwrap().len(), 1, "{}", file.display());
    }
    let others = [
        "debian/postinst",
        "debian/prerm",
        "debian/postrm",
        "debian-server/postrm",
        "debian/punctual-server.postrm",
        "kubernetes/node-labels.sh",
    ]
    .map(|name| packaging.join(name));
    for script in files(&folder, &["sh"]).into_iter().chain(others) {
        assert_parses("sh", &script);
    }
    assert_parses("bash", &packaging.join("github-action/check.sh"));
}

fn assert_parses(shell: &str, script: &Path) {
    let status = Command::new(shell).arg("-n").arg(script).status().unwrap();
    assert!(status.success(), "{}", script.display());
}

#[test]
fn options_of_kubernetes_base_exist() {
    for (name, least) in [("daemonset.yaml", 2), ("node-labels.sh", 1)] {
        let path = repository().join("packaging/kubernetes").join(name);
        let text = fs::read_to_string(path).unwrap();
        // The containers name only the arguments of the program.
        let text = text.replace("args: [", "punctual [");
        let calls = commands(&text.replace("$(", "\n").replace(')', "\n"));
        assert!(calls.len() >= least, "{name}: {calls:?}");
        let wrong: Vec<String> = calls.iter().filter_map(|words| unknown(words)).collect();
        assert!(wrong.is_empty(), "{name}: {}", wrong.join("\n"));
    }
}

#[test]
fn python_package_reads_recordings() {
    let mut python = Command::new("python3");
    python.args(["-c", "import matplotlib, pandas, pyarrow, pytest"]);
    if !python.output().is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!(
            Program,
            "python3 has no pandas, pyarrow, matplotlib or pytest"
        );
        return;
    }
    let output = Command::new("python3")
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .current_dir(repository().join("packaging/python"))
        .env("PUNCTUAL_PROGRAM", env!("CARGO_BIN_EXE_punctual"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}");
}

#[test]
fn python_package_knows_the_newest_schema() {
    let version = |path: &str, before: &str| -> String {
        let text = fs::read_to_string(repository().join(path)).unwrap();
        let (_, rest) = text.split_once(before).unwrap();
        rest.chars().take_while(char::is_ascii_digit).collect()
    };
    let newest = version(
        "crates/base/model/src/recording/mod.rs",
        "const SCHEMA_VERSION: u32 = ",
    );
    assert!(!newest.is_empty());
    let known = version(
        "packaging/python/src/punctual_pandas/_recording.py",
        "\nSCHEMA_VERSION = ",
    );
    assert_eq!(known, newest);
}
