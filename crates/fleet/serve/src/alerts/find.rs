//! Finds the alerts that are active now.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{RecordingId, SeriesProof};
use punctual_stats::trend::{Group, Trend};
use punctual_store::{Collection, Listed, Machine, StoreError, Wanted};

use super::error::AlertError;
use super::state::State;
use super::{Alert, Alerts, Kind};
use crate::paths::{machine_path, trend_path};
use crate::trends::SeriesOf;
use crate::worse::SeriesVerdicts;

/// Maximum number of machines whose recordings are listed per poll; the others follow at the next
/// poll.
const LISTS: usize = 500;
/// Number of recordings that determine how often a machine measures.
const CADENCE: usize = 12;
/// Number of intervals between recordings that are needed to know the slots of a machine.
const LEAST_GAPS: usize = 3;
/// The alert about a disk ends only when this much more than the limit is free, in percent.
const SLACK: f64 = 2.0;

/// State that is kept from poll to poll.
pub(super) struct Found {
    /// Time after which a machine whose slots are unknown is silent.
    silent_after: Duration,
    /// For each machine, its newest recording and the typical interval between recordings.
    cadence: BTreeMap<String, (RecordingId, Option<Duration>)>,
}

impl Found {
    pub(super) const fn new(silent_after: Duration) -> Self {
        Self {
            silent_after,
            cadence: BTreeMap::new(),
        }
    }

    /// Returns all active alerts, by their subject.
    pub(super) fn all(
        &mut self,
        collection: &dyn Collection,
        worse: &SeriesVerdicts,
        config: &Alerts,
        state: &State,
    ) -> Result<BTreeMap<String, Alert>, AlertError> {
        let mut found = BTreeMap::new();
        worsenings(worse, state, &mut found);
        let machines = collection.machines_in_service()?;
        let now = Timestamp::now();
        let mut lists = 0;
        for machine in &machines {
            self.silent(collection, machine, now, &mut lists, &mut found)?;
            broken(collection, config, machine, state, &mut found)?;
        }
        disk(config, state, now, &mut found)?;
        Ok(found)
    }

    /// Adds an alert if the machine has sent nothing for two of its slots, or for the configured
    /// time if its slots are unknown.
    fn silent(
        &mut self,
        collection: &dyn Collection,
        machine: &Machine,
        now: Timestamp,
        lists: &mut usize,
        found: &mut BTreeMap<String, Alert>,
    ) -> Result<(), AlertError> {
        let (Some(seen), Some(latest)) = (machine.last_seen, &machine.latest) else {
            return Ok(());
        };
        let known = self.cadence.get(&machine.name);
        if known.is_none_or(|(id, _)| *id != latest.id) && *lists < LISTS {
            *lists += 1;
            let listed = newest(collection, &machine.name, CADENCE)?;
            let gap = usual_gap(&listed);
            self.cadence.insert(machine.name.clone(), (latest.id, gap));
        }
        let gap = self.cadence.get(&machine.name).and_then(|(_, gap)| *gap);
        let patience = gap.map_or(self.silent_after, |gap| gap * 2);
        let passed = now.duration_since(seen).unsigned_abs();
        if now <= seen || passed <= patience {
            return Ok(());
        }
        let hours = passed.as_secs_f64() / 3_600.0;
        let summary = match gap {
            Some(gap) => format!(
                "nothing received for {hours:.1} h; the usual interval between recordings is \
                 {:.1} h",
                gap.as_secs_f64() / 3_600.0
            ),
            None => format!("nothing received for {hours:.1} h"),
        };
        let alert = Alert {
            kind: Kind::Silent,
            machine: machine.name.clone(),
            series: String::new(),
            summary,
            path: machine_path(&machine.name),
            since: seen,
        };
        found.insert(format!("silent/{}", machine.name), alert);
        Ok(())
    }
}

/// Returns the newest recordings of a machine.
fn newest(
    collection: &dyn Collection,
    machine: &str,
    most: usize,
) -> Result<Vec<Listed>, StoreError> {
    collection.list(&Wanted {
        machine: Some(machine.to_owned()),
        most,
        ..Wanted::default()
    })
}

/// Returns the median interval between the starts of recordings, which are listed newest first.
fn usual_gap(listed: &[Listed]) -> Option<Duration> {
    let starts = listed.iter().map(|one| one.summary.started);
    let starts: Vec<Timestamp> = starts.collect();
    let pairs = starts.windows(2);
    let mut gaps: Vec<Duration> = pairs
        .map(|pair| pair[0].duration_since(pair[1]).unsigned_abs())
        .collect();
    gaps.sort_unstable();
    (gaps.len() >= LEAST_GAPS).then(|| gaps[gaps.len() / 2])
}

