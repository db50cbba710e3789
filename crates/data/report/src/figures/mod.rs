//! The figures that all output formats show, computed once.

use std::collections::BTreeSet;

use punctual_model::cause::Source;
use punctual_model::{
    Accounting, Achieved, Explanation, Histogram, LoadRecord, Nanos, Outcome, Recording,
    ThreadRecord, ThreadUsage, TopSample, Unknown, UnseenTheft, counted, grouped,
};

mod accounting;
mod due;
mod periodic;
mod selection;
mod warnings;
mod words;
pub(crate) use accounting::{account_fault, account_of, account_text};
pub(crate) use due::{DUE_PERIODS, DueRow, due_rows};
pub(crate) use warnings::{warnings, without_gap};
pub use words::bytes;
pub(crate) use words::{
    asked_text, count_or_dash, or_dash, size, text_or_dash, time_of_day, trace_time, wall,
};

/// The percentiles shown in tables, each with its heading and its quantile.
pub(crate) const PERCENTILES: [(&str, f64); 4] = [
    ("p50", 0.5),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// The figures of one thread, or of all threads together.
pub(crate) struct ThreadFigures {
    pub(crate) title: String,
    /// Whether this row covers all threads together.
    pub(crate) total: bool,
    /// Whether the thread had a real-time policy at the start.
    pub(crate) real_time: bool,
    pub(crate) recorded: u64,
    /// `None` if unknown.
    pub(crate) missed: Option<u64>,
    pub(crate) early: u64,
    pub(crate) min: Option<Nanos>,
    pub(crate) mean: Option<Nanos>,
    /// In the order of [`PERCENTILES`].
    pub(crate) percentiles: [Option<Nanos>; 4],
    pub(crate) max: Option<Nanos>,
}

impl ThreadFigures {
    fn new(
        recording: &Recording,
        title: String,
        accounting: &Accounting,
        histogram: &Histogram,
    ) -> Self {
        Self {
            title,
            total: false,
            real_time: false,
            recorded: accounting.recorded,
            missed: has_periods(recording).then_some(accounting.missed),
            early: accounting.early,
            min: histogram.min(),
            mean: histogram.mean(),
            percentiles: PERCENTILES.map(|(_, q)| histogram.supported_quantile(q)),
            max: histogram.max(),
        }
    }

    /// Returns the table row: samples recorded, missed periods, early samples (if the table has
    /// that column), then the latencies in ascending order.
    pub(crate) fn cells(&self, early: bool) -> Vec<String> {
        let mut cells = vec![
            self.title.clone(),
            grouped(self.recorded),
            count_or_dash(self.missed),
        ];
        if early {
            cells.push(grouped(self.early));
        }
        let latencies = [self.min, self.mean]
            .into_iter()
            .chain(self.percentiles)
            .chain([self.max]);
        cells.extend(latencies.map(or_dash));
        cells
    }

    /// Returns whether there is anything in the row: a sample, or a missed period.
    pub(crate) fn has_periods(&self) -> bool {
        self.recorded > 0 || self.missed > Some(0)
    }

    fn from_recording(recording: &Recording, thread: &ThreadRecord) -> Self {
        let title = thread.title();
        Self {
            real_time: thread.scheduling.policy.is_real_time(),
            ..Self::new(recording, title, &thread.accounting, &thread.histogram)
        }
    }
}

/// Returns one row per thread. If there are several threads and all of them measure the same kind
/// of latency, a row for all threads follows.
pub(crate) fn thread_rows(recording: &Recording) -> Vec<ThreadFigures> {
    let threads = recording.threads.iter();
    let mut rows: Vec<_> = threads
        .map(|thread| ThreadFigures::from_recording(recording, thread))
        .collect();
    if rows.len() > 1 && recording.threads_are_alike() {
        let (account, all) = (recording.accounting(), recording.all_latencies());
        rows.push(ThreadFigures {
            total: true,
            ..ThreadFigures::new(recording, "all".to_owned(), &account, &all)
        });
    }
    rows
}

/// Returns the verdict that a received recording came with, if it is based on more than the
/// recording.
pub(crate) fn sender_verdict_text(recording: &Recording) -> Option<String> {
    let judgement = recording.sender_judgement.as_ref()?;
    let by = judgement.by.name();
    let sentence = &judgement.sentence;
    Some(format!("{by} of the sender: {sentence} (not verified)"))
}

/// Returns where an imported recording comes from, and which of its facts are unknown. Returns
/// `None` if punctual made the recording.
pub(crate) fn source_text(recording: &Recording) -> Option<String> {
    let origin = recording.origin.as_ref()?;
    let mut text = format!(
        "{}, written by {}, read from {}",
        origin.format,
        origin.tool,
        match origin.file.as_str() {
            "-" => "the standard input",
            file => file,
        }
    );
    let all = recording.all_latencies();
    if let Some(resolution) = all.resolution() {
        text.push_str(&format!("; figures in steps of {}", resolution.unit_ns));
        if let Some(rows) = resolution.rows_per_octave {
            text.push_str(&match rows {
                1 => ", rows that double in width".to_owned(),
                rows => format!(", {rows} rows for each power of two"),
            });
        } else if resolution.row_ns > resolution.unit_ns {
            text.push_str(&format!(", rows of {}", resolution.row_ns));
        }
    }
    if !origin.unknown.is_empty() {
        let unknown: Vec<&str> = origin.unknown.iter().map(|what| what.words()).collect();
        text.push_str(&format!("; unknown: {}", unknown.join(", ")));
    }
    Some(text)
}

/// Returns when and for how long the measurement ran, how it ended, and its label.
pub(crate) fn run_text(recording: &Recording) -> String {
    let label = (recording.label.as_ref()).map_or_else(String::new, |label| format!(", '{label}'"));
    format!(
        "{}, {}, {}{label}",
        started(recording, 0),
        duration(recording),
        recording.completion
    )
}

/// Returns the start time, with `decimals` digits after the second.
pub(crate) fn started(recording: &Recording, decimals: usize) -> String {
    if recording.knows(Unknown::Started) {
        wall(recording.started, decimals)
    } else {
        "time unknown".to_owned()
    }
}

/// Returns the duration of the measurement.
pub(crate) fn duration(recording: &Recording) -> String {
    if recording.knows(Unknown::Duration) {
        recording.duration_ns.to_string()
    } else {
        "duration unknown".to_owned()
    }
}

fn page_faults_of(usage: &ThreadUsage) -> u64 {
    usage
        .page_faults_minor
        .saturating_add(usage.page_faults_major)
}

/// Returns whether the CPU alone identifies the thread.
pub(crate) fn named_by_cpu(thread: &ThreadRecord) -> bool {
    thread.cpu.is_some() && thread.from_cpu.is_none() && thread.label.is_none()
}

/// Returns the resource usage of all measuring threads, summed.
pub(crate) fn usage(recording: &Recording) -> ThreadUsage {
    let mut sum = ThreadUsage::default();
    for ThreadRecord { usage, .. } in &recording.threads {
        sum.page_faults_minor = sum
            .page_faults_minor
            .saturating_add(usage.page_faults_minor);
        sum.page_faults_major = sum
            .page_faults_major
            .saturating_add(usage.page_faults_major);
        sum.switches_voluntary = sum
            .switches_voluntary
            .saturating_add(usage.switches_voluntary);
        sum.switches_involuntary = sum
            .switches_involuntary
            .saturating_add(usage.switches_involuntary);
        sum.cpu_time_ns += usage.cpu_time_ns;
    }
    sum
}

/// Returns what the measurement itself cost, as (name, value) rows. Without measuring threads,
/// only the usage of the program is shown.
pub(crate) fn observer(recording: &Recording) -> Vec<(&'static str, String)> {
    if !recording.knows(Unknown::Observer) {
        return vec![("cost", "unknown".to_owned())];
    }
    let usage = usage(recording);
    let recorded = recording.accounting().recorded;
    let observer = &recording.observer;
    // A measuring loop always takes some time. If the time is zero, other threads were observed.
    let threads = !recording.threads.is_empty() && observer.loop_ns > Nanos::ZERO;
    let mut rows = Vec::new();
    if threads {
        rows.push(("clock read", observer.clock_read_ns.to_string()));
        rows.push(("loop", observer.loop_ns.to_string()));
    }
    if let Some(each) = usage
        .cpu_time_ns
        .0
        .checked_div(recorded)
        .filter(|_| threads)
    {
        rows.push(("CPU time per wake-up", Nanos(each).to_string()));
    }
    rows.push(("CPU time of the program", observer.cpu_time_ns.to_string()));
    rows.push(("peak memory", bytes(observer.peak_memory_bytes)));
    if threads {
        rows.push(("page faults", grouped(page_faults_of(&usage))));
        rows.push(("involuntary switches", grouped(usage.switches_involuntary)));
    }
    rows
}

/// Returns a load such as `command 'make -j8'`. Any parameters besides the main one follow as
/// `key=value`.
pub(crate) fn load_text(load: &LoadRecord) -> String {
    let mut text = load.name.clone();
    for (key, value) in &load.parameters {
        let shown = value
            .as_str()
            .map_or_else(|| value.to_string(), |s| format!("'{s}'"));
        if *key == load.name {
            text.push_str(&format!(" {shown}"))
        } else {
            text.push_str(&format!(" {key}={shown}"))
        }
    }
    text
}

/// Returns the throughput of a load, such as `1.2 million bytes written/s`.
pub(crate) fn achieved_text(done: &Achieved) -> String {
    let rate = done.per_second();
    let (rate, scale) = match rate {
        _ if rate >= 1e9 => (rate / 1e9, " billion"),
        _ if rate >= 1e6 => (rate / 1e6, " million"),
        _ => (rate, ""),
    };
    let rate = match rate {
        _ if rate >= 1e3 => grouped(rate.round() as u64),
        _ if rate >= 100.0 => format!("{rate:.0}"),
        _ => format!("{rate:.1}"),
    };
    format!("{rate}{scale} {}/s", done.what)
}

/// Returns all loads on one line, `none`, or `unknown`.
pub(crate) fn loads_text(recording: &Recording) -> String {
    if !recording.knows(Unknown::Load) {
        return "unknown".to_owned();
    }
    if recording.load.is_empty() {
        return "none".to_owned();
    }
    // All loads of a phase end at the same time, so the averages are shown once.
    let averages = recording.load.iter().rev();
    let averages = averages
        .filter_map(|load| load.load_averages.as_deref())
        .next();
    let averages = averages.map(|text| {
        let words: Vec<&str> = text.split(' ').take(3).collect();
        format!("load average {}", words.join(" "))
    });
    let each = recording.load.iter().map(|load| {
        let mut text = load_text(load);
        for done in &load.achieved {
            text.push_str(&format!(", {}", achieved_text(done)));
        }
        if let Some(time) = load.cpu_time_ns {
            text.push_str(&format!(", {time} CPU time"));
        }
        text
    });
    let each: Vec<String> = each.chain(averages).collect();
    each.join("; ")
}

/// Returns the sign of the verdict: ✓ for met or held, ✗ for exceeded or broken, ? for open, and
/// nothing if there is no requirement.
pub(crate) const fn outcome_sign(outcome: Outcome) -> &'static str {
    if outcome.is_good() {
        "✓"
    } else if outcome.is_bad() {
        "✗"
    } else if outcome.is_open() {
        "?"
    } else {
        ""
    }
}

