//! `exec`: runs a command with a policy, priority, CPUs, limits and idle latency, or changes those
//! of running threads, like chrt and taskset.

mod dangers;
mod running;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::builder::PossibleValue;
use clap::{ArgGroup, Parser, ValueEnum, value_parser};
use punctual_host::Host;
use punctual_model::{CpuSet, Nanos};
use punctual_rt::{DmaLatency, Policy, ThreadRef, affinity};
use punctual_session::real_time_refused;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::measuring::period;
use crate::output;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Exec>("exec");

const LONG: &str = "Run a command with the given scheduling policy, priority, CPUs, limits and \
    idle latency. The command replaces this program, so exit code and signals are those of the \
    command. With --pid, apply the settings to a running process or thread instead.\n\n\
    Priority 99 is refused, because the kernel's watchdog and migration threads use it. A priority \
    above that of the kernel's interrupt threads causes a warning. --force allows both without a \
    warning. Children of a deadline command run with the normal policy: a deadline is not \
    inherited.\n\n\
    A command does not inherit locked memory. --mlock lifts its limit of locked memory, so that \
    its own mlockall() succeeds.\n\n\
    Exit code: that of the command; 127 if the command does not exist, 126 if it cannot be run, 1 \
    if a setting is refused.";

/// Run a command with a policy, priority, CPUs and limits
#[derive(Parser)]
#[command(long_about = LONG)]
#[command(group = ArgGroup::new("what").args(["command", "pid"]).required(true))]
struct Exec {
    /// Scheduling policy
    #[arg(long, value_name = "POLICY")]
    policy: Option<PolicyName>,
    /// Priority of fifo and rr, 1 to 99; implies fifo without --policy
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u8).range(1..=99))]
    priority: Option<u8>,
    /// Niceness of other and batch, -20 to 19
    #[arg(long, value_name = "N", value_parser = value_parser!(i32).range(-20..=19))]
    #[arg(allow_negative_numbers = true)]
    nice: Option<i32>,
    /// deadline: CPU time in each period
    #[arg(long, value_name = "TIME")]
    runtime: Option<Nanos>,
    /// deadline: relative deadline from the start of a period [default: the period]
    #[arg(long, value_name = "TIME")]
    deadline: Option<Nanos>,
    /// deadline: period
    #[arg(long, visible_alias = "rate", value_name = "TIME|HZ", value_parser = period)]
    period: Option<Nanos>,
    /// CPUs to run on: 3, 2-3,6
    #[arg(short = 'a', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Lift the limit of locked memory, so that mlockall() succeeds
    #[arg(long)]
    mlock: bool,
    /// Limit idle exit latency (/dev/cpu_dma_latency) for the command; 0: no idle states
    #[arg(long, value_name = "US", value_parser = value_parser!(i32).range(0..))]
    dma_latency: Option<i32>,
    /// Allow priority 99 and suppress warnings
    #[arg(long)]
    force: bool,
    /// Process or thread to change, instead of a command
    #[arg(long, value_name = "PID", value_parser = value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Change all threads of the process
    #[arg(long, requires = "pid")]
    all_threads: bool,
    /// Command with its arguments
    #[arg(value_name = "CMD", num_args = 1..)]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyName {
    Other,
    Batch,
    Idle,
    Fifo,
    Rr,
    Deadline,
}

/// The settings of a thread.
struct Wish {
    policy: Option<Policy>,
    cpus: Option<CpuSet>,
    mlock: bool,
    dma_latency: Option<i32>,
}

impl Run for Exec {
    fn run(self, _: &Context) -> Result<Exit> {
        let wish = self.wish()?;
        let host = Host::live();
        if let (Some(policy), false) = (&wish.policy, self.force) {
            dangers::refuse_highest(policy)?;
            for warning in dangers::warnings(policy, wish.cpus.as_ref(), &host) {
                output::note(&warning);
            }
        }
        match self.pid {
            Some(pid) => running::change(pid, self.all_threads, &wish, &host),
            None => become_command(&self.command, &wish, &host),
        }
    }
}

impl Exec {
    fn wish(&self) -> Result<Wish> {
        let wish = Wish {
            policy: self.policy()?,
            cpus: self.cpus.clone(),
            mlock: self.mlock,
            dma_latency: self.dma_latency,
        };
        if wish.dma_latency.is_some() && self.pid.is_some() {
            let text = "--dma-latency lasts as long as a command runs, so it cannot be used with \
                --pid: use punctual tune";
            return Err(UsageError(text.to_owned()).into());
        }
        if let (Some(Policy::Deadline { .. }), Some(cpus)) = (&wish.policy, &wish.cpus) {
            return Err(UsageError(format!(
                "--cpus {cpus} with --policy deadline: the kernel admits a deadline thread only if \
                 it may run on all CPUs of its root domain; create a cpuset partition for the \
                 thread"
            ))
            .into());
        }
        Ok(wish)
    }

