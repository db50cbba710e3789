//! Creates the tables of the results.

use punctual_model::{Cell, Histogram, Table, counted};
use punctual_rt::Tsc;

use super::agreement::Agreement;
use super::reader::Reader;
use super::rounds::{Found, ROW};

/// The results of one clock, with its clock source.
#[derive(Debug)]
pub(super) struct Entry {
    /// `None` for the current clock source.
    pub(super) source: Option<String>,
    pub(super) found: Found,
    /// Whether the C library reads the clock without a system call, if this is known for certain.
    pub(super) without_kernel: Option<bool>,
}

/// The result of comparing two CPUs.
#[derive(Debug)]
pub(super) struct Pair {
    /// `None` for the current clock source.
    pub(super) source: Option<String>,
    pub(super) reader: Reader,
    /// The two CPUs; `None` if there is only one.
    pub(super) found: Option<((u32, u32), Agreement)>,
    /// The CPU, if there is only one.
    pub(super) cpu: u32,
}

/// Creates a table. Its rows start with the clock source if there are several.
fn table(name: &str, title: &str, sources: bool, columns: &[(&str, &str)]) -> Table {
    let first = sources.then_some(("source", "source"));
    let columns: Vec<(&str, &str)> = first.into_iter().chain(columns.iter().copied()).collect();
    Table::new(name, title, &columns)
}

fn first_cell(source: Option<&String>) -> Option<Cell> {
    source.map(|source| Cell::from(source.as_str()))
}

/// Formats a clock's name: `MONOTONIC`, `MONOTONIC (hpet)`.
fn named(reader: Reader, source: Option<&String>) -> String {
    match source {
        None => reader.name().to_owned(),
        Some(source) => format!("{} ({source})", reader.name()),
    }
}

/// Creates the table of the clocks, with the kernel's figures and the measured ones.
pub(super) fn clocks(entries: &[Entry]) -> Table {
    let mut table = table(
        "clocks",
        "Clocks",
        entries.iter().any(|entry| entry.source.is_some()),
        &[
            ("clock", "clock"),
            ("getres_ns", "clock_getres"),
            ("step_ns", "smallest step"),
            ("cost_ns", "a read"),
            ("in_a_row_ns", "in a row, ns"),
            ("system_call_ns", "by system call"),
            ("without_kernel", "without the kernel"),
            ("backward", "steps back"),
        ],
    );
    for entry in entries {
        let Found { reader, steps, .. } = &entry.found;
        let getres = reader.posix().and_then(|clock| clock.resolution());
        let cells = [
            reader.name().into(),
            getres.map(|time| time.as_nanos() as u64).into(),
            steps.smallest.map(|step| reader.nanos(step)).into(),
            quantile(&entry.found.outcome.histogram, 0.5),
            in_a_row(&entry.found.row),
            quantile(&entry.found.direct, 0.5),
            without_kernel(entry).into(),
            steps.backward.into(),
        ];
        table.push(first_cell(entry.source.as_ref()).into_iter().chain(cells));
    }
    table
}

/// Creates the table of the cost of each clock source, in the layout of the tables in the guides.
pub(super) fn sources(entries: &[Entry]) -> Table {
    let mut table = table(
        "sources",
        "Clock sources",
        true,
        &[
            ("clock", "clock"),
            ("cost_ns", "median"),
            ("p99_ns", "99 %"),
            ("max_ns", "max"),
            ("in_a_row_ns", "in a row, ns"),
        ],
    );
    for entry in entries {
        let costs = &entry.found.outcome.histogram;
        table.push([
            first_cell(entry.source.as_ref()).into(),
            entry.found.reader.name().into(),
            quantile(costs, 0.5),
            quantile(costs, 0.99),
            costs.max().into(),
            in_a_row(&entry.found.row),
        ]);
    }
    table
}

/// Creates the table that shows whether the clocks of each pair of CPUs agree.
pub(super) fn agreement(pairs: &[Pair]) -> Table {
    let mut table = table(
        "agreement",
        "Do the CPUs agree?",
        pairs.iter().any(|pair| pair.source.is_some()),
        &[
            ("clock", "clock"),
            ("cpus", "CPUs"),
            ("checks", "checks"),
            ("backward", "steps back"),
            ("backward_max_ns", "largest"),
        ],
    );
    for pair in pairs {
        let head = first_cell(pair.source.as_ref())
            .into_iter()
            .chain([pair.reader.name().into()]);
        let rest = match pair.found {
            None => vec![Cell::from(pair.cpu.to_string())],
            Some(((first, second), found)) => vec![
                format!("{first}, {second}").into(),
                found.checks.into(),
                found.backward.into(),
                pair.reader.nanos(found.backward_max).into(),
            ],
        };
        table.push(head.chain(rest));
    }
    table
}

