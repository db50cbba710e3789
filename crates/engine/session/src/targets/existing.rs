//! Lists what runs on the machine, for a request that matches nothing.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use punctual_host::Host;
use punctual_model::{TaskKind, TaskRecord, listed};

/// Number of names that a list contains.
const LISTED: usize = 8;

/// Returns the programs and threads, those with the most similar names first.
pub(super) fn names(comm: &str, host: &Host) -> String {
    let names = programs(host).into_iter().map(|task| task.comm);
    named("running names", &alike(comm, names))
}

/// Returns the processes, the latest first: a process that restarted is among these.
pub(super) fn processes(host: &Host) -> String {
    let mut all = programs(host);
    all.retain(|task| task.pid == task.tid);
    all.sort_by_key(|task| Reverse((task.started_ticks, task.pid)));
    let names = all
        .iter()
        .map(|task| format!("{} (pid {})", task.comm, task.pid));
    named("processes that started last", &names.collect::<Vec<_>>())
}

/// Returns the services of systemd, those with the most similar names first.
pub(super) fn services(unit: &str, host: &Host) -> String {
    let groups = host.services_of(&host.processes()).into_iter();
    let names = groups.filter_map(|group| group.rsplit('/').next().map(str::to_owned));
    named("running services", &alike(unit, names))
}

/// Returns the control groups with processes, those with the most similar names first.
pub(super) fn groups(path: &str, host: &Host) -> String {
    let groups = host.groups_of(&host.processes());
    named("control groups with processes", &alike(path, groups))
}

/// Returns the threads of all programs but this one.
fn programs(host: &Host) -> Vec<TaskRecord> {
    let own = std::process::id();
    let mut tasks = host.tasks();
    tasks.retain(|task| task.kind == TaskKind::User && task.pid != own);
    tasks
}

/// Returns each name once, the most similar first.
fn alike(asked: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let names: BTreeSet<String> = names.into_iter().collect();
    let mut names: Vec<String> = names.into_iter().collect();
    let unlike = |name: &String| 1.0 - strsim::jaro_winkler(asked, name);
    names.sort_by(|a, b| unlike(a).total_cmp(&unlike(b)));
    names
}

fn named(what: &str, names: &[String]) -> String {
    match names {
        [] => format!("{what}: none"),
        names => format!("{what}: {}", listed(names, LISTED)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names_come_first_and_lists_end() {
        let names = (0..30).map(|number| format!("worker{number}"));
        let names = names.chain(["motion", "motor", "motion"].map(str::to_owned));
        let text = named("running names", &alike("motoin", names));
        assert!(
            text.starts_with("running names: motion, motor, worker"),
            "{text}"
        );
        assert!(text.ends_with(" and 24 more"), "{text}");
        assert_eq!(named("running services", &[]), "running services: none");
    }
}
