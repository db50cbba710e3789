//! hwlatdetect.

use crate::common::{Place, text};

#[test]
fn the_kernels_detector_is_used_or_said_to_be_missing() {
    let place = Place::new();
    let output = place.run("compat hwlatdetect --duration 1 --window 100ms --width 10ms");
    match output.status.code() {
        Some(1) if output.stdout.is_empty() => {
            let said = text(&output.stderr);
            assert!(said.contains("hwlat"), "{said}");
            punctual_testing::skip!("{said}");
        }
        _ => {
            let out = text(&output.stdout);
            assert!(
                out.starts_with("hwlatdetect:  test duration 1 seconds\n"),
                "{out}"
            );
            assert!(out.contains("\nSamples recorded: "), "{out}");
        }
    }
}
