//! Idle states by how long it takes to leave them: the deeper ones are disabled
//! (`cpuidle/stateN/disable`, of each CPU).

use super::{Special, invalid, may_write, read, write};
use crate::knob::{Context, Pattern};
use crate::site::Site;
use crate::{Knob, TuneError};

const STATES: &str = "/sys/devices/system/cpu/cpu#/cpuidle/state#/disable";
const LATENCY: Pattern = Pattern("/sys/devices/system/cpu/cpu#/cpuidle/state#/latency");

/// A second: no state takes as long.
const MOST_US: u64 = 1_000_000;

pub(crate) struct IdleLimit;

fn file(instance: &str) -> Result<String, TuneError> {
    Pattern(STATES)
        .path(instance)
        .ok_or_else(|| TuneError::NoInstance {
            setting: format!("idle-limit-us@{instance}"),
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
