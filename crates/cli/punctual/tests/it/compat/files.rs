//! The JSON files of tools other than cyclictest, and the exit status of each tool.

use std::fs;

use serde_json::Value;

use crate::common::{Sandbox, assert_conserved};

/// The tools, their command lines, and files that the original tools wrote for one or two threads.
const TOOLS: [(&str, &str, &str); 6] = [
    (
        "signaltest",
        "-t 2 -l 40",
        include_str!("../../../../../cli/compat/tests/fixtures/sig-2.4.json"),
    ),
    (
        "ptsematest",
        "-t 2 -l 40",
        include_str!("../../../../../cli/compat/tests/fixtures/ptse-2.4.json"),
    ),
    (
        "svsematest",
        "-t 2 -a -l 40",
        include_str!("../../../../../cli/compat/tests/fixtures/svse-2.4.json"),
    ),
    (
        "sigwaittest",
        "-l 40",
        include_str!("../../../../../cli/compat/tests/fixtures/sigw-2.4.json"),
    ),
    (
        "pmqtest",
        "-t 2 -l 40",
        include_str!("../../../../../cli/compat/tests/fixtures/pmq-2.4.json"),
    ),
    (
        "oslat",
        "-D 1 -c 0",
        include_str!("../../../../../cli/compat/tests/fixtures/oslat-2.10.json"),
    ),
];

/// Returns the keys that a JSON file has for the first thread. All buckets count as one key.
fn keys(file: &str) -> Vec<String> {
    let lines = file.lines().map(|line| line.split(':').next().unwrap());
    let until = lines.take_while(|line| *line != "    \"1\"" && *line != "  \"punctual\"");
    let mut keys: Vec<String> = until
        .filter(|line| line.trim() != "}" && line.trim() != "},")
        .map(|line| match line.strip_prefix("        \"") {
            Some(rest) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
                "bucket".to_owned()
            }
            _ => line.to_owned(),
        })
        .collect();
    keys.dedup();
    keys
}

/// Reads a file in the same way as `parse_rt_tests_results.py` in Linaro's test-definitions:
/// threads by number, the receiver of each pair, and three figures for each thread.
fn assert_walked(file: &Value, tool: &str) {
    assert_eq!(file["return_code"], 0, "{tool}");
    for number in 0..file["num_threads"].as_u64().unwrap() {
        let thread = &file["thread"][number.to_string()];
        let figures = thread.get("receiver").unwrap_or(thread);
        for key in ["min", "avg", "max"] {
            assert!(figures[key].is_number(), "{tool} {number} {key}");
        }
        // oslat's mean uses the upper edges of its buckets, as in the original.
        if tool != "oslat" {
            let [min, avg, max] = ["min", "avg", "max"].map(|key| figures[key].as_f64());
            assert!(min <= avg && avg <= max, "{tool}: {figures}");
        }
    }
}

#[test]
fn json_keys_keep_the_originals_order() {
    for (tool, line, original) in TOOLS {
        let place = Sandbox::new();
        let line = format!("compat {tool} {line} -q --json=out.json");
        place.done(&line);
        let file = fs::read_to_string(place.path("out.json")).unwrap();
        assert!(!file.contains("\"punctual\""), "{tool}: {file}");
        let output = place.command(&line).env("PUNCTUAL_JSON_KEY", "1").output();
        assert!(output.unwrap().status.success(), "{tool}");
        let file = fs::read_to_string(place.path("out.json")).unwrap();
        assert_eq!(keys(&file), keys(original), "{tool}");
        // Read the file as scripts do.
        let read: Value = serde_json::from_str(&file).unwrap();
        let threads = read["thread"].as_object().unwrap();
        assert_eq!(read["num_threads"], threads.len(), "{tool}");
        assert_eq!(read["return_code"], 0, "{tool}");
        assert!(threads.contains_key("0"), "{tool}");
        assert_walked(&read, tool);
        let recording = place.last();
        if tool != "oslat" {
            assert_conserved(&recording);
        }
        assert_eq!(read["punctual"]["recording"], recording.id.to_string());
    }
}

#[test]
fn invalid_options_end_with_usage() {
    let place = Sandbox::new();
    for (call, says) in [
        (
            "compat ptsematest -i 5m",
            "'5m' is not a whole number of us",
        ),
        ("compat pmqtest -f 2", "requires --timeout"),
        ("compat signaltest -t 1", "a ring must have 2 to 64 threads"),
        ("compat oslat -w sleep", "is not a workload"),
        (
            "compat cyclicdeadline -i 1",
            "deadlines must be between 100",
        ),
        (
            "compat hwlatdetect --duration 1y",
            "is not a whole number of seconds",
        ),
        ("compat cyclictest -q -smp", "did you mean --smp?"),
        ("compat cyclictest -smp -q", "did you mean --smp?"),
        ("compat pmqtest -loops=10", "did you mean --loops=10?"),
    ] {
        let said = place.refused(call, 1);
        assert!(
            said.contains(says) && said.contains("Usage:"),
            "{call}: {said}"
        );
    }
}

/// Names on the command line may come from other people and contain control characters.
#[test]
fn output_never_controls_the_terminal() {
    const HOSTILE: &str = "x\u{1b}]0;y\u{7}\u{9b}2J\u{202e}";
    let place = Sandbox::new();
    for (name, line, option) in [
        ("cyclictest", "-t1 -q -l 3 --json=-", String::new()),
        ("oslat", "-c 0 -D 1 --json=-", String::new()),
        ("signaltest", "-t 2 -l 3 -q --json=-", String::new()),
        (
            "hwlatdetect",
            "--duration 1s",
            format!("--report={HOSTILE}"),
        ),
        ("nosuch", "", String::new()),
    ] {
        let word = match option.as_str() {
            "" => HOSTILE,
            option => option,
        };
        let mut command = place.command(&format!("compat {name} {line}"));
        let output = command.arg(word).output().unwrap();
        let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let acts = |c: char| c.is_control() && c != '\n' && c != '\t' || c == '\u{202e}';
        assert!(!printed.concat().contains(acts), "{name}: {printed:?}");
    }
}
