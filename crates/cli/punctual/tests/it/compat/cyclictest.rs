//! Output of cyclictest: lines, histograms and JSON.

use std::fs;

use serde_json::Value;

use crate::common::{Sandbox, assert_conserved, text};
use crate::compat::stage::{cyclictest, done, may_hold_latency, shape, without_latency};

const LINES: &str = include_str!("../../fixtures/cyclictest-2.4-lines.txt");

const LIVE: &str = include_str!("../../fixtures/cyclictest-2.4-live-head.txt");

const VERBOSE: &str = include_str!("../../fixtures/cyclictest-2.4-verbose-head.txt");

const SUMS: &str = include_str!("../../fixtures/cyclictest-2.4-H20.txt");

const JSON: &str =
    include_str!("../../../../../data/formats/tests/fixtures/cyclictest-2.10-h200.json");

const HISTOGRAM: &str =
    include_str!("../../../../../data/formats/tests/fixtures/cyclictest-2.10-h200.txt");

#[test]
fn final_lines_have_the_originals_shape() {
    let place = Sandbox::new();
    // The threads of the fixture had priority 95 and intervals of 200 and 700 µs.
    let original = shape(&without_latency(LINES));
    // On a busy machine, a figure can be wider than its column.
    let mut out = String::new();
    let found = (0..5).any(|_| {
        out = done(&place, "-t2 -a -i 200 -D1 -q").0;
        shape(&without_latency(&out)) == original
    });
    assert!(found, "{out}");
    if may_hold_latency() {
        assert!(
            out.starts_with("# /dev/cpu_dma_latency set to 0us\n"),
            "{out}"
        );
    } else {
        punctual_testing::skip!(Right, "the exit latency of the CPUs may not be set here");
    }
    let recording = place.last();
    assert_conserved(&recording);
    let cycles = recording.threads[0].accounting.recorded;
    assert!(out.contains(&format!(" C:{cycles:7} ")), "{out}");
}

#[test]
fn live_lines_have_the_originals_shape() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-t2 -i 200 -l 1000 --laptop");
    let blocks: Vec<&str> = out.split("\x1b[4A").collect();
    // The lines are printed repeatedly, but on a busy machine not every 10 ms.
    assert!(blocks.len() > 1, "{out}");
    let original: Vec<String> = without_latency(LIVE)
        .split("\x1b[4A")
        .map(str::to_owned)
        .collect();
    let lines = |block: &str| -> Vec<String> { block.lines().skip(1).map(shape).collect() };
    for block in &blocks {
        let head = block.lines().next().unwrap();
        assert!(head.starts_with("policy: other/other: loadavg: "), "{head}");
        assert!(head.ends_with("          "), "{head}");
        assert_eq!(lines(block), lines(&original[0]));
        assert!(block.ends_with('\n'));
    }
    assert!(blocks.last().unwrap().contains(" C:   1000 "), "{out}");
}

#[test]
fn values_have_the_originals_shape() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-v -t2 -i 200 -l 40");
    let lines: Vec<&str> = out.lines().collect();
    let original: Vec<&str> = VERBOSE.lines().collect();
    assert!(lines[0].starts_with("Max CPUs = ") && lines[1].starts_with("Online CPUs = "));
    let from = |lines: &[&str]| {
        let first = lines
            .iter()
            .position(|l| l.starts_with("Thread 0"))
            .unwrap();
        lines[first..first + 4].join("\n")
    };
    assert_eq!(shape(&from(&lines)), shape(&from(&original)));
    assert_eq!(
        lines[lines.len() - 1].len(),
        "       0:       0:       8".len()
    );
    // The output contains all values of each thread in order.
    let values: Vec<(u64, u64)> = (lines.iter())
        .filter(|line| line.matches(':').count() == 2)
        .map(|line| {
            let number = |nth: usize| line.split(':').nth(nth).unwrap().trim().parse().unwrap();
            (number(0), number(1))
        })
        .collect();
    let of = |thread: u64| {
        values
            .iter()
            .filter(move |(t, _)| *t == thread)
            .map(|(_, c)| *c)
    };
    assert_eq!(of(0).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    assert!(of(1).eq(0..of(1).count() as u64) && of(1).count() > 5);

    let (out, _) = done(&place, "-v -o 10 -t1 -i 200 -l 40");
    assert_eq!(
        out.lines().filter(|l| l.matches(':').count() == 2).count(),
        4
    );
}

