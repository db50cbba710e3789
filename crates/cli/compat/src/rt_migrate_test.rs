//! rt-migrate-test checks that the highest-priority threads run, whichever CPU becomes free.
//!
//! The facts about the original are from rt-tests, `src/rt-migrate-test/rt-migrate-test.c`, and
//! from the output of version 2.4.

use std::fmt::Write as _;
use std::sync::Arc;

use punctual_formats::JsonThreads;
use punctual_model::{CpuSet, Nanos, Recording, ThreadRecord};
use punctual_session::{PhaseRequest, Request, RunLength, Snapshot, Watcher, WorkerView};
use serde::Serialize;

use crate::machine::Machine;
use crate::option_row::{OptionRow, put, specs};
use crate::options::Common;
use crate::{
    CompatError, Difference, Family, Parsed, Tool, ToolContext, Uses, json, shared, values,
};

pub(crate) const TOOL: Tool = Tool {
    name: "rt-migrate-test",
    summary: "whether the N highest-priority threads of N+1 run on N CPUs",
    uses: Uses::Probe("migrate"),
    family: Family::RtTests,
    options: &specs::<_, { OPTIONS.len() }>(OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "The tasks wake one after the other, the lowest priority first. The lowest task, \
                which has to wait, has no figures. So task 0 is the second lowest.",
            why: "The original wakes all tasks at once. It is then by chance whether a task has to \
                preempt another one.",
        },
        Difference {
            what: "The figures of a task are the times from its wake-up to its start. The table of \
                all iterations is missing.",
            why: "The original measures from the start of the iteration. The samples of each \
                iteration are in the recording.",
        },
        Difference {
            what: "With `-c`, the test fails if a task waited longer than `-m` while a task of \
                lower priority ran, at any time of an iteration. The run is not stopped.",
            why: "The original compares only the starts of the tasks.",
        },
        Difference {
            what: "`-r` and `-s` set the times. NR_TASKS tasks run on NR_TASKS-1 CPUs.",
            why: "The original always runs for 20 ms and sleeps for 100 ms.",
        },
        Difference {
            what: "`-e` is refused.",
            why: "Tasks of the same priority may run in any order, so their order shows nothing.",
        },
        Difference {
            what: "The tool prints no progress bar. If a signal ends the run, the status is 0 unless the \
                check failed.",
            why: "The original then ends with status 1, as after a wrong option.",
        },
    ],
    run,
};

/// The settings from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Settings {
    common: Common,
    check: bool,
    loops: u64,
    max_error_us: u64,
    priority: u8,
    run_ms: u64,
    sleep_ms: u64,
}

impl AsMut<Common> for Settings {
    fn as_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// In the order of the original's help.
const OPTIONS: &[OptionRow<Settings>] = &[
    OptionRow::flag(
        "-c --check",
        "fail if a task waited while one of lower priority ran",
        |settings| settings.check = true,
    ),
    OptionRow::DURATION,
    OptionRow::new(
        "-e --equal",
        "refused: tasks of equal priority have no order to check",
        |_, _, _| {
            Err(CompatError::Usage(
            "--equal: tasks of the same priority may run in any order, so nothing can be checked: \
             leave it out"
                .to_owned(),
        ))
        },
    ),
    OptionRow::HELP,
    OptionRow::JSON,
    OptionRow::new(
        "-l --loops=LOOPS",
        "number of iterations; default 50",
        put!(loops = |given| given.at_least(1)?),
    ),
    OptionRow::new(
        "-m --maxerr=TIME",
        "longest accepted run of a lower task while a higher one waits, in us; default 1000",
        put!(max_error_us = |given| given.micros_from(0)?),
    ),
    OptionRow::new(
        "-p --prio=PRIO",
        "priority of the lowest task; default 2",
        put!(priority = |given| given.priority()?),
    ),
    OptionRow::accepted("-q --quiet", "no effect: no progress bar is printed"),
    OptionRow::new(
        "-r --run-time=TIME",
        "how long the tasks run in each iteration, in ms; default 20",
        put!(run_ms = |given| given.at_least(1)?),
    ),
    OptionRow::new(
        "-s --sleep-time=TIME",
        "pause between two iterations, in ms; default 100",
        put!(sleep_ms = |given| given.at_least(1)?),
    ),
];

impl Settings {
    fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut settings = Self {
            loops: 50,
            max_error_us: 1_000,
            priority: 2,
            run_ms: 20,
            sleep_ms: 100,
            ..Self::default()
        };
        parsed.read_into(&mut settings, OPTIONS, machine)?;
        if settings.priority == 0 {
            let reason = "--prio: '0' is not a priority from 1 to 99".to_owned();
            return Err(CompatError::Usage(reason));
        }
        Ok(settings)
    }

