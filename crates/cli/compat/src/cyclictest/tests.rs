//! Tests of how the command line is interpreted.

use punctual_model::{CpuSet, Policy};

use super::TOOL;
use super::options::OPTIONS;
use super::result::body;
use super::settings::{Affinity, Begin, CyclictestSettings};
use crate::machine::Machine;
use crate::testing::{assert_same_account, read_back, with_early_samples};
use crate::{Behaviour, CompatError, Signals, ToolContext, getopt};

fn machine() -> Machine {
    let set = |text: &str| text.parse::<CpuSet>().unwrap();
    Machine {
        present: set("0-7"),
        allowed: set("2-5"),
    }
}

fn try_read(line: &str) -> Result<CyclictestSettings, CompatError> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let parsed = getopt::parse(&words, TOOL.options, false)?;
    CyclictestSettings::read(&parsed, OPTIONS, &machine())
}

fn read(line: &str) -> CyclictestSettings {
    try_read(line).unwrap()
}

/// An early sample does not count as a cycle in the file, but it is not lost either.
#[test]
fn early_samples_survive_rereading() {
    let recording = with_early_samples();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let context = ToolContext {
        command_line: vec!["cyclictest".to_owned()],
        host: punctual_host::Host::live(),
        store: None,
        journal: None,
        partner: None,
        behaviour: Behaviour {
            extra_key: true,
            ..Behaviour::default()
        },
        signals: Signals::default(),
        started: recording.started,
        out: &mut out,
        err: &mut err,
    };
    for line in ["", "-h 100", "-h 10", "-N", "-N -h 2000"] {
        let written = body(&read(line), &recording, &context);
        let (file, after) = read_back("cyclictest", &recording, &written);
        assert_eq!(file.matches("\"cycles\": 3,").count(), 2, "{file}");
        assert_same_account(&after, &recording);
    }
}

#[test]
fn default_is_single_thread_of_usual_policy() {
    let settings = read("");
    assert_eq!(settings.threads, 1);
    assert_eq!(settings.interval_of(3), 2_500);
    assert_eq!(settings.affinity, Affinity::Unspecified);
    assert_eq!(settings.policy_words(), "other/other");
    assert_eq!((settings.loops, settings.common.duration_s), (0, 0));
}

#[test]
fn affinity_list_may_follow_as_word() {
    let chosen = |list: &str| Affinity::Chosen(list.parse().unwrap());
    assert_eq!(read("-a").affinity, Affinity::All);
    assert_eq!(read("-a -q").affinity, Affinity::All);
    assert_eq!(read("-a0-1").affinity, chosen("0-1"));
    assert_eq!(read("-a 3,0").affinity, chosen("0,3"));
    assert_eq!(read("--affinity=all -t").threads, 8);
    assert_eq!(read("-a !2").affinity, chosen("3-5"));
    assert_eq!(read("-a +0-1").affinity, chosen("2-3"));
    assert!(read("-a 0 -t 2").notes.is_empty());
}

#[test]
fn threads_are_counted_as_the_original_does() {
    assert_eq!(read("-t").threads, 4);
    assert_eq!(read("-t5").threads, 5);
    assert_eq!(read("-t 5").threads, 5);
    assert_eq!(read("-t -a 0-2").threads, 3);
    assert_eq!(read("--threads=2").threads, 2);
    let smp = read("-S -t 9 -a 1");
    assert_eq!((smp.threads, &smp.affinity), (4, &Affinity::Smp));
    assert_eq!(smp.notes.len(), 2, "{:?}", smp.notes);
    assert!(matches!(try_read("-a -S"), Err(CompatError::Fatal(_))));
}

#[test]
fn policy_and_priority_follow_each_other() {
    let of = |line: &str| {
        let settings = read(line);
        (settings.policy, settings.priority, settings.notes.len())
    };
    assert_eq!(of("-p 80"), (Policy::Fifo, 80, 0));
    assert_eq!(of("--policy=rr -p80"), (Policy::RoundRobin, 80, 0));
    assert_eq!(of("-p80 --policy=rr"), (Policy::RoundRobin, 80, 0));
    assert_eq!(of("-p80 --policy=other"), (Policy::Fifo, 80, 1));
    assert_eq!(of("--policy=FIFO -t3"), (Policy::Fifo, 4, 1));
    assert_eq!(of("--priospread -t3"), (Policy::Fifo, 4, 2));
    let spread = read("--priospread -p 2 -t3");
    let priorities: Vec<u8> = (0..3).map(|place| spread.priority_of(place)).collect();
    assert_eq!(priorities, [2, 1, 0]);
    assert_eq!(read("--policy=batch").policy_words(), "batch/other");
    assert_eq!(read("-p5").policy_words(), "fifo");
}

#[test]
fn a_histogram_makes_the_intervals_equal() {
    assert_eq!(read("-h400 -t2").interval_of(1), 1_000);
    assert_eq!(read("-h400 -d 100").notes.len(), 1);
    assert_eq!(read("-d 0 -i 200").interval_of(5), 200);
    assert_eq!(read("-h 2000000").histogram, 1_000_000);
    assert!(read("-H 10").histogram_sum);
}

#[test]
fn remaining_options_match_the_original() {
    assert_eq!(read("-A 50").begin, Begin::Aligned);
    assert_eq!(read("-A 50").offset_us, 50);
    assert_eq!(read("--secaligned=7").begin, Begin::FullSecond);
    assert_eq!(read("--latency=-5").latency_us, 0);
    assert_eq!(read("-D 2m").common.duration_s, 120);
    assert!(read("-s").relative && read("-r").relative);
    let both = read("-s -x");
    assert!(!both.posix_timers && both.notes.len() == 3);
    assert_eq!(read("--spike-nodes 5 --spike 9").spike_nodes, 1_024);
    assert_eq!(read("--spike 9 --spike-nodes 5").spike_nodes, 5);
    assert_eq!(read("stray -q").notes.len(), 1);
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_command_line_panics(
            words in prop::collection::vec("(-[a-zA-Z]{1,3}|--[a-z-]{1,12})?=?[-+!0-9a-z,]{0,6}", 0..6)
        ) {
            let parsed = getopt::parse(&words, TOOL.options, false);
            if let Ok(parsed) = parsed {
                let _ = CyclictestSettings::read(&parsed, OPTIONS, &machine());
            }
        }
    }
}
