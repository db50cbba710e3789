//! `exec`: run a command, or change running threads, with policy, priority, CPUs,
//! limits and idle latency, like chrt and taskset.

mod dangers;
mod running;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use punctual_host::Host;
use punctual_model::{CpuSet, Nanos};
use punctual_rt::{DmaLatency, Policy, ThreadRef, affinity};
use punctual_session::real_time_refused;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use super::{Verb, parsed};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb { command, run };

fn command() -> Command {
    let number = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let time = |name: &'static str, help: &'static str| {
        number(name, "TIME", help).value_parser(parsed::<Nanos>())
    };
    Command::new("exec")
        .about("Run a command with a policy, priority, CPUs and limits")
        .long_about(
            "Run a command with a scheduling policy, priority, CPUs, limits and idle latency, in \
             place of this program (its exit code and signals are the command's own); or, with \
             --pid, apply them to a running process or thread.\n\n\
             Priority 99 is refused, because the kernel's watchdog and migration threads use it. A \
             priority above that of the kernel's interrupt threads causes a warning. --force \
             allows both without a warning. Children of a deadline command run with the normal policy: \
             a deadline is not inherited.\n\n\
             A command does not inherit locked memory: --mlock lifts its limit, so that its own \
             mlockall() succeeds.\n\n\
             Exit code: the command's; 127 if it does not exist, 126 if it cannot be run, 1 if a \
             setting is refused.",
        )
        .arg(
            Arg::new("policy")
                .long("policy")
                .value_name("POLICY")
                .value_parser(["other", "batch", "idle", "fifo", "rr", "deadline"])
                .help("other, batch, idle, fifo, rr or deadline"),
        )
        .arg(
            number(
                "priority",
                "1-99",
                "Priority of fifo and rr; fifo where no policy is given",
            )
            .short('p')
            .value_parser(value_parser!(u8).range(1..=99)),
        )
        .arg(
            number("nice", "N", "Niceness of other and batch, -20 to 19")
                .allow_negative_numbers(true)
                .value_parser(value_parser!(i32).range(-20..=19)),
        )
        .arg(time("runtime", "deadline: CPU time in each period"))
        .arg(time(
            "deadline",
            "deadline: relative deadline from the start of a period [default: the period]",
        ))
        .arg(time("period", "deadline: period"))
        .arg(
            number("cpus", "LIST", "CPUs to run on: 3, 2-3,6")
                .short('c')
                .value_parser(parsed::<CpuSet>()),
        )
        .arg(
            Arg::new("mlock")
                .long("mlock")
                .action(ArgAction::SetTrue)
                .help("Lift the limit of locked memory, so that mlockall() succeeds"),
        )
        .arg(
            number(
                "dma-latency",
                "US",
                "Limit idle exit latency (/dev/cpu_dma_latency) for the command; 0: no sleep",
            )
            .value_parser(value_parser!(i32).range(0..)),
        )
        .arg(
            Arg::new("force")
                .long("force")
                .action(ArgAction::SetTrue)
                .help("Allow priority 99 and suppress warnings"),
        )
        .arg(
            number(
                "pid",
                "PID",
                "Process or thread to change, instead of a command",
            )
            .value_parser(value_parser!(i32).range(1..)),
        )
        .arg(
            Arg::new("all-threads")
                .long("all-threads")
                .requires("pid")
                .action(ArgAction::SetTrue)
                .help("Change all threads of the process"),
        )
        .arg(
            Arg::new("command")
                .value_name("CMD")
                .num_args(1..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .help("Command with its arguments"),
        )
        .group(
            ArgGroup::new("what")
                .args(["command", "pid"])
                .required(true),
        )
}

/// The settings of a thread.
struct Wish {
    policy: Option<Policy>,
    cpus: Option<CpuSet>,
    mlock: bool,
    dma_latency: Option<i32>,
}

fn run(matches: &ArgMatches, _: &Context) -> Result<Exit> {
    let wish = wish(matches)?;
    let force = matches.get_flag("force");
    let host = Host::live();
    if let (Some(policy), false) = (&wish.policy, force) {
        dangers::refuse_highest(policy)?;
        for warning in dangers::warnings(policy, wish.cpus.as_ref(), &host) {
            output::note(&warning);
        }
    }
    match matches.get_one::<i32>("pid") {
        Some(pid) => running::change(*pid, matches.get_flag("all-threads"), &wish, &host),
        None => become_command(matches, &wish, &host),
    }
}

fn wish(matches: &ArgMatches) -> Result<Wish> {
    let wish = Wish {
        policy: policy(matches)?,
        cpus: matches.get_one::<CpuSet>("cpus").cloned(),
        mlock: matches.get_flag("mlock"),
        dma_latency: matches.get_one::<i32>("dma-latency").copied(),
    };
    if wish.dma_latency.is_some() && matches.contains_id("pid") {
        return Err(UsageError(
            "--dma-latency is held by the command; --pid has none (punctual \
             tune holds it without a command)"
                .to_owned(),
        )
        .into());
    }
    if let (Some(Policy::Deadline { .. }), Some(cpus)) = (&wish.policy, &wish.cpus) {
        return Err(UsageError(format!(
            "--cpus {cpus} with --policy deadline: the kernel admits a deadline thread only where \
             it may run on all CPUs of its root domain; make a cpuset partition for it"
        ))
        .into());
    }
    Ok(wish)
}

/// The policy of the options, if any.
fn policy(matches: &ArgMatches) -> Result<Option<Policy>> {
    let priority = matches.get_one::<u8>("priority").copied();
    let nice = matches.get_one::<i32>("nice").copied();
    let time = |name: &str| {
        matches
            .get_one::<Nanos>(name)
            .map(|time| Duration::from_nanos(time.0))
    };
    let name = match matches.get_one::<String>("policy").map(String::as_str) {
        Some(name) => name,
        None if priority.is_some() => "fifo",
        None if nice.is_some() => "other",
        None if time("runtime").is_some() => "deadline",
        None => return Ok(None),
    };
    let unfit = |option: &str| UsageError(format!("--{option} is not for --policy {name}"));
    let real_time = matches!(name, "fifo" | "rr");
    if priority.is_some() && !real_time {
        return Err(unfit("priority").into());
    }
    if nice.is_some() && !matches!(name, "other" | "batch") {
        return Err(unfit("nice").into());
    }
    let times = ["runtime", "deadline", "period"];
    if let Some(option) = times
        .iter()
        .find(|o| time(o).is_some() && name != "deadline")
    {
        return Err(unfit(option).into());
    }
    let needed = |option: &str| UsageError(format!("--policy {name} needs --{option}"));
    let policy = match name {
        "batch" => Policy::Batch {
            nice: nice.unwrap_or(0),
        },
        "idle" => Policy::Idle,
        "fifo" => Policy::Fifo {
            priority: priority.ok_or_else(|| needed("priority"))?,
        },
        "rr" => Policy::RoundRobin {
            priority: priority.ok_or_else(|| needed("priority"))?,
        },
        "deadline" => {
            let period = time("period").ok_or_else(|| needed("period"))?;
            Policy::Deadline {
                runtime: time("runtime").ok_or_else(|| needed("runtime"))?,
                deadline: time("deadline").unwrap_or(period),
                period,
            }
        }
        _ => Policy::Other {
            nice: nice.unwrap_or(0),
        },
    };
    policy
        .check()
        .map_err(|error| UsageError(error.to_string()))?;
    Ok(Some(policy))
}

/// Sets all on this process, and executes the command.
fn become_command(matches: &ArgMatches, wish: &Wish, host: &Host) -> Result<Exit> {
    let words: Vec<&String> = matches.get_many("command").into_iter().flatten().collect();
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| UsageError("the command is missing".to_owned()))?;
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
    // Last: from here on this program has the command's priority.
    if let Some(policy) = &wish.policy {
        let set = punctual_rt::set_policy(ThreadRef::Current, policy);
        set.map_err(|error| real_time_refused(error, host, None))?;
    }
    let error = process::Command::new(program).args(arguments).exec();
    // Same codes as a shell, env(1) and nice(1), distinct from the command's.
    output::note(&format!("cannot run {program}: {error}"));
    Ok(match error.kind() {
        std::io::ErrorKind::NotFound => Exit::CommandNotFound,
        _ => Exit::CommandNotRun,
    })
}

/// Lifts the limit of locked memory, of a process or of this one.
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
        // Enough, if it was unlimited before, or if the limit has no effect.
        if pid.is_none() && (now.current.is_none() || punctual_rt::may_lock_memory()) {
            return Ok(());
        }
        let now = now
            .maximum
            .map_or("unlimited".to_owned(), |bytes| format!("{bytes} bytes"));
        return Err(error).with_context(|| {
            format!(
                "the limit of locked memory cannot be lifted (its maximum is {now}): it needs \
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
        wish(&command().try_get_matches_from(words).unwrap())
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
