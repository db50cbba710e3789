//! Series over time: shown, and decided upon.

use std::sync::{Arc, Mutex};

use punctual_serve::trends::{Decided, Noted, SeriesOf, TrendSource, Trends};
use punctual_stats::trend::{Question, Run, Trend, judge};
use punctual_store::Collection;

use crate::client::{get, send};
use crate::place::Place;

const HOSTILE: &str = "<script>alert(1)</script>";

#[derive(Default)]
struct TwoSeries {
    decided: Mutex<Vec<(SeriesOf, Decided)>>,
    noted: Mutex<Vec<(SeriesOf, Noted)>>,
}

impl Trends for TwoSeries {
    fn series(&self) -> Result<Vec<SeriesOf>, String> {
        let of = |series: &str| SeriesOf {
            series: series.to_owned(),
            machine: Some(HOSTILE.to_owned()),
        };
        Ok(vec![of("empty"), of(HOSTILE)])
    }

    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), String> {
        if of.series == HOSTILE {
            return Err(format!("cannot read {HOSTILE}"));
        }
        let question = Question {
            series: of.series.clone(),
            ..Question::default()
        };
        Ok((judge(&[], question), Vec::new()))
    }

    fn note(&self, of: &SeriesOf, noted: &Noted) -> Result<(), String> {
        let mut all = self.noted.lock().unwrap();
        all.push((of.clone(), noted.clone()));
        Ok(())
    }

    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), String> {
        let mut all = self.decided.lock().unwrap();
        all.push((of.clone(), decided.clone()));
        Ok(())
    }
}

#[test]
fn series_are_listed_and_a_decision_is_logged() {
    let place = Place::new();
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
