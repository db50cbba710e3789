//! Simultaneous multithreading (SMT): `smt/control`.

use punctual_model::{Setting, path_of};

use crate::TuneError;
use crate::access::{Access, Ask, may_write, on_or_off, read, write};
use crate::target::Target;

const CONTROL: &str = path_of("smt");

pub(crate) struct Smt;

impl Access for Smt {
    /// The states `notsupported`, `notimplemented` and `forceoff` cannot be changed.
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let can = matches!(target.text(CONTROL).as_deref(), Some("on" | "off"));
        Ok(can.then(String::new).into_iter().collect())
    }

    fn absence(&self, _: &Setting, target: &Target<'_>) -> String {
        match target.text(CONTROL) {
            Some(state) => format!("{CONTROL} reads '{state}'"),
            None => format!("{CONTROL} does not exist"),
        }
    }

    fn read(&self, target: &Target<'_>, _: &str) -> Result<String, TuneError> {
        read(target, CONTROL)
    }

    fn write(&self, target: &Target<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        write(target, CONTROL, value)
    }

    fn may_write(&self, target: &Target<'_>, _: &str) -> Result<(), TuneError> {
        may_write(target, CONTROL)
    }

    fn holds(&self, _: &str, value: &str) -> bool {
        matches!(value, "on" | "off")
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            target,
            asked,
            context,
            ..
        } = ask;
        let wanted = on_or_off(setting, asked)?;
        let measured = context.measured.as_ref();
        // The kernel keeps the first thread of each core.
        let second = |cpu: &u32| {
            let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
            let siblings = target.text(&file).and_then(|text| {
                let siblings: Option<punctual_model::CpuSet> = text.parse().ok();
                siblings?.first()
            });
            siblings.is_some_and(|first| first != *cpu)
        };
        let lost = measured.and_then(|cpus| cpus.iter().find(second));
        match lost {
            Some(cpu) if wanted == "off" => Err(TuneError::Cpus(format!(
                "CPU {cpu} of --cpus is the second thread of its core, and goes offline with {}=off",
                setting.name
            ))),
            _ => Ok(Some(wanted)),
        }
    }
}
