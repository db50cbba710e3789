//! Tests of showing series over time, and of decisions on them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use punctual_model::{SeriesEpoch, Slot, SlotCause, SlotState};
use punctual_serve::SourceError;
use punctual_serve::trends::{Decided, Noted, SeriesOf, TrendSource, Trends};
use punctual_stats::trend::{Question, Run, Trend, judge};
use punctual_store::{Collection, SeriesStore};

use crate::client::{get, send};
use crate::place::{Sandbox, deliver};
use crate::years::{Nightly, runs};

const HOSTILE: &str = "<script>alert(1)</script>";

#[derive(Default)]
struct TwoSeries {
    decided: Mutex<Vec<(SeriesOf, Decided)>>,
    noted: Mutex<Vec<(SeriesOf, Noted)>>,
}

impl Trends for TwoSeries {
    fn series(&self) -> Result<Vec<SeriesOf>, SourceError> {
        let of = |series: &str| SeriesOf {
            series: series.to_owned(),
            machine: Some(HOSTILE.to_owned()),
        };
        Ok(vec![of("empty"), of(HOSTILE)])
    }

    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), SourceError> {
        if of.series == HOSTILE {
            return Err(SourceError::new(format!("cannot read {HOSTILE}")));
        }
        let question = Question {
            series: of.series.clone(),
            ..Question::default()
        };
        Ok((judge(&[], question), Vec::new()))
    }

    fn note(&self, of: &SeriesOf, noted: &Noted) -> Result<(), SourceError> {
        let mut all = self.noted.lock().unwrap();
        all.push((of.clone(), noted.clone()));
        Ok(())
    }

    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), SourceError> {
        let mut all = self.decided.lock().unwrap();
        all.push((of.clone(), decided.clone()));
        Ok(())
    }
}

#[test]
fn series_are_listed_and_decisions_logged() {
    let place = Sandbox::new();
    let trends = Arc::new(TwoSeries::default());
    let source = TrendSource(Some(Arc::clone(&trends) as Arc<dyn Trends>));
    let server = place.serve_as(|config| config.trends = source);
    let page = get(server.address, "/changes");
    assert_eq!(page.status, 200);
    let text = page.text();
    assert!(!text.contains("<script>"), "{text}");
    assert!(
        text.contains("empty") && text.contains("cannot read"),
        "{text}"
    );
    let path = "/trend?series=%3Cscript%3Ealert(1)%3C/script%3E";
    let refused = get(server.address, path);
    assert_eq!(refused.status, 422);
    assert!(!refused.text().contains("<script>"), "{refused:?}");

    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let decide = |why: &str| {
        let body = format!("series=s&machine=m&change=c1&decision=acknowledged&why={why}");
        send(server.address, "POST", "/changes", &form, body.as_bytes()).status
    };
    assert_eq!(decide("+"), 400);
    assert_eq!(decide("new+kernel"), 303);
    let decided = trends.decided.lock().unwrap();
    assert_eq!(decided.len(), 1);
    let (of, decision) = &decided[0];
    assert_eq!(
        (of.series.as_str(), of.machine.as_deref()),
        ("s", Some("m"))
    );
    assert_eq!(
        (decision.who.as_str(), decision.why.as_str()),
        ("local", "new kernel")
    );
    let log = place.collection().audit(1).unwrap();
    assert_eq!(
        (log[0].action.as_str(), log[0].what.as_str()),
        ("acknowledged", "c1 of s: new kernel")
    );

    let note = |at: &str| {
        let body = format!("series=s&machine=m&at={at}&text=new+fan");
        send(server.address, "POST", "/notes", &form, body.as_bytes()).status
    };
    assert_eq!(
        [note(""), note("soon"), note("2026-11-03")],
        [400, 400, 303]
    );
    let noted = trends.noted.lock().unwrap();
    let [(_, noted)] = noted.as_slice() else {
        panic!("{noted:?}")
    };
    assert_eq!(noted.at.to_string(), "2026-11-03T00:00:00Z");
    assert_eq!(
        (noted.who.as_str(), noted.text.as_str()),
        ("local", "new fan")
    );
}

