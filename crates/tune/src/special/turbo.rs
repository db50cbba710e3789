//! Whether the processor may run above its nominal frequency: `no_turbo` of
//! intel_pstate, or `boost` of cpufreq. The first is the other way round.

use super::{Special, may_write, on_or_off, read, write};
use crate::knob::Context;
use crate::site::Site;
use crate::{Knob, TuneError};

const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";

pub(crate) struct Turbo;

/// The file there is, and what is in it when turbo is on.
fn file(site: &Site<'_>) -> (&'static str, &'static str, &'static str) {
    match site.files.exists(&site.below(NO_TURBO)) {
        true => (NO_TURBO, "0", "1"),
        false => (BOOST, "1", "0"),
    }
}

impl Special for Turbo {
    fn path(&self) -> &'static str {
        "/sys/devices/system/cpu/intel_pstate/no_turbo or /sys/devices/system/cpu/cpufreq/boost"
    }

    fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError> {
        let there = site.files.exists(&site.below(file(site).0));
        Ok(there.then(String::new).into_iter().collect())
    }

    fn read(&self, site: &Site<'_>, _: &str) -> Result<String, TuneError> {
        let (file, on, _) = file(site);
        let text = read(site, file)?;
        Ok(if text == on { "on" } else { "off" }.to_owned())
    }

    fn write(&self, site: &Site<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        let (file, on, off) = file(site);
        write(site, file, if value == "on" { on } else { off })
    }

    fn may_write(&self, site: &Site<'_>, _: &str) -> Result<(), TuneError> {
        may_write(site, file(site).0)
    }

    fn resolve(
        &self,
        knob: &Knob,
        _: &Site<'_>,
        _: &str,
        asked: &str,
        _: &Context,
    ) -> Result<Option<String>, TuneError> {
        on_or_off(knob, asked).map(Some)
    }
}