    /// Time from the start of an iteration to the next.
    fn interval(&self) -> Nanos {
        Nanos::from_millis(self.run_ms.saturating_add(self.sleep_ms))
    }

    /// Returns the length of the run: the iterations, or less with `-D`.
    fn length(&self) -> Nanos {
        let loops = Nanos(self.interval().0.saturating_mul(self.loops));
        match self.common.duration_s {
            0 => loops,
            seconds => loops.min(Nanos::from_secs(seconds)),
        }
    }
}

/// Returns the CPUs for NR_TASKS tasks, or all usable CPUs.
fn cpus(parsed: &Parsed, allowed: &CpuSet) -> Result<CpuSet, CompatError> {
    let most = allowed.len();
    let Some(text) = parsed.operands.first() else {
        return Ok(allowed.clone());
    };
    let tasks = values::whole(text).and_then(|tasks| usize::try_from(tasks).ok());
    match tasks.and_then(|tasks| tasks.checked_sub(1)) {
        Some(cpus) if (1..=most).contains(&cpus) => Ok(allowed.iter().take(cpus).collect()),
        _ => Err(CompatError::Usage(format!(
            "NR_TASKS: '{text}' is not a number of tasks from 2 to {}: there must be one CPU less \
             than tasks, and {most} CPUs are usable",
            most + 1
        ))),
    }
}

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    for word in parsed.operands.iter().skip(1) {
        context.warn(&format!("ignored '{word}': not an option or its value"));
    }
    let machine = Machine::from_host(&context.host)?;
    let settings = Settings::read(parsed, &machine)?;
    let cpus = cpus(parsed, &machine.allowed)?;
    let file = shared::json_file(settings.common.json.as_ref())?;
    let session = shared::prepare(request(&settings, cpus, context)?, context)?;
    let stop = Arc::clone(&context.signals.stop);
    let mut view = View::default();
    let outcome = session.run(context.store.as_deref(), &mut view, &stop)?;
    let recording = &outcome.recording;
    let tasks = tasks(recording, &view.tids);
    write!(context.out, "{}", text(&tasks, std::process::id()))?;
    let failed = settings.check && violations(recording) > 0;
    if settings.check {
        let word = if failed { "Failed" } else { "Passed" };
        writeln!(context.out, " {word}!")?;
    }
    let status = if failed { 255 } else { 0 };
    if settings.common.json.is_some() {
        let body = JsonThreads::new(tasks, context.additions(recording, None));
        let bytes = json::file(context, &recording.host, u8::from(failed), &body)?;
        shared::put_json(file, &bytes, context)?;
    }
    context.report_outcome(&outcome);
    Ok(status)
}

fn request(
    settings: &Settings,
    cpus: CpuSet,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let highest = usize::from(settings.priority) + cpus.len();
    let Some(highest) = u8::try_from(highest).ok().filter(|highest| *highest <= 99) else {
        return Err(CompatError::Usage(format!(
            "--prio: with {} tasks from priority {} on, the highest has priority {highest}, above \
             99",
            cpus.len() + 1,
            settings.priority
        )));
    };
    let parameters = [
        (
            "interval",
            shared::micros(settings.interval().whole_micros()),
        ),
        ("run", format!("{}ms", settings.run_ms)),
        ("tolerance", shared::micros(settings.max_error_us)),
    ];
    let length = RunLength::For(settings.length());
    Ok(Request {
        cpus: Some(cpus),
        phases: vec![PhaseRequest::only(length, Vec::new())],
        ..shared::request(context, "migrate", &parameters, highest, 0)?
    })
}

/// Notes the IDs of the threads, which the recording does not contain.
#[derive(Default)]
struct View {
    tids: Vec<i32>,
}

impl Watcher for View {
    fn begin(&mut self, _: &Recording) {}

    fn progress(&mut self, snapshot: &Snapshot) {
        let tid = |worker: &WorkerView| worker.tid.map_or(0, punctual_rt::Tid::as_raw);
        self.tids = snapshot.workers.iter().map(tid).collect();
    }

    fn end(&mut self) {}
}

