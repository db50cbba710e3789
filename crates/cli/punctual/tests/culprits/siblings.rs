//! `explain --pid` of a server whose processes wait for their clients, and in their jobs for a lock
//! that they share. PostgreSQL's backends do the same.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::common::Sandbox;
use crate::jobs::built;
use crate::stage::Stage;
use punctual_testing::Running;

const PROCESSES: usize = 4;

#[test]
fn lock_of_siblings_is_no_release_wait() {
    let Some(_stage) = Stage::set(1) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built(&place, "culprits/siblings") else {
        return;
    };
    let server = Command::new(program)
        .arg(PROCESSES.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut server = Running(server.unwrap());
    let output = BufReader::new(server.0.stdout.take().unwrap());
    // The PID, and the descriptors for the client and for the lock.
    let processes: Vec<[u32; 3]> = (output.lines().take(PROCESSES))
        .map(|line| {
            let numbers: Vec<u32> = (line.unwrap().split(' '))
                .map(|number| number.parse().unwrap())
                .collect();
            numbers.try_into().unwrap()
        })
        .collect();
    let pids: Vec<String> = processes.iter().map(|[pid, ..]| pid.to_string()).collect();
    let pids = pids.join(",");
    for detail in ["windows", "full"] {
        place.done(&format!(
            "explain --pid {pids} -q --detail {detail} --budget 100ms -D 2s"
        ));
        let recording = place.last();
        let explanation = recording.explanation.as_ref().unwrap();
        let threads = &explanation.jobs.as_ref().unwrap().threads;
        assert_eq!(threads.len(), PROCESSES, "{threads:?}");
        for one in threads {
            let title = recording.threads[one.thread as usize].title();
            let is_named = |[pid, ..]: &&[u32; 3]| title.ends_with(&format!("-{pid}"));
            let descriptors = processes.iter().find(is_named).unwrap();
            let [_, for_client, for_turn] = descriptors;
            let is = |object: &Option<String>, descriptor: &u32| {
                let object = object.as_deref().unwrap_or_default();
                object.split(" (").next() == Some(&format!("descriptor {descriptor}"))
            };
            let total = |descriptor: &u32| {
                let place = one.wait_calls.iter();
                let place = place.filter(|place| is(&place.object, descriptor));
                place.map(|place| place.total_ns).max()
            };
            let release = one.release.as_ref().unwrap();
            assert!(is(&release.object, for_client), "{detail}: {one:?}");
            assert!(one.jobs > 10, "{detail}: {one:?}");
            // The test is of use only if the choice by length would be wrong.
            assert!(total(for_turn) > total(for_client), "{detail}: {one:?}");
        }
    }
}