/// Returns sentences about clocks that stepped back.
pub(super) fn warnings(entries: &[Entry], pairs: &[Pair]) -> Vec<String> {
    let alone = entries.iter().filter_map(|entry| {
        let Found { reader, steps, .. } = &entry.found;
        let most = punctual_model::Nanos(reader.nanos(steps.backward_max));
        (steps.backward > 0).then(|| {
            format!(
                "{} stepped back {} on one CPU, by at most {most}",
                named(*reader, entry.source.as_ref()),
                counted(steps.backward, "time", "times")
            )
        })
    });
    let between = pairs.iter().filter_map(|pair| {
        let ((first, second), found) = pair.found?;
        let most = punctual_model::Nanos(pair.reader.nanos(found.backward_max));
        let name = named(pair.reader, pair.source.as_ref());
        if found.backward > 0 {
            return Some(format!(
                "{name} stepped back between CPU {first} and CPU {second} in {} of {} checks, by \
                 at most {most}",
                found.backward, found.checks
            ));
        }
        (found.checks == 0).then(|| {
            format!(
                "whether {name} agrees between CPU {first} and CPU {second} is unknown: the two \
                 threads never ran at the same time"
            )
        })
    });
    alone.chain(between).collect()
}

/// Returns whether the clock is read without a system call. This is either known for certain or
/// derived from the cost, because a system call through the C library cannot take less than half
/// the time of a direct one.
fn without_kernel(entry: &Entry) -> Option<bool> {
    if entry.found.reader.posix().is_none() {
        return Some(Tsc::available().is_some());
    }
    entry.without_kernel.or_else(|| {
        let cost = entry.found.outcome.histogram.quantile(0.5)?;
        let direct = entry.found.direct.quantile(0.5)?;
        Some(is_half(cost.0, direct.0))
    })
}

fn is_half(cost: u64, direct: u64) -> bool {
    cost.saturating_mul(2) < direct
}

fn quantile(histogram: &Histogram, quantile: f64) -> Cell {
    histogram.quantile(quantile).into()
}

/// Returns the cost per read in a row of consecutive reads.
fn in_a_row(row: &Histogram) -> Cell {
    row.quantile(0.5)
        .map(|all| all.0 as f64 / ROW as f64)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::SignedNanos;
    use punctual_rt::PosixClock;

    #[test]
    fn a_row_is_shared_among_its_reads() {
        let mut row = Histogram::new();
        assert_eq!(in_a_row(&row), Cell::Unknown);
        row.record(SignedNanos(ROW as i64 * 20 + 8));
        assert_eq!(in_a_row(&row), Cell::Number(20.25));
    }

    #[test]
    fn under_half_a_call_is_no_syscall() {
        assert!(is_half(49, 100));
        assert!(!is_half(50, 100));
        assert!(!is_half(0, 0));
    }

    #[test]
    fn step_back_or_missing_check_warns() {
        let pair = |checks, backward| Pair {
            source: Some("tsc".to_owned()),
            reader: Reader::Posix(PosixClock::Monotonic),
            found: Some((
                (0, 3),
                Agreement {
                    checks,
                    backward,
                    backward_max: backward * 100,
                },
            )),
            cpu: 0,
        };
        assert_eq!(warnings(&[], &[pair(10, 0)]), [""; 0]);
        assert_eq!(
            warnings(&[], &[pair(10, 2)]),
            [
                "MONOTONIC (tsc) stepped back between CPU 0 and CPU 3 in 2 of 10 checks, by at most 200 ns"
            ]
        );
        assert!(warnings(&[], &[pair(0, 0)])[0].contains("is unknown"));
        let alone = Pair {
            found: None,
            ..pair(0, 0)
        };
        assert_eq!(warnings(&[], &[Pair { cpu: 4, ..alone }]), [""; 0]);
        let table = agreement(&[pair(10, 2)]);
        assert_eq!(table.rows[0][2], Cell::from("0, 3"));
        assert_eq!(table.rows[0][5], Cell::Count(200));
    }
}
