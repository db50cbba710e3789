//! The warnings at the beginning of a report.

use punctual_model::{
    Completion, CpuSet, LoadRecord, Nanos, Recording, Suspension, SuspensionKind, ThreadRecord,
    Unknown,
};

use super::{
    account_text, counted, load_text, named_by_cpu, page_faults_of, periodic, time_of_day, usage,
};

/// Returns the warnings to show first: those of the recording itself, and those derived from its
/// figures.
pub(crate) fn warnings(recording: &Recording) -> Vec<String> {
    // A load that failed voids the run, so that it comes first.
    let mut list: Vec<String> = recording.load.iter().flat_map(load_ended).collect();
    list.extend_from_slice(&recording.warnings);
    match recording.completion {
        Completion::Finished => {}
        Completion::Break => {
            list.push("the run stopped at a sample above the break value, as requested".to_owned())
        }
        Completion::Stopped => list.push("the run was stopped before its end".to_owned()),
        Completion::Interrupted => {
            list.push("the run was interrupted: its last interval may be missing".to_owned());
        }
        Completion::Running => list.push("the run has not ended yet".to_owned()),
    }
    list.extend(recording.suspensions.iter().map(suspended));
    let all = recording.accounting();
    // Some probes record only tables, so they have no threads and no samples.
    let other_findings = recording.threads.is_empty() && !recording.tables.is_empty();
    if all.recorded == 0 && !other_findings && without_gap(recording).is_none() {
        list.push("nothing was recorded".to_owned());
    }
    list.extend(unbalanced(recording));
    // Observed threads have no periods, and the recording has its own warning about waits of
    // unknown length.
    if all.missed > 0 && !recording.probe.is_observed() {
        // In other probes, a period can also be missed because an answer is missing.
        let overruns = match recording.probe.name.as_str() {
            "timer" => " (overruns)",
            _ => "",
        };
        list.push(format!(
            "{} missed{overruns}{}",
            counted(all.missed, "period", "periods"),
            on_threads(recording, |thread| thread.accounting.missed > 0),
        ));
    }
    list.extend(open(recording));
    list.extend(unplaced(recording));
    if all.overflow > 0 {
        list.push(format!(
            "{} beyond the range of the histogram (1000 s)",
            counted(all.overflow, "sample is", "samples are")
        ));
    }
    list.extend(page_faults(recording));
    list.extend(losses(recording));
    list.extend(periodic::hint(recording));
    list
}

/// Returns the result of a detector of hardware latency that found no gap: without a sample, the
/// threshold and the duration are the measurement.
pub(crate) fn without_gap(recording: &Recording) -> Option<String> {
    let threshold = recording.duration_parameter("threshold_ns")?;
    let clean = recording.probe.name == "hardware"
        && recording.accounting().recorded == 0
        && recording.completion == Completion::Finished
        && recording.knows(Unknown::Duration);
    let mut text = format!("no gap above {threshold} in {}", recording.duration_ns);
    let parameter = |name| recording.duration_parameter(name);
    if let (Some(window), Some(width)) = (parameter("window_ns"), parameter("width_ns")) {
        text.push_str(&format!(", measured for {width} of each {window}"));
    }
    clean.then_some(text)
}

/// Returns when the user stopped the process or the machine was suspended, and how that affects the
/// figures.
fn suspended(suspension: &Suspension) -> String {
    let what = match suspension.kind {
        SuspensionKind::StoppedBySignal => "stopped by a signal (Ctrl-Z)",
        SuspensionKind::MachineSuspended => "the machine was suspended",
    };
    format!(
        "{what} for about {} at {} UTC: samples and missed periods of that time are due to the \
         stop, not to the machine",
        suspension.length_ns,
        time_of_day(suspension.started),
    )
}

