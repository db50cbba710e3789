//! Notes that qualify the counts of jobs.

use punctual_model::{
    JobWindows, Jobs, Nanos, Recording, ReleaseChoice, ReleaseWait, ThreadJobs, WaitCall, grouped,
    listed,
};

use super::{ALL, percent, released_by, title, wait_label, watched};

/// Maximum number of threads with a note of each kind.
const NOTED: usize = 3;

/// A thread that does not sleep in its release wait for this time is saturated.
const SATURATED: Nanos = Nanos::from_secs(1);

/// Returns a note about a thread, if there is something to note.
type OfThread = fn(&Recording, &ThreadJobs) -> Option<String>;

/// The notes about single threads, in the order in which they are shown.
const OF_THREADS: [OfThread; 6] = [
    stopped,
    other_candidates,
    earlier,
    not_counted,
    busy,
    reserved,
];

/// Returns notes that qualify the counts.
pub(super) fn notes(recording: &Recording, jobs: &Jobs) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(jobs.windows.as_ref().map(|one| windows(recording, one)));
    let in_stop = |one: &ThreadJobs| one.released_while_stopped;
    let at_once = jobs.threads.iter();
    let at_once: u64 = at_once
        .map(|one| one.released_at_once.saturating_sub(in_stop(one)))
        .sum();
    if at_once > 0 {
        let jobs = punctual_model::counted(at_once, "job", "jobs");
        notes.push(format!(
            "{jobs} began without a wait, because the thread returned to its release wait after \
             the next release. The time of that release is unknown, so the response time is \
             counted from the return"
        ));
    }
    notes.extend(pools(recording, jobs));
    notes.extend(idle_threads(recording, jobs));
    for note in OF_THREADS {
        let noted = jobs.threads.iter().filter_map(|one| note(recording, one));
        notes.extend(noted.take(NOTED));
    }
    if jobs.caused_by_observer > 0 {
        let outliers = punctual_model::counted(jobs.caused_by_observer, "outlier", "outliers");
        notes.push(format!(
            "{outliers} caused by punctual itself while it recorded the events"
        ));
    }
    notes
}

/// Returns the other waits that may release the jobs of a thread.
fn other_candidates(recording: &Recording, one: &ThreadJobs) -> Option<String> {
    let release = one.release.as_ref()?;
    let is = |wait: &&WaitCall, of: &ReleaseWait| wait.call == of.call && wait.object == of.object;
    let chosen = one.candidates.iter().find(|wait| is(wait, release))?;
    let more = one.second_release.iter().chain(&one.also_idle_in);
    let others: Vec<&WaitCall> = (one.candidates.iter())
        .filter(|wait| !is(wait, release) && !more.clone().any(|idle| is(wait, idle)))
        .collect();
    if release.choice == ReleaseChoice::Requested {
        return None;
    }
    let option = release_option(others.first()?);
    let others: Vec<String> = (others.iter())
        .map(|wait| {
            let label = wait_label(&wait.call, wait.object.as_deref());
            format!(
                "{label}: {} in {} waits",
                wait.total_ns,
                grouped(wait.count)
            )
        })
        .collect();
    Some(format!(
        "{}: several waits may be the release wait: {} took {} in {} waits; {}. Use --release to \
         select another wait, for example --release {option}",
        title(recording, one),
        released_by(release),
        chosen.total_ns,
        grouped(chosen.count),
        others.join("; ")
    ))
}

/// Returns the value of `--release` that selects a wait.
fn release_option(wait: &WaitCall) -> String {
    let name = match wait.call.as_str() {
        name if name.starts_with("epoll_") => "epoll",
        "clock_nanosleep" => "nanosleep",
        name => name,
    };
    let object = wait.object.as_deref().unwrap_or_default();
    let number = object.strip_prefix("descriptor ").unwrap_or_default();
    match number.split(' ').next() {
        Some("") | None => name.to_owned(),
        Some(number) => format!("{name}:{number}"),
    }
}

/// Returns the names of the threads that fit; `None` if there are none.
fn named(recording: &Recording, jobs: &Jobs, fits: impl Fn(&ThreadJobs) -> bool) -> Option<String> {
    let fitting = jobs.threads.iter().filter(|one| fits(one));
    let names: Vec<String> = fitting.map(|one| title(recording, one)).collect();
    (!names.is_empty()).then(|| listed(&names, NOTED))
}

