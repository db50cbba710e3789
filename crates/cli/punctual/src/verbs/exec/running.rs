//! Changes the settings of running threads: of one thread, or of all threads of a process.

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::{Context as _, Result};
use punctual_host::Host;
use punctual_model::TaskRecord;
use punctual_rt::{Error, ThreadRef, Tid, affinity};
use punctual_session::real_time_refused;
use rustix::process::Pid;

use super::{Wish, lift_memlock};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Maximum number of rounds for a process that keeps starting threads.
const ROUNDS: usize = 10;

/// Changes running threads and returns their state before and after. Threads that start meanwhile
/// are changed in the next round, and threads that end are reported. If a change is refused, the
/// changes before it are reported.
pub(super) fn change(pid: i32, all: bool, wish: &Wish, host: &Host) -> Result<Exit> {
    let wanted = pid.unsigned_abs();
    let mut tasks = running_tasks(wanted, all, host)?;
    let lent = punctual_rt::has_rights_of_its_file();
    if lent {
        refuse_others(&tasks, host)?;
    }
    if wish.mlock {
        lift_memlock(Pid::from_raw(pid))?;
    }
    let (mut text, mut met) = (String::new(), BTreeSet::new());
    for _ in 0..ROUNDS {
        tasks.retain(|task| met.insert((task.tid, task.started_ticks)));
        if tasks.is_empty() {
            break;
        }
        if lent {
            refuse_others(&tasks, host)?;
        }
        for task in &tasks {
            match change_one(task, wish, host) {
                Ok(line) => writeln!(text, "{line}")?,
                Err(error) => {
                    output::print(&text)?;
                    return Err(error);
                }
            }
        }
        if all {
            tasks = host.tasks_of(wanted);
        }
    }
    output::print(&text)?;
    Ok(Exit::Done)
}

/// Returns an error for threads of other users. The capabilities of the program file are meant only
/// for the processes of the user who calls it.
fn refuse_others(tasks: &[TaskRecord], host: &Host) -> Result<()> {
    let user = rustix::process::getuid().as_raw();
    let other = |task: &&TaskRecord| host.sole_user(task.tid) != Some(user);
    match tasks.iter().find(other) {
        Some(task) => anyhow::bail!(
            "thread {} belongs to another user: the capabilities of this program's file apply only \
             to your own processes; use sudo",
            task.tid
        ),
        None => Ok(()),
    }
}

/// Changes one thread and returns the result as one line.
fn change_one(task: &TaskRecord, wish: &Wish, host: &Host) -> Result<String> {
    let thread = Tid::from_raw(task.tid as i32)
        .map(ThreadRef::Tid)
        .with_context(|| format!("{} is not a thread", task.tid))?;
    let ended = || Ok(format!("{} {} has ended meanwhile", task.comm, task.tid));
    let given = match &wish.cpus {
        Some(cpus) => affinity::set(thread, &cpus.iter().collect::<Vec<_>>()),
        None => Ok(()),
    };
    let given = given.and_then(|()| match &wish.policy {
        Some(policy) => punctual_rt::set_policy(thread, policy),
        None => Ok(()),
    });
    match given {
        Err(Error::NoSuchThread { .. }) => return ended(),
        other => other.map_err(|error| real_time_refused(error, host, Some(task.tid)))?,
    }
    let now = host.tasks_of(task.pid);
    match now.into_iter().find(|now| now.tid == task.tid) {
        Some(now) => Ok(difference(task, &now)),
        None => ended(),
    }
}

/// Returns the threads to change: all threads of a process, or the thread with this ID.
fn running_tasks(wanted: u32, all: bool, host: &Host) -> Result<Vec<TaskRecord>> {
    let mut tasks = host.tasks_of(wanted);
    if !all {
        tasks.retain(|task| task.tid == wanted);
    }
    if tasks.is_empty() {
        // The ID may belong to a thread other than the main thread.
        tasks = host.tasks();
        tasks.retain(|task| task.tid == wanted);
    }
    if tasks.is_empty() {
        Err(UsageError(format!("no process or thread {wanted}")).into())
    } else {
        Ok(tasks)
    }
}

fn difference(before: &TaskRecord, now: &TaskRecord) -> String {
    let cpus = |task: &TaskRecord| {
        let known = task.affinity.as_ref().map(ToString::to_string);
        known.unwrap_or_else(|| "unknown".to_owned())
    };
    let changed = |name: &str, before: String, now: String| {
        if before == now {
            format!("{name}{now}")
        } else {
            format!("{name}{before} -> {now}")
        }
    };
    format!(
        "{} {}: {}, {}",
        now.comm,
        now.tid,
        changed("", before.scheduling_text(), now.scheduling_text()),
        changed("CPUs ", cpus(before), cpus(now)),
    )
}
