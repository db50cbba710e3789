//! Tests with original and damaged histograms of rtla.

use super::super::testing::{read_text, refused};
use super::*;

const TIMERLAT_6_1: &str = include_str!("../../../tests/fixtures/rtla-6.1-timerlat-hist.txt");
const OSNOISE_6_1: &str = include_str!("../../../tests/fixtures/rtla-6.1-osnoise-hist.txt");

#[test]
fn each_column_is_a_thread() {
    let recording = read_text(&TIMERLAT, TIMERLAT_6_1).unwrap();
    let titles: Vec<String> = recording.threads.iter().map(|t| t.title()).collect();
    let expected = [
        "CPU 0, interrupt",
        "CPU 0, thread",
        "CPU 1, interrupt",
        "CPU 1, thread",
    ];
    assert_eq!(titles, expected);
    let histogram = &recording.threads[1].histogram;
    assert_eq!(histogram.count(), 5_360);
    assert_eq!(histogram.unplaced(), 116);
    assert_eq!(histogram.unplaced_from(), Some(Nanos::from_micros(3_000)));
    assert_eq!(histogram.min(), Some(Nanos::from_micros(47)));
    assert_eq!(histogram.max(), Some(Nanos::from_micros(15_378)));
    assert_eq!(
        histogram.resolution().unwrap().row_ns,
        Nanos::from_micros(50)
    );
    assert_eq!(histogram.quantile(0.5), Some(Nanos::from_micros(99)));
    assert_eq!(histogram.quantile(0.99), None);
    assert_eq!(recording.duration_ns, Nanos::from_secs(6));
}

#[test]
fn noise_is_rounded_down_to_a_row() {
    let recording = read_text(&OSNOISE, OSNOISE_6_1).unwrap();
    let histogram = &recording.threads[1].histogram;
    assert_eq!(histogram.count(), 1_234_416);
    assert_eq!(histogram.max(), Some(Nanos::from_micros(32_250)));
    assert_eq!(histogram.quantile(0.5), Some(Nanos::from_micros(49)));
    assert!(
        recording.warnings[0].contains("50.0 µs"),
        "{:?}",
        recording.warnings
    );
    assert_eq!(recording.threads[1].cpu, Some(1));
}

/// The output of rtla 6.18 with -u, including its ALL block, after a stop.
const USER: &str = "\
# RTLA timerlat histogram
# Time unit is nanoseconds (ns)
# Duration:   1 02:03:04
Index   IRQ-002   Thr-002   Usr-002
0             1         0         0 
1000          1         2         0 
over:         0         0         0 
count:        2         2         0 
min:        900      1001         - 
avg:       1200      1300         - 
max:       1500      1999         - 
ALL:        IRQ       Thr       Usr
count:        2         2         0 
rtla timerlat hit stop tracing
12 (0.10%) events missed, results might not be accurate
";

#[test]
fn later_versions_say_more() {
    let recording = read_text(&TIMERLAT, USER).unwrap();
    assert_eq!(recording.threads[2].title(), "CPU 2, user space");
    assert_eq!(recording.threads[2].histogram.count(), 0);
    assert_eq!(recording.threads[0].histogram.mean(), Some(Nanos(1_200)));
    assert_eq!(recording.completion, Completion::Break);
    assert!(recording.warnings[0].contains("12 (0.10%) events missed"));
    assert_eq!(recording.duration_ns, Nanos::from_secs(93_784));
}

/// The analysis is not imported, so the warning names the command that reads it.
#[test]
fn automatic_analysis_is_announced_once() {
    const STOPPED: &str = include_str!("../../../tests/fixtures/rtla-timerlat-hist-stopped.txt");
    let recording = read_text(&TIMERLAT, STOPPED).unwrap();
    let about = |warning: &&String| warning.contains("punctual explain --trace");
    assert_eq!(recording.warnings.iter().filter(about).count(), 1);
    let recording = read_text(&TIMERLAT, USER).unwrap();
    assert_eq!(recording.warnings.iter().filter(about).count(), 0);
}

