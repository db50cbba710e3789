//! Tests that alerts reach a webhook and a command once when they begin and once when they end,
//! even after a restart or a failure of the receiver.

use std::path::PathBuf;
use std::time::Duration;

use punctual_model::{JudgedBy, Judgement, Outcome, Recording};
use punctual_serve::Running;
use punctual_serve::alerts::Alerts;
use punctual_serve::trends::TrendSource;
use punctual_store::Collection;
use serde_json::Value;

use crate::client::send;
use crate::place::{Sandbox, deliver, recording};
use crate::receiver::Receiver;
use crate::years::{Nightly, runs};

const OFTEN: Duration = Duration::from_millis(100);

pub(crate) fn alerts(place: &Sandbox, receiver: &Receiver) -> Alerts {
    Alerts {
        webhook: Some(format!("http://{}/hook", receiver.address)),
        command: Vec::new(),
        link: "http://fleet.example".to_owned(),
        state: place.file("alerts.json"),
        broken: 2,
        of: 3,
        disk: None,
        disk_free: 10.0,
    }
}

pub(crate) fn serve(place: &Sandbox, alerts: &Alerts, trends: Option<TrendSource>) -> Running {
    place.serve_as(|config| {
        config.every = OFTEN;
        config.alerts = Some(alerts.clone());
        // The recordings of the tests are old.
        config.silent_after = Duration::from_secs(1 << 40);
        config.trends = trends.unwrap_or_default();
    })
}

fn next(receiver: &Receiver) -> Value {
    serde_json::from_slice(&receiver.next()).unwrap()
}

/// Returns a recording that breaks its requirement, or holds it.
pub(crate) fn judged(number: u128, broken: bool) -> Recording {
    let mut one = recording(number, "board");
    for limit in &mut one.requirement.limits {
        limit.at_most = if broken { 1 } else { 1_000_000_000 };
    }
    one.verdict = one.judge();
    assert_eq!(one.verdict.outcome == Outcome::Exceeded, broken);
    one
}

#[test]
fn repeated_violation_alerts_once_and_ends_once() {
    let place = Sandbox::new();
    let receiver = Receiver::new(1);
    let alerts = alerts(&place, &receiver);
    let server = serve(&place, &alerts, None);
    deliver(server.address, &judged(1, true));
    assert!(receiver.more(OFTEN * 4).is_none(), "one is not enough");
    deliver(server.address, &judged(2, true));
    // The first attempt is rejected, so it is repeated.
    let begun = next(&receiver);
    assert_eq!(begun["version"], "4");
    assert_eq!(begun["status"], "firing");
    let alert = &begun["alerts"][0];
    assert_eq!(alert["labels"]["alertname"], "PunctualRequirementBroken");
    assert_eq!(alert["labels"]["machine"], "board");
    assert_eq!(
        alert["annotations"]["link"],
        "http://fleet.example/machine?name=board"
    );
    assert!(receiver.more(OFTEN * 4).is_none(), "once");
    server.stop();
    let server = serve(&place, &alerts, None);
    assert!(receiver.more(OFTEN * 6).is_none(), "nor after a restart");
    for number in 3..=4 {
        deliver(server.address, &judged(number, false));
    }
    let ended = next(&receiver);
    assert_eq!(ended["status"], "resolved");
    assert_eq!(ended["alerts"][0]["fingerprint"], alert["fingerprint"]);
    assert!(ended["alerts"][0]["endsAt"].is_string());
    assert!(receiver.more(OFTEN * 4).is_none());
}

/// The word of a machine about itself neither raises an alarm nor ends one.
#[test]
fn verdict_of_a_machine_is_judged_again() {
    let place = Sandbox::new();
    let collection = place.collection();
    let server = place.serve();
    let mut claimed = judged(1, true);
    claimed.verdict.outcome = Outcome::Met;
    claimed.be_judged(Judgement {
        by: JudgedBy::Check,
        experiment: None,
        outcome: Outcome::Held,
        sentence: "held: at most 3".to_owned(),
        asked: None,
        claims: Vec::new(),
    });
    deliver(server.address, &claimed);
    let (_, kept) = collection.load(claimed.id).unwrap();
    assert_eq!(kept.verdict.outcome, Outcome::Exceeded);
    let page = crate::client::get(server.address, &format!("/recordings/{}", claimed.id)).text();
    assert!(
        page.contains("check of the sender: held: at most 3 (not verified)"),
        "{page}"
    );
}