/// Returns how a load ended before it was stopped, and, if it failed, its last lines on stderr.
fn load_ended(load: &LoadRecord) -> Vec<String> {
    let Some(how) = load.ended_early.as_deref() else {
        return Vec::new();
    };
    let what = load_text(load);
    if !load.failed {
        return vec![format!("the load {what} ended early: {how}")];
    }
    let void = match &load.phase {
        Some(phase) => format!("phase {} is void", phase),
        None => "the run is void".to_owned(),
    };
    let mut texts = vec![format!("the load {what} failed, {void}: {how}")];
    let lines = load.stderr.iter().flat_map(|text| text.lines());
    texts.extend(lines.map(|line| format!("its stderr: {line}")));
    texts
}

/// Returns the number of periods that still had no wake-up when the run ended.
fn open(recording: &Recording) -> Option<String> {
    let due = recording.all_due();
    let late = due.open_at_least()?;
    let mut open = recording.threads.iter().filter_map(|thread| thread.open);
    let is_unanswered = open.any(|open| open.period_ns == Nanos::ZERO);
    Some(format!(
        "{} had no {}, and were late by at least {late}{}",
        counted(due.open(), "period", "periods"),
        if is_unanswered {
            "reply"
        } else {
            "wake-up by the end of the run"
        },
        on_threads(recording, |thread| thread.due().open() > 0),
    ))
}

/// Returns the number of samples that another tool counted without recording their latency.
fn unplaced(recording: &Recording) -> Option<String> {
    let of = |thread: &ThreadRecord| thread.histogram.unplaced();
    let count = (recording.threads.iter().map(of)).fold(0, u64::saturating_add);
    (count > 0).then(|| {
        format!(
            "{} missing from the histogram of the imported file{}: percentiles that depend on \
             them are unknown",
            counted(count, "sample is", "samples are"),
            on_threads(recording, |thread| of(thread) > 0),
        )
    })
}

/// Returns the accounts that do not balance, which only happens if the measurement itself is
/// faulty.
fn unbalanced(recording: &Recording) -> impl Iterator<Item = String> {
    recording.threads.iter().filter_map(|thread| {
        let account = &thread.accounting;
        (!account.balances()).then(|| {
            format!(
                "the sample accounting of {} does not balance: {}",
                thread.title(),
                account_text(account)
            )
        })
    })
}

fn page_faults(recording: &Recording) -> Option<String> {
    let usage = usage(recording);
    let faults = page_faults_of(&usage);
    (faults > 0).then(|| {
        format!(
            "{} in the measuring threads after their warm-up{}: each page fault adds {} caused by \
             the measurement itself",
            counted(faults, "page fault", "page faults"),
            on_threads(recording, |thread| { page_faults_of(&thread.usage) > 0 }),
            recording.probe.quantity(),
        )
    })
}

fn losses(recording: &Recording) -> Vec<String> {
    let mut list = Vec::new();
    if recording.series.dropped > 0 {
        list.push(format!(
            "{} in the histograms but not in the time series",
            counted(recording.series.dropped, "sample is", "samples are")
        ));
    }
    if let Some(kept) = recording.samples.filter(|kept| kept.dropped > 0) {
        list.push(format!(
            "{} in the histograms but not among the stored samples",
            counted(kept.dropped, "sample is", "samples are")
        ));
    }
    list
}

/// Returns ` on CPU 1` or ` on 12 of 64 threads`, or nothing if the recording has a single thread.
fn on_threads(recording: &Recording, holds: impl Fn(&ThreadRecord) -> bool) -> String {
    let which: Vec<_> = recording.threads.iter().filter(|t| holds(t)).collect();
    match which.as_slice() {
        _ if recording.threads.len() < 2 => String::new(),
        [one] => format!(" on {}", one.title()),
        several if several.iter().all(|t| named_by_cpu(t)) => {
            let cpus: CpuSet = several.iter().filter_map(|t| t.cpu).collect();
            format!(" on CPUs {cpus}")
        }
        several => format!(
            " on {} of {} threads",
            several.len(),
            recording.threads.len()
        ),
    }
}
