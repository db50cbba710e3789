//! Reimplements the parsers of widely used scripts, with the same steps.

use crate::common::{Sandbox, assert_conserved, text};
use crate::compat::stage::{cyclictest, done, shell, tool};

/// Parses the output like OSADL's latency plot and its many derivatives.
#[test]
fn latency_plots_find_their_columns_and_maximum() {
    let place = Sandbox::new();
    let (out, said) = done(&place, "-l100 -t2 -i200 -h400 -q");
    let recording = place.last();
    let max = recording
        .threads
        .iter()
        .filter_map(|t| t.histogram.max())
        .max()
        .unwrap();
    let found = shell(
        &(out.clone() + &said),
        "grep 'Max Latencies' | tr ' ' '\\n' | sort -n | tail -1 | sed 's/^0*//'",
    );
    assert_eq!(found, max.whole_micros().to_string());
    // Extract the columns for gnuplot from a file that also contains stderr.
    let rows = shell(
        &(said + &out),
        "grep -v -e '^#' -e '^$' | tr ' ' '\\t' | cut -f1,3",
    );
    let mut sum = 0;
    for row in rows.lines() {
        let (value, count) = (row.split_once('\t')).unwrap_or_else(|| panic!("{row:?}"));
        assert!(value.parse::<u64>().unwrap() < 400, "{row:?}");
        sum += count.parse::<u64>().unwrap();
    }
    let (below, _) = recording.threads[1].histogram.micros(400);
    assert_eq!(sum, below.iter().sum::<u64>());
    // Yardstick finds values by the position of a word.
    let avg = shell(&out, "awk '/# Avg Latencies:/{print $4}'");
    let mean = recording.threads[0]
        .histogram
        .mean()
        .unwrap()
        .whole_micros();
    assert_eq!(avg.parse::<u64>().unwrap(), mean);
}

/// In a file with a column for the sum, benchmark harnesses take the last word in the line of
/// maxima as the maximum of the system.
#[test]
fn overall_maximum_ends_its_line() {
    let place = Sandbox::new();
    let (out, _) = done(
        &place,
        "--policy other --interval 200 --histofall 100 --histfile histogram.txt --loops 60 \
         --quiet --threads 2 --json cyclictest.json",
    );
    assert!(!out.contains("Latencies"), "{out}");
    let file = std::fs::read_to_string(place.path("histogram.txt")).unwrap();
    let found = shell(
        &file,
        "sed -n 's/^# Max Latencies: *//p' | awk '{print $NF + 0}'",
    );
    let recording = place.last();
    let max = (recording.threads.iter().filter_map(|t| t.histogram.max())).max();
    assert_eq!(found, max.unwrap().whole_micros().to_string(), "{file}");
}

/// Linaro's test-definitions use the last block after an escape sequence, and split words at spaces
/// and colons. MMTests matches each line against a pattern.
#[test]
fn line_parsers_find_each_thread() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-t2 -i 500 -l 60");
    let last = out.rsplit('\x1b').next().unwrap();
    let recording = place.last();
    let mut threads = 0;
    for line in last.lines().filter(|line| line.starts_with("T:")) {
        let words: Vec<&str> = line
            .split([' ', ':'])
            .filter(|word| !word.is_empty())
            .collect();
        let after = |name: &str| {
            let place = words.iter().position(|word| *word == name).unwrap();
            words[place + 1].parse::<u64>().unwrap()
        };
        let thread = &recording.threads[after("T") as usize];
        assert_eq!(after("Max"), thread.histogram.max().unwrap().whole_micros());
        assert_eq!(after("Min"), thread.histogram.min().unwrap().whole_micros());
        assert_eq!(after("C"), thread.accounting.recorded);
        threads += 1;
    }
    assert_eq!(threads, 2, "{out}");
}