#[test]
fn a_worsening_ends_when_it_is_acknowledged() {
    let place = Sandbox::new();
    let receiver = Receiver::new(0);
    let alerts = alerts(&place, &receiver);
    let mut nightly = Nightly::default();
    nightly.add("board-1", &runs("board-1", 1, true));
    let (_, source) = nightly.source();
    let server = serve(&place, &alerts, Some(source));
    let begun = next(&receiver);
    let alert = &begun["alerts"][0];
    assert_eq!(alert["labels"]["alertname"], "PunctualWorse");
    assert_eq!(alert["labels"]["series"], "nightly");
    let link = alert["annotations"]["link"].as_str().unwrap();
    assert_eq!(
        link,
        "http://fleet.example/trend?series=nightly&machine=board-1"
    );
    let page = crate::client::get(server.address, "/changes?show=open").text();
    let id = page.split("name=\"change\" value=\"").nth(1).unwrap();
    let id = id.split('"').next().unwrap();
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let body =
        format!("series=nightly&machine=board-1&change={id}&decision=acknowledged&why=new+kernel");
    let answer = send(server.address, "POST", "/changes", &form, body.as_bytes());
    assert_eq!(answer.status, 303, "{answer:?}");
    assert_eq!(next(&receiver)["status"], "resolved");
    let page = crate::client::get(server.address, "/changes?show=open").text();
    assert!(
        page.contains("0 of 1 series") && page.contains("new kernel"),
        "{page}"
    );
}

#[test]
fn command_receives_silence_and_disk_alerts() {
    let place = Sandbox::new();
    let out = place.file("out");
    let alerts = Alerts {
        webhook: None,
        command: [
            "sh",
            "-c",
            "cat >> \"$0\"; echo >> \"$0\"",
            out.to_str().unwrap(),
        ]
        .map(str::to_owned)
        .to_vec(),
        // More than 100% can never be free, so this raises the alert.
        disk_free: 101.0,
        disk: Some(PathBuf::from("/")),
        ..alerts(&place, &Receiver::new(0))
    };
    let server = place.serve_as(|config| {
        config.every = OFTEN;
        config.alerts = Some(alerts.clone());
        config.silent_after = Duration::ZERO;
    });
    deliver(server.address, &recording(1, "board"));
    let names = || -> Vec<String> {
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        let each = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut names: Vec<String> = each
            .map(|one| {
                one["commonLabels"]["alertname"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        names.sort();
        names
    };
    let began = std::time::Instant::now();
    while names().len() < 2 && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(OFTEN);
    }
    std::thread::sleep(OFTEN * 4);
    assert_eq!(names(), ["PunctualDiskNearlyFull", "PunctualSilent"]);
}

#[test]
fn machine_is_silent_after_two_slots() {
    let place = Sandbox::new();
    let receiver = Receiver::new(0);
    let server = serve(&place, &alerts(&place, &receiver), None);
    // One machine measures every 700 ms, the other one every minute. The configured time is several
    // years.
    let each = Duration::from_millis(700);
    let often = |number: u128| {
        let mut one = recording(number, "often");
        one.started = recording(0, "often").started + each * number as u32;
        one
    };
    for number in 1..=6 {
        assert_eq!(deliver(server.address, &often(number)).status, 201);
        deliver(server.address, &recording(100 + number, "seldom"));
    }
    let begun = next(&receiver);
    let labels = &begun["alerts"][0]["labels"];
    assert_eq!(
        (&labels["alertname"], &labels["machine"]),
        (&"PunctualSilent".into(), &"often".into())
    );
    let said = begun["alerts"][0]["annotations"]["summary"]
        .as_str()
        .unwrap();
    assert!(said.contains("usual interval between recordings"), "{said}");
    assert!(
        receiver.more(OFTEN * 6).is_none(),
        "once, and not of the other one"
    );
    deliver(server.address, &often(7));
    assert_eq!(next(&receiver)["status"], "resolved");
}
