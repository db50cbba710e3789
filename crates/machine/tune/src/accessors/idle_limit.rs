//! Limits idle states by their exit latency, by disabling deeper states (`cpuidle/stateN/disable`
//! of each CPU).

use punctual_host::Host;
use punctual_model::{CpuSet, Setting, path_of, row_of};

use crate::TuneError;
use crate::access::{Access, Ask, invalid, may_write, read, write};
use crate::fs::Files;
use crate::pattern::Pattern;
use crate::target::Target;

const STATES: &str = path_of(NAME);
const LATENCY: Pattern = Pattern("/sys/devices/system/cpu/cpu#/cpuidle/state#/latency");

/// Maximum value: one second. Leaving an idle state never takes that long.
const MOST_US: u64 = 1_000_000;

pub(crate) struct IdleLimit;

/// Name of this setting.
const NAME: &str = "idle-limit-us";

/// Returns the idle states of `cpus` that are deeper than state `deepest` (all of them for -1), as
/// instances of `idle-limit-us`. Also returns the number of idle states that these CPUs have.
pub fn deeper_idle_states(
    host: &Host,
    cpus: &CpuSet,
    deepest: i64,
) -> (&'static Setting, Vec<String>, usize) {
    let number = |text: &str, before: &str| text.strip_prefix(before)?.parse::<u32>().ok();
    let mut states = Pattern(STATES).instances(&Target::plain(&Files, host));
    states.retain(|instance| {
        let cpu = instance
            .split('/')
            .next()
            .and_then(|cpu| number(cpu, "cpu"));
        cpu.is_some_and(|cpu| cpus.contains(cpu))
    });
    let all = states.len();
    states.retain(|instance| {
        let state = instance.split('/').nth(1);
        let state = state.and_then(|state| number(state, "state"));
        state.is_some_and(|state| i64::from(state) > deepest)
    });
    (row_of(NAME), states, all)
}

fn file(instance: &str) -> Result<String, TuneError> {
    Pattern(STATES)
        .path(instance)
        .ok_or_else(|| TuneError::NoInstance {
            setting: format!("{NAME}@{instance}"),
            there: "the name is not valid".to_owned(),
        })
}

impl Access for IdleLimit {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        Ok(Pattern(STATES).instances(target))
    }

    fn read(&self, target: &Target<'_>, instance: &str) -> Result<String, TuneError> {
        read(target, &file(instance)?)
    }

    fn write(&self, target: &Target<'_>, instance: &str, value: &str) -> Result<(), TuneError> {
        write(target, &file(instance)?, value)
    }

    fn may_write(&self, target: &Target<'_>, instance: &str) -> Result<(), TuneError> {
        may_write(target, &file(instance)?)
    }

    fn holds(&self, instance: &str, value: &str) -> bool {
        file(instance).is_ok() && value.parse::<u32>().is_ok()
    }

    fn readable(&self, value: &str) -> String {
        match value {
            "0" => "allowed".to_owned(),
            "1" => "disabled".to_owned(),
            other => other.to_owned(),
        }
    }

    /// Leaves states with a shorter exit latency as they are, because someone may have disabled one
    /// of them for a reason.
    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            target,
            instance,
            asked,
            ..
        } = ask;
        let limit: u64 = asked
            .parse()
            .ok()
            .filter(|limit| *limit <= MOST_US)
            .ok_or_else(|| invalid(setting, instance, asked))?;
        let latency = LATENCY
            .path(instance)
            .and_then(|file| target.text(&file)?.parse::<u64>().ok());
        match latency {
            Some(latency) => Ok((latency > limit).then(|| "1".to_owned())),
            None => Err(TuneError::Refused {
                setting: setting.named(instance),
                reason: "the kernel reports no exit latency of this state".to_owned(),
            }),
        }
    }
}
