//! The jobs of an application's threads, with what releases them and how long they take.

mod notes;

use punctual_model::{
    Histogram, JobWindows, Jobs, Nanos, Outlier, Recording, ReleaseChoice, ReleaseWait, Share,
    ShareKind, ThreadJobs, grouped,
};

use super::table::{Column, Fold, Row, Table};
use super::{Block, Document, Medium, Section};
use crate::figures;

/// Maximum number of threads on a terminal.
const THREADS: usize = 40;

/// Returns the answer in a sentence: how many jobs took too long, and why the longest one did.
/// Returns `None` if the recording has no jobs.
pub fn jobs_answer(recording: &Recording) -> Option<Document> {
    sentence(recording).map(|title| Document {
        title,
        ..Document::default()
    })
}

pub(super) fn sentence(recording: &Recording) -> Option<String> {
    let explanation = recording.explanation.as_ref()?;
    let jobs = explanation.jobs.as_ref()?;
    let (budget, threads) = (jobs.budget_ns, &jobs.threads);
    let count: u64 = threads.iter().map(|one| one.jobs).sum();
    let over: u64 = threads.iter().map(|one| one.over_budget).sum();
    if count == 0 {
        return Some("No jobs: no release wait was found, or no job was completed.".into());
    }
    let mut all = punctual_model::counted(count, "job", "jobs");
    if let Some(part) = part_of_time(recording, jobs) {
        all = format!("{all}, seen in {part} of the time,");
    }
    let longest = recording
        .threads
        .iter()
        .filter_map(|one| one.histogram.max());
    if over == 0 {
        let longest = longest
            .max()
            .map_or_else(String::new, |max| format!("; the longest took {max}"));
        return Some(format!("None of {all} took longer than {budget}{longest}."));
    }
    // A long job of an ordinary thread must not hide a late real-time thread.
    let is_real_time = |one: &&Outlier| is_real_time(recording, one.thread);
    let outliers = explanation.outliers.iter();
    let of_real_time = outliers.clone().filter(is_real_time);
    let of_real_time = of_real_time.max_by_key(|outlier| outlier.latency_ns);
    let of_all = outliers.max_by_key(|outlier| outlier.latency_ns);
    let largest = of_real_time.or(of_all);
    let whose = match (of_real_time, of_all) {
        (Some(one), Some(longest)) if one.latency_ns < longest.latency_ns => {
            " of a real-time thread"
        }
        _ => "",
    };
    let mut why = largest.map_or_else(
        || "The cause is unknown: none of these jobs was explained.".to_owned(),
        |largest| format!("The longest{whose}: {}", largest.blame.sentence()),
    );
    if let Some(work) = largest.and_then(|largest| unusual_work(jobs, largest)) {
        why.push_str(&work);
    }
    let in_full = (explanation.outliers.iter()).filter(|outlier| !outlier.light_stage);
    if largest.is_some_and(|largest| largest.light_stage) {
        why.push_str(" It was seen in the light stage.");
        if let Some(full) = in_full.max_by_key(|outlier| outlier.latency_ns) {
            why = format!(
                "{why} The longest in the full stage: {}",
                full.blame.sentence()
            );
        }
    }
    Some(format!(
        "{} of {all} took longer than {budget}. {why}",
        grouped(over)
    ))
}

fn is_real_time(recording: &Recording, thread: u32) -> bool {
    let thread = recording.threads.get(thread as usize);
    thread.is_some_and(|thread| thread.scheduling.policy.is_real_time())
}

/// A job with this multiple of the median execution time did unusual work.
const UNUSUAL: u64 = 2;

/// Compares the own work of a job with the median of its thread, if most of the job is more work than
/// usual.
fn unusual_work(jobs: &Jobs, outlier: &Outlier) -> Option<String> {
    let thread = jobs
        .threads
        .iter()
        .find(|one| one.thread == outlier.thread)?;
    let median = thread.execution.supported_quantile(0.5)?;
    let is_own = |share: &&Share| {
        let is_named = [ShareKind::OwnWork, ShareKind::SystemCall].contains(&share.kind());
        is_named || share.cause.source.is_unknown_on_cpu()
    };
    let own = outlier.blame.shares.iter().filter(is_own);
    let own = Nanos(own.map(|share| share.ns.0).sum());
    let is_unusual = own.0 >= median.0.saturating_mul(UNUSUAL) && own.0 >= outlier.latency_ns.0 / 2;
    is_unusual.then(|| {
        format!(" It was on its CPU for {own}; the median job of this thread for {median}.")
    })
}

