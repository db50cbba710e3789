//! Whether the processor may run above its nominal frequency: `no_turbo` of intel_pstate, whose
//! meaning is inverted, or `boost` of cpufreq.
//!
//! Newer kernels also have a `boost` file for each frequency policy, and writing the global file
//! sets them all (`cpufreq_boost_trigger_state` in drivers/cpufreq/cpufreq.c). Policies that differ
//! from the global state are part of the value, for example `on but policy2`.

use crate::TuneError;
use crate::access::{Access, Ask, may_write, on_or_off, read, write};
use crate::pattern::Pattern;
use crate::target::Target;

const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
const OF_POLICY: Pattern = Pattern("/sys/devices/system/cpu/cpufreq/policy#/boost");
/// Separator between the global state and the policies that differ from it.
const BUT: &str = " but ";

pub(crate) struct Turbo;

/// Returns the file that exists on this machine, and the contents that it has for turbo on and
/// turbo off.
fn file(target: &Target<'_>) -> (&'static str, &'static str, &'static str) {
    if target.files.exists(&target.below(NO_TURBO)) {
        (NO_TURBO, "0", "1")
    } else {
        (BOOST, "1", "0")
    }
}

impl Access for Turbo {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let there = target.files.exists(&target.below(file(target).0));
        Ok(there.then(String::new).into_iter().collect())
    }

    fn read(&self, target: &Target<'_>, _: &str) -> Result<String, TuneError> {
        let (file, on, _) = file(target);
        let text = read(target, file)?;
        let word = if text == on { "on" } else { "off" };
        if file != BOOST {
            return Ok(word.to_owned());
        }
        let mut others = Vec::new();
        for policy in OF_POLICY.instances(target) {
            let Some(file) = OF_POLICY.path(&policy) else {
                continue;
            };
            if read(target, &file)? != text {
                others.push(policy);
            }
        }
        Ok(if others.is_empty() {
            word.to_owned()
        } else {
            format!("{word}{BUT}{}", others.join(" "))
        })
    }

    fn write(&self, target: &Target<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        let (file, on, off) = file(target);
        let (word, others) = value.split_once(BUT).unwrap_or((value, ""));
        let (text, other) = if word == "on" { (on, off) } else { (off, on) };
        write(target, file, text)?;
        for policy in others.split_whitespace() {
            if let Some(file) = OF_POLICY.path(policy) {
                write(target, &file, other)?;
            }
        }
        Ok(())
    }

    fn may_write(&self, target: &Target<'_>, _: &str) -> Result<(), TuneError> {
        may_write(target, file(target).0)
    }

    fn holds(&self, _: &str, value: &str) -> bool {
        let (word, others) = value.split_once(BUT).unwrap_or((value, ""));
        let mut others = others.split_whitespace();
        matches!(word, "on" | "off") && others.all(|policy| OF_POLICY.path(policy).is_some())
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask { setting, asked, .. } = ask;
        on_or_off(setting, asked).map(Some)
    }
}
