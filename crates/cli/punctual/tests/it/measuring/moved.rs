//! Tests that a run ends if a measuring thread is taken off its CPU, because its figures would then
//! belong to another CPU.

use std::fs;

use punctual_model::Completion;
use punctual_rt::{ThreadRef, Tid, affinity};

use super::PLAIN;
use crate::common::{Sandbox, eventually, text};

/// Returns the measuring thread of a CPU.
fn thread_of(process: u32, cpu: u32) -> Option<Tid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let comm = fs::read_to_string(task.path().join("comm")).ok()?;
        let tid = task.file_name().to_str()?.parse().ok()?;
        (comm.trim_end() == format!("timer/{cpu}")).then(|| Tid::from_raw(tid))?
    })
}

#[test]
fn run_ends_when_its_cpu_is_taken() {
    let cpus = affinity::current().unwrap();
    let [cpu, other, ..] = cpus[..] else {
        punctual_testing::skip!(Hardware, "only one CPU");
        return;
    };
    let place = Sandbox::new();
    let mut run = place.spawn(&format!("{PLAIN} --cpus {cpu} -D 600s"));
    place.wait_for_rows();
    let tid = thread_of(run.id(), cpu).unwrap();
    affinity::set(ThreadRef::Tid(tid), &[other]).unwrap();
    let ended = eventually(|| run.try_wait().unwrap().is_some());
    if !ended {
        run.kill().unwrap();
    }
    let output = run.wait_with_output().unwrap();
    assert!(ended, "the run goes on");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Interrupted);
    let expected =
        format!("the thread of CPU {cpu} was taken off its CPU and may run on CPU {other}");
    let warned = (recording.warnings.iter()).any(|warning| warning.contains(&expected));
    assert!(warned, "{:?}", recording.warnings);
}
