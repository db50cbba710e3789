//! Compares oslat with the output of the original.

use punctual_host::Host;
use punctual_model::{Cell, Nanos, Table, testing};

use super::TOOL;
use super::settings::OslatSettings;
use super::summary::{Core, Summary, head};
use crate::machine::Machine;
use crate::{CompatError, getopt};

/// The output of a run of oslat 2.10 with `-D 1 -c 0`.
const TEXT: &str = include_str!("../../tests/fixtures/oslat-2.10.txt");

fn read(line: &str) -> Result<OslatSettings, CompatError> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let parsed = getopt::parse(&words, TOOL.options, false)?;
    OslatSettings::read(&parsed, &Machine::from_host(&Host::live())?)
}

/// Returns the counts in the original's buckets.
fn buckets() -> Vec<u64> {
    let rows = TEXT
        .lines()
        .filter(|line| line.contains(" (us):\t ") && line.starts_with("    0"));
    rows.map(|line| {
        let (_, count) = line.split_once(":\t ").unwrap();
        count.split(' ').next().unwrap().parse().unwrap()
    })
    .collect()
}

#[test]
fn what_is_printed_is_the_originals() {
    let settings = read("-D 1 -c 0").unwrap();
    let summary = Summary {
        cores: vec![Core {
            cpu: 0,
            mhz: 2_247,
            buckets: buckets(),
            min: 0,
            max: 176_000,
            average: 1.000_125,
            spun_s: 1.0,
        }],
        bias_ns: 0,
    };
    let text = format!(
        "oslat V 2.10\n{}Test completed.\n\n{}",
        head(&settings),
        summary.text(&settings)
    );
    // The unit is spelled as in 2.4 and in the scripts that match this line.
    assert_eq!(text, TEXT.replace("(MHz)", "(Mhz)"));
}

/// Returns the summary of a recording that has iterations of these durations (in ns) on two CPUs.
fn summary(line: &str, turns: &[(u64, u64, u64)]) -> (OslatSettings, Summary) {
    let settings = read(line).unwrap();
    let mut recording = testing::recording(1, 1);
    let columns = [("cpu", "CPU"), ("from_ns", "from"), ("turns", "turns")];
    let mut lengths = Table::new("turn_lengths", "", &columns);
    for (cpu, from, count) in turns {
        lengths.push([Cell::from(*cpu), Nanos(*from).into(), Cell::from(*count)]);
    }
    let keys = ["cpu", "turns", "min_ns", "mean_ns", "max_ns", "clock_mhz"];
    let mut figures = Table::new("turns", "", &keys.map(|key| (key, "")));
    let mut cpus: Vec<u64> = turns.iter().map(|(cpu, ..)| *cpu).collect();
    cpus.dedup();
    for cpu in cpus {
        let of_cpu = || turns.iter().filter(|turn| turn.0 == cpu).map(|turn| turn.1);
        let (min, max) = (of_cpu().min().unwrap(), of_cpu().max().unwrap());
        figures.push([cpu, 1, min, 1, max, 2_000].map(Cell::from));
    }
    recording.tables = vec![lengths, figures];
    let summary = Summary::new(&recording, &settings);
    (settings, summary)
}

#[test]
fn turns_beyond_buckets_fill_the_last() {
    let turns = [(0, 20, 10), (0, 1_500, 2), (0, 40_000, 1), (1, 999, 7)];
    let (settings, found) = summary("-b 5", &turns);
    assert_eq!(found.cores[0].buckets, [10, 2, 0, 0, 1]);
    assert_eq!(found.cores[1].buckets, [7, 0, 0, 0, 0]);
    assert_eq!((found.cores[0].min, found.cores[0].max), (0, 40_000));
    // The mean is based on the upper ends: ten of 1 us, two of 2 us, and the long iteration with
    // its full length.
    assert!((found.cores[0].average - 55.0 / 13.0).abs() < 1e-9);
    let text = found.text(&settings);
    assert!(
        text.contains("    005 (us):\t 1 0 (including overflows)\n"),
        "{text}"
    );
    let (settings, found) = summary("-b 5 -z", &turns);
    let text = found.text(&settings);
    assert!(
        text.contains("    002 (us):\t 2 0\n    ...\n    005"),
        "{text}"
    );
}

#[test]
fn narrow_buckets_and_bias_use_nanoseconds() {
    let turns = [(0, 30, 5), (0, 130, 2), (1, 20, 1)];
    let (settings, found) = summary("-W 100 -b 5 -B", &turns);
    assert_eq!(found.bias_ns, 20);
    assert_eq!(found.cores[0].buckets, [5, 2, 0, 0, 0]);
    let text = found.text(&settings);
    assert!(
        text.starts_with("Global bias set to 0.020 (us)\n"),
        "{text}"
    );
    assert!(text.contains("  0.120 (us):\t 5 1\n"), "{text}");
    let (_, single) = summary("-W 100 -B -s", &turns);
    assert_eq!(single.bias_ns, 30);
    assert_eq!(single.cores[0].buckets.len(), 320);
}

#[test]
fn options_match_the_original() {
    let settings = read("-D 2m -f 90 -w memmove -m 4K -T 100 -c 0 -C 0").unwrap();
    assert_eq!((settings.common.duration_s, settings.priority), (120, 90));
    assert_eq!((settings.copies, settings.memory), (true, 4_096));
    assert_eq!((settings.threshold_us, settings.main_cpu), (100, Some(0)));
    for line in [
        "-b 4", "-b 1025", "-f 0", "-f 100", "-D 0", "-w sleep", "-m 1T", "-m K", "-T 0", "-W 0",
        "-C 4096", "-c 4096", "-x",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
}
