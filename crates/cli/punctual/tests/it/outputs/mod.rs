//! Tests of the plots, reports and exports of a recording, and of the help.

mod other_users;
mod shells;

use crate::common::Sandbox;

#[test]
fn a_recording_becomes_pictures_pages_and_files() {
    let place = Sandbox::new();
    place.done("measure timer -q --policy other -D 1s --dma-latency off --max-latency 100s");
    place.done("measure timer -q --policy other -D 1s --dma-latency off --label second");
    let starts = |name: &str, start: &[u8]| {
        let content = std::fs::read(place.path(name)).unwrap();
        assert!(
            content.starts_with(start),
            "{name}: {:?}",
            &content[..20.min(content.len())]
        );
    };
    for kind in ["latency", "percentiles", "timeline"] {
        place.done(&format!("plot last~1 --kind {kind} -o {kind}.svg"));
        starts(&format!("{kind}.svg"), b"<svg");
        place.done(&format!("plot last~1 --kind {kind} -o {kind}.png"));
        starts(&format!("{kind}.png"), b"\x89PNG");
    }
    place.done("plot last last~1 -o both.svg");
    place.done("plot last --x-max 1s --scale log -o cut.svg");
    // An empty plot is refused and must not leave a file.
    let refused = place.refused("plot last --kind matrix -o empty.svg", 1);
    assert!(refused.contains("no pairs of CPUs"), "{refused}");
    assert!(
        refused.contains("latency, percentiles, timeline, bars"),
        "{refused}"
    );
    place.done("measure irq-load -q -D 300ms --dma-latency off");
    for kind in ["auto", "latency", "timeline", "matrix"] {
        let refused = place.refused(&format!("plot last --kind {kind} -o empty.svg"), 1);
        assert!(
            refused.contains("has no latencies to plot"),
            "{kind}: {refused}"
        );
    }
    assert!(!place.path("empty.svg").exists());
    place.done("store delete last");
    place.done("report last last~1 -o report.html");
    starts("report.html", b"<!DOCTYPE html>");
    place.done("report last~1 -o report.md");
    place.done("report last~1 -o report.xml");
    starts("report.xml", b"<?xml");
    let json: serde_json::Value =
        serde_json::from_str(&place.done("export last~1 --format cyclictest-json")).unwrap();
    assert_eq!(json["file_version"], 1);
    assert!(json.get("punctual").is_none(), "{json}");
    let full = place.done("export last~1 --format cyclictest-hist --histogram 50");
    assert_eq!(
        full.lines()
            .filter(|line| !line.starts_with('#'))
            .filter(|l| !l.is_empty())
            .count(),
        50
    );
    let json: serde_json::Value =
        serde_json::from_str(&place.done("export last --format rt-dataset --histogram 40"))
            .unwrap();
    assert_eq!(json["format"]["name"], "RT Dataset");
    assert_eq!(json["latency"]["cores"][1].as_array().unwrap().len(), 40);
    let refused = place.refused("export last --format csv-series --histogram 40", 2);
    assert!(refused.contains("rt-dataset"), "{refused}");
    // No partial files are left.
    let names: Vec<String> = std::fs::read_dir(place.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(
        names.iter().all(|name| !name.starts_with(".punctual")),
        "{names:?}"
    );
}

#[test]
fn json_goes_to_stdout_or_file() {
    let place = Sandbox::new();
    let json = place.done("measure timer -q --policy other -D 200ms --dma-latency off --json");
    let recording = punctual_model::Recording::from_json(&json).unwrap();
    assert_eq!(recording, place.last());
    let text =
        place.done("measure timer -q --policy other -D 200ms --dma-latency off --json run.json");
    assert!(text.contains("account"));
    let json = std::fs::read_to_string(place.path("run.json")).unwrap();
    assert_eq!(
        punctual_model::Recording::from_json(&json).unwrap(),
        place.last()
    );
}

#[test]
fn schema_has_keys_used_by_scripts() {
    let place = Sandbox::new();
    let schema: serde_json::Value = serde_json::from_str(&place.done("schema")).unwrap();
    let has = |of: &serde_json::Value, keys: &[&str]| {
        for key in keys {
            assert!(of["properties"][key].is_object(), "{key}");
        }
    };
    has(
        &schema,
        &[
            "schema",
            "id",
            "probe",
            "host",
            "load",
            "requirement",
            "verdict",
            "started",
            "duration_ns",
            "threads",
            "series",
            "top_samples",
            "interference",
            "observer",
        ],
    );
    has(
        &schema["$defs"]["ThreadRecord"],
        &[
            "cpu",
            "policy",
            "priority",
            "expected",
            "recorded",
            "missed",
            "early",
            "warm_up",
            "overflow",
            "min_ns",
            "mean_ns",
            "max_ns",
            "p50_ns",
            "p90_ns",
            "p99_ns",
            "p999_ns",
            "p9999_ns",
            "histogram",
            "page_faults_minor",
            "page_faults_major",
            "switches_voluntary",
            "switches_involuntary",
            "cpu_time_ns",
        ],
    );
    has(
        &schema["$defs"]["TopSample"],
        &[
            "time",
            "monotonic_ns",
            "cpu",
            "thread",
            "latency_ns",
            "blame",
        ],
    );
    has(
        &schema["$defs"]["Observer"],
        &["clock_read_ns", "loop_ns", "peak_memory_bytes"],
    );
}

#[test]
fn help_completions_and_manual_pages() {
    let place = Sandbox::new();
    insta::assert_snapshot!("help", place.done("--help"));
    insta::assert_snapshot!("help_measure_timer", place.done("measure timer --help"));
    // There are two ways to get the help of a probe.
    let long = place.done("help measure timer");
    assert_eq!(long, place.done("measure timer --help"));
    place.refused("help nosuch", 2);
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = place.done(&format!("completions {shell}"));
        assert!(script.contains("punctual"), "{shell}");
        assert!(!script.contains("serve-load"), "{shell}");
    }
    place.done("man pages");
    let page = std::fs::read_to_string(place.path("pages/punctual-measure-timer.1")).unwrap();
    assert!(page.contains("interval"));
}

