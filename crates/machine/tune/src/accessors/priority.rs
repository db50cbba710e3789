//! The scheduling policy and priority of kernel threads, including those that handle interrupts.
//!
//! An instance is identified by a thread's number, start time and name, so that a later thread with
//! the same number is not mistaken for it.

use punctual_model::CpuSet;
use punctual_rt::{Policy, Tid};

use crate::TuneError;
use crate::access::{Access, Ask, invalid};
use crate::pattern::by_number;
use crate::target::Target;

const NAME: &str = "thread-priority";
/// `PF_KTHREAD` from include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

pub(crate) struct ThreadPriority;

/// The contents of /proc/PID/stat (proc_pid_stat(5)).
struct Stat {
    name: String,
    started: u64,
    flags: u64,
    nice: i32,
    priority: u8,
    policy: u32,
}

impl Stat {
    fn read(target: &Target<'_>, tid: u32) -> Option<Self> {
        Self::parse(&target.text(&format!("/proc/{tid}/stat"))?)
    }

    /// The name can contain anything, so fields are counted from the end of the name.
    fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            name: name.to_owned(),
            flags: field(9)?.parse().ok()?,
            nice: field(19)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
            priority: field(40)?.parse().ok()?,
            policy: field(41)?.parse().ok()?,
        })
    }

    fn instance(&self, tid: u32) -> String {
        format!("{tid}/{}/{}", self.started, self.name)
    }
}

fn parts(instance: &str) -> Option<(u32, u64, &str)> {
    let mut parts = instance.splitn(3, '/');
    let tid = parts.next()?.parse().ok()?;
    let started = parts.next()?.parse().ok()?;
    Some((tid, started, parts.next()?))
}

/// Returns the thread, if it is still the same thread.
fn thread(target: &Target<'_>, instance: &str) -> Result<(Tid, Stat), TuneError> {
    let found = parts(instance).and_then(|(tid, started, _)| {
        let stat = Stat::read(target, tid).filter(|stat| stat.started == started)?;
        Some((Tid::from_raw(i32::try_from(tid).ok()?)?, stat))
    });
    found.ok_or_else(|| TuneError::NoInstance {
        setting: format!("{NAME}@{}", ThreadPriority.shown(instance)),
        there: "the thread has ended".to_owned(),
    })
}

fn policy(text: &str) -> Option<Policy> {
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    };
    let priority = || number?.parse().ok();
    let nice = || number.map_or(Some(0), |number| number.parse().ok());
    let policy = match name {
        "fifo" => Policy::Fifo {
            priority: priority()?,
        },
        "rr" => Policy::RoundRobin {
            priority: priority()?,
        },
        "other" => Policy::Other { nice: nice()? },
        "batch" => Policy::Batch { nice: nice()? },
        "idle" if number.is_none() => Policy::Idle,
        _ => return None,
    };
    policy.check().is_ok().then_some(policy)
}

fn word(policy: Policy) -> Option<String> {
    let nice = |name: &str, nice: i32| match nice {
        0 => name.to_owned(),
        _ => format!("{name}:{nice}"),
    };
    Some(match policy {
        Policy::Fifo { priority } => format!("fifo:{priority}"),
        Policy::RoundRobin { priority } => format!("rr:{priority}"),
        Policy::Other { nice: n } => nice("other", n),
        Policy::Batch { nice: n } => nice("batch", n),
        Policy::Idle => "idle".to_owned(),
        Policy::Deadline { .. } => return None,
    })
}