/// Adds the open regressions, and the verdicts over the runs of sampled series. A change point can move by a few runs as more runs arrive. It counts
/// as the same one within its interval.
fn worsenings(worse: &SeriesVerdicts, state: &State, found: &mut BTreeMap<String, Alert>) {
    let Some(look) = worse.last() else { return };
    let limit = look.alarm_limit();
    for judged in &look.all {
        let of = &judged.of;
        match &judged.trend {
            Ok(trend) => {
                for group in &trend.groups {
                    of_group(of, (trend, group), (limit, state), found);
                }
            }
            Err(_) => keep(&prefix("worse", of), state, found),
        }
        match &judged.proof {
            Ok(proof) => {
                let alert = proof.as_ref().and_then(|proof| unproven(of, proof));
                found.extend(alert.map(|alert| (prefix("proof", of), alert)));
            }
            Err(_) => keep(&prefix("proof", of), state, found),
        }
    }
}

/// Keeps the active alerts of a series that cannot be read at the moment.
fn keep(prefix: &str, state: &State, found: &mut BTreeMap<String, Alert>) {
    let alerts = state.alerts.iter();
    let kept = alerts.filter(|(key, one)| key.starts_with(prefix) && one.ended.is_none());
    found.extend(kept.map(|(key, one)| (key.clone(), one.alert.clone())));
}

fn prefix(kind: &str, of: &SeriesOf) -> String {
    let machine = of.machine.as_deref().unwrap_or_default();
    format!("{kind}/{machine}/{}/", of.series)
}

/// Returns the alert about a requirement that is broken over the runs of a period, or that is not
/// proven because runs are missing.
fn unproven(of: &SeriesOf, proof: &SeriesProof) -> Option<Alert> {
    let is_missing = proof.runs.iter().any(|run| run.lacking.is_some());
    let kind = match proof.outcome {
        outcome if outcome.is_bad() => Kind::Broken,
        outcome if outcome.is_open() && is_missing => Kind::NotProven,
        _ => return None,
    };
    Some(Alert {
        kind,
        machine: of.machine.clone().unwrap_or_default(),
        series: of.series.clone(),
        summary: proof.sentence.clone(),
        path: trend_path(of),
        since: proof.from,
    })
}

/// Adds the open regressions of a group with a probability up to `limit`, and those with an active
/// alert.
fn of_group(
    of: &SeriesOf,
    (trend, group): (&Trend, &Group),
    (limit, state): (f64, &State),
    found: &mut BTreeMap<String, Alert>,
) {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for change in group.changes.iter().filter(|change| change.worse) {
        let followed = change.followed.name();
        // Acknowledged changes are counted as well, so that a further regression gets a different
        // number.
        let number = numbers.entry(followed).or_default();
        *number += 1;
        if !change.is_open_worsening() {
            continue;
        }
        let key = format!(
            "{}{}/{followed}/{number}",
            prefix("worse", of),
            group.name()
        );
        if trend.p_of_any(change) > limit && !state.stands(&key) {
            continue;
        }
        let alert = Alert {
            kind: Kind::Worse,
            machine: of.machine.clone().unwrap_or_default(),
            series: of.series.clone(),
            summary: trend.sentence.clone(),
            path: trend_path(of),
            since: change.at,
        };
        found.insert(key, alert);
    }
}

/// Checks machines that broke their requirement in the newest recording, and those with an active
/// alert.
fn broken(
    collection: &dyn Collection,
    config: &Alerts,
    machine: &Machine,
    state: &State,
    found: &mut BTreeMap<String, Alert>,
) -> Result<(), AlertError> {
    let key = format!("broken/{}", machine.name);
    let latest = machine.latest.as_ref();
    let is_broken = latest.is_some_and(|latest| latest.outcome.is_bad());
    if !is_broken && !state.stands(&key) {
        return Ok(());
    }
    let listed = newest(collection, &machine.name, config.of)?;
    let broken = listed.iter().filter(|one| one.summary.outcome.is_bad());
    let broken: Vec<&Listed> = broken.collect();
    if broken.len() < config.broken {
        return Ok(());
    }
    let (number, of) = (broken.len(), listed.len());
    let alert = Alert {
        kind: Kind::Broken,
        machine: machine.name.clone(),
        series: String::new(),
        summary: format!("the requirement was not met in {number} of the newest {of} recordings"),
        path: machine_path(&machine.name),
        since: broken
            .last()
            .map_or_else(Timestamp::now, |one| one.summary.started),
    };
    found.insert(key, alert);
    Ok(())
}

fn disk(
    config: &Alerts,
    state: &State,
    now: Timestamp,
    found: &mut BTreeMap<String, Alert>,
) -> Result<(), AlertError> {
    const KEY: &str = "disk";
    let Some(folder) = &config.disk else {
        return Ok(());
    };
    let disk = rustix::fs::statvfs(folder);
    let disk = disk.map_err(|source| AlertError::Disk {
        folder: folder.clone(),
        source,
    })?;
    let free = disk.f_bavail as f64 / disk.f_blocks.max(1) as f64 * 100.0;
    let slack = if state.stands(KEY) { SLACK } else { 0.0 };
    if free >= config.disk_free + slack {
        return Ok(());
    }
    let alert = Alert {
        kind: Kind::Disk,
        machine: String::new(),
        series: String::new(),
        summary: format!("the disk of the collector is nearly full: {free:.1}% free"),
        path: "/".to_owned(),
        since: now,
    };
    found.insert(KEY.to_owned(), alert);
    Ok(())
}