#[test]
fn histograms_have_the_originals_lines() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-t2 -h 200 -q -l 100");
    let shapes = |text: &str| -> Vec<String> {
        let tail = text.split("# Min").nth(1).unwrap();
        tail.lines().take(5).map(shape).collect()
    };
    assert_eq!(shapes(&out), shapes(HISTOGRAM));
    assert!(out.ends_with("\n\n"), "{out:?}");
    let row = out.lines().find(|line| line.starts_with('0')).unwrap();
    assert_eq!(shape(row), "<6><7>\t<6>");
    // SEAPATH's scripts read all rows up to this line.
    let rows = out.lines().take_while(|line| !line.starts_with("# Total:"));
    assert_eq!(
        rows.filter(|line| line.starts_with('0')).count(),
        200,
        "{out}"
    );
    let total = out.lines().find(|line| line.starts_with("# Total:"));
    assert_eq!(total.map(shape).as_deref(), Some("# Total:<10><10>"));

    let (out, _) = done(&place, "-t2 -H 20 -q -l 100");
    let summary =
        |text: &str, title: &str| shape(text.lines().find(|line| line.contains(title)).unwrap());
    for title in [
        "Min Latencies",
        "Avg Latencies",
        "Max Latencies",
        "Overflows:",
    ] {
        assert_eq!(summary(&out, title), summary(SUMS, title));
    }

    let mut all = cyclictest(&place, "-t1 -h 50 -q -l 20 --histfile=rows");
    assert_eq!(without_latency(&text(&all.output().unwrap().stdout)), "");
    let rows = fs::read_to_string(place.path("rows")).unwrap();
    let numbers = rows
        .lines()
        .filter_map(|line| line.split(' ').next()?.parse::<u64>().ok());
    assert!(numbers.eq(0..50), "{rows}");
    // As in version 2.10, empty rows and totals are not printed.
    let mut sparse = cyclictest(&place, "-t1 -h 50 -q -l 20 --histfile=rows");
    sparse.env("PUNCTUAL_SPARSE_HISTOGRAM", "1");
    assert_eq!(sparse.output().unwrap().status.code(), Some(0));
    let rows = fs::read_to_string(place.path("rows")).unwrap();
    assert!(
        !rows.lines().any(|line| line.ends_with(" 000000")),
        "{rows}"
    );
    assert!(!rows.contains("# Total"), "{rows}");
}

/// Returns the keys of a JSON text in order, up to the additional key of punctual.
fn keys(json: &str) -> Vec<String> {
    json.lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split_once("\": "))
        .map(|(key, _)| key.to_owned())
        .take_while(|key| key != "punctual")
        // Rows of histograms.
        .filter(|key| key.parse::<u64>().is_err())
        .collect()
}

#[test]
fn json_keys_keep_the_originals_order() {
    let place = Sandbox::new();
    let run = |store: Option<&str>| {
        let mut command = cyclictest(&place, "-t2 -h 200 -q -l 100 --json=a.json");
        command.env("PUNCTUAL_JSON_KEY", "1");
        store.map(|store| command.env("PUNCTUAL_STORE", store));
        assert_eq!(command.output().unwrap().status.code(), Some(0));
        fs::read_to_string(place.path("a.json")).unwrap()
    };
    // Strict readers refuse unknown keys.
    done(&place, "-t2 -h 200 -q -l 100 --json=a.json");
    let plain = fs::read_to_string(place.path("a.json")).unwrap();
    for plain in [plain, run(Some("none"))] {
        assert_eq!(keys(&plain), keys(JSON));
        assert!(!plain.contains("\"punctual\""), "{plain}");
    }
    let json = run(None);
    assert_eq!(keys(&json), keys(JSON));
    let value: Value = serde_json::from_str(&json).unwrap();
    let recording = place.last();
    assert_eq!(value["punctual"]["recording"], recording.id.to_string());
    for (place, thread) in recording.threads.iter().enumerate() {
        let json = &value["thread"][place.to_string()];
        assert_eq!(json["cycles"], thread.accounting.recorded);
        assert_eq!(json["max"], thread.histogram.max().unwrap().whole_micros());
        let rows = json["histogram"].as_object().unwrap().values();
        let ours = &value["punctual"]["thread"][place.to_string()];
        let sum: u64 = rows.map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(
            sum + ours["overflow"].as_u64().unwrap(),
            thread.histogram.count()
        );
    }
    // Without -h, there is no histogram. A quotation mark in a name must not break the JSON.
    let (out, _) = done(&place, "-t1 -q -l 5 --json=- quo\"te\\");
    let json: String = without_latency(&out)
        .lines()
        .take_while(|l| !l.starts_with("T:"))
        .collect();
    let value: Value = serde_json::from_str(&json).unwrap();
    assert!(value["cmdline:"].as_str().unwrap().ends_with("quo\"te\\"));
    assert!(value["thread"]["0"]["histogram"].is_null());
    assert_eq!(value["thread"]["0"]["cpu"], -1);
}

#[test]
fn thread_cpus_and_intervals_match_original() {
    let place = Sandbox::new();
    let of = |line: &str| {
        let (out, _) = done(&place, &format!("{line} -q -l 3 --json=j"));
        let json = fs::read_to_string(place.path("j")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        let threads = json["thread"].as_object().unwrap();
        let cpus: Vec<i64> = threads
            .values()
            .map(|t| t["cpu"].as_i64().unwrap())
            .collect();
        let intervals: Vec<String> = out
            .lines()
            .filter_map(|line| {
                line.split(" I:")
                    .nth(1)?
                    .split(' ')
                    .next()
                    .map(str::to_owned)
            })
            .collect();
        (cpus, intervals.join(" "))
    };
    let all: Vec<i64> = punctual_host::Host::live()
        .allowed()
        .unwrap()
        .iter()
        .map(i64::from)
        .collect();
    let first = all[0];
    assert_eq!(of("-t3"), (vec![-1; 3], "1000 1500 2000".to_owned()));
    assert_eq!(
        of(&format!("-t 2 -a {first}")),
        (vec![first; 2], "1000 1500".to_owned())
    );
    assert_eq!(of("-t1 -a -d0"), (vec![first], "1000".to_owned()));
    assert_eq!(of("-S -i 2000 -d 0").0, all);
    assert_eq!(of("-t2 -h 100"), (vec![-1; 2], String::new()));
}