#[test]
fn columns_of_same_wake_up_not_summed() {
    const ALL: &str = include_str!("../../../tests/fixtures/rtla-timerlat-hist-all.txt");
    let recording = read_text(&TIMERLAT, ALL).unwrap();
    assert!(!recording.threads_are_alike());
    assert_eq!(recording.threads.len(), 6);
    let thread = &recording.threads[1];
    assert_eq!(thread.title(), "CPU 1, thread");
    assert_eq!(thread.histogram.count(), 1_000);
    assert_eq!(thread.histogram.max(), Some(Nanos::from_micros(22)));
    assert!(
        read_text(&OSNOISE, OSNOISE_6_1)
            .unwrap()
            .threads_are_alike()
    );
    let twice = format!("{ALL}{ALL}");
    assert!(refused(&TIMERLAT, twice.as_bytes()).contains("second histogram"));
}

#[test]
fn missing_summary_leaves_maximum_unknown_beyond_rows() {
    let (rows, _) = TIMERLAT_6_1.split_once("count:").unwrap();
    let recording = read_text(&TIMERLAT, rows).unwrap();
    let histogram = &recording.threads[0].histogram;
    assert_eq!((histogram.max(), histogram.mean()), (None, None));
    assert_eq!(histogram.count(), 5_360);
    let (rows, _) = USER.split_once("count:").unwrap();
    let recording = read_text(&TIMERLAT, rows).unwrap();
    assert_eq!(recording.threads[0].histogram.max(), Some(Nanos(1_000)));
}

#[test]
fn one_row_says_how_it_was_taken() {
    let quiet = "# RTLA osnoise histogram\n# Time unit is microseconds (us)\n\
                     # Duration:   0 00:00:04\nIndex   CPU-000\n0          5 \n\
                     over:         0 \ncount:        5 \nmin:          0 \n\
                     avg:       0.00 \nmax:          0 \n";
    let recording = read_text(&OSNOISE, quiet).unwrap();
    assert_eq!(recording.threads[0].histogram.count(), 5);
    assert!(
        recording.warnings[0].contains("1.00 µs"),
        "{:?}",
        recording.warnings
    );
}

/// Found by fuzzing: both figures are in the only row, which is 14 µs wide.
#[test]
fn minimum_above_maximum_is_refused() {
    let text = "# RTLA timerlat histogram\n# Time unit is microseconds (us)\n\
                # Duration:   0 00:00:01\nIndex   IRQ-001   Thr-001\n\
                6             1         0\n20            0         1\n\
                over:         0         0\ncount:        1         1\n\
                min:          7        20\navg:          7        20\n\
                max:          6        20\n";
    let error = refused(&TIMERLAT, text.as_bytes());
    assert!(
        error.contains("7.00 µs, is above the maximum, 6.00 µs"),
        "{error}"
    );
    let sound = text.replace("max:          6", "max:          7");
    assert!(read_text(&TIMERLAT, &sound).is_ok());
}

#[test]
fn rtla_error_names_its_line() {
    let with = |from: &str, to: &str| {
        assert!(TIMERLAT_6_1.contains(from), "{from}");
        refused(&TIMERLAT, TIMERLAT_6_1.replacen(from, to, 1).as_bytes())
    };
    for (from, to, line, reason) in [
        ("microseconds (us)", "fortnights", ":2:", "fortnights"),
        ("0 00:00:06", "0 00:06", ":3:", "duration"),
        ("Thr-001", "Thr-9999", ":4:", "Thr-9999"),
        ("Thr-001", "Thr-000", ":4:", "twice"),
        ("3349", "334x", ":6:", "334x"),
        ("50         3349", "0         3349", ":6:", "is not greater"),
        (
            "over:       112",
            "over:       113",
            "",
            "'count:' states 5360",
        ),
        ("min:         22", "min:        222", "", "minimum"),
        ("max:      11246", "max:       1124", "", "maximum"),
        ("avg:        153", "avg:      99999", "", "mean"),
        ("avg:        153", "avg:        nan", "", "mean"),
        ("max:  ", "maximum:", "", "expected the line 'max:'"),
        (
            "max:      11246     15378      7757     19111 ",
            "",
            "",
            "truncated",
        ),
    ] {
        let error = with(from, to);
        assert!(
            error.contains(line) && error.contains(reason),
            "{from}: {error}"
        );
    }
    let error = refused(&TIMERLAT, TIMERLAT_6_1.trim_end().as_bytes());
    assert!(error.contains("inside a line"), "{error}");
}
