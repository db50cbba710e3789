//! `csv-series`: latency over time, with one line per interval and thread.
//!
//! | column | content |
//! |---|---|
//! | `thread` | index of the thread in the recording |
//! | `cpu` | CPU of the thread; empty if not pinned |
//! | `start_ns` | start of the interval, from the start of the measurement |
//! | `count` | samples, early ones included |
//! | `early` | early samples; not part of the columns below |
//! | `missed` | missed periods (overruns) |
//! | `min_ns`, `mean_ns`, `max_ns` | smallest, mean and largest latency; empty without samples |
//! | `p50_ns`, `p99_ns`, `p999_ns` | percentiles of the interval; empty without samples |
//! | `sum_ns` | the sum of the latencies, for means over several lines |

use std::io::Write;

use punctual_model::{IntervalRow, Nanos};

use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "csv-series",
    summary: "latency over time as CSV: a line for each interval of each thread",
    extension: "csv",
    needs_samples: false,
    micro_rows: false,
    write,
};

const HEADER: [&str; 13] = [
    "thread", "cpu", "start_ns", "count", "early", "missed", "min_ns", "mean_ns", "max_ns",
    "p50_ns", "p99_ns", "p999_ns", "sum_ns",
];

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(HEADER)?;
    for row in &export.recording.series.rows {
        csv.serialize((
            row.thread,
            export.cpu_of(row.thread),
            row.start_ns,
            row.count,
            row.early,
            row.missed,
            row.min_ns,
            mean(row),
            row.max_ns,
            row.quantile(0.5),
            row.quantile(0.99),
            row.quantile(0.999),
            row.sum_ns,
        ))?;
    }
    csv.flush()?;
    Ok(())
}

/// A row from a damaged file may count more early samples than samples in total.
fn mean(row: &IntervalRow) -> Option<Nanos> {
    (row.count >= row.early).then(|| row.mean()).flatten()
}

#[cfg(test)]
mod tests {
    use punctual_model::testing;

    use crate::testing::written;

    #[test]
    fn each_interval_is_a_line() {
        insta::assert_snapshot!(written("csv-series", &testing::recording(2, 3)), @"
        thread,cpu,start_ns,count,early,missed,min_ns,mean_ns,max_ns,p50_ns,p99_ns,p999_ns,sum_ns
        0,0,1000000000,1000,0,0,2850,3812,23966,3469,7579,21099,3812792
        1,1,1000000000,1000,0,0,2843,9687,150000,3839,150000,150000,9687196
        0,0,2000000000,1000,0,0,2850,4085,116668,3489,9299,57699,4085721
        1,1,2000000000,1000,0,0,2859,9465,150000,3759,150000,150000,9465536
        0,0,3000000000,1000,0,3,2846,3853,48700,3509,7459,19099,3853663
        1,1,3000000000,1000,0,0,2845,8904,150000,3819,150000,150000,8904113
        ");
    }

    #[test]
    fn senseless_rows_are_still_written() {
        let mut recording = testing::recording(1, 1);
        let row = &mut recording.series.rows[0];
        (row.thread, row.early) = (7, row.count + 1);
        (row.min_ns, row.max_ns) = (None, None);
        let text = written("csv-series", &recording);
        assert!(text.lines().nth(1).unwrap().starts_with("7,,"), "{text}");
    }
}