/// Returns for how much of the run jobs were watched, or `None` if they were watched for the whole
/// run.
fn part_of_time(recording: &Recording, jobs: &Jobs) -> Option<String> {
    let windows = jobs.windows.as_ref().filter(|one| !one.light_between)?;
    let part = watched(recording, windows);
    (part < ALL).then(|| percent(part))
}

/// A larger share counts as the whole run, because one poll more or less does not matter.
const ALL: f64 = 0.99;

fn watched(recording: &Recording, windows: &JobWindows) -> f64 {
    let whole = recording.duration_ns.0.max(1);
    (windows.watched_ns.0 as f64 / whole as f64).min(1.0)
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent < 1.0 => format!("{percent:.2}%"),
        percent => format!("{percent:.1}%"),
    }
}

/// Returns the release wait and the execution times of each thread. For a thread without a release
/// wait, lists its waits instead.
pub(super) fn sections(recording: &Recording) -> Vec<Section> {
    let jobs = recording
        .explanation
        .as_ref()
        .and_then(|all| all.jobs.as_ref());
    let Some(jobs) = jobs else {
        return Vec::new();
    };
    let mut sections = vec![released(recording, jobs)];
    let without: Vec<&ThreadJobs> = (jobs.threads.iter())
        .filter(|one| one.release.is_none() && !one.wait_calls.is_empty())
        .collect();
    if !without.is_empty() {
        let table = Block::Table(waits(recording, &without));
        sections.push(
            Section::new(vec![table])
                .heading(Medium::Both, "Waits of threads without a release wait"),
        );
    }
    sections
}

fn released(recording: &Recording, jobs: &Jobs) -> Section {
    let columns = vec![
        Column::left("thread").cut_to(12).most(24),
        Column::left("released by").fold(Fold::Wrap(18)),
        Column::right("period").drop(2),
        Column::right("jobs"),
        Column::right("over"),
        Column::right("execution p50"),
        Column::right("p99"),
        Column::right("max"),
    ];
    let with = jobs.threads.iter().filter(|one| one.release.is_some());
    let mut with: Vec<&ThreadJobs> = with.collect();
    with.sort_by_key(|one| !is_real_time(recording, one.thread));
    let rows = with.into_iter().map(|one| {
        let release = one.release.as_ref();
        let quantile = |quantile| one.execution.supported_quantile(quantile);
        Row::new([
            title(recording, one),
            released_by_any(one),
            or_dash(release.and_then(|release| release.period_ns)),
            grouped(one.jobs),
            grouped(one.over_budget),
            or_dash(quantile(0.5)),
            or_dash(quantile(0.99)),
            or_dash(longest(&one.execution)),
        ])
    });
    let table = Table::new(columns, rows.collect()).at_most(THREADS);
    let mut blocks = vec![Block::Table(
        table.further("further thread", "further threads"),
    )];
    blocks.extend(notes::notes(recording, jobs).into_iter().map(Block::faint));
    Section::new(blocks).heading(Medium::Both, format!("Jobs, budget {}", jobs.budget_ns))
}

fn or_dash(value: Option<Nanos>) -> String {
    figures::text_or_dash(value.map(|value| value.to_string()))
}

fn longest(histogram: &Histogram) -> Option<Nanos> {
    histogram.max()
}

fn title(recording: &Recording, jobs: &ThreadJobs) -> String {
    let thread = recording.threads.get(jobs.thread as usize);
    thread.map_or_else(
        || format!("thread {}", jobs.thread),
        |thread| thread.title(),
    )
}

/// Returns the release wait of a thread, or all its idle waits.
fn released_by_any(one: &ThreadJobs) -> String {
    let first = one.release.iter().chain(&one.second_release);
    let all: Vec<String> = first.chain(&one.also_idle_in).map(released_by).collect();
    all.join(" or ")
}

/// Returns a release wait such as `clock_nanosleep, CLOCK_MONOTONIC (as requested)`.
fn released_by(release: &ReleaseWait) -> String {
    let mut text = wait_label(&release.call, release.object.as_deref());
    if release.choice == ReleaseChoice::Requested {
        text.push_str(" (as requested)");
    }
    text
}

fn wait_label(call: &str, object: Option<&str>) -> String {
    match object {
        Some(object) => format!("{call}, {object}"),
        None => call.to_owned(),
    }
}