/// Returns the verdict as a word for a table.
pub(crate) fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::NoRequirement => "-",
        outcome => outcome.word(),
    }
}

/// Returns where a top sample was measured, and whether the user had suspended the run at that
/// time.
pub(crate) fn thread_and_cpu(recording: &Recording, sample: &TopSample) -> String {
    let place = thread_label(recording, sample.thread, sample.cpu);
    if sample.is_suspended(&recording.suspensions) {
        format!("{place}, suspended")
    } else {
        place
    }
}

/// Returns the thread and the CPU of a sample.
pub(crate) fn thread_label(recording: &Recording, thread: u32, cpu: Option<u32>) -> String {
    let title = recording
        .threads
        .get(thread as usize)
        .map_or_else(|| "?".to_owned(), |thread| thread.title());
    // If the title already names a CPU, it is this one.
    match (cpu, title.contains("CPU ")) {
        (Some(cpu), false) => format!("{title}, CPU {cpu}"),
        _ => title,
    }
}

/// Returns whether the recording counts missed periods. Observed threads have no periods, and some
/// other tools do not record missed periods in their files.
fn has_periods(recording: &Recording) -> bool {
    recording.knows(Unknown::Missed) && !recording.probe.is_observed()
}

/// Returns the number of outliers, how many were explained, and what was lost.
pub(crate) fn explained_text(explanation: &Explanation) -> String {
    if let Some(trace) = &explanation.trace {
        return selection::selection(explanation, trace);
    }
    let Explanation {
        threshold_ns,
        seen,
        explained,
        outliers,
        rise_ns,
        rise_took_ns,
        explained_within_ns,
        events_lost,
        waits_without_end,
        ..
    } = explanation;
    let mut text = format!(
        "{} above {threshold_ns}, {} explained",
        counted(*seen, "outlier", "outliers"),
        punctual_model::grouped(*explained)
    );
    if (outliers.len() as u64) < *explained {
        let kept = outliers.len() as u64;
        text.push_str(&format!(
            ", the largest {} kept",
            punctual_model::grouped(kept)
        ));
    }
    for (count, one, many) in [
        (events_lost, "lost event", "lost events"),
        (
            waits_without_end,
            "wait without an end event",
            "waits without an end event",
        ),
    ] {
        if *count > 0 {
            text.push_str(&format!(", {}", counted(*count, one, many)));
        }
    }
    if let Some(within) = explained_within_ns {
        text.push_str(&format!(", at most {within} after the outlier"));
    }
    if let Some(rise) = rise_ns {
        text.push_str(&format!(
            "; recording the events raised the median by {rise}"
        ));
    }
    match (rise_ns, rise_took_ns) {
        (Some(_), Some(took)) => {
            text.push_str(&format!(" (measured for {took} before the start)"));
        }
        (None, Some(took)) => text.push_str(&format!(
            "; the tracing overhead is still unknown after measuring for {took} before the start"
        )),
        (_, None) => {}
    }
    text.push_str(&unseen_thefts(explanation));
    text
}