    /// Returns the scheduling policy that the options request, if any.
    fn policy(&self) -> Result<Option<Policy>> {
        use PolicyName::{Batch, Deadline, Fifo, Idle, Other, Rr};
        let (priority, nice) = (self.priority, self.nice);
        let time = |time: Option<Nanos>| time.map(|time| Duration::from_nanos(time.0));
        let (runtime, deadline) = (time(self.runtime), time(self.deadline));
        let period = time(self.period);
        let kind = match self.policy {
            Some(kind) => kind,
            None if priority.is_some() => Fifo,
            None if nice.is_some() => Other,
            None if runtime.is_some() => Deadline,
            None => return Ok(None),
        };
        let name = kind.to_possible_value();
        let name = name.as_ref().map_or("", PossibleValue::get_name);
        for (option, given, fits) in [
            ("priority", priority.is_some(), matches!(kind, Fifo | Rr)),
            ("nice", nice.is_some(), matches!(kind, Other | Batch)),
            ("runtime", runtime.is_some(), kind == Deadline),
            ("deadline", deadline.is_some(), kind == Deadline),
            ("period", period.is_some(), kind == Deadline),
        ] {
            if given && !fits {
                return Err(UsageError(format!(
                    "--{option} does not apply to --policy \
                    {name}"
                ))
                .into());
            }
        }
        let needed = |option: &str| UsageError(format!("--policy {name} needs --{option}"));
        let nice = nice.unwrap_or(0);
        let policy = match kind {
            Other => Policy::Other { nice },
            Batch => Policy::Batch { nice },
            Idle => Policy::Idle,
            Fifo => Policy::Fifo {
                priority: priority.ok_or_else(|| needed("priority"))?,
            },
            Rr => Policy::RoundRobin {
                priority: priority.ok_or_else(|| needed("priority"))?,
            },
            Deadline => {
                let period = period.ok_or_else(|| needed("period"))?;
                Policy::Deadline {
                    runtime: runtime.ok_or_else(|| needed("runtime"))?,
                    deadline: deadline.unwrap_or(period),
                    period,
                }
            }
        };
        policy
            .check()
            .map_err(|error| UsageError(error.to_string()))?;
        Ok(Some(policy))
    }
}

/// Applies all settings to this process, and executes the command.
fn become_command(words: &[String], wish: &Wish, host: &Host) -> Result<Exit> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| UsageError("no command was given".to_owned()))?;
    if wish.mlock {
        lift_memlock(None)?;
    }
    if let Some(cpus) = &wish.cpus {
        affinity::set(ThreadRef::Current, &cpus.iter().collect::<Vec<_>>())?;
    }
    let held = wish
        .dma_latency
        .map(|micros| DmaLatency::hold(Path::new(DmaLatency::DEFAULT_PATH), micros))
        .transpose()?;
    if let Some(held) = &held {
        held.keep_for_command()?;
    }
    // Set the policy last, because from then on this program runs with the priority of the command.
    if let Some(policy) = &wish.policy {
        let set = punctual_rt::set_policy_for_exec(policy);
        set.map_err(|error| real_time_refused(error, host, None))?;
    }
    let error = process::Command::new(program).args(arguments).exec();
    // These exit codes are the same as those of a shell, env(1) and nice(1), and differ from those
    // of the command.
    output::note(&format!("cannot run {program}: {error}"));
    Ok(match error.kind() {
        std::io::ErrorKind::NotFound => Exit::CommandNotFound,
        _ => Exit::CommandNotRun,
    })
}

/// Removes the limit of locked memory for the process `pid`, or for this process if `pid` is
/// `None`.
fn lift_memlock(pid: Option<Pid>) -> Result<()> {
    let lifted = Rlimit {
        current: None,
        maximum: None,
    };
    let result = match pid {
        Some(pid) => prlimit(Some(pid), Resource::Memlock, lifted).map(|_| ()),
        None => setrlimit(Resource::Memlock, lifted),
    };
    if let Err(error) = result {
        let now = getrlimit(Resource::Memlock);
        // It is not an error if the limit was already unlimited or has no effect.
        if pid.is_none() && (now.current.is_none() || punctual_rt::may_lock_memory()) {
            return Ok(());
        }
        let now = now
            .maximum
            .map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
        return Err(error).with_context(|| {
            format!(
                "cannot lift the limit of locked memory (maximum: {now}): this needs \
                 CAP_SYS_RESOURCE, or a line '@realtime - memlock unlimited' in \
                 /etc/security/limits.conf"
            )
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wish> {
        let words = std::iter::once("exec").chain(line.split_whitespace());
        Exec::try_parse_from(words).unwrap().wish()
    }

    #[test]
    fn options_say_the_policy() {
        let policy = |line: &str| read(line).unwrap().policy.map(|policy| policy.to_string());
        assert_eq!(policy("true"), None);
        assert!(policy("-p 80 true").unwrap().contains("80"));
        assert!(policy("--nice -5 true").unwrap().contains("-5"));
        let times = "--runtime 1ms --period 10ms true";
        assert!(matches!(
            read(times).unwrap().policy,
            Some(Policy::Deadline { deadline, .. }) if deadline == Duration::from_millis(10)
        ));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for line in [
            "--policy other -p 5 true",
            "--policy fifo true",
            "--policy fifo -p 5 --nice 3 true",
            "--policy fifo -p 5 --period 3ms true",
            "--policy deadline --runtime 1ms true",
            "--policy deadline --runtime 5ms --period 1ms true",
            "--policy deadline --runtime 1ms --period 9ms --cpus 0 true",
            "--dma-latency 0 --pid 1",
        ] {
            let error = read(line).err().unwrap_or_else(|| panic!("{line}"));
            assert!(error.is::<UsageError>(), "{line}: {error}");
        }
    }
}