/// Returns which threads are idle in several waits, without being threads of a pool.
fn idle_threads(recording: &Recording, jobs: &Jobs) -> Option<String> {
    let names = named(recording, jobs, |one| !one.also_idle_in.is_empty())?;
    Some(format!(
        "{names}: idle in several waits, with tiny bursts of work between them. A job ends at the \
         next of these waits. Use --release to select one of them"
    ))
}

/// Returns which threads belong to a pool.
fn pools(recording: &Recording, jobs: &Jobs) -> Option<String> {
    let names = named(recording, jobs, |one| one.second_release.is_some())?;
    Some(format!(
        "{names}: threads of a pool. One idle thread at a time waits for events of the process, \
         and the others are parked in a futex. A job ends when the thread sleeps in one of these \
         waits, so a job is not a request or a task. Use --release to select one of the waits"
    ))
}

/// Returns how many jobs of a thread began late because it was stopped.
fn stopped(recording: &Recording, one: &ThreadJobs) -> Option<String> {
    let count = one.released_while_stopped;
    (count > 0).then(|| {
        let longest = one.longest_stop_ns;
        format!(
            "{}: a signal or a debugger stopped the thread in its release wait, so {} began late, by \
             at most {longest}. The exact time of the release is unknown, so the response time is \
             counted from the end of the stop",
            title(recording, one),
            punctual_model::counted(count, "job", "jobs"),
        )
    })
}

/// Returns the earlier release waits of a thread.
fn earlier(recording: &Recording, one: &ThreadJobs) -> Option<String> {
    if one.earlier_releases.is_empty() {
        return None;
    }
    let earlier: Vec<String> = one.earlier_releases.iter().map(released_by).collect();
    Some(format!(
        "{}: the release wait changed; earlier jobs began with {}",
        title(recording, one),
        earlier.join(", then ")
    ))
}

/// Returns the time without counted jobs of a thread.
fn not_counted(recording: &Recording, one: &ThreadJobs) -> Option<String> {
    (one.not_counted_ns > Nanos::ZERO).then(|| {
        format!(
            "{}: jobs in {} were not counted, because its release wait was not yet known",
            title(recording, one),
            one.not_counted_ns
        )
    })
}

/// Compares the jobs of a SCHED_DEADLINE thread with its reservation.
fn reserved(recording: &Recording, one: &ThreadJobs) -> Option<String> {
    let reservation = one.reservation.as_ref()?;
    let number = |count: u64| match count {
        0 => "none".to_owned(),
        _ => grouped(count),
    };
    let deadline = match reservation.over_deadline {
        0 => "none is known to have ended".to_owned(),
        count => format!("at least {} ended", grouped(count)),
    };
    Some(format!(
        "{}: SCHED_DEADLINE reserves {} in each {}. Of {}, {} ran for longer than that, and \
         {deadline} after the deadline, {} after the release",
        title(recording, one),
        reservation.runtime_ns,
        reservation.period_ns,
        punctual_model::counted(reservation.jobs, "job", "jobs"),
        number(reservation.over_runtime),
        reservation.deadline_ns,
    ))
}

/// Returns the longest time in which a thread did not wait for a job.
fn busy(recording: &Recording, one: &ThreadJobs) -> Option<String> {
    (one.busy_ns >= SATURATED).then(|| {
        format!(
            "{}: busy without pause since {}: {}; saturated. Its release wait returned without a \
             sleep, so its jobs in this time are not counted. --detail full counts them",
            title(recording, one),
            one.busy_since_ns,
            one.busy_ns
        )
    })
}

fn windows(recording: &Recording, windows: &JobWindows) -> String {
    let (taken, limit) = (percent(windows.taken), percent(windows.limit));
    let calls = format!(
        "{} for each system call of a watched thread, {} for each system call of another thread",
        windows.call_ns, windows.other_call_ns
    );
    let part = watched(recording, windows);
    let limit = if windows.light_between && windows.taken > windows.limit {
        format!("{limit}, which a window for outliers may exceed at first")
    } else {
        limit
    };
    if windows.light_between {
        return format!(
            "all jobs were counted. System calls, page faults and interrupts were recorded only in \
             {}, {} of the time, which used {taken} of a CPU (limit: {limit}; {calls}); the causes of \
             other jobs are partly unknown, and several jobs without a wait between them count as \
             one. --detail full records everything, at a higher cost",
            punctual_model::counted(windows.count, "window", "windows"),
            percent(part),
        );
    }
    if part >= ALL {
        return format!(
            "jobs were watched for the whole time, which used {taken} of a CPU (limit: {limit}; \
             {calls})"
        );
    }
    format!(
        "jobs were watched for {} in {}, {} of the time, which used {taken} of a CPU (limit: \
         {limit}; {calls}). Watching the whole time would use about {}. Jobs that began between \
         the windows were not seen and may include outliers",
        windows.watched_ns,
        punctual_model::counted(windows.count, "window", "windows"),
        percent(part),
        percent(windows.taken / part.max(f64::EPSILON)),
    )
}