/// Returns a clause that names the causes of lost CPU time that no counter of this machine shows.
/// Returns an empty text if the counters show all of them.
fn unseen_thefts(explanation: &Explanation) -> String {
    let outliers = explanation.outliers.iter();
    let shares = outliers.flat_map(|outlier| &outlier.blame.shares);
    let is_proven = shares
        .clone()
        .any(|share| share.cause.source == Source::Stolen);
    let unseen: BTreeSet<UnseenTheft> = shares.filter_map(|share| share.cause.unseen).collect();
    let reasons = unseen.into_iter().map(|unseen| match unseen {
        UnseenTheft::Steal if is_proven => {
            "the hypervisor: its steal time is known for some of the outliers only"
        }
        other => other.reason(),
    });
    let reasons: Vec<&str> = reasons.collect();
    if reasons.is_empty() {
        String::new()
    } else {
        format!(
            "; some of the time attributed to a thread or a handler may belong to {}",
            reasons.join(" and of ")
        )
    }
}

/// Returns the machine on one line: name, kernel, processor.
pub(crate) fn host_line(recording: &Recording) -> String {
    let host = &recording.host;
    let mut parts = Vec::new();
    parts.extend(host.hostname.get().cloned());
    if let Some(release) = host.kernel.release.get() {
        parts.push(match host.kernel.preempt_rt.get() {
            Some(true) => format!("{release} (PREEMPT_RT)"),
            _ => release.clone(),
        });
    }
    parts.extend(host.processor.model.get().cloned());
    if host.virtualisation.virtual_machine.get() == Some(&true) {
        parts.push("virtual machine".to_owned());
    }
    if parts.is_empty() {
        "unknown host".to_owned()
    } else {
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Share, SignedNanos, testing};

    #[test]
    fn lost_events_are_no_missed_periods() {
        let mut recording = punctual_model::testing::recording(1, 2);
        recording.probe.name = punctual_model::ProbeRun::OBSERVED.to_owned();
        recording.threads[0].accounting.missed = 3;
        assert!(!has_periods(&recording));
        let explanation = Explanation {
            events_lost: 1_200,
            waits_without_end: 1,
            ..Explanation::default()
        };
        let text = explained_text(&explanation);
        let lost = "1,200 lost events, 1 wait without an end event";
        assert!(text.contains(lost), "{text}");
    }

    #[test]
    fn unseen_theft_is_reported_once() {
        let share = |unseen| {
            let cause = punctual_model::cause::Cause {
                unseen,
                ..testing::interrupt("eth0")
            };
            Share::new(cause, Nanos(5), 1)
        };
        let text = |unseen: &[Option<UnseenTheft>]| {
            let outlier = |one: &Option<UnseenTheft>| punctual_model::Outlier {
                light_stage: false,
                number: 1,
                time: jiff::Timestamp::UNIX_EPOCH,
                monotonic_ns: Nanos(1),
                cpu: None,
                thread: 0,
                latency_ns: Nanos(5),
                blame: testing::blame(vec![share(*one), share(*one)]),
            };
            explained_text(&Explanation {
                outliers: unseen.iter().map(outlier).collect(),
                ..Explanation::default()
            })
        };
        let steal = Some(UnseenTheft::Steal);
        assert_eq!(
            text(&[steal, None, steal])
                .matches("steal time is unknown")
                .count(),
            1
        );
        assert!(text(&[Some(UnseenTheft::Smi)]).contains("management interrupts cannot be"));
        assert!(!text(&[None, None]).contains("hypervisor"));
    }

    #[test]
    fn a_percentile_needs_its_samples() {
        let mut histogram = Histogram::new();
        for sample in 0..9_999 {
            histogram.record(SignedNanos(sample));
        }
        assert_eq!(histogram.supported_quantile(0.9999), None);
        histogram.record(SignedNanos(5));
        assert!(histogram.supported_quantile(0.9999).is_some());
        assert!(histogram.supported_quantile(0.99999).is_none());
        assert_eq!(Histogram::new().supported_quantile(0.5), None);
    }
}
