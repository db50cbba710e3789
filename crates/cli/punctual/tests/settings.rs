//! A run that changes a setting must restore it, no matter how the run ends.
//!
//! These tests are in a separate program, because other tests also change the clock source for a
//! short time.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "it/common/mod.rs"]
mod common;

use std::time::Duration;

use common::Sandbox;
use punctual_host::Host;
use punctual_model::Setting;
use punctual_tune::setting;

/// Restores the clock source, even if the test fails.
struct PutBack(String);

impl Drop for PutBack {
    fn drop(&mut self) {
        let file = clock().path();
        if std::fs::read_to_string(file).is_ok_and(|now| now.trim() != self.0) {
            eprintln!("the clock source was not put back; doing it now");
            let _ = std::fs::write(file, &self.0);
        }
    }
}

fn clock() -> &'static Setting {
    setting("clocksource").unwrap()
}

fn source() -> String {
    punctual_tune::value(clock(), &Host::live()).unwrap_or_default()
}

#[test]
fn settings_return_after_killed_or_whole_run() {
    let host = Host::live();
    let offered = punctual_tune::offered(clock(), &host)
        .ok()
        .flatten()
        .unwrap_or_default();
    if offered.len() < 2 {
        punctual_testing::skip!(Hardware, "there is no second clock source");
        return;
    }
    if let Err(error) = punctual_tune::may_change(clock(), &host) {
        punctual_testing::skip_refused("the clock source", &error);
        return;
    }
    let before = source();
    let _put_back = PutBack(before.clone());
    let place = Sandbox::new();

    place.done("measure clock --sources -D 400ms -q --policy other --dma-latency off");
    assert_eq!(source(), before);
    let recording = place.last();
    let table = recording
        .tables
        .iter()
        .find(|t| t.name == "sources")
        .unwrap();
    assert_eq!(table.rows.len(), 3 * offered.len());

    // The run is long enough to find each source in force.
    let mut run = place.spawn("measure clock --sources -D 20s -q --policy other --dma-latency off");
    while source() == before && run.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let changed = source();
    run.kill().unwrap();
    run.wait().unwrap();
    if changed == before {
        punctual_testing::skip!(Kernel, "the kernel does not change its clock source here");
        return;
    }
    assert_eq!(source(), changed, "a killed program undoes nothing");
    let told = common::text(&place.run("list").stderr);
    assert!(
        told.contains(&format!(
            "clocksource restored to '{before}': a killed run had left it at '{changed}'"
        )),
        "{told}"
    );
    assert_eq!(source(), before);
    assert!(!common::text(&place.run("list").stderr).contains("clocksource"));
}
