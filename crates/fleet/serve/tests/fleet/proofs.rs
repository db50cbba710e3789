//! Tests that the verdict over the runs of a sampled series reaches pages, metrics and alerts, with
//! all parts of its claim.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use punctual_model::{Outcome, SeriesProof, percent, testing};
use punctual_serve::SourceError;
use punctual_serve::trends::{Decided, Noted, SeriesOf, TrendSource, Trends};
use punctual_stats::trend::{Question, Run, Trend, judge};

use crate::alerts::{alerts, serve};
use crate::client::get;
use crate::place::{Sandbox, deliver, recording};
use crate::receiver::Receiver;

/// A machine with one sampled series.
struct Week(Mutex<SeriesProof>);

impl Trends for Week {
    fn series(&self) -> Result<Vec<SeriesOf>, SourceError> {
        Ok(vec![SeriesOf {
            series: "week".to_owned(),
            machine: Some("lab".to_owned()),
        }])
    }

    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<Run>), SourceError> {
        let question = Question {
            series: of.series.clone(),
            ..Question::default()
        };
        Ok((judge(&[], question), Vec::new()))
    }

    fn proof(&self, _: &SeriesOf) -> Result<Option<SeriesProof>, SourceError> {
        Ok(Some(self.0.lock().unwrap().clone()))
    }

    fn note(&self, _: &SeriesOf, _: &Noted) -> Result<(), SourceError> {
        Ok(())
    }

    fn decide(&self, _: &SeriesOf, _: &Decided) -> Result<(), SourceError> {
        Ok(())
    }
}

/// Undoes how HTML and the text format of metrics write special characters.
fn plain(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">")
}

/// Returns what a URL shows, as soon as it contains these words.
fn awaited(address: std::net::SocketAddr, path: &str, words: &str) -> String {
    for _ in 0..200 {
        let text = plain(&get(address, path).text());
        if text.contains(words) {
            return text;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("{path} lacks '{words}': {}", get(address, path).text());
}

#[test]
fn no_surface_of_a_fleet_drops_a_part_of_a_week() {
    let missing = |number: u64| (number != 4).then_some(0);
    for (proof, outcome, state, alert) in [
        (
            testing::week(100.0, |_| Some(0)),
            Outcome::Held,
            "held",
            None,
        ),
        (
            testing::week(100.0, |number| Some(number % 5)),
            Outcome::Broken,
            "broken",
            Some("PunctualRequirementBroken"),
        ),
        // A missing run counts as late, so a clean week proves nothing.
        (
            testing::week(100.0, missing),
            Outcome::NotProven,
            "not-proven",
            Some("PunctualNotProven"),
        ),
        // Without a missing run, the plan is too short, which needs no alert.
        (
            testing::week(10.0, |_| Some(0)),
            Outcome::NotProven,
            "not-proven",
            None,
        ),
    ] {
        assert_eq!(proof.outcome, outcome, "{}", proof.sentence);
        let place = Sandbox::new();
        let receiver = Receiver::new(0);
        let source = TrendSource(Some(Arc::new(Week(Mutex::new(proof.clone())))));
        let server = serve(&place, &alerts(&place, &receiver), Some(source));
        let mut one = recording(1, "lab");
        one.requirement.limits.clear();
        one.verdict = one.judge();
        deliver(server.address, &one);
        let claim = &proof.claims[0];
        let word = format!(
            "claim=\"series week\",question=\"the machine\",outcome=\"{}\"",
            outcome.word()
        );
        let state = format!("state=\"{state}\"");
        awaited(server.address, "/metrics", &state);
        let surfaces = [
            ("metrics", awaited(server.address, "/metrics", &word)),
            (
                "series",
                awaited(
                    server.address,
                    "/trend?series=week&machine=lab",
                    &proof.sentence,
                ),
            ),
            (
                "machine",
                awaited(server.address, "/machine?name=lab", &proof.sentence),
            ),
        ];
        let mut parts = vec![claim.outcome.word().to_owned(), claim.required.clone()];
        parts.extend([claim.quantity.clone(), claim.evidence.clone()]);
        parts.extend(claim.bound.clone());
        parts.extend(claim.confidence.map(percent));
        parts.extend(claim.condition.clone());
        parts.extend(claim.lacking.iter().cloned());
        for (surface, text) in &surfaces {
            for part in &parts {
                assert!(text.contains(part), "{surface} lacks '{part}': {text}");
            }
        }
        match alert {
            None => assert!(receiver.more(Duration::from_millis(500)).is_none()),
            Some(name) => {
                let sent: serde_json::Value = serde_json::from_slice(&receiver.next()).unwrap();
                let sent = &sent["alerts"][0];
                assert_eq!(sent["labels"]["alertname"], name);
                assert_eq!(sent["labels"]["series"], "week");
                assert!(sent.to_string().contains(&claim.evidence), "{sent}");
            }
        }
        server.stop();
    }
}
