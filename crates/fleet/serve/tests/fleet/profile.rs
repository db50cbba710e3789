//! Tests of the page of a machine with its audit, of the comparison of two machines with their
//! configurations, and of a recording with all its downloads.

use std::path::{Path, PathBuf};

use punctual_model::cause::{Cause, Source};
use punctual_model::{
    Explanation, Fact, FindingState, Nanos, Outlier, Recording, Severity, Share, StoredAudit,
    StoredFinding, Victim, Window, testing,
};
use punctual_store::{Lease, Store};

use crate::client::get;
use crate::place::{Sandbox, deliver, json, put_recording, recording};

fn audited(number: u128, host: &str) -> Recording {
    let mut one = recording(number, host);
    one.audit = Some(audit());
    one
}

/// Returns an audit with one failure and one unknown check.
pub(crate) fn audit() -> StoredAudit {
    let finding = |id: &str, state, title: &str, reason: Option<&str>| StoredFinding {
        id: id.to_owned(),
        state,
        severity: Severity::High,
        title: title.to_owned(),
        reason: reason.map(str::to_owned),
    };
    let throttling = "real-time throttling is 95%";
    let denied = Some("/dev/cpu/0/msr: permission denied");
    StoredAudit {
        role: "control".to_owned(),
        cpus: "2-3".parse().unwrap(),
        findings: vec![
            finding(
                "scheduler-rt-throttling",
                FindingState::Fail,
                throttling,
                None,
            ),
            finding("firmware-smi", FindingState::Unknown, "SMI count", denied),
        ],
        ok: 61,
        not_applicable: 12,
    }
}

#[test]
fn a_machine_shows_what_its_audit_found() {
    let place = Sandbox::new();
    let server = place.serve();
    deliver(server.address, &recording(1, "board-1"));
    let page = get(server.address, "/machine?name=board-1").text();
    assert!(
        page.contains("unknown: this recording was made without an audit"),
        "{page}"
    );
    deliver(server.address, &audited(2, "board-1"));
    let page = get(server.address, "/machine?name=board-1").text();
    for part in [
        "fails: 1 high; 0 to look at, 1 unknown, 61 ok, 12 not applicable",
        "real-time throttling is 95%",
        "scheduler-rt-throttling",
        "for role control and CPUs 2-3",
        "SMI count: /dev/cpu/0/msr: permission denied",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    // The delivered data is stored in full.
    let id = audited(2, "board-1").id;
    let kept = get(server.address, &format!("/v1/recordings/{id}")).json();
    assert_eq!(kept["audit"]["ok"], 61);
    assert_eq!(kept["host"]["kernel"]["options"]["HZ"], "1000");
}

#[test]
fn facts_over_time_need_no_series() {
    let place = Sandbox::new();
    let server = place.serve();
    deliver(server.address, &recording(1, "board-1"));
    let page = get(server.address, "/machine?name=board-1").text();
    assert!(!page.contains("Changes of facts"), "{page}");
    let mut two = audited(2, "board-1");
    two.host.kernel.command_line = Fact::known("quiet nohz=on".to_owned(), "/proc/cmdline");
    two.host.fingerprint = "0123456789abcdef".to_owned();
    deliver(server.address, &two);
    let page = get(server.address, "/machine?name=board-1").text();
    let changes = page.split("Changes of facts").nth(1).unwrap();
    assert!(
        changes.contains("kernel command line: nohz=on added"),
        "{changes}"
    );
    assert!(changes.contains(&two.id.short()), "{changes}");
}

#[test]
fn older_machine_delivers_known_facts() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = recording(1, "board-1");
    let mut body: serde_json::Value = serde_json::from_slice(&json(&one)).unwrap();
    let kernel = body["host"]["kernel"].as_object_mut().unwrap();
    assert!(kernel.remove("configuration").is_some() && kernel.remove("options").is_some());
    let answer = put_recording(server.address, one.id, body.to_string().as_bytes(), &[]);
    assert_eq!(answer.status, 201, "{answer:?}");
    let page = get(server.address, &format!("/recordings/{}", one.id)).text();
    assert!(
        page.contains("unknown: recorded by an earlier version"),
        "{page}"
    );
}

