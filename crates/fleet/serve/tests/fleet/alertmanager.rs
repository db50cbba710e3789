//! Tests that a real Alertmanager accepts our alerts, and that its webhooks have the same format as
//! ours.

use std::time::Duration;

use serde_json::{Value, json};

use crate::alerts::{alerts, judged, serve};
use crate::place::{Sandbox, deliver};
use crate::program::{Program, installed};
use crate::receiver::Receiver;

const NAMES: [&str; 2] = ["prometheus-alertmanager", "alertmanager"];

fn alertmanager(program: &str, place: &Sandbox, receiver: &Receiver) -> Program {
    let settings = json!({
        "route": {
            "receiver": "hook", "group_by": ["alertname"],
            "group_wait": "100ms", "group_interval": "200ms",
        },
        "receivers": [{
            "name": "hook",
            "webhook_configs": [{"url": format!("http://{}/hook", receiver.address)}],
        }],
    });
    Program::configured(program, place, &settings, |setup| {
        vec![
            format!("--config.file={}", setup.settings),
            format!("--storage.path={}", setup.data),
            format!("--web.listen-address={}", setup.address),
            // Run without a cluster.
            "--cluster.listen-address=".to_owned(),
        ]
    })
}

/// Returns the names and types of all fields, including those of the first alert.
fn form(payload: &Value) -> Vec<String> {
    fn add(path: &str, value: &Value, found: &mut Vec<String>) {
        let kind = match value {
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            _ => "other",
        };
        found.push(format!("{path}: {kind}"));
        if let Value::Object(fields) = value {
            fields
                .iter()
                .for_each(|(name, value)| add(&format!("{path}.{name}"), value, found));
        }
    }
    let mut found = Vec::new();
    add("payload", payload, &mut found);
    add("alert", &payload["alerts"][0], &mut found);
    // Alertmanager writes the year 1 as the end of an active alert.
    found.retain(|field| !field.starts_with("alert.endsAt"));
    found
}

#[test]
fn alertmanager_accepts_and_sends_same_form() {
    let Some(program) = installed(&NAMES) else {
        return;
    };
    let place = Sandbox::new();
    let (ours, theirs) = (Receiver::new(0), Receiver::new(0));
    let alertmanager = alertmanager(program, &place, &theirs);
    alertmanager.until("/api/v2/status", |answer| {
        answer["uptime"].as_str().map(drop)
    });
    let mut config = alerts(&place, &ours);
    let server = serve(&place, &config, None);
    for number in 1..=2 {
        deliver(server.address, &judged(number, true));
    }
    let own: Value = serde_json::from_slice(&ours.next()).unwrap();
    server.stop();
    // Send this alert through Alertmanager.
    config.webhook = Some(format!("http://{}/api/v2/alerts", alertmanager.address));
    config.state = place.file("other-state.json");
    let server = serve(&place, &config, None);
    let standing = alertmanager.until("/api/v2/alerts", |answer| answer.get(0).cloned());
    assert_eq!(standing["labels"]["alertname"], "PunctualRequirementBroken");
    assert_eq!(standing["labels"], own["alerts"][0]["labels"]);
    let sent: Value = serde_json::from_slice(&theirs.next()).unwrap();
    assert_eq!(form(&own), form(&sent), "{own:#}\n{sent:#}");
    assert_eq!(own["alerts"][0]["labels"], sent["alerts"][0]["labels"]);
    assert_eq!(
        own["alerts"][0]["annotations"],
        sent["alerts"][0]["annotations"]
    );
    // The alert also ends in Alertmanager.
    for number in 3..=4 {
        deliver(server.address, &judged(number, false));
    }
    let ended = loop {
        let next = theirs.more(Duration::from_secs(60)).unwrap();
        let next: Value = serde_json::from_slice(&next).unwrap();
        if next["status"] == "resolved" {
            break next;
        }
    };
    assert_eq!(ended["alerts"][0]["status"], "resolved");
}
