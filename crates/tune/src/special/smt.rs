//! Whether each core runs several threads: `smt/control`.

use super::{Special, may_write, on_or_off, read, write};
use crate::knob::Context;
use crate::site::Site;
use crate::{Knob, TuneError};

const CONTROL: &str = "/sys/devices/system/cpu/smt/control";

pub(crate) struct Smt;

impl Special for Smt {
    fn path(&self) -> &'static str {
        CONTROL
    }

    /// `notsupported`, `notimplemented` and `forceoff` cannot be changed.
    fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError> {
        let can = matches!(site.text(CONTROL).as_deref(), Some("on" | "off"));
        Ok(can.then(String::new).into_iter().collect())
    }

    fn absence(&self, site: &Site<'_>) -> String {
        match site.text(CONTROL) {
            Some(state) => format!("{CONTROL} says '{state}'"),
            None => format!("{CONTROL} is not there"),
        }
    }

    fn read(&self, site: &Site<'_>, _: &str) -> Result<String, TuneError> {
        read(site, CONTROL)
    }

    fn write(&self, site: &Site<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        write(site, CONTROL, value)
    }

    fn may_write(&self, site: &Site<'_>, _: &str) -> Result<(), TuneError> {
        may_write(site, CONTROL)
    }

    fn holds(&self, _: &str, value: &str) -> bool {
        matches!(value, "on" | "off")
    }

    fn resolve(
        &self,
        knob: &Knob,
        site: &Site<'_>,
        _: &str,
        asked: &str,
        context: &Context,
    ) -> Result<Option<String>, TuneError> {
        let target = on_or_off(knob, asked)?;
        let measured = context.measured.as_ref();
        // The kernel keeps the first thread of each core.
        let second = |cpu: &u32| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let siblings = site.text(&file).and_then(|text| {
                let siblings: Option<punctual_model::CpuSet> = text.parse().ok();
                siblings?.first()
            });
            siblings.is_some_and(|first| first != *cpu)
        };
        let lost = measured.and_then(|cpus| cpus.iter().find(second));
        match lost {
            Some(cpu) if target == "off" => Err(TuneError::Cpus(format!(
                "CPU {cpu} of --cpus is the second thread of its core, and goes offline with {}=off",
                knob.name
            ))),
            _ => Ok(Some(target)),
        }
    }
}