/// A custom threshold applies to the page, the API, the link to the series, and the decision.
#[test]
fn custom_threshold_judges_changes() {
    let place = Sandbox::new();
    let mut nightly = Nightly::default();
    for (machine, first, worsens) in [("worse", 1_000, true), ("fine", 2_000, false)] {
        nightly.add(machine, &runs(machine, first, worsens));
    }
    let (nightly, source) = nightly.source();
    let server = place.serve_as(|config| config.trends = source);
    let query = "series=nightly&machine=worse&threshold=120us";
    let page = get(server.address, &format!("/changes?{query}")).text();
    assert!(page.contains("1 of 1 series"), "{page}");
    assert!(page.contains("late &gt; 120 µs"), "{page}");
    assert!(page.contains("&amp;threshold=120us"), "{page}");
    let api = get(server.address, &format!("/v1/changes?{query}")).json();
    assert_eq!(api["verdict"], "worse", "{api:#}");
    assert_eq!(api["asked"]["threshold_ns"], 120_000);
    let change = &api["groups"][0]["changes"][0];
    assert_eq!(change["threshold_ns"], 120_000, "{api:#}");
    // With a threshold above all latencies, there are no changes.
    let none = query.replace("120us", "900us");
    let api = get(server.address, &format!("/v1/changes?{none}")).json();
    assert_eq!(api["verdict"], "no_worsening", "{api:#}");
    for wrong in [
        "/changes?threshold=5",
        "/v1/changes?series=nightly&threshold=x",
    ] {
        assert_eq!(get(server.address, wrong).status, 400, "{wrong}");
    }
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let id = change["id"].as_str().unwrap();
    let body = format!("{query}&change={id}&decision=acknowledged&why=new+board");
    let answer = send(server.address, "POST", "/changes", &form, body.as_bytes());
    assert_eq!(answer.status, 303);
    assert_eq!(nightly.decided.lock().unwrap().len(), 1);
    let api = get(server.address, &format!("/v1/changes?{query}")).json();
    assert_eq!(api["verdict"], "no_worsening", "{api:#}");
    let page = get(server.address, &format!("/changes?{query}")).text();
    assert!(page.contains("Reopen"), "{page}");
}

/// The overview shows open regressions, and slots without a recording.
#[test]
fn overview_counts_regressions_and_missed_slots() {
    let place = Sandbox::new();
    let mut nightly = Nightly::default();
    let now = Timestamp::now();
    for (machine, first, worsens) in [("worse", 1_000, true), ("gaps", 2_000, false)] {
        let runs = runs(machine, first, worsens);
        nightly.add(machine, &runs);
        let server = place.serve();
        assert_eq!(deliver(server.address, &runs[0]).status, 201);
    }
    let epoch = SeriesEpoch {
        machine: "gaps".to_owned(),
        host: Some("gaps".to_owned()),
        name: "nightly".to_owned(),
        epoch: 1,
        definition: "{}".to_owned(),
        begun: now,
    };
    for (hours, state) in [
        (1, SlotState::Missed),
        (2, SlotState::Refused),
        (3, SlotState::Recorded),
        (90, SlotState::Missed),
    ] {
        let slot = Slot {
            machine: epoch.machine.clone(),
            series: epoch.name.clone(),
            epoch: 1,
            due: now - Duration::from_secs(hours * 3_600),
            cause: SlotCause::At,
            state,
            reason: None,
            recording: None,
        };
        place.collection().put_slot(&epoch, &slot).unwrap();
    }
    let server = place.serve_as(|config| config.trends = nightly.source().1);
    let end = Instant::now() + Duration::from_secs(60);
    let page = loop {
        let page = get(server.address, "/").text();
        if !page.contains("not judged yet") || Instant::now() > end {
            break page;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(page.contains("not acknowledged"), "{page}");
    assert!(!page.contains("<b>0</b> changes"), "{page}");
    assert!(page.contains("<b>2</b> slots missed in 24 h"), "{page}");
    let page = get(server.address, "/?missed=24h").text();
    assert!(page.contains("/machine?name=gaps"), "{page}");
    assert!(!page.contains("/machine?name=worse"), "{page}");
}

#[test]
fn machine_page_limits_all_pictures() {
    let place = Sandbox::new();
    let (server, pages) = crate::looks::served(&place);
    let machine = pages.iter().find(|(name, _)| *name == "machine").unwrap();
    let recording = pages.iter().find(|(name, _)| *name == "recording").unwrap();
    let first = get(server.address, &format!("/v1{}", recording.1)).json();
    let first: Timestamp = first["started"].as_str().unwrap().parse().unwrap();
    let shown = |from: Timestamp| get(server.address, &format!("{}&from={from}", machine.1));
    let day = Duration::from_secs(86_400);
    let page = shown(first + day).text();
    assert!(
        page.contains("&amp;from=") && page.contains("All times"),
        "{page}"
    );
    let page = shown(first + 365 * day).text();
    assert!(page.contains("No runs in this time"), "{page}");
    let wrong = get(server.address, &format!("{}&from=soon", machine.1));
    assert_eq!(wrong.status, 400, "{wrong:?}");
}
