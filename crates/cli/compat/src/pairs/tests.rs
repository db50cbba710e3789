//! Compares the tools that measure pairs with the output of the originals.

use punctual_formats::Additions;
use punctual_host::Host;
use punctual_model::Accounting;
use punctual_session::WorkerView;

use super::result::body;
use super::rows::{self, End, Row};
use super::settings::{Affinity, PairSettings};
use super::{Kind, pmqtest, sigwaittest};
use crate::machine::Machine;
use crate::testing::{assert_same_account, read_back, with_early_samples};
use crate::{CompatError, TOOLS, getopt};

/// The output of pmqtest 2.4 with two pairs.
const LINES: &str = include_str!("../../tests/fixtures/pmqtest-2.4-lines.txt");

const KIND: Kind = Kind {
    name: "pmqtest",
    via: "mq",
    timeouts: true,
    says_not_ready: true,
    options: &[],
};

fn row(tid: i32, cpu: i64, interval_us: u64, figures: [u64; 5]) -> Row {
    let end = |tid| End {
        tid,
        priority: 80,
        cpu,
    };
    let [cycles, min, act, avg, max] = figures;
    Row {
        receiver: end(tid),
        sender: end(tid + 1),
        interval_us,
        cycles,
        timeouts: 0,
        min: Some(min),
        act: act as i64,
        avg,
        max,
    }
}

#[test]
fn lines_are_the_originals() {
    let rows = [
        row(2351, 0, 1_000, [4_876, 3, 4, 4, 37]),
        row(2353, 1, 1_500, [3_265, 3, 3, 4, 41]),
    ];
    assert_eq!(rows::text(&KIND, &rows), LINES);
}

#[test]
fn pair_without_sample_matches_the_original() {
    let mut none = row(7, -1, 1_000, [0; 5]);
    none.min = None;
    let text = |says_not_ready| {
        let kind = Kind {
            says_not_ready,
            timeouts: false,
            ..KIND
        };
        rows::text(&kind, std::slice::from_ref(&none))
    };
    let head = "#0: ID7, P80, CPU-1, I1000; #1: ID8, P80, CPU-1, Cycles 0\n";
    assert_eq!(text(true), format!("{head}#1 -> #0 (not yet ready)\n"));
    assert_eq!(
        text(false),
        format!("{head}#1 -> #0, Min   -1, Cur    0, Avg    0, Max    0\n")
    );
}

#[test]
fn rows_say_which_threads_measure_and_where() {
    let host = Host::live();
    let mut rows = Row::all(&read(&pmqtest::KIND, "-t 2 -p 80").unwrap());
    let snapshot = |workers| punctual_session::Snapshot {
        elapsed: punctual_model::Nanos::ZERO,
        duration: None,
        workers,
        max_sample: None,
    };
    rows::update(&mut rows, &snapshot(Vec::new()), &host);
    // If there are no workers, there is nothing to update.
    assert_eq!((rows[0].sender.tid, rows[0].sender.cpu), (0, -1));
    assert_eq!(
        (rows[0].sender.priority, rows[1].receiver.priority),
        (80, 79)
    );
    let own = punctual_rt::current_tid();
    let worker = WorkerView {
        title: String::new(),
        accounting: Accounting::default(),
        tid: Some(own),
        partner: Some(own),
        timeouts: 3,
        dropped: 0,
        last: None,
        min: None,
        mean: None,
        p99: None,
        max: None,
    };
    rows::update(&mut rows, &snapshot(vec![worker]), &host);
    assert_eq!(rows[0].receiver.tid, own.as_raw());
    assert_eq!(rows[0].sender.tid, own.as_raw());
    assert!(rows[0].sender.cpu >= 0);
    assert!(rows::text(&KIND, &rows[..1]).contains(", TO 3, Cycles 0\n"));
}

fn read(kind: &Kind, line: &str) -> Result<PairSettings, CompatError> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let parsed = getopt::parse(
        &words,
        TOOLS
            .iter()
            .find(|tool| tool.name == kind.name)
            .unwrap()
            .options,
        false,
    )?;
    let machine = Machine {
        present: "0-3".parse().unwrap(),
        allowed: "0-3".parse().unwrap(),
    };
    PairSettings::read(&parsed, kind.options, &machine)
}

