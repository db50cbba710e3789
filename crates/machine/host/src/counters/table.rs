//! The tables of /proc/interrupts and /proc/softirqs: a header that lists CPUs, then one row per
//! counter with one column per CPU.

use crate::NoHeader;

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// CPU of each column. /proc/interrupts leaves out offline CPUs, for example `CPU0 CPU2`.
    cpus: Vec<u32>,
    /// Numbered rows in ascending order, followed by the named rows in the kernel's order.
    rows: Vec<Row>,
    /// Counters that are not per CPU: `ERR`, `MIS`.
    machine_wide: Vec<(String, u64)>,
}

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// ID of the counter, such as `24`, `LOC` or `TIMER`.
    pub(crate) id: String,
    /// Chip, trigger and device, such as `IO-APIC 4-edge ttyS0`, or only the ID if the kernel shows
    /// nothing else.
    pub(crate) name: String,
    /// Counts of the CPUs, in the order of the table's columns.
    counts: Vec<u64>,
}

/// IDs of rows that x86 and Arm print with a single count for the whole machine. On a machine with
/// one CPU these rows look like the others.
const MACHINE_WIDE: [&str; 3] = ["ERR", "MIS", "Err"];

impl Table {
    /// Parses a table. Fails only if the header is missing. Lines that are not rows are skipped, as
    /// is the second of two rows with the same ID.
    pub(crate) fn parse(text: &str) -> Result<Self, NoHeader> {
        let mut lines = text.lines();
        let cpus: Vec<u32> = lines
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .map_while(|word| word.strip_prefix("CPU")?.parse().ok())
            .collect();
        if cpus.is_empty() {
            return Err(NoHeader);
        }
        let mut table = Self {
            cpus,
            rows: Vec::new(),
            machine_wide: Vec::new(),
        };
        let mut seen = std::collections::HashSet::new();
        for (id, rest) in lines.filter_map(|line| line.split_once(':')) {
            let id = id.trim();
            if !id.is_empty() && seen.insert(id.to_owned()) {
                table.add(id, rest);
            }
        }
        // The sort is stable: the named rows stay in the kernel's order.
        table
            .rows
            .sort_by_key(|row| row.id.parse::<u64>().unwrap_or(u64::MAX));
        Ok(table)
    }

    fn add(&mut self, id: &str, rest: &str) {
        let mut words = rest.split_whitespace().peekable();
        let mut counts = Vec::with_capacity(self.cpus.len());
        while counts.len() < self.cpus.len()
            && let Some(count) = words.peek().and_then(|word| word.parse().ok())
        {
            counts.push(count);
            words.next();
        }
        let whole = counts.len() == self.cpus.len() && !MACHINE_WIDE.contains(&id);
        if whole {
            let words: Vec<&str> = words.collect();
            let name = if words.is_empty() {
                id.to_owned()
            } else {
                words.join(" ")
            };
            let id = id.to_owned();
            self.rows.push(Row { id, name, counts });
        } else if let [count, ..] = counts[..] {
            self.machine_wide.push((id.to_owned(), count));
        }
    }

    /// Returns the CPUs that have a column.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.iter().copied()
    }

    /// Returns the index of a CPU's column.
    pub(crate) fn column(&self, cpu: u32) -> Option<usize> {
        self.cpus.iter().position(|column| *column == cpu)
    }

    /// Returns all rows that have a count for each CPU.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the counters of the whole machine.
    pub(crate) fn machine_wide(&self) -> &[(String, u64)] {
        &self.machine_wide
    }
}

impl Row {
    /// Returns the count in a column.
    pub(crate) fn count(&self, column: usize) -> u64 {
        self.counts.get(column).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERRUPTS: &str = "\
           CPU0       CPU2
 36:          0      89461 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
  9:          1          0  IO-APIC   9-fasteoi   acpi, i2c
LOC:      40091      41223   Local timer interrupts
IPI0:         3          4  Rescheduling interrupts
ERR:          5
FIQ:              usb_fiq
  9:          7          7  a second time
no row
";

    #[test]
    fn columns_follow_the_header() {
        let table = Table::parse(INTERRUPTS).unwrap();
        assert_eq!(table.cpus().collect::<Vec<_>>(), [0, 2]);
        assert_eq!((table.column(2), table.column(1)), (Some(1), None));
        let rows: Vec<_> = table
            .rows()
            .iter()
            .map(|row| (row.id.as_str(), row.name.as_str(), row.counts.as_slice()))
            .collect();
        assert_eq!(
            rows,
            [
                ("9", "IO-APIC 9-fasteoi acpi, i2c", &[1, 0][..]),
                (
                    "36",
                    "PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0",
                    &[0, 89461]
                ),
                ("LOC", "Local timer interrupts", &[40091, 41223]),
                ("IPI0", "Rescheduling interrupts", &[3, 4]),
            ]
        );
        assert_eq!(table.machine_wide(), [("ERR".to_owned(), 5)]);
    }

    #[test]
    fn softirqs_have_no_name_but_their_id() {
        let table = Table::parse("   CPU0\n  HI:  0\n TIMER: 12\n").unwrap();
        assert_eq!(table.rows()[1].name, "TIMER");
        let single = Table::parse("   CPU0\nERR:  3\n").unwrap();
        assert_eq!((single.rows().len(), single.machine_wide().len()), (0, 1));
    }

    #[test]
    fn a_table_without_header_is_none() {
        for text in ["", "\n", "HI: 0", "CPUx"] {
            assert!(Table::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(CPU[0-9]|LOC:|[ 0-9\\n:]|\\PC){0,100}") {
            if let Ok(table) = Table::parse(&text) {
                for row in table.rows() {
                    prop_assert_eq!(row.counts.len(), table.cpus.len());
                }
            }
        }

        #[test]
        fn no_text_below_a_header_panics(text in "([A-Z]{1,3}:|[0-9]{1,25}|[ \\n]|\\PC){0,60}") {
            let text = format!("CPU0 CPU1\n{text}");
            prop_assert!(Table::parse(&text).is_ok());
        }
    }
}