impl Access for ThreadPriority {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let mut found: Vec<String> = target
            .processes()
            .into_iter()
            .filter_map(|tid| Some((tid, Stat::read(target, tid)?)))
            .filter(|(_, stat)| stat.flags & KERNEL_THREAD != 0)
            .map(|(tid, stat)| stat.instance(tid))
            .collect();
        found.sort_by(|a, b| by_number(a, b));
        Ok(found)
    }

    fn aliases(&self, _: &Target<'_>, instance: &str) -> Vec<String> {
        let name = parts(instance).map(|(tid, _, name)| [name.to_owned(), tid.to_string()]);
        name.map(Vec::from).unwrap_or_default()
    }

    fn shown(&self, instance: &str) -> String {
        match parts(instance) {
            Some((tid, _, name)) => format!("{name} ({tid})"),
            None => instance.to_owned(),
        }
    }

    fn read(&self, target: &Target<'_>, instance: &str) -> Result<String, TuneError> {
        let (_, stat) = thread(target, instance)?;
        let refused = |reason: &str| TuneError::Refused {
            setting: format!("{NAME}@{}", self.shown(instance)),
            reason: reason.to_owned(),
        };
        // From include/uapi/linux/sched.h.
        let policy = match stat.policy {
            0 => Policy::Other { nice: stat.nice },
            1 => Policy::Fifo {
                priority: stat.priority,
            },
            2 => Policy::RoundRobin {
                priority: stat.priority,
            },
            3 => Policy::Batch { nice: stat.nice },
            5 if stat.nice == 0 => Policy::Idle,
            _ => {
                return Err(refused("its policy could not be restored exactly"));
            }
        };
        word(policy).ok_or_else(|| refused("its policy has no name"))
    }

    fn write(&self, target: &Target<'_>, instance: &str, value: &str) -> Result<(), TuneError> {
        let setting = || format!("{NAME}@{}", self.shown(instance));
        let (tid, _) = thread(target, instance)?;
        let policy = policy(value).ok_or_else(|| TuneError::Invalid {
            setting: setting(),
            value: value.to_owned(),
            expected: "it is not a policy with a valid priority".to_owned(),
        })?;
        target
            .files
            .schedule(tid, &policy)
            .map_err(|source| TuneError::Schedule {
                setting: setting(),
                source,
            })
    }

    fn holds(&self, instance: &str, value: &str) -> bool {
        parts(instance).is_some() && policy(value).is_some()
    }

    /// Checks the permission by setting the thread's current policy again, because the kernel
    /// requires the same permission for any policy.
    fn may_write(&self, target: &Target<'_>, instance: &str) -> Result<(), TuneError> {
        let now = self.read(target, instance)?;
        self.write(target, instance, &now)
    }

    /// If a kernel thread is bound to one CPU, it is relevant only for that CPU.
    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            target,
            instance,
            asked,
            context,
        } = ask;
        let wanted = policy(asked)
            .and_then(word)
            .ok_or_else(|| invalid(setting, "", asked))?;
        let Some(measured) = &context.measured else {
            return Ok(Some(wanted));
        };
        let tid = parts(instance).map_or(0, |(tid, _, _)| tid);
        let status = target
            .text(&format!("/proc/{tid}/status"))
            .unwrap_or_default();
        let allowed = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .and_then(|list| list.trim().parse::<CpuSet>().ok());
        let elsewhere =
            allowed.is_some_and(|cpus| cpus.len() == 1 && cpus.intersection(measured).is_empty());
        Ok((!elsewhere).then_some(wanted))
    }

    fn is_gone(&self, target: &Target<'_>, instance: &str) -> bool {
        thread(target, instance).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the text of a thread's file `stat`.
    fn stat(nice: i32, priority: u8, policy: u32) -> String {
        format!(
            "7 (x y) S 2 0 0 0 -1 69238848 0 0 0 0 13 76 0 0 20 {nice} 1 0 21 0 0 1 0 0 0 0 0 0 \
             0 2147483647 0 1 0 0 17 0 {priority} {policy} 0 0"
        )
    }

    #[test]
    fn policies_of_threads_are_those_that_can_be_restored() {
        let machine = crate::testing::Machine::new();
        let read = |text: &str, instance: &str| {
            machine.write("proc/7/stat", text);
            let target = Target::plain(&crate::fs::Files, machine.host());
            ThreadPriority
                .read(&target, instance)
                .map_err(|error| error.to_string())
        };
        let own = "7/21/x y";
        for (nice, priority, policy, word) in [
            (0, 0, 0, "other"),
            (-7, 0, 0, "other:-7"),
            (0, 50, 1, "fifo:50"),
            (0, 99, 2, "rr:99"),
            (3, 0, 3, "batch:3"),
            (0, 0, 5, "idle"),
        ] {
            let found = read(&stat(nice, priority, policy), own);
            assert_eq!(found.as_deref(), Ok(word));
        }
        for (nice, policy) in [(1, 5), (0, 6), (0, 4)] {
            let error = read(&stat(nice, 0, policy), own).unwrap_err();
            let why = "thread-priority@x y (7) cannot be changed: its policy could not be restored";
            assert!(error.starts_with(why), "{error}");
        }
        for other in ["7/22/x y", "8/21/x y", "7", "a/21/x", ""] {
            let error = read(&stat(0, 0, 0), other).unwrap_err();
            assert!(error.ends_with("the thread has ended"), "{other}: {error}");
            let target = Target::plain(&crate::fs::Files, machine.host());
            assert!(ThreadPriority.is_gone(&target, other), "{other}");
        }
        let target = Target::plain(&crate::fs::Files, machine.host());
        assert!(!ThreadPriority.is_gone(&target, own));
        let error = ThreadPriority.write(&target, own, "fifo:0").unwrap_err();
        assert!(matches!(error, TuneError::Invalid { .. }), "{error}");
        assert_eq!(word(Policy::Idle).as_deref(), Some("idle"));
    }

    #[test]
    fn policies_are_read_as_they_are_written() {
        for text in ["fifo:50", "rr:1", "other", "other:-5", "batch:19", "idle"] {
            assert_eq!(word(policy(text).unwrap()).unwrap(), text);
        }
        for text in [
            "fifo",
            "fifo:0",
            "fifo:100",
            "other:20",
            "idle:1",
            "deadline:1",
            "",
        ] {
            assert_eq!(policy(text), None, "{text}");
        }
    }

    #[test]
    fn a_thread_may_have_any_name() {
        let rest = "S 2 0 0 0 -1 69238848 0 0 0 0 13 76 0 0 20 -7 1 0 21 0 0 1 0 0 0 0 0 0 0 \
                    2147483647 0 1 0 0 17 0 50 1 0 0";
        let stat = Stat::parse(&format!("14 (irq/1) (x) {rest}")).unwrap();
        assert_eq!(stat.name, "irq/1) (x");
        assert_eq!((stat.started, stat.nice), (21, -7));
        assert_eq!((stat.priority, stat.policy), (50, 1));
        assert!(stat.flags & KERNEL_THREAD != 0);
        let instance = stat.instance(14);
        assert_eq!(parts(&instance), Some((14, 21, "irq/1) (x")));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ -~]{0,60}") {
            let _ = Stat::parse(&text);
            let _ = parts(&text);
            let _ = policy(&text);
        }
    }
}