#[test]
fn configurations_and_audits_are_compared() {
    let place = Sandbox::new();
    let server = place.serve();
    let one = audited(1, "board-1");
    let mut two = audited(2, "board-2");
    let kernel = &mut two.host.kernel;
    kernel.configuration = Fact::known("0123456789abcdef".to_owned(), "/proc/config.gz");
    kernel.options.insert("HZ".to_owned(), "250".to_owned());
    two.audit.as_mut().unwrap().findings.clear();
    let mut three = recording(3, "board-3");
    three.host.kernel.configuration = Fact::unknown("/proc/config.gz", "not there");
    three.host.kernel.options.clear();
    for each in [&one, &two, &three] {
        deliver(server.address, each);
    }
    let path = "/compare?machine=board-1&machine=board-2";
    let page = get(server.address, path).text();
    for part in [
        "Kernel configuration",
        "CONFIG_HZ",
        ">250</td>",
        "ok or not applicable",
        ">board-1 bench in the lab  max",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let page = get(server.address, "/compare?machine=board-1&machine=board-3").text();
    assert!(!page.contains("Kernel configuration"), "{page}");
    let unknown = page.split("unknown for both").nth(1).unwrap_or_default();
    assert!(
        unknown.contains("kernel.configuration") && unknown.contains("audit"),
        "{page}"
    );
}

const DUE: Nanos = Nanos(1_000_000);

/// Returns an outlier caused by a late timer.
fn outlier(number: u64, latency: Nanos, recording: &Recording) -> Outlier {
    Outlier {
        light_stage: false,
        number,
        time: recording.started,
        monotonic_ns: DUE,
        cpu: Some(1),
        thread: 1,
        latency_ns: latency,
        blame: testing::blame(vec![Share::new(Cause::new(Source::TimerLate), latency, 1)]),
    }
}

/// Returns a window around an outlier, without events.
fn window(outlier: &Outlier) -> Window {
    Window {
        victim: Victim {
            tid: 100,
            comm: punctual_model::Comm::new(b"victim"),
            scheduling: None,
            cpu: 1,
        },
        delay: Default::default(),
        expected: DUE,
        actual: DUE + outlier.latency_ns,
        events: Vec::new(),
        lost: 0,
        left_out: 0,
        missing_events: Vec::new(),
        light_stage: None,
        clock_error: Nanos(50),
        symbols: Default::default(),
        calls: Default::default(),
        evidence: Default::default(),
        host: Vec::new(),
        segments: Vec::new(),
        activity: Vec::new(),
    }
}

/// A store with the events of the first outlier.
fn with_events(folder: &Path, recording: &Recording) -> PathBuf {
    let path = folder.join("measured.db");
    let store = Store::open(&path).unwrap();
    let mut writer = store.begin(recording, &Lease::default()).unwrap();
    let outlier = &recording.explanation.as_ref().unwrap().outliers[0];
    writer.keep_window(outlier, &window(outlier)).unwrap();
    writer.finish(recording).unwrap();
    path
}

#[test]
fn each_link_of_a_recording_leads_somewhere() {
    let place = Sandbox::new();
    let mut one = audited(1, "board-1");
    let outliers = [(3, 143), (4, 120)];
    let outliers = outliers.map(|(number, us)| outlier(number, Nanos::from_micros(us), &one));
    one.explanation = Some(Explanation {
        threshold_ns: Nanos::from_micros(100),
        seen: 2,
        explained: 2,
        outliers: outliers.into(),
        ..Explanation::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let kept = with_events(folder.path(), &one);
    let server = place.serve_as(|config| config.store = Some(kept));
    deliver(server.address, &one);
    let path = format!("/recordings/{}", one.id);
    let page = get(server.address, &path).text();
    assert!(page.contains("Outlier 3:"), "{page}");
    let links = page.split("href=\"").skip(1);
    let links: Vec<&str> = links.filter_map(|rest| rest.split('"').next()).collect();
    let own = links
        .iter()
        .filter(|link| link.contains(&one.id.to_string()));
    assert!(own.count() >= 10, "{links:?}");
    for link in links.into_iter().filter(|link| link.starts_with('/')) {
        let answer = get(server.address, link);
        // The events of this outlier are missing.
        let status = if link.ends_with("/outliers/4") {
            404
        } else {
            200
        };
        assert_eq!(answer.status, status, "{link}: {}", answer.text());
        assert!(!answer.body.is_empty(), "{link}");
    }
    let bundle = get(server.address, &format!("{path}/bundle"));
    let unpacked = zstd::decode_all(&bundle.body[..]).unwrap();
    let unpacked = String::from_utf8_lossy(&unpacked);
    for name in [
        "recording.json",
        "store.db",
        "host.json",
        "outliers.txt",
        "CONTENTS.txt",
    ] {
        let name = format!("punctual-{}/{name}", one.id.short());
        assert!(unpacked.contains(&name), "{name}");
    }
    assert!(unpacked.contains("Bundle of the recording"));
    let name = format!(
        "attachment; filename=\"punctual-{}.tar.zst\"",
        one.id.short()
    );
    assert_eq!(bundle.header("content-disposition"), Some(name.as_str()));
    let outlier = get(server.address, &format!("{path}/outliers/3")).text();
    assert!(
        outlier.contains("<svg") && outlier.contains("Outlier 3"),
        "{outlier}"
    );
}
