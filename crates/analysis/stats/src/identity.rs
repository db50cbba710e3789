//! Identity of an application's threads across restarts: by role and name, never by ID.

use std::collections::BTreeMap;

use punctual_model::{Nanos, ProbeRun, Recording, ThreadRecord, counted};

/// Least difference of the number of jobs that is stated, as a share.
const APART: f64 = 0.05;

/// Returns whether the threads of a recording belong to a watched application.
pub(crate) fn is_application(recording: &Recording) -> bool {
    recording.probe.is_observed()
}

/// Returns the identity of each thread: `motion (main)`, `worker`. Threads of a pool share one.
pub(crate) fn identities(recording: &Recording) -> Vec<String> {
    let leaders = leaders(recording);
    let identity = |thread: &ThreadRecord| {
        let title = thread.title();
        let Some((name, tid)) = title.rsplit_once('-') else {
            return title;
        };
        let Ok(tid) = tid.parse::<u64>() else {
            return title;
        };
        if leaders.contains(&tid) {
            format!("{} (main)", folded(name))
        } else {
            folded(name)
        }
    };
    recording.threads.iter().map(identity).collect()
}

/// Returns the IDs of the main threads, which are those of the processes.
fn leaders(recording: &Recording) -> Vec<u64> {
    let parameters = &recording.probe.parameters;
    if let Some(known) = parameters
        .get(ProbeRun::PROCESSES)
        .and_then(|all| all.as_array())
    {
        return known.iter().filter_map(serde_json::Value::as_u64).collect();
    }
    // Older recordings contain only the processes that were requested by ID.
    let named = recording.probe.watched().unwrap_or_default();
    let ids = named.split("(pid ").skip(1);
    ids.filter_map(|rest| rest.split(')').next()?.parse().ok())
        .collect()
}

/// Returns a name without its numbers: `worker-3` and `worker12` are `worker`, and `rx3-eth0` is
/// `rxN-eth`. A name of digits only is kept.
fn folded(name: &str) -> String {
    let is_mark = |c: char| c.is_ascii_digit() || "-_#:/. ".contains(c);
    let short = name.trim_end_matches(is_mark);
    if short.is_empty() || !name[short.len()..].contains(|c: char| c.is_ascii_digit()) {
        return fold_inner(name);
    }
    fold_inner(short)
}

/// Replaces each number within a name by `N`.
fn fold_inner(name: &str) -> String {
    let mut text = String::new();
    let mut in_number = false;
    for c in name.chars() {
        if !c.is_ascii_digit() {
            text.push(c);
        } else if !in_number {
            text.push('N');
        }
        in_number = c.is_ascii_digit();
    }
    if text.chars().all(|c| c == 'N') {
        return name.to_owned();
    }
    text
}

/// Returns the threads with samples by their identity.
fn with_samples(recording: &Recording) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (name, thread) in identities(recording).into_iter().zip(&recording.threads) {
        if thread.accounting.recorded > 0 && name != ThreadRecord::LATER {
            *all.entry(name).or_default() += 1;
        }
    }
    all
}

/// Returns the threads of a side in words: `motion (main), worker (12 threads)`.
pub(crate) fn listed(runs: &[&Recording]) -> String {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for run in runs {
        for (name, count) in with_samples(run) {
            let known = all.entry(name).or_default();
            *known = count.max(*known);
        }
    }
    let text = |(name, count): (&String, &u64)| match count {
        1 => name.clone(),
        count => format!("{name} ({count} threads)"),
    };
    let texts: Vec<String> = all.iter().map(text).collect();
    if texts.is_empty() {
        "no thread with jobs".to_owned()
    } else {
        texts.join(", ")
    }
}

/// Returns whether a channel of this name may be compared without others. Threads that were created
/// later have no identity, so they prove no match.
pub(crate) fn is_identity(title: &str) -> bool {
    title != ThreadRecord::LATER
}

