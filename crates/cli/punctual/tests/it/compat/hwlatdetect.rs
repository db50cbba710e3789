//! hwlatdetect.

use crate::common::{Sandbox, text};

#[test]
fn kernel_detector_is_used_or_reported_missing() {
    let place = Sandbox::new();
    let output =
        place.run("compat hwlatdetect --duration 1 --threshold 1us --window 100ms --width 10ms");
    match output.status.code() {
        Some(1) if output.stdout.is_empty() => {
            let said = text(&output.stderr);
            assert!(said.contains("hwlat"), "{said}");
            punctual_testing::skip_refused("hwlatdetect", &said);
        }
        _ => {
            assert_hwlatdetect(&text(&output.stdout), output.status.code());
        }
    }
}

/// OpenShift's latency test calls the tool in this way. The width is almost as long as the window,
/// and during it the kernel's tracer spins, not our threads.
#[test]
fn openshift_latency_test_call_is_accepted() {
    let place = Sandbox::new();
    let output = place.run(
        "compat hwlatdetect --threshold 20 --hardlimit 20 --duration 1s --window 1000000us \
         --width 950000us",
    );
    let said = text(&output.stderr);
    assert!(!said.contains("width"), "{said}");
    if output.stdout.is_empty() {
        punctual_testing::skip_refused("hwlatdetect", &said)
    } else {
        let out = text(&output.stdout);
        assert!(out.contains("Sample width:      950000us\n"), "{out}");
    }
}

/// The lines of the original (rt-tests 2.10, `hwlatdetect.py`).
fn assert_hwlatdetect(out: &str, code: Option<i32>) {
    const HEAD: &str = "hwlatdetect:  test duration 1 seconds\n   detector: tracer\n   \
                        parameters:\n        CPU list:          None\n        \
                        Latency threshold: 1us\n        Sample window:      100000us\n        \
                        Sample width:      10000us\n     Non-sampling period:  90000us\n        \
                        Output File:       None\n\nStarting test\ntest finished\n";
    let rest = out.strip_prefix(HEAD).unwrap_or_else(|| panic!("{out}"));
    let mut lines = rest.lines();
    let mut after = |name: &str| {
        let line = lines.next().unwrap_or_default();
        let value = line.strip_prefix(name);
        value.unwrap_or_else(|| panic!("{name}: {out}")).to_owned()
    };
    let longest = after("Max Latency: ");
    let recorded: usize = after("Samples recorded: ").parse().unwrap();
    let exceeding: usize = after("Samples exceeding threshold: ").parse().unwrap();
    assert!(exceeding >= recorded, "{out}");
    if recorded > 1 {
        let between = after("MTBF: ");
        let number = between.strip_suffix(" seconds").unwrap();
        assert_eq!(number.split_once('.').unwrap().1.len(), 3, "{out}");
    }
    let samples: Vec<&str> = lines.collect();
    assert_eq!(samples.len(), recorded, "{out}");
    for sample in &samples {
        let fields: Vec<&str> = sample.split(", ").collect();
        let [ts, inner, outer, cpu, count @ ..] = &fields[..] else {
            panic!("{sample}");
        };
        let (secs, nanos) = ts.strip_prefix("ts: ").unwrap().split_once('.').unwrap();
        // The time counts from the epoch, as in the kernel's report.
        assert!(secs.parse::<u64>().unwrap() > 1_577_836_800, "{sample}");
        assert_eq!(nanos.len(), 9, "{sample}");
        for (field, name) in [(inner, "inner:"), (outer, "outer:"), (cpu, "cpu:")] {
            let value = field
                .strip_prefix(name)
                .unwrap_or_else(|| panic!("{sample}"));
            assert!(value.parse::<u64>().is_ok(), "{sample}");
        }
        assert!(
            count.iter().all(|field| field.starts_with("count:")),
            "{sample}"
        );
    }
    let above = match longest.strip_suffix("us") {
        Some(micros) => micros.parse::<u64>().unwrap() > 1,
        None => longest != "Below threshold",
    };
    assert_eq!(code, Some(i32::from(above)), "{out}");
}

/// Arguments that the original accepts are passed on to the kernel's tracer.
#[test]
fn values_that_the_original_takes_are_taken() {
    let place = Sandbox::new();
    for line in [
        "--duration 0",
        "--duration 1 --threshold 200ms",
        "--duration 1 --window 2s --width 1ms",
        "--duration 0 --time-format %H:%M:%S.%n",
    ] {
        let output = place.run(&format!("compat hwlatdetect {line}"));
        let (said, report) = (text(&output.stderr), text(&output.stdout));
        let is_missing = said.contains("hwlat") && !said.contains("Usage:");
        // Exit code 1 means that a gap exceeded the threshold.
        let is_taken =
            matches!(output.status.code(), Some(0 | 1)) && report.contains("Max Latency: ");
        assert!(is_taken || is_missing, "{line}: {said}{report}");
    }
    let said = place.refused("compat hwlatdetect --time-format %!", 1);
    assert!(said.contains("a format of strftime(3)"), "{said}");
}
