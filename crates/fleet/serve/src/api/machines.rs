//! Machines, quarantined deliveries, and the audit log, as JSON.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual_model::{Nanos, RecordingId};
use serde::Serialize;

use crate::fleet::Judge;
use crate::problem::Problem;
use crate::state::App;

/// Maximum number of entries of the quarantine list or the audit log.
const MOST: usize = 1_000;

/// A machine.
#[derive(Serialize)]
pub(crate) struct MachineJson {
    /// The name of the machine.
    name: String,
    /// `broken`, `exceeded`, `worse`, `silent`, `not-proven`, `never-measured`, `no-requirement`, `met`,
    /// `held` or `retired`.
    state: &'static str,
    /// When an administrator took it out of service. Null if it is in service.
    retired: Option<Timestamp>,
    /// When data from the machine was last received, or last measured in this store.
    last_seen: Option<Timestamp>,
    /// The number of recordings of the machine.
    recordings: u64,
    /// The newest recording.
    latest: Option<RecordingId>,
    /// The largest latency of the newest recording.
    max_ns: Option<Nanos>,
    /// The 99th percentile of its samples.
    p99_ns: Option<Nanos>,
    /// The fingerprint of the machine in the newest recording.
    fingerprint: Option<String>,
}

/// Returns all machines.
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<MachineJson>>, Problem> {
    let machines = app.stored(|all| all.machines()).await?;
    let judge = Judge::now(app.config.silent_after, &app.worse);
    let json = machines.into_iter().map(|machine| {
        let latest = machine.latest.as_ref();
        MachineJson {
            state: judge.state_of(&machine).name(),
            retired: machine.retired,
            last_seen: machine.last_seen,
            recordings: machine.recordings,
            latest: latest.map(|latest| latest.id),
            max_ns: latest.and_then(|latest| latest.max_ns),
            p99_ns: latest.and_then(|latest| latest.p99_ns),
            fingerprint: latest.map(|latest| latest.fingerprint.clone()),
            name: machine.name,
        }
    });
    Ok(Json(json.collect()))
}

/// A quarantined delivery.
#[derive(Serialize)]
pub(crate) struct QuarantinedJson {
    /// The ID that it was sent with.
    id: RecordingId,
    /// The machine that sent it.
    machine: String,
    /// The SHA-256 of its content.
    sha256: String,
    /// When it arrived.
    received: Timestamp,
    /// Why it was quarantined.
    reason: String,
    /// Its length in bytes.
    bytes: u64,
}

/// Returns the quarantined deliveries.
pub(super) async fn quarantine(
    State(app): State<App>,
) -> Result<Json<Vec<QuarantinedJson>>, Problem> {
    let all = app.stored(|all| all.quarantined(MOST)).await?;
    let json = all.into_iter().map(|one| QuarantinedJson {
        id: one.id,
        machine: one.machine,
        sha256: one.sha256,
        received: one.received,
        reason: one.reason,
        bytes: one.bytes,
    });
    Ok(Json(json.collect()))
}

/// A line of the audit log.
#[derive(Serialize)]
pub(crate) struct AuditJson {
    /// The time of the action.
    at: Timestamp,
    /// The user or machine.
    who: String,
    /// The action.
    action: String,
    /// The object of the action.
    what: String,
}

/// Returns the audit log.
pub(super) async fn audit(State(app): State<App>) -> Result<Json<Vec<AuditJson>>, Problem> {
    let all = app.stored(|all| all.audit(MOST)).await?;
    let json = all.into_iter().map(|line| AuditJson {
        at: line.at,
        who: line.who,
        action: line.action,
        what: line.what,
    });
    Ok(Json(json.collect()))
}