/// Returns the completions that bash offers at the end of a line, using the printed script.
fn offered_by_bash(place: &Sandbox, line: &str) -> Vec<String> {
    // bash splits words at the characters in COMP_WORDBREAKS, which include `=`.
    let parted = line.replace('=', " = ");
    let script = format!(
        "source completions.bash; COMP_WORDS=({parted}); [[ '{line}' == *' ' ]] && COMP_WORDS+=(''); \
         COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _punctual {} '' ''; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"; complete -p punctual >&2",
        env!("CARGO_BIN_EXE_punctual")
    );
    let output = place
        .command("")
        .get_envs()
        .fold(
            &mut std::process::Command::new("bash"),
            |bash, (name, value)| match value {
                Some(value) => bash.env(name, value),
                None => bash.env_remove(name),
            },
        )
        .current_dir(place.path("."))
        .args(["-c", &script])
        .output()
        .unwrap();
    let stderr = crate::common::text(&output.stderr);
    assert!(stderr.contains("-F _punctual punctual"), "{stderr}");
    crate::common::text(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn bash_completes_verbs_values_and_recordings() {
    if std::process::Command::new("bash")
        .arg("--version")
        .output()
        .is_err()
    {
        punctual_testing::skip!(Program, "no bash here");
    }
    let place = Sandbox::new();
    let script = place.done("completions bash");
    std::fs::write(place.path("completions.bash"), script).unwrap();
    assert_eq!(offered_by_bash(&place, "punctual show "), ["last"]);
    place.done("measure timer -q --policy other -D 200ms --dma-latency off --label one");
    let id = place.last().id.short();
    for (line, value) in [
        ("punctual pl", "plot"),
        ("punctual show ", id.as_str()),
        ("punctual plot last --kind=time", "timeline"),
        ("punctual measure timer --load c", "cpu"),
        ("punctual tune apply low", "low-latency"),
        ("punctual help mea", "measure"),
        ("punctual tune apply --set swapp", "swappiness="),
    ] {
        let offered = offered_by_bash(&place, line);
        assert!(offered.contains(&value.to_owned()), "{line}: {offered:?}");
    }
    assert!(!offered_by_bash(&place, "punctual ").contains(&"serve-load".to_owned()));
}
