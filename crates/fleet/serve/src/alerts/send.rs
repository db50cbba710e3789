//! Sends alerts to a webhook and to a command.
//! <https://prometheus.io/docs/alerting/latest/configuration/#webhook_config>

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_files::Budget;
use punctual_push::protocol::sha256;
use serde_json::{Value, json};

use super::Alerts;
use super::error::AlertError;
use super::state::{Standing, State};

/// Maximum time for a receiver to answer. A slower receiver is tried again later.
const PATIENCE: Duration = Duration::from_secs(20);
/// The path of Alertmanager's own API.
const OWN_API: &str = "/api/v2/alerts";

/// Sends the unsent alerts, and marks them as sent. Returns the failures.
pub(super) fn all(config: &Alerts, state: &mut State) -> Vec<AlertError> {
    let mut failed = Vec::new();
    if let Some(url) = &config.webhook {
        if url.ends_with(OWN_API) {
            // Alertmanager drops alerts unless they are sent repeatedly.
            let all: Vec<Value> = (state.alerts.iter())
                .map(|(key, one)| alert(config, key, one))
                .collect();
            let sent = all.is_empty() || keep(&mut failed, post(url, &json!(all)));
            if sent {
                state
                    .alerts
                    .values_mut()
                    .for_each(|one| one.sent.webhook = true);
            }
        } else {
            for (key, one) in state.alerts.iter_mut().filter(|(_, one)| !one.sent.webhook) {
                let payload = payload(config, key, one);
                one.sent.webhook = keep(&mut failed, post(url, &payload));
            }
        }
    }
    if !config.command.is_empty() {
        for (key, one) in state.alerts.iter_mut().filter(|(_, one)| !one.sent.command) {
            let payload = payload(config, key, one);
            one.sent.command = keep(&mut failed, run(&config.command, &payload));
        }
    }
    let (webhook, command) = (config.webhook.is_none(), config.command.is_empty());
    state.alerts.retain(|_, one| {
        let sent = (one.sent.webhook || webhook) && (one.sent.command || command);
        one.ended.is_none() || !sent
    });
    failed
}

fn keep(failed: &mut Vec<AlertError>, result: Result<(), AlertError>) -> bool {
    let is_sent = result.is_ok();
    failed.extend(result.err());
    is_sent
}

fn labels(one: &Standing) -> BTreeMap<&'static str, String> {
    let mut labels = BTreeMap::from([
        ("alertname", one.alert.kind.name().to_owned()),
        ("severity", one.alert.kind.severity().to_owned()),
    ]);
    for (name, value) in [
        ("machine", &one.alert.machine),
        ("series", &one.alert.series),
    ] {
        if !value.is_empty() {
            labels.insert(name, value.clone());
        }
    }
    labels
}

/// Returns an alert in Alertmanager's format.
fn alert(config: &Alerts, key: &str, one: &Standing) -> Value {
    let hash = sha256(key.as_bytes());
    let fingerprint = &hash[..16];
    let mut alert = json!({
        "status": status(one),
        "labels": labels(one),
        "annotations": {
            "summary": one.alert.summary,
            "link": format!("{}{}", config.link, one.alert.path),
        },
        "startsAt": one.alert.since.to_string(),
        "generatorURL": format!("{}{}", config.link, one.alert.path),
        "fingerprint": fingerprint,
    });
    if let Some(ended) = one.ended {
        alert["endsAt"] = json!(ended.to_string());
    }
    alert
}

fn status(one: &Standing) -> &'static str {
    match one.ended {
        None => "firing",
        Some(_) => "resolved",
    }
}

/// Returns a webhook payload, version 4, with one alert.
fn payload(config: &Alerts, key: &str, one: &Standing) -> Value {
    let alert = alert(config, key, one);
    json!({
        "version": "4",
        "groupKey": format!("{{}}:{{alertname=\"{}\"}}:{key}", one.alert.kind.name()),
        "truncatedAlerts": 0,
        "status": status(one),
        "receiver": "punctual",
        "groupLabels": {"alertname": one.alert.kind.name()},
        "commonLabels": alert["labels"],
        "commonAnnotations": alert["annotations"],
        "externalURL": config.link,
        "alerts": [alert],
    })
}

fn post(url: &str, body: &Value) -> Result<(), AlertError> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .build()
        .into();
    let sent = agent
        .post(url)
        .header("Content-Type", "application/json")
        .send(body.to_string().as_bytes());
    sent.map(drop).map_err(|source| AlertError::Webhook {
        url: url.to_owned(),
        source,
    })
}

/// Runs a command with the payload on stdin, and kills it if it takes too long.
fn run(command: &[String], payload: &Value) -> Result<(), AlertError> {
    let (program, arguments) = command.split_first().ok_or(AlertError::NoCommand)?;
    let program = || program.clone();
    let failed = |source| AlertError::Command {
        program: program(),
        source,
    };
    let mut child = Command::new(program())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // The command may ignore its input. One alert fits into a pipe buffer, so this does not
        // block.
        let _ = stdin.write_all(payload.to_string().as_bytes());
    }
    let program = program();
    match Budget::time(PATIENCE).end(&mut child) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(AlertError::Status { program, status }),
        Err(error) if error.kind() == ErrorKind::TimedOut => Err(AlertError::TooLong { program }),
        Err(source) => Err(AlertError::Command { program, source }),
    }
}