/// Returns how the sets of threads differ: different numbers, and threads of one side only.
pub(crate) fn changes(sides: [&[&Recording]; 2]) -> Vec<String> {
    let [Some(a), Some(b)] = sides.map(|runs| runs.first().copied()) else {
        return Vec::new();
    };
    if !is_application(a) {
        return Vec::new();
    }
    let [a, b] = [a, b].map(with_samples);
    let mut said = Vec::new();
    for (name, count) in &a {
        match b.get(name) {
            Some(other) if other != count => said.push(format!(
                "the number of threads {name} changed: {count}, then {other}"
            )),
            Some(_) => {}
            None => said.push(format!("only the baseline has threads {name} ({count})")),
        }
    }
    let new = b.iter().filter(|(name, _)| !a.contains_key(*name));
    said.extend(
        new.map(|(name, count)| format!("only the candidate has threads {name} ({count})")),
    );
    said
}

/// Returns how many events each side has lost. The jobs in such a gap are not compared.
pub(crate) fn lost(sides: [&[&Recording]; 2]) -> Vec<String> {
    let names = ["baseline", "candidate"].into_iter();
    let lost_of = |run: &&Recording| run.explanation.as_ref().map_or(0, |one| one.events_lost);
    let said = names.zip(sides).filter_map(|(name, runs)| {
        let applications = runs.iter().filter(|run| is_application(run));
        let lost: u64 = applications.map(lost_of).sum();
        (lost > 0).then(|| {
            let events = counted(lost, "trace event was", "trace events were");
            format!("{events} lost in the {name}, and the jobs in these gaps are not compared")
        })
    });
    said.collect()
}

/// Returns a sentence if the sides handled different numbers of jobs: `the candidate handled 12%
/// fewer jobs (100.0 a second, then 88.0)`.
pub(crate) fn handled(sides: [&[&Recording]; 2]) -> Option<String> {
    let all = || sides.into_iter().flatten();
    if !all().all(|run| is_application(run) && run.duration_ns > Nanos::ZERO) {
        return None;
    }
    let noun = if all().all(|run| run.probe.name == ProbeRun::JOBS) {
        "jobs"
    } else {
        "waits"
    };
    let per_second = sides.map(|runs| {
        let count: u64 = runs.iter().map(|run| run.accounting().recorded).sum();
        let time: f64 = runs.iter().map(|run| run.duration_ns.as_secs_f64()).sum();
        count as f64 / time
    });
    throughput_change("the candidate", noun, per_second)
}

/// Returns a sentence if the numbers per second of the baseline and of the side `who` are at least 5%
/// apart: `the candidate handled 12% fewer jobs (100.0 a second, then 88.0)`. A server with fewer
/// requests is less often late.
pub fn throughput_change(who: &str, noun: &str, [a, b]: [f64; 2]) -> Option<String> {
    let change = b / a - 1.0;
    if !change.is_finite() || change.abs() < APART {
        return None;
    }
    let by = if change.abs() < 10.0 {
        format!("{:.0}%", change.abs() * 100.0)
    } else {
        format!("{:.0} times", b / a)
    };
    let more = if change > 0.0 { "more" } else { "fewer" };
    Some(format!(
        "{who} handled {by} {more} {noun} ({a:.1} a second, then {b:.1})"
    ))
}

/// Returns the budget of the jobs, if all recordings have the same one.
pub(crate) fn budget(sides: [&[&Recording]; 2]) -> Option<Nanos> {
    let budget = |run: &&Recording| {
        let jobs = run.explanation.as_ref()?.jobs.as_ref()?;
        Some(jobs.budget_ns)
    };
    let all: Option<Vec<Nanos>> = sides.into_iter().flatten().map(budget).collect();
    let all = all?;
    let first = *all.first()?;
    all.iter().all(|one| *one == first).then_some(first)
}

/// Returns the name of the watched application without process IDs, which change at each start.
pub(crate) fn application(watched: &str) -> String {
    let mut text = String::new();
    let mut rest = watched;
    while let Some((before, after)) = rest.split_once(" (pid ") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    if text.starts_with("pid ") {
        return "a process".to_owned();
    }
    text
}

