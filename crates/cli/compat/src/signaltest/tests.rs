//! Compares signaltest with the output of the original.

use punctual_formats::Additions;
use punctual_host::Host;

use super::result::body;
use super::settings::SignaltestSettings;
use super::{TOOL, view};
use crate::getopt;
use crate::lines::{ThreadLine, Unit};
use crate::machine::Machine;
use crate::testing::{assert_same_account, read_back, with_early_samples};

/// The output of signaltest 2.4 with two threads.
const LINES: &str = include_str!("../../tests/fixtures/signaltest-2.4-lines.txt");

#[test]
fn lines_are_the_originals() {
    let line = |place, tid, min, act, avg, max| {
        let line = ThreadLine {
            tid,
            cycles: 7_713,
            min,
            act,
            avg,
            max,
            ..ThreadLine::new(place, 80, 0, Unit::Micros)
        };
        view::line(&line) + "\n"
    };
    let lines = line(0, 1630, 10, 25, 17, 607) + &line(1, 1631, 10, 10_047, 645, 11_142);
    assert_eq!(lines, LINES);
}

#[test]
fn options_match_the_original() {
    let read = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let parsed = getopt::parse(&words, TOOL.options, false)?;
        SignaltestSettings::read(&parsed, &Machine::from_host(&Host::live())?)
    };
    let settings = read("-p 80 -l 100 -D 5m -b 50 -q").unwrap();
    assert_eq!((settings.threads, settings.cpus), (2, None));
    assert_eq!(
        (settings.common.duration_s, settings.common.break_value),
        (300, 50)
    );
    assert_eq!(read("-a 0 -t 5").unwrap().cpus, "0".parse().ok());
    assert_eq!(read("-a -t 5").unwrap().cpus, None);
    for line in ["-t 1", "-t 65", "-p 100", "-t x", "-a 4096", "-D -1", "-z"] {
        assert!(read(line).is_err(), "{line}");
    }
}

#[test]
fn early_samples_survive_rereading() {
    let recording = with_early_samples();
    let additions = Some(Additions::new(&recording, None));
    let (file, after) = read_back("signaltest", &recording, &body(&recording, additions));
    assert_eq!(file.matches("\"cycles\": 3,").count(), 2, "{file}");
    assert_same_account(&after, &recording);
}