fn waits(recording: &Recording, threads: &[&ThreadJobs]) -> Table {
    let columns = vec![
        Column::left("thread").cut_to(12).most(24),
        Column::left("waits in").fold(Fold::Wrap(18)),
        Column::right("period").drop(1),
        Column::right("waits"),
        Column::right("total"),
    ];
    let rows = threads.iter().flat_map(|one| {
        one.wait_calls.iter().map(|seen| {
            Row::new([
                title(recording, one),
                wait_label(&seen.call, seen.object.as_deref()),
                or_dash(seen.period_ns),
                grouped(seen.count),
                seen.total_ns.to_string(),
            ])
        })
    });
    let table = Table::new(columns, rows.collect()).at_most(THREADS);
    table.further("further wait", "further waits")
}

#[cfg(test)]
mod tests {
    use punctual_model::{Explanation, WaitCall, testing};

    use super::*;

    #[test]
    fn pool_thread_names_both_waits() {
        let release = |call: &str| ReleaseWait {
            call: call.to_owned(),
            ..ReleaseWait::default()
        };
        let wait = |call: &str| WaitCall {
            call: call.to_owned(),
            object: None,
            count: 100,
            total_ns: Nanos::from_millis(500),
            period_ns: None,
        };
        let recording = testing::recording(1, 10);
        let thread = ThreadJobs {
            release: Some(release("epoll_pwait")),
            second_release: Some(release("futex")),
            candidates: vec![wait("epoll_pwait"), wait("futex")],
            ..ThreadJobs::default()
        };
        assert_eq!(released_by_any(&thread), "epoll_pwait or futex");
        let jobs = Jobs {
            threads: vec![thread; 5],
            ..Jobs::default()
        };
        let noted = notes::notes(&recording, &jobs).join("\n");
        assert!(noted.contains(" and 2 more: threads of a pool"), "{noted}");
        // Both waits are release waits, so none of them is a mere candidate.
        assert!(!noted.contains("several waits may be"), "{noted}");
    }

    /// Returns a run of 10 s that watched jobs for 2 s.
    fn watched_in_part() -> Recording {
        let mut recording = testing::recording(1, 10);
        recording.duration_ns = Nanos::from_secs(10);
        recording.explanation = Some(Explanation {
            jobs: Some(Jobs {
                budget_ns: Nanos::from_millis(1),
                windows: Some(JobWindows {
                    limit: 0.02,
                    taken: 0.019,
                    count: 12,
                    watched_ns: Nanos::from_secs(2),
                    call_ns: Nanos(280),
                    other_call_ns: Nanos(150),
                    light_between: false,
                }),
                threads: vec![ThreadJobs {
                    jobs: 5_000,
                    ..ThreadJobs::default()
                }],
                ..Jobs::default()
            }),
            ..Explanation::default()
        });
        recording
    }

    #[test]
    fn light_stage_counts_all_jobs() {
        let mut recording = watched_in_part();
        let jobs = recording
            .explanation
            .as_mut()
            .unwrap()
            .jobs
            .as_mut()
            .unwrap();
        jobs.windows.as_mut().unwrap().light_between = true;
        let thread = &mut jobs.threads[0];
        thread.busy_since_ns = Nanos::from_secs(2);
        thread.busy_ns = Nanos::from_secs(7);
        let jobs = jobs.clone();
        let answer = sentence(&recording).unwrap();
        let start = "None of 5,000 jobs took longer than 1.00 ms";
        assert!(answer.starts_with(start), "{answer}");
        let notes = notes::notes(&recording, &jobs).join("\n");
        for part in [
            "all jobs were counted",
            "in 12 windows, 20.0% of the time",
            "busy without pause since 2.00 s: 7.00 s; saturated",
        ] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
    }

    #[test]
    fn partial_time_answer_says_so() {
        let mut recording = watched_in_part();
        let answer = sentence(&recording).unwrap();
        let start = "None of 5,000 jobs, seen in 20.0% of the time, took longer than 1.00 ms";
        assert!(answer.starts_with(start), "{answer}");
        let notes = |recording: &Recording| {
            let jobs = recording.explanation.as_ref().unwrap().jobs.clone();
            notes::notes(recording, &jobs.unwrap()).join("\n")
        };
        let note = notes(&recording);
        assert!(
            note.contains("2.00 s in 12 windows, 20.0% of the time"),
            "{note}"
        );
        assert!(note.contains("would use about 9.5%"), "{note}");
        assert!(note.contains("may include outliers"), "{note}");
        recording.duration_ns = Nanos::from_secs(2);
        let answer = sentence(&recording).unwrap();
        assert!(
            answer.starts_with("None of 5,000 jobs took longer"),
            "{answer}"
        );
        let note = notes(&recording);
        assert!(
            note.contains("watched for the whole time, which used 1.9% of a CPU"),
            "{note}"
        );
    }
}