/// Returns a sentence that no thread of one application exists in the other.
pub(crate) fn no_match(sides: [&[&Recording]; 2]) -> [String; 2] {
    sides.map(|runs| {
        let name = runs.first().and_then(|run| run.probe.watched());
        let threads = runs.first().map_or(0, |run| run.threads.len() as u64);
        format!(
            "{} with {}: {}",
            name.unwrap_or("the application"),
            counted(threads.saturating_sub(1), "thread", "threads"),
            listed(runs)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_names_are_folded() {
        for (name, expected) in [
            ("worker-3", "worker"),
            ("worker12", "worker"),
            ("GC Thread#0", "GC Thread"),
            ("kworker/0:1", "kworker"),
            ("rx3-eth0", "rxN-eth"),
            ("bio_close_file", "bio_close_file"),
            ("motion-", "motion-"),
            ("42", "42"),
            ("", ""),
        ] {
            assert_eq!(folded(name), expected, "{name}");
        }
    }

    #[test]
    fn process_ids_do_not_name_an_application() {
        assert_eq!(application("motion (pid 12), io (pid 13)"), "motion, io");
        assert_eq!(application("comm motion"), "comm motion");
        assert_eq!(application("pid 17"), "a process");
    }

    /// A recording of a server: its main thread, and this number of threads of a pool.
    fn server(first: u32, pool: u32, seconds: u64) -> Recording {
        let mut recording = punctual_model::testing::recording(1 + pool, seconds);
        recording.probe.name = ProbeRun::JOBS.to_owned();
        recording.probe.chart = punctual_model::Chart::Bars;
        recording.probe.alike = false;
        recording.duration_ns = Nanos::from_secs(seconds);
        recording.load.clear();
        let parameters = &mut recording.probe.parameters;
        parameters.clear();
        parameters.insert("targets".to_owned(), format!("pid {first}").into());
        let watched = format!("redis (pid {first})");
        parameters.insert(ProbeRun::WATCHED.to_owned(), watched.into());
        parameters.insert("duration_ns".to_owned(), recording.duration_ns.0.into());
        for (place, thread) in (0..).zip(&mut recording.threads) {
            thread.cpu = None;
            thread.label = Some(match place {
                0 => format!("redis-{first}"),
                place => format!("redis-{}", first + place),
            });
        }
        recording
    }

    fn compared(a: &Recording, b: &Recording) -> Result<crate::Comparison, crate::CompareError> {
        crate::compare(a, b, &crate::Options::default())
    }

    #[test]
    fn threads_match_across_a_restart() {
        let (a, b) = (server(100, 2, 40), server(7_000, 3, 40));
        let found = compared(&a, &b).unwrap();
        let titles: Vec<&str> = (found.channels.iter())
            .filter_map(|channel| channel.title.as_deref())
            .collect();
        assert_eq!(titles, ["redis (main)", "redis"]);
        assert!(
            found.measured_differently.is_empty(),
            "{:?}",
            found.measured_differently
        );
        // The pools are combined.
        let recorded = |one: &Recording, from: usize| -> u64 {
            one.threads[from..]
                .iter()
                .map(|thread| thread.histogram.recorded())
                .sum()
        };
        assert_eq!(
            found.channels[1].recorded,
            [recorded(&a, 1), recorded(&b, 1)]
        );
        let said = "the number of threads redis changed: 2, then 3";
        assert!(
            found.cautions.iter().any(|one| one == said),
            "{:?}",
            found.cautions
        );
    }

    #[test]
    fn different_number_of_jobs_comes_first() {
        let a = server(100, 2, 40);
        let mut b = server(200, 2, 40);
        assert!(handled([&[&a], &[&b]]).is_none());
        for thread in &mut b.threads {
            thread.accounting.recorded = thread.accounting.recorded * 88 / 100;
        }
        let found = compared(&a, &b).unwrap();
        let first = "the candidate handled 12% fewer jobs (";
        assert!(found.summary.starts_with(first), "{}", found.summary);
    }

    #[test]
    fn other_application_is_refused_with_both_lists() {
        let a = server(100, 2, 40);
        let mut b = server(200, 2, 40);
        for (place, thread) in (0..).zip(&mut b.threads) {
            thread.label = Some(format!("postgres-{}", 200 + place));
        }
        let error = compared(&a, &b).unwrap_err().to_string();
        for part in [
            "baseline: redis (pid 100)",
            "redis (2 threads)",
            "postgres (2 threads)",
        ] {
            assert!(error.contains(part), "{error}");
        }
        // Threads that were created later prove no match.
        let mut a = a;
        for one in [&mut a, &mut b] {
            one.threads[2].label = Some(ThreadRecord::LATER.to_owned());
        }
        assert!(compared(&a, &b).is_err());
    }

    #[test]
    fn only_late_jobs_of_the_same_budget_are_compared() {
        let with_budget = |budget: u64| {
            let mut recording = server(100, 1, 40);
            recording.explanation = Some(punctual_model::Explanation {
                jobs: Some(punctual_model::Jobs {
                    budget_ns: Nanos(budget),
                    ..punctual_model::Jobs::default()
                }),
                ..punctual_model::Explanation::default()
            });
            recording
        };
        let (a, b, c) = (
            with_budget(50_000),
            with_budget(50_000),
            with_budget(60_000),
        );
        assert_eq!(budget([&[&a], &[&b]]), Some(Nanos(50_000)));
        assert_eq!(budget([&[&a], &[&c]]), None);
        let mut with_gap = b.clone();
        with_gap.explanation.as_mut().unwrap().events_lost = 3;
        let cautions = compared(&a, &with_gap).unwrap().cautions;
        assert!(
            cautions
                .iter()
                .any(|one| one.starts_with("3 trace events were lost in the candidate")),
            "{cautions:?}"
        );
        let found = compared(&a, &b).unwrap();
        assert!(
            found.channels[0]
                .rates
                .iter()
                .any(|rate| rate.from_ns == Some(Nanos(50_000)))
        );
    }

    #[test]
    fn only_different_throughput_is_told() {
        let of = |numbers| throughput_change("the candidate", "jobs", numbers);
        for (numbers, said) in [
            ([100.0, 88.0], "12% fewer jobs (100.0 a second, then 88.0)"),
            ([100.0, 105.1], "5% more jobs (100.0 a second, then 105.1)"),
            ([50.0, 540.0], "980% more jobs (50.0 a second, then 540.0)"),
            (
                [50.0, 600.0],
                "12 times more jobs (50.0 a second, then 600.0)",
            ),
            ([10.0, 0.0], "100% fewer jobs (10.0 a second, then 0.0)"),
        ] {
            assert_eq!(
                of(numbers).unwrap(),
                format!("the candidate handled {said}")
            );
        }
        for numbers in [
            [100.0, 104.9],
            [100.0, 95.1],
            [0.0, 5.0],
            [0.0, 0.0],
            [7.0, 7.0],
        ] {
            assert_eq!(of(numbers), None, "{numbers:?}");
        }
    }

    /// Throughput is the number of jobs by the time of all runs.
    #[test]
    fn throughput_is_compared_for_each_second() {
        let (short, long) = (server(100, 1, 20), server(200, 1, 40));
        assert_eq!(handled([&[&short], &[&long]]), None);
        let mut slow = long.clone();
        slow.duration_ns = Nanos::from_secs(80);
        let said = handled([&[&short], &[&slow]]).unwrap();
        assert_eq!(
            said,
            "the candidate handled 50% fewer jobs (2000.0 a second, then 1000.0)"
        );
        // Two runs on one side: 20 s and 80 s with 60 s of jobs.
        let said = handled([&[&short, &slow], &[&short]]).unwrap();
        assert_eq!(
            said,
            "the candidate handled 67% more jobs (1200.0 a second, then 2000.0)"
        );
        slow.probe.name = ProbeRun::OBSERVED.to_owned();
        let said = handled([&[&short], &[&slow]]).unwrap();
        assert!(said.contains("50% fewer waits"), "{said}");
        slow.duration_ns = Nanos::ZERO;
        assert_eq!(handled([&[&short], &[&slow]]), None);
        let timer = punctual_model::testing::recording(1, 3);
        assert_eq!(handled([&[&timer], &[&slow]]), None);
    }

    #[test]
    fn changed_threads_are_told_for_both_sides() {
        let name = |recording: &mut Recording, thread: usize, name: &str| {
            recording.threads[thread].label = Some(name.to_owned());
        };
        let (mut a, mut b) = (server(100, 3, 3), server(200, 4, 3));
        name(&mut a, 3, "flush-7");
        name(&mut b, 3, "io-1");
        name(&mut b, 4, "io-2");
        assert_eq!(
            changes([&[&a], &[&b]]),
            [
                "only the baseline has threads flush (1)",
                "only the candidate has threads io (2)"
            ]
        );
        assert_eq!(listed(&[&a]), "flush, redis (2 threads), redis (main)");
        assert_eq!(
            listed(&[&b]),
            "io (2 threads), redis (2 threads), redis (main)"
        );
        // The largest number of the runs.
        assert_eq!(
            listed(&[&a, &b]),
            "flush, io (2 threads), redis (2 threads), redis (main)"
        );
        // Idle threads, and threads that were created later, are not listed.
        b.threads[1].accounting.recorded = 0;
        name(&mut b, 2, ThreadRecord::LATER);
        assert_eq!(listed(&[&b]), "io (2 threads), redis (main)");
        b.threads
            .iter_mut()
            .for_each(|thread| thread.accounting.recorded = 0);
        assert_eq!(listed(&[&b]), "no thread with jobs");
        assert_eq!(changes([&[&a], &[]]), Vec::<String>::new());
        let timer = punctual_model::testing::recording(1, 3);
        assert_eq!(changes([&[&timer], &[&a]]), Vec::<String>::new());
        let [baseline, _] = no_match([&[&a], &[&b]]);
        assert_eq!(
            baseline,
            "redis (pid 100) with 3 threads: flush, redis (2 threads), redis (main)"
        );
    }

    /// Threads are `name-ID`. The process IDs tell which are main threads.
    #[test]
    fn main_threads_are_those_of_the_processes() {
        let mut recording = server(100, 2, 1);
        assert_eq!(identities(&recording), ["redis (main)", "redis", "redis"]);
        let parameters = &mut recording.probe.parameters;
        parameters.insert(ProbeRun::PROCESSES.to_owned(), vec![102u64, 5].into());
        assert_eq!(identities(&recording), ["redis", "redis", "redis (main)"]);
        recording.probe.parameters.remove(ProbeRun::PROCESSES);
        let watched = "redis (pid 7), redis (pid 101)";
        recording
            .probe
            .parameters
            .insert(ProbeRun::WATCHED.to_owned(), watched.into());
        recording.threads[2].label = Some("cpu-bound".to_owned());
        assert_eq!(
            identities(&recording),
            ["redis", "redis (main)", "cpu-bound"]
        );
    }

    #[test]
    fn lost_events_are_counted_by_side() {
        let with = |lost: u64| {
            let mut recording = server(100, 1, 2);
            recording.explanation = Some(punctual_model::Explanation {
                events_lost: lost,
                ..punctual_model::Explanation::default()
            });
            recording
        };
        let all = [0, 1, 4].map(with);
        let [none, one, four] = &all;
        assert_eq!(lost([&[none], &[none]]), Vec::<String>::new());
        let end = "and the jobs in these gaps are not compared";
        assert_eq!(
            lost([&[one, none], &[four, one]]),
            [
                format!("1 trace event was lost in the baseline, {end}"),
                format!("5 trace events were lost in the candidate, {end}"),
            ]
        );
        // The other side has no jobs, so nothing is lost.
        let mut timer = punctual_model::testing::recording(1, 2);
        timer.explanation = four.explanation.clone();
        assert_eq!(lost([&[&timer], &[none]]), Vec::<String>::new());
    }

    /// A thread that exists on both sides, but had jobs on one side only.
    #[test]
    fn idle_threads_are_not_compared() {
        let (mut a, mut b) = (server(100, 2, 40), server(200, 2, 40));
        for one in [&mut a, &mut b] {
            one.threads[2].label = Some("flush-7".to_owned());
        }
        let titles = |a: &Recording, b: &Recording| -> Vec<Option<String>> {
            let channels = compared(a, b).unwrap().channels.into_iter();
            channels.map(|channel| channel.title).collect()
        };
        let all = ["redis (main)", "redis", "flush"].map(|title| Some(title.to_owned()));
        assert_eq!(titles(&a, &b), all);
        b.threads[2].histogram = punctual_model::Histogram::new();
        assert_eq!(titles(&a, &b), all[..2]);
        assert_eq!(titles(&b, &a), all[..2]);
    }
}
