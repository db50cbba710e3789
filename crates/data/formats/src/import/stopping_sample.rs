//! The sample that stopped a run (cyclictest's -b). Some tools print this sample, but do not
//! include it in their figures.

use punctual_model::{Completion, Histogram, Nanos, Recording};

use super::blank::thread;

/// Label of a thread that has only such a sample.
pub(crate) const STOPPED: &str = "thread that stopped the run";

/// Ends the recording at a sample with this latency. The file may name the thread of the sample. If
/// the latency is above the maximum of that thread (or of all threads, if none is named), the
/// figures of the file do not include the sample, so it is added: to that thread, to the only
/// thread, or as an additional thread.
pub(crate) fn stopped_by(recording: &mut Recording, latency: Nanos, named: Option<usize>) {
    recording.completion = Completion::Break;
    let holds = |histogram: &Histogram| histogram.max().is_some_and(|max| max >= latency);
    let threads = &mut recording.threads;
    let is_held = match named {
        Some(named) => holds(&threads[named].histogram),
        None => threads.iter().any(|thread| holds(&thread.histogram)),
    };
    if is_held {
        recording.warnings.push(format!(
            "latency of the sample that stopped the run: {latency}"
        ));
        return;
    }
    let place = named.unwrap_or(if threads.len() == 1 { 0 } else { threads.len() });
    if place == threads.len() {
        let like = threads
            .first()
            .and_then(|first| first.histogram.resolution());
        let (unit, row) = like.map_or((Nanos(1), Nanos(1)), |like| (like.unit_ns, like.row_ns));
        let mut own = thread(place, None, Histogram::imported(unit, row));
        own.label = Some(STOPPED.to_owned());
        threads.push(own);
    }
    let stopped = &mut threads[place];
    let max = stopped.histogram.max().max(Some(latency));
    stopped.histogram.add_row(latency, 1);
    stopped.histogram.set_figures(None, max, None);
    let account = &mut stopped.accounting;
    account.expected = account.expected.saturating_add(1);
    account.recorded = stopped.histogram.recorded();
    account.overflow = stopped.histogram.overflow();
    let title = stopped.title();
    recording.warnings.push(format!(
        "the sample that stopped the run, {latency}, is not included in the other figures of the \
         file: it was added to {title}"
    ));
}

#[cfg(test)]
mod tests {
    use super::super::testing::{read_recognised, read_text};
    use super::super::{cyclictest_lines, cyclictest_samples};
    use super::*;

    const LINES: &str = include_str!("../../tests/fixtures/cyclicdeadline-break.txt");

    fn maxima(recording: &Recording) -> Vec<(String, u64, Option<Nanos>)> {
        let threads = recording.threads.iter();
        threads
            .map(|thread| {
                let histogram = &thread.histogram;
                (thread.title(), histogram.count(), histogram.max())
            })
            .collect()
    }

    fn us(us: u64) -> Option<Nanos> {
        Some(Nanos::from_micros(us))
    }

    #[test]
    fn stopping_sample_belongs_to_named_thread() {
        let recording = read_text(&cyclictest_lines::IMPORT, LINES).unwrap();
        let expected = [
            ("thread 0".to_owned(), 36_211, us(52)),
            ("thread 1".to_owned(), 24_140, us(13)),
        ];
        assert_eq!(maxima(&recording), expected);
        assert_eq!(recording.completion, Completion::Break);
        // If the figures of this thread already include the sample, it is not added.
        let held = LINES.replace("value: 52", "value: 30");
        let recording = read_text(&cyclictest_lines::IMPORT, &held).unwrap();
        assert_eq!(
            maxima(&recording)[0],
            ("thread 0".to_owned(), 36_210, us(34))
        );
    }

    #[test]
    fn unnamed_stopping_sample_becomes_own_thread() {
        let unnamed = LINES.replace("# Break thread: 16350\n", "");
        let recording = read_text(&cyclictest_lines::IMPORT, &unnamed).unwrap();
        let own = (STOPPED.to_owned(), 1, us(52));
        assert_eq!(maxima(&recording)[2], own);
        assert_eq!(maxima(&recording)[0].2, us(34));
        let samples = "       0:       0:      21\n       1:       0:      23\n\
                       # Break thread: 15142\n# Break value: 115\n";
        let recording = read_text(&cyclictest_samples::IMPORT, samples).unwrap();
        assert_eq!(maxima(&recording)[2], (STOPPED.to_owned(), 1, us(115)));
        let held = samples.replace("115", "23");
        let recording = read_text(&cyclictest_samples::IMPORT, &held).unwrap();
        assert_eq!(recording.threads.len(), 2);
        assert_eq!(recording.completion, Completion::Break);
    }

    #[test]
    fn a_histogram_that_lacks_it_gets_it() {
        const ONE: &str = include_str!("../../tests/fixtures/cyclictest-2.10-H-one-thread.txt");
        let text = format!("{ONE}# Break thread: 7\n# Break value: 40\n");
        let recording = read_recognised(text.as_bytes()).unwrap();
        assert_eq!(maxima(&recording), [("thread 0".to_owned(), 477, us(40))]);
    }
}
