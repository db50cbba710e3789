//! All interrupts of the machine, with their affinity and handlers.

use std::collections::BTreeMap;

use punctual_model::{Fact, HandlerThread, InterruptKind, InterruptRecord};

use crate::HostError;
use crate::counters::Table;
use crate::root::Root;
use crate::tasks;

const INTERRUPTS: &str = "/proc/interrupts";

/// Returns all rows of /proc/interrupts with counts per CPU: the numbered ones in ascending order,
/// then the kernel's own.
pub(crate) fn interrupts(root: &Root) -> Result<Vec<InterruptRecord>, HostError> {
    let text = root.require(INTERRUPTS)?;
    let table = Table::parse(&text).map_err(|reason| HostError::Unexpected {
        path: INTERRUPTS.to_owned(),
        reason,
    })?;
    let mut handlers = handlers(root);
    let cpus: Vec<u32> = table.cpus().collect();
    Ok(table
        .rows()
        .iter()
        .map(|row| {
            let counts = cpus.iter().enumerate();
            let counts = counts.map(|(column, cpu)| (*cpu, row.count(column)));
            let number = row.id.parse::<u32>().ok();
            InterruptRecord {
                id: row.id.clone(),
                name: row.name.clone(),
                kind: kind(root, number, &row.name),
                devices: number.map_or_else(Vec::new, |number| devices(root, number)),
                counts: counts.collect(),
                affinity: set(root, number, "smp_affinity_list"),
                effective: set(root, number, "effective_affinity_list"),
                handlers: number.and_then(|n| handlers.remove(&n)).unwrap_or_default(),
            }
        })
        .collect())
}

/// Returns the threads that handle interrupts, by interrupt number.
fn handlers(root: &Root) -> BTreeMap<u32, Vec<HandlerThread>> {
    let mut all = BTreeMap::<u32, Vec<HandlerThread>>::new();
    for task in tasks::tasks(root) {
        if let Some(number) = tasks::handled_interrupt(&task) {
            all.entry(number).or_default().push(HandlerThread {
                tid: task.tid,
                comm: task.comm,
                scheduling: task.scheduling,
            });
        }
    }
    all
}

/// The name of a chip that handles message-signalled interrupts contains MSI.
fn kind(root: &Root, number: Option<u32>, name: &str) -> InterruptKind {
    let Some(number) = number else {
        return InterruptKind::Kernel;
    };
    let chip = root.text(&format!("/sys/kernel/irq/{number}/chip_name"));
    if chip.as_deref().unwrap_or(name).contains("MSI") {
        InterruptKind::Msi
    } else {
        InterruptKind::Line
    }
}

/// Returns the names that drivers gave their handlers: /sys/kernel/irq/N/actions
/// (Documentation/ABI/testing/sysfs-kernel-irq).
fn devices(root: &Root, number: u32) -> Vec<String> {
    let actions = root.text(&format!("/sys/kernel/irq/{number}/actions"));
    actions
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

fn set(root: &Root, number: Option<u32>, file: &str) -> Fact<punctual_model::CpuSet> {
    match number {
        Some(number) => root.cpu_list(&format!("/proc/irq/{number}/{file}")),
        None => Fact::unknown(INTERRUPTS, "the kernel's own interrupts have no affinity"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path().to_owned());
        (folder, root)
    }

    #[test]
    fn shared_interrupt_line_reports_its_thread() {
        let (_folder, root) = tree(&[
            (
                "proc/interrupts",
                "     CPU0 CPU2\n 16: 5 7 IO-APIC 16-fasteoi ehci, snd\nLOC: 1 2 Local timer\n",
            ),
            ("proc/irq/16/smp_affinity_list", "0-3\n"),
            ("proc/irq/16/effective_affinity_list", "2\n"),
            ("sys/kernel/irq/16/actions", "ehci,snd\n"),
            ("sys/kernel/irq/16/chip_name", "IO-APIC\n"),
            (
                "proc/81/task/81/stat",
                "81 (irq/16-ehci) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 -51 0 1 0 88 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 2 50 1",
            ),
        ]);
        let all = interrupts(&root).unwrap();
        let line = &all[0];
        assert_eq!((line.kind, line.is_shared()), (InterruptKind::Line, true));
        assert_eq!(line.counts, [(0, 5), (2, 7)]);
        assert_eq!(line.total(), 12);
        assert_eq!(
            line.effective.get().map(ToString::to_string),
            Some("2".to_owned())
        );
        assert_eq!(line.handlers[0].scheduling.to_string(), "fifo 50");
        assert_eq!(all[1].kind, InterruptKind::Kernel);
        assert!(all[1].affinity.get().is_none());
    }

    #[test]
    fn without_the_table_it_is_an_error() {
        let (_folder, root) = tree(&[("proc/interrupts", "nothing\n")]);
        let error = interrupts(&root).unwrap_err().to_string();
        assert!(error.contains("/proc/interrupts"), "{error}");
    }
}