/// rteval passes an empty word and a value after a space, and splits rows at white space.
#[test]
fn rteval_can_start_it_and_read_it() {
    let place = Sandbox::new();
    let mut command = cyclictest(&place, "");
    let output = command
        .args([
            "",
            "-qu",
            "-h 3500",
            "-t2",
            "-a0",
            "--default-system",
            "-b100000",
            "-l",
            "50",
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut counts = [0u64; 2];
    let mut max = Vec::new();
    for line in text(&output.stdout).lines() {
        if let Some(values) = line.strip_prefix("# Max Latencies: ") {
            max.extend(values.split(' ').map(|value| value.parse::<u64>().unwrap()));
        }
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let words: Vec<u64> = line
            .split_whitespace()
            .map(|w| w.parse().unwrap())
            .collect();
        counts[0] += words[1];
        counts[1] += words[2];
    }
    let recording = place.last();
    for (place, thread) in recording.threads.iter().enumerate() {
        assert_eq!(max[place], thread.histogram.max().unwrap().whole_micros());
        let (below, _) = thread.histogram.micros(3_500);
        assert_eq!(counts[place], below.iter().sum::<u64>());
    }
}

/// Command lines from test suites (Red Hat's sanity tests and unit tests, kubevirt's checkup), but
/// with shorter times.
#[test]
fn test_suite_command_lines_still_work() {
    let place = Sandbox::new();
    for (name, line) in [
        ("cyclictest", "--smp -umq -p95 --duration=1s"),
        ("cyclictest", "-t 4 -q --duration=1s"),
        ("oslat", "--cpu-list 0 --rtprio 1 --duration 1s"),
        (
            "oslat",
            "--cpu-list 0 --rtprio 1 --duration 0m1s --workload memmove --workload-mem 4K",
        ),
        ("pmqtest", "--loops=50 --interval=1000 --prio=99"),
        (
            "ptsematest",
            "--affinity --loops=50 --interval=1000 --prio=99 --threads",
        ),
        (
            "ptsematest",
            "-a 1 -b 1000000 -d 600 -D 5 -q -i 2000 -l 2 -p 60 -t 2 -S",
        ),
        ("signaltest", "-b 20000us -l 100 -q -t 10 -m -v"),
        ("sigwaittest", "-a -b 20000us -f -i 100 -l 50 -t 10"),
        (
            "sigwaittest",
            "-a 0,1 -d 1000 -b 100000 -D 1 -i 2000 -p 50 -q -t 2",
        ),
        ("svsematest", "-a -b 20000us -f -i 100 -l 50 -S"),
        ("svsematest", "-S -i 10 --loops=50"),
    ] {
        let output = tool(&place, name, line).output().unwrap();
        let said = text(&output.stderr);
        let refused = ["Unable to change scheduling", "mlockall"];
        if refused.iter().any(|words| said.contains(words)) {
            punctual_testing::skip!(Right, "{name} {line}: {}", said.trim());
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{name} {line}: {said}");
        if name != "oslat" {
            assert_conserved(&place.last());
        }
    }
}

/// kubevirt's realtime checkup looks for the first line that contains the keyword. It takes the
/// text between the colon and the unit, and splits it at white space.
#[test]
fn oslat_maximum_is_found_by_keyword() {
    let place = Sandbox::new();
    let out = tool(&place, "oslat", "-c 0 -D 1").output().unwrap().stdout;
    let out = text(&out);
    let line = out.lines().find(|line| line.contains("Maximum")).unwrap();
    let (values, unit) = line.split_once('(').unwrap();
    assert_eq!(unit, "us)");
    let values: Vec<u64> = (values.split(':').nth(1).unwrap().split_whitespace())
        .map(|value| value.parse().unwrap())
        .collect();
    let max = place.last().threads[0].histogram.max().unwrap();
    assert_eq!(values, [max.whole_micros()]);
}

/// Patterns that match single lines, from MMTests, Canonical's checkup, and shell scripts in
/// circulation.
#[test]
fn patterns_of_lines_match() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-t2 -i 500 -l 60 -q");
    let matching = |text: &str, pattern: &str| shell(text, &format!("grep -cE '{pattern}'"));
    let number = "[0-9]+";
    let whole = format!(
        "T: *{number} *\\( *{number} *\\) P: *{number} *I: *{number} *C: *{number} \
         *Min: *{number} *Act: *{number} *Avg: *{number} *Max: *{number}$"
    );
    let mmtests =
        format!("^T: ({number}) .*Avg:[[:space:]]+({number}).*Max:[[:space:]]+({number})");
    for pattern in [&whole, &mmtests] {
        assert_eq!(matching(&out, pattern), "2", "{pattern}: {out}");
    }
    let last = shell(
        &out,
        "grep -E 'T:.*Min:.*Act:.*Avg:.*Max:' | tail -1 | sed -n 's/.*Max:[[:space:]]*\\([0-9]*\\).*/\\1/p'",
    );
    let max = place.last().threads[1].histogram.max().unwrap();
    assert_eq!(last, max.whole_micros().to_string());
    let ring = tool(&place, "signaltest", "-t 3 -l 20 -q")
        .output()
        .unwrap();
    let ring = text(&ring.stdout);
    // The fields of the original are five characters wide. A larger value therefore follows its
    // name without a space, in our output as well. The pattern requires a space.
    let of_ring = format!("^T: {number} .*Avg: *{number} Max: *{number}$");
    assert_eq!(matching(&ring, &of_ring), "3", "{ring}");
    let blanks = ring
        .lines()
        .filter(|line| line.contains("Avg: ") && line.contains("Max: "));
    assert_eq!(
        matching(&ring, &mmtests),
        blanks.count().to_string(),
        "{ring}"
    );
    let pairs = tool(&place, "ptsematest", "-t 2 -l 20 -q")
        .output()
        .unwrap();
    let of_pairs = "^#[0-9]+ -> #[0-9]+, Min *[0-9]+, Cur *[0-9]+, Avg *[0-9]+, Max *[0-9]+$";
    assert_eq!(matching(&text(&pairs.stdout), of_pairs), "2");
}

/// OSADL's data set splits each row at every single space or tab. Other scripts find the sums by
/// the first words of their lines.
#[test]
fn histograms_come_apart_at_single_blanks() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-t2 -i 500 -l 60 -q -h 300");
    for row in out
        .lines()
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
    {
        let words: Vec<&str> = row.split([' ', '\t']).collect();
        assert_eq!(words.len(), 3, "{row:?}");
        assert!(
            words.iter().all(|word| word.parse::<u64>().is_ok()),
            "{row:?}"
        );
    }
    for sums in [
        "Min Latencies",
        "Avg Latencies",
        "Max Latencies",
        "Histogram Overflows",
    ] {
        let head = format!("# {sums}: ");
        let line = out
            .lines()
            .find_map(|line| line.strip_prefix(&head))
            .unwrap();
        let values: Vec<&str> = line.split(' ').collect();
        assert_eq!(values.len(), 2, "{line:?}");
        assert!(
            values.iter().all(|value| value.parse::<u64>().is_ok()),
            "{line:?}"
        );
    }
}

/// If gnuplot is installed, the plot itself is drawn with the commands of OSADL's script.
#[test]
fn gnuplot_draws_the_columns() {
    let place = Sandbox::new();
    let (out, _) = done(&place, "-t2 -i 500 -l 60 -q -h 300");
    let folder = place.path("");
    let script = format!(
        "cd '{}' && command -v gnuplot >/dev/null || exit 0; \
         grep -v -e '^#' -e '^$' | tr ' ' '\\t' >rows; cut -f1,2 rows >rows1; cut -f1,3 rows >rows2; \
         echo 'set terminal svg; set logscale y; set xrange [0:300]; set yrange [0.8:*]; \
         set output \"plot.svg\"; plot \"rows1\" using 1:2 title \"CPU0\" with histeps, \
         \"rows2\" using 1:2 title \"CPU1\" with histeps' | gnuplot && echo drawn",
        folder.display()
    );
    match shell(&out, &script).as_str() {
        "drawn" => assert!(std::fs::metadata(place.path("plot.svg")).unwrap().len() > 0),
        "" if !gnuplot_is_there() => punctual_testing::skip!(Program, "gnuplot is not installed"),
        said => panic!("{said:?}"),
    }
}

fn gnuplot_is_there() -> bool {
    !shell("", "command -v gnuplot").is_empty()
}
