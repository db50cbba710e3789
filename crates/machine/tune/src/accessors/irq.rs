//! The affinity of an interrupt.

use std::io;

use punctual_model::CpuSet;

use crate::TuneError;
use crate::access::{Access, Ask, invalid, may_write, read};
use crate::pattern::by_number;
use crate::target::Target;

const FOLDER: &str = "/proc/irq";

/// Entries in an interrupt's folder that are not folders of devices.
const OWN: &[&str] = &[
    "affinity_hint",
    "effective_affinity",
    "effective_affinity_list",
    "node",
    "smp_affinity",
    "smp_affinity_list",
    "spurious",
];

pub(crate) struct IrqAffinity;

fn file(instance: &str, name: &str) -> Result<String, TuneError> {
    let number = !instance.is_empty() && instance.bytes().all(|byte| byte.is_ascii_digit());
    number
        .then(|| format!("{FOLDER}/{instance}/{name}"))
        .ok_or_else(|| TuneError::NoInstance {
            setting: format!("irq-affinity@{instance}"),
            there: "an interrupt must be a number".to_owned(),
        })
}

const MANAGED: &str = "the kernel manages this interrupt (of a multi-queue device), or its \
                       interrupt controller cannot move it; isolcpus=managed_irq on the kernel's \
                       command line keeps managed interrupts away from isolated CPUs";

impl Access for IrqAffinity {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let names = target
            .files
            .names(&target.below(FOLDER))
            .unwrap_or_default();
        let mut numbers: Vec<String> = names
            .into_iter()
            .filter(|name| file(name, "smp_affinity_list").is_ok_and(|f| target.text(&f).is_some()))
            .collect();
        numbers.sort_by(|a, b| by_number(a, b));
        Ok(numbers)
    }

    /// Returns the names of the interrupt's devices.
    fn aliases(&self, target: &Target<'_>, instance: &str) -> Vec<String> {
        let folder = target.below(&format!("{FOLDER}/{instance}"));
        let mut names = target.files.names(&folder).unwrap_or_default();
        names.retain(|name| !OWN.contains(&name.as_str()));
        names.sort();
        names
    }

    fn read(&self, target: &Target<'_>, instance: &str) -> Result<String, TuneError> {
        read(target, &file(instance, "smp_affinity_list")?)
    }

    fn write(&self, target: &Target<'_>, instance: &str, value: &str) -> Result<(), TuneError> {
        let path = target.below(&file(instance, "smp_affinity_list")?);
        target.files.set(&path, value).map_err(|source| {
            // Before Linux 5.17, the kernel refuses with EIO; later kernels refuse with EPERM
            // (write_irq_affinity). EACCES and EROFS mean missing permissions.
            let kernel = matches!(source.raw_os_error(), Some(1 | 5));
            if kernel && source.kind() != io::ErrorKind::NotFound {
                TuneError::Refused {
                    setting: format!("irq-affinity@{instance}"),
                    reason: MANAGED.to_owned(),
                }
            } else {
                target.not_written(path, source)
            }
        })
    }

    fn may_write(&self, target: &Target<'_>, instance: &str) -> Result<(), TuneError> {
        may_write(target, &file(instance, "smp_affinity_list")?)
    }

    /// If an interrupt cannot be moved, the kernel removes the file's write permission for everyone
    /// (irq_can_set_affinity_usr in kernel/irq/manage.c).
    fn refusal(&self, target: &Target<'_>, instance: &str) -> Option<String> {
        let path = target.below(&file(instance, "smp_affinity_list").ok()?);
        let writable = target.files.has_write_bit(&path).unwrap_or(true);
        (!writable).then(|| MANAGED.to_owned())
    }

    fn holds(&self, instance: &str, value: &str) -> bool {
        file(instance, "").is_ok() && value.parse::<CpuSet>().is_ok_and(|cpus| !cpus.is_empty())
    }

    fn same(&self, found: &str, wanted: &str) -> bool {
        let cpus = |text: &str| text.parse::<CpuSet>().ok();
        cpus(found).is_some() && cpus(found) == cpus(wanted)
    }

    fn readable(&self, value: &str) -> String {
        format!("CPU {value}")
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            instance,
            asked,
            context,
            ..
        } = ask;
        let cpus = context.cpus(&setting.named(instance), asked)?;
        if cpus.is_empty() {
            Err(invalid(setting, instance, asked))
        } else {
            Ok(Some(cpus.to_string()))
        }
    }

    /// Some chips move an interrupt only at its next occurrence, and some can deliver it only to
    /// one of the allowed CPUs.
    fn remark(&self, target: &Target<'_>, instance: &str, value: &str) -> Option<String> {
        let file = file(instance, "effective_affinity_list").ok()?;
        let effective: CpuSet = target.text(&file)?.parse().ok()?;
        let wanted: CpuSet = value.parse().ok()?;
        (!effective.is_subset(&wanted)).then(|| {
            format!(
                "interrupt {instance} is still on CPU {effective} (effective_affinity_list); it \
                 moves when it next occurs"
            )
        })
    }
}