/// Returns how often a task waited too long while one of lower priority ran. Rounds that could not
/// be judged count too, because nothing shows that they were right.
fn violations(recording: &Recording) -> u64 {
    let rows = shared::rows(recording, "rounds", ["violations", "not_judged"]);
    rows.map(|[violations, not_judged]| violations + not_judged)
        .sum()
}

/// The figures of a task in whole µs, in the order of the JSON keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Task {
    prio: u8,
    min: u64,
    avg: u64,
    max: u64,
    total: u64,
    #[serde(skip)]
    tid: i32,
}

fn tasks(recording: &Recording, tids: &[i32]) -> Vec<Task> {
    let of = |time: Option<Nanos>| time.map_or(0, Nanos::whole_micros);
    let threads = recording.threads.iter().enumerate();
    let task = |(place, thread): (usize, &ThreadRecord)| Task {
        prio: thread.scheduling.priority,
        min: of(thread.histogram.min()),
        avg: of(thread.histogram.mean()),
        max: of(thread.histogram.max()),
        total: of(thread.histogram.mean()).saturating_mul(thread.histogram.count()),
        tid: tids.get(place).copied().unwrap_or(0),
    };
    threads.map(task).collect()
}

/// Returns the lines of all tasks, as the original prints them.
fn text(tasks: &[Task], parent: u32) -> String {
    let mut text = format!("Parent pid: {parent}\n");
    for (place, task) in tasks.iter().enumerate() {
        let _ = write!(
            text,
            " Task {place} (prio {}) (pid {}):\n   Max: {} us\n   Min: {} us\n   Tot: {} us\n   \
             Avg: {} us\n\n",
            task.prio, task.tid, task.max, task.min, task.total, task.avg
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use punctual_model::{Cell, Table};

    use super::*;
    use crate::getopt;

    fn machine() -> Machine {
        Machine {
            present: "0-3".parse().unwrap(),
            allowed: "0-3".parse().unwrap(),
        }
    }

    fn parsed(line: &str) -> Parsed {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        getopt::parse(&words, TOOL.options, false).unwrap()
    }

    fn read(line: &str) -> Result<Settings, CompatError> {
        Settings::read(&parsed(line), &machine())
    }

    #[test]
    fn times_and_loops_give_the_length() {
        assert_eq!(read("").unwrap().length(), Nanos::from_secs(6));
        assert_eq!(
            read("-l 5 -r 10 -s 40").unwrap().length(),
            Nanos::from_millis(250)
        );
        assert_eq!(read("-D 2").unwrap().length(), Nanos::from_secs(2));
        assert_eq!(read("-D 9m").unwrap().length(), Nanos::from_secs(6));
        for line in ["-l 0", "-p 0", "-p 100", "-r x", "-e", "-s -1"] {
            assert!(matches!(read(line), Err(CompatError::Usage(_))), "{line}");
        }
    }

    #[test]
    fn tasks_need_one_cpu_less() {
        let of = |line| cpus(&parsed(line), &machine().allowed).map(|cpus| cpus.to_string());
        assert_eq!(of("").unwrap(), "0-3");
        assert_eq!(of("3").unwrap(), "0-1");
        assert_eq!(of("5").unwrap(), "0-3");
        for line in ["6", "1", "0", "x"] {
            let error = of(line).unwrap_err().to_string();
            assert!(error.contains("from 2 to 5"), "{error}");
        }
    }

    /// A task in the output of rt-migrate-test 2.4.
    #[test]
    fn text_is_the_originals() {
        let task = Task {
            prio: 3,
            min: 28,
            avg: 49,
            max: 67,
            total: 249,
            tid: 6_664,
        };
        assert_eq!(
            text(&[task], 6_662),
            "Parent pid: 6662\n Task 0 (prio 3) (pid 6664):\n   Max: 67 us\n   Min: 28 us\n   \
             Tot: 249 us\n   Avg: 49 us\n\n"
        );
    }

    #[test]
    fn violations_and_unjudged_rounds_fail() {
        let with = |violations: u64, not_judged: u64| {
            let columns = [
                ("judged", ""),
                ("not_judged", ""),
                ("violations", ""),
                ("longest_ns", ""),
                ("total_ns", ""),
            ];
            let mut table = Table::new("rounds", "", &columns);
            let counts = [50, not_judged, violations, 0, 0];
            table.push(counts.map(Cell::Count));
            let mut recording = punctual_model::testing::recording(1, 0);
            recording.tables = vec![table];
            super::violations(&recording)
        };
        assert_eq!(with(0, 0), 0);
        assert_eq!(with(2, 0), 2);
        assert_eq!(with(0, 1), 1);
    }
}