#[test]
fn options_match_the_originals() {
    let settings = |line| read(&pmqtest::KIND, line).unwrap();
    let plain = settings("");
    assert_eq!(
        (plain.threads, plain.interval_us, plain.distance_us),
        (1, 1_000, 500)
    );
    assert_eq!(plain.affinity, Affinity::Unspecified);
    assert!(!plain.returns_at_once());
    for (line, affinity) in [
        ("-a", Affinity::All),
        ("-a 2", Affinity::One(2)),
        ("-a2", Affinity::One(2)),
        ("-a0", Affinity::One(0)),
        // By the rules of atoi, a following 0 is not a value.
        ("-a 0", Affinity::All),
        ("-a -q", Affinity::All),
    ] {
        assert_eq!(settings(line).affinity, affinity, "{line}");
    }
    assert_eq!(settings("-t").threads, 4);
    assert_eq!(settings("-t 3").threads, 3);
    let smp = settings("-S -p 80 -a 1 -t 9 -D 2m");
    assert_eq!(
        (smp.threads, smp.affinity, smp.common.duration_s),
        (4, Affinity::All, 120)
    );
    assert_eq!(smp.notes.len(), 2);
    assert_eq!(smp.priority_of(3), 80);
    assert!(smp.returns_at_once());
    assert_eq!((settings("-T 3").timeout_s, plain.timeout_s), (3, 0));
    let spread = settings("-t 4 -p 3 -i 200 -d 100 --prio 3");
    let priorities: Vec<u8> = (0..4).map(|place| spread.priority_of(place)).collect();
    assert_eq!(priorities, [3, 2, 1, 1]);
    assert_eq!(spread.interval_of(3), 500);
    for line in [
        "-a 4",
        "-a x1x",
        "-t0",
        "-t 257",
        "-p 100",
        "-p x",
        "-i 0",
        "-i 5m",
        "-d -1",
        "-D x",
        "-l -1",
        "-b 5m",
        "-b us",
        "-T -1",
        "-T x",
        "-T 86401",
        "-f 1",
        "-T 1 -f x",
        "-T 1 -f 86401",
    ] {
        let refused = line != "-a x1x";
        assert_eq!(read(&pmqtest::KIND, line).is_err(), refused, "{line}");
    }
    // Scripts use these options.
    let script = settings("-a -b 20us -i 100us -l 100 -S");
    assert_eq!((script.common.break_value, script.interval_us), (20, 100));
    let short = settings("-S -i 10");
    assert_eq!((short.interval_us, short.notes.len()), (50, 1));
    let forced = settings("-T 1 -f 2");
    assert_eq!((forced.timeout_s, forced.force_timeout_s), (1, 2));
    for words in ["-f", "--fork", "-q --fork -t 2"] {
        assert!(read(&sigwaittest::KIND, words).unwrap().fork, "{words}");
    }
    // The originals pass these values to the processes that they start themselves.
    for words in ["-fr0", "--fork=s1", "-fx"] {
        let error = read(&sigwaittest::KIND, words).unwrap_err();
        assert_eq!(error.to_string(), "Invalid fork option", "{words}");
        assert_eq!(error.status(), 1);
    }
    assert!(read(&sigwaittest::KIND, "-S").is_err());
}

#[test]
fn early_samples_survive_rereading() {
    let recording = with_early_samples();
    let mut rows = Row::all(&read(&pmqtest::KIND, "-t 2").unwrap());
    for (place, row) in rows.iter_mut().enumerate() {
        row.settle(place, &recording);
    }
    let additions = Some(Additions::new(&recording, None));
    let body = body(&KIND, &rows, &recording, additions);
    let (file, after) = read_back("pmqtest", &recording, &body);
    assert_eq!(file.matches("\"samples\": 3,").count(), 2, "{file}");
    assert_same_account(&after, &recording);
}
