//! Idle states by how long it takes to leave them: the deeper ones are disabled
//! (`cpuidle/stateN/disable`, of each CPU).

use punctual_host::Host;
use punctual_model::CpuSet;

use super::{Special, invalid, may_write, read, write};
use crate::knob::{Context, Pattern};
use crate::layer::Files;
use crate::site::Site;
use crate::{Knob, TuneError, knob};

const STATES: &str = "/sys/devices/system/cpu/cpu#/cpuidle/state#/disable";
const LATENCY: Pattern = Pattern("/sys/devices/system/cpu/cpu#/cpuidle/state#/latency");

/// A second: no state takes as long.
const MOST_US: u64 = 1_000_000;

pub(crate) struct IdleLimit;

/// The name of this setting.
const NAME: &str = "idle-limit-us";

/// The idle states of `cpus` that are deeper than state `deepest`, as instances of
/// `idle-limit-us`; with -1 all of them. The second value says how many states these
/// CPUs have.
///
/// # Errors
/// [`TuneError::NoSuchKnob`], never.
pub fn deeper_idle_states(
    host: &Host,
    cpus: &CpuSet,
    deepest: i64,
) -> Result<(&'static Knob, Vec<String>, usize), TuneError> {
    let number = |text: &str, before: &str| text.strip_prefix(before)?.parse::<u32>().ok();
    let mut states = Pattern(STATES).instances(&Site::plain(&Files, host));
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
    Ok((knob(NAME)?, states, all))
}

fn file(instance: &str) -> Result<String, TuneError> {
    Pattern(STATES)
        .path(instance)
        .ok_or_else(|| TuneError::NoInstance {
            setting: format!("{NAME}@{instance}"),
            there: "no such name is possible".to_owned(),
        })
}

impl Special for IdleLimit {
    fn path(&self) -> &'static str {
        STATES
    }

    fn instance_form(&self) -> Option<&'static str> {
        Some("cpu#/state#")
    }

    fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError> {
        Ok(Pattern(STATES).instances(site))
    }

    fn read(&self, site: &Site<'_>, instance: &str) -> Result<String, TuneError> {
        read(site, &file(instance)?)
    }

    fn write(&self, site: &Site<'_>, instance: &str, value: &str) -> Result<(), TuneError> {
        write(site, &file(instance)?, value)
    }

    fn may_write(&self, site: &Site<'_>, instance: &str) -> Result<(), TuneError> {
        may_write(site, &file(instance)?)
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

    /// A state that is left in time stays as it is: who has disabled it had a
    /// reason.
    fn resolve(
        &self,
        knob: &Knob,
        site: &Site<'_>,
        instance: &str,
        asked: &str,
        _: &Context,
    ) -> Result<Option<String>, TuneError> {
        let limit: u64 = asked
            .parse()
            .ok()
            .filter(|limit| *limit <= MOST_US)
            .ok_or_else(|| invalid(knob, instance, asked))?;
        let latency = LATENCY
            .path(instance)
            .and_then(|file| site.text(&file)?.parse::<u64>().ok());
        match latency {
            Some(latency) => Ok((latency > limit).then(|| "1".to_owned())),
            None => Err(TuneError::Refused {
                setting: knob.setting(instance),
                reason: "the kernel does not say how long it takes to leave this state".to_owned(),
            }),
        }
    }
}
