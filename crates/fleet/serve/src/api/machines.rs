//! Machines, what was put aside, and the audit log, as JSON.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use punctual_model::{Nanos, RecordingId};
use serde::Serialize;

use crate::fleet::Judge;
use crate::problem::Problem;
use crate::state::App;

/// A list of what was put aside, or of the audit log, is no longer.
const MOST: usize = 1_000;

/// A machine.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct MachineJson {
    /// Its name.
    name: String,
    /// `broken`, `worse`, `silent`, `not-proven`, `never-measured`, `no-requirement` or
    /// `held`.
    state: &'static str,
    /// When something of it was last received, or measured in this store.
    last_seen: Option<Timestamp>,
    /// Recordings of it.
    recordings: u64,
    /// Its newest recording.
    latest: Option<RecordingId>,
    /// The largest latency of that.
    max_ns: Option<Nanos>,
    /// 99% of its samples were not later.
    p99_ns: Option<Nanos>,
    /// The fingerprint of the machine, in that.
    fingerprint: Option<String>,
}

/// All machines.
pub(super) async fn list(State(app): State<App>) -> Result<Json<Vec<MachineJson>>, Problem> {
    let machines = app.stored(|all| all.machines()).await?;
    let judge = Judge::now(app.config.silent_after, &app.worse);
    let json = machines.into_iter().map(|machine| {
        let latest = machine.latest.as_ref();
        MachineJson {
            state: judge.state_of(&machine).name(),
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

/// A delivery that was put aside.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct QuarantinedJson {
    /// The ID that it was to have.
    id: RecordingId,
    /// The machine that delivered.
    machine: String,
    /// The SHA-256 of its content.
    sha256: String,
    /// When it arrived.
    received: Timestamp,
    /// Why it was put aside.
    reason: String,
    /// Its length.
    bytes: u64,
}

/// What was put aside.
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
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct AuditJson {
    /// When.
    at: Timestamp,
    /// Who.
    who: String,
    /// What was done.
    action: String,
    /// To what.
    what: String,
}

/// The audit log.
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