#[cfg(test)]
mod tests {
    use punctual_model::{Reservation, testing};

    use super::*;

    #[test]
    fn doubtful_release_waits_are_noted() {
        let wait = |fd: u32, ms: u64| WaitCall {
            call: "epoll_wait".to_owned(),
            object: Some(format!("descriptor {fd}")),
            count: 1_200,
            total_ns: Nanos::from_millis(ms),
            period_ns: None,
        };
        let release = |fd: u32| ReleaseWait {
            call: "epoll_wait".to_owned(),
            object: Some(format!("descriptor {fd}")),
            ..ReleaseWait::default()
        };
        let recording = testing::recording(1, 10);
        let mut jobs = Jobs {
            threads: vec![ThreadJobs {
                release: Some(release(4)),
                candidates: vec![wait(4, 900), wait(8, 300)],
                earlier_releases: vec![release(6)],
                not_counted_ns: Nanos::from_millis(1_700),
                released_at_once: 3,
                released_while_stopped: 3,
                longest_stop_ns: Nanos::from_millis(12),
                ..ThreadJobs::default()
            }],
            ..Jobs::default()
        };
        let noted = notes(&recording, &jobs).join("\n");
        for part in [
            "epoll_wait, descriptor 4 took 900 ms in 1,200 waits; epoll_wait, descriptor 8: 300 ms",
            "the release wait changed; earlier jobs began with epoll_wait, descriptor 6",
            "jobs in 1.70 s were not counted",
            "so 3 jobs began late, by at most 12.0 ms",
            "--release epoll:8",
        ] {
            assert!(noted.contains(part), "{part}: {noted}");
        }
        // A single wait, or one that the user requested, was not chosen automatically, so there is
        // no note.
        assert!(!noted.contains("without a wait"), "{noted}");
        let thread = &mut jobs.threads[0];
        (thread.earlier_releases, thread.not_counted_ns) = (Vec::new(), Nanos::ZERO);
        (thread.released_at_once, thread.released_while_stopped) = (0, 0);
        thread.release.as_mut().unwrap().choice = ReleaseChoice::Requested;
        assert_eq!(notes(&recording, &jobs), [""; 0]);
        let thread = &mut jobs.threads[0];
        thread.release = Some(release(4));
        thread.candidates.truncate(1);
        assert_eq!(notes(&recording, &jobs), [""; 0]);
    }

    #[test]
    fn reservation_is_compared_with_its_use() {
        let recording = testing::recording(1, 10);
        let mut reservation = Reservation {
            runtime_ns: Nanos::from_millis(2),
            deadline_ns: Nanos::from_millis(8),
            period_ns: Nanos::from_millis(10),
            jobs: 1_500,
            over_runtime: 12,
            over_deadline: 3,
        };
        let mut note = |change: fn(&mut Reservation)| {
            change(&mut reservation);
            let one = ThreadJobs {
                reservation: Some(reservation.clone()),
                ..ThreadJobs::default()
            };
            let jobs = Jobs {
                threads: vec![one],
                ..Jobs::default()
            };
            notes(&recording, &jobs).join("\n")
        };
        let used = note(|_| {});
        let expected = "SCHED_DEADLINE reserves 2.00 ms in each 10.0 ms. Of 1,500 jobs, 12 ran for \
                        longer than that, and at least 3 ended after the deadline, 8.00 ms after \
                        the release";
        assert!(used.ends_with(expected), "{used}");
        // The deadline that the kernel set may be earlier, so no miss is excluded.
        let unused = note(|one| (one.over_runtime, one.over_deadline) = (0, 0));
        let expected = "none ran for longer than that, and none is known to have ended after";
        assert!(unused.contains(expected), "{unused}");
    }
}
