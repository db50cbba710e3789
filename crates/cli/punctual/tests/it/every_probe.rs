//! Tests every probe in the table, from the command line to the plot.

use crate::common::{Sandbox, eventually, signal, text};
use punctual_model::{Completion, Recording};
use punctual_probes::PROBES;

/// Returns the parameters without which a probe does not run.
pub(crate) fn needed(probe: &str) -> &'static str {
    match probe {
        "network" => "--to 127.0.0.1",
        // The chip of the emulated machine. Another line could belong to hardware.
        "gpio" => "--in punctual-in",
        _ => "",
    }
}

#[test]
fn each_measures_accounts_and_is_drawn() {
    let place = Sandbox::new();
    for probe in PROBES {
        let name = probe.name;
        let needed = needed(name);
        let line = format!("measure {name} {needed} -q -D 1s --dma-latency off --json");
        // Threads of another test can occupy a CPU. The run then ends with this message.
        let occupied = "got no CPU time for ";
        let mut output = place.run(&line);
        for _ in 0..3 {
            if text(&output.stderr).contains(occupied) {
                output = place.run(&line);
            }
        }
        let stderr = text(&output.stderr);
        if output.status.code() != Some(0) {
            let what = format!("measure {name}: {}", output.status);
            punctual_testing::skip_refused(what, &stderr);
            continue;
        }
        let recording = Recording::from_json(&text(&output.stdout)).unwrap();
        assert_eq!(recording.probe.name, name);
        assert_eq!(recording.completion, Completion::Finished);
        for thread in &recording.threads {
            assert!(
                thread.accounting.balances(),
                "{name}: {:?}",
                thread.accounting
            );
            assert_eq!(
                thread.accounting.recorded,
                thread.histogram.recorded(),
                "{name}"
            );
        }
        let found = recording.accounting().recorded > 0 || !recording.tables.is_empty();
        assert!(found, "{name} found nothing");
        assert_eq!(place.last(), recording, "{name}");
        place.done("show last");
        place.done("report last -o x.html");
        if recording.accounting().recorded > 0 {
            place.done("plot last -o x.svg");
        }
    }
}

#[test]
fn each_ends_when_it_is_told_to() {
    let place = Sandbox::new();
    for probe in PROBES {
        let name = probe.name;
        let before = place.listed().len();
        let needed = needed(name);
        let mut child = place.spawn(&format!(
            "measure {name} {needed} -q -D 10m --dma-latency off"
        ));
        let begun =
            eventually(|| place.listed().len() > before || child.try_wait().unwrap().is_some());
        assert!(begun, "{name} neither began nor ended");
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            let stderr = text(&output.stderr);
            punctual_testing::skip_refused(format!("measure {name}"), &stderr);
            continue;
        }
        signal(&child, "INT");
        let ended = eventually(|| child.try_wait().unwrap().is_some());
        if !ended {
            signal(&child, "KILL");
        }
        let output = child.wait_with_output().unwrap();
        assert!(ended, "{name} went on");
        assert_eq!(
            output.status.code(),
            Some(130),
            "{name}: {}",
            text(&output.stderr)
        );
        assert_eq!(place.last().completion, Completion::Stopped, "{name}");
    }
}
