//! pi_stress checks that a thread inherits the priority of a thread that waits for its lock.
//!
//! The facts about the original are from rt-tests, `src/pi_tests/pi_stress.c`, and from the output
//! of version 2.4.

use std::io::BufRead;
use std::time::Duration;

use punctual_files::Output;
use punctual_formats::Additions;
use punctual_model::{CpuSet, Nanos, Policy, Recording};
use punctual_session::{Outcome, PhaseRequest, Request, RunLength, Snapshot, Watcher};
use serde::Serialize;

use crate::live_output::LiveOutput;
use crate::machine::Machine;
use crate::option_row::{OptionRow, put, specs};
use crate::options::Common;
use crate::{
    CompatError, Difference, Family, Given, Parsed, Tool, ToolContext, Uses, json, shared, usage,
};

pub(crate) const TOOL: Tool = Tool {
    name: "pi_stress",
    summary: "whether mutexes with priority inheritance end priority inversions",
    uses: Uses::Probe("inversion"),
    family: Family::RtTests,
    options: &specs::<_, { OPTIONS.len() }>(OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "Each group makes 2000 inversions a second at most. The threads sleep between \
                two inversions.",
            why: "The original makes as many as it can, and so uses its CPUs completely. In \
                punctual, the time that each inversion lasts is measured and recorded.",
        },
        Difference {
            what: "The tool fails (status 255, message on stderr) if in most inversions of a group \
                the middle thread ran before the high thread had its lock.",
            why: "The middle thread of the original then runs forever, so it reports a deadlock. \
                In punctual it runs for 100 us.",
        },
        Difference {
            what: "`-s` sets only the policy and the priority of the high thread. The middle and \
                the low thread have the next two lower priorities. SCHED_DEADLINE is refused.",
            why: "An inversion needs three different priorities.",
        },
        Difference {
            what: "The admin thread has the normal policy, so its line is missing.",
            why: "The test threads sleep, and leave enough time for it.",
        },
        Difference {
            what: "SIGINT and SIGTERM end the run with its results and status 0.",
            why: "The original kills its whole process group, and so the script that has started \
                it.",
        },
    ],
    run,
};

/// Priority of the high thread if `-s` is not given.
const HIGH: u8 = 3;
/// CPU time during which the low thread holds the lock.
const HOLD: &str = "10us";
/// Time during which the middle thread occupies the CPU.
const SPIN: &str = "100us";
/// Time from one inversion of a group to the next.
const INTERVAL: Nanos = Nanos::from_micros(500);

/// The settings from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    common: Common,
    groups: Option<u64>,
    /// Inversions of each group; `None` for no limit.
    inversions: Option<u64>,
    prompt: bool,
    policy: Policy,
    high: u8,
    one_cpu: bool,
    verbose: bool,
}

impl AsMut<Common> for Settings {
    fn as_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

/// In the order of the original's help.
const OPTIONS: &[OptionRow<Settings>] = &[
    OptionRow::accepted(
        "-d --debug",
        "no effect: there are no messages for debugging",
    ),
    OptionRow::DURATION,
    OptionRow::new(
        "-g --groups=N",
        "number of groups, each on its own CPU; default: one less than there are usable CPUs",
        put!(groups = |given| Some(given.at_least(1)?)),
    ),
    OptionRow::HELP,
    OptionRow::new(
        "-i --inversions=INV",
        "number of inversions of each group; default: no limit",
        put!(inversions = |given| Some(given.at_least(1)?)),
    ),
    OptionRow::JSON,
    OptionRow::MLOCKALL,
    OptionRow::flag(
        "-p --prompt",
        "wait for the return key before the test",
        |settings| {
            settings.prompt = true;
        },
    ),
    OptionRow::QUIET,
    OptionRow::flag("-r --rr", "use SCHED_RR for the test threads", |settings| {
        settings.policy = Policy::RoundRobin;
    }),
    OptionRow::new(
        "-s --sched=OPTS",
        "id=high,policy=fifo or rr,priority=N: scheduling of the high thread",
        |settings, given, _| sched(settings, given),
    ),
    OptionRow::flag(
        "-u --uniprocessor",
        "run one group, on the first usable CPU",
        |settings| settings.one_cpu = true,
    ),
    OptionRow::flag(
        "-v --verbose",
        "also print each group's waits for the lock",
        |settings| {
            settings.verbose = true;
            settings.common.quiet = false;
        },
    ),
    OptionRow::accepted("-V --version", "print the version"),
];

/// Reads the value of `-s`.
fn sched(settings: &mut Settings, given: &Given) -> Result<(), CompatError> {
    for part in given.text().split(',') {
        match part.split_once('=') {
            Some(("id", "high")) => {}
            Some(("id", "med" | "low")) => {
                return Err(given.bad(
                    "possible: only the high thread can be set, the others have the next two \
                     lower priorities",
                ));
            }
            Some(("policy", "fifo")) => settings.policy = Policy::Fifo,
            Some(("policy", "rr")) => settings.policy = Policy::RoundRobin,
            Some(("priority", number)) => {
                settings.high = (number.parse().ok())
                    .filter(|priority| (HIGH..=99).contains(priority))
                    .ok_or_else(|| given.bad("possible: the priority must be from 3 to 99"))?;
            }
            _ => return Err(given.bad("like id=high,policy=fifo,priority=10")),
        }
    }
    Ok(())
}

impl Settings {
    fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut settings = Self {
            common: Common::default(),
            groups: None,
            inversions: None,
            prompt: false,
            policy: Policy::Fifo,
            high: HIGH,
            one_cpu: false,
            verbose: false,
        };
        parsed.read_into(&mut settings, OPTIONS, machine)?;
        Ok(settings)
    }

    /// Returns the CPUs of the groups. As in the original, the first usable CPU is the last to get
    /// a group.
    fn cpus(&self, allowed: &CpuSet) -> Result<CpuSet, CompatError> {
        let usable = allowed.len() as u64;
        if self.one_cpu {
            return Ok(allowed.iter().take(1).collect());
        }
        let groups = self.groups.unwrap_or(usable.saturating_sub(1).max(1));
        if groups > usable {
            return Err(CompatError::Exit {
                message: format!(
                    "ERROR: the number of groups cannot exceed the number of online processors \
                     ({usable})"
                ),
                status: 255,
            });
        }
        let order = allowed.iter().skip(1).chain(allowed.iter().take(1));
        Ok(order.take(groups as usize).collect())
    }

    /// Returns the length of the run. The probe makes one inversion per interval.
    fn length(&self) -> RunLength {
        let limits = [
            (self.common.duration_s > 0).then(|| Nanos::from_secs(self.common.duration_s)),
            (self.inversions).map(|count| Nanos(INTERVAL.0.saturating_mul(count))),
        ];
        (limits.into_iter().flatten().min()).map_or(RunLength::UntilStopped, RunLength::For)
    }
}

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    if parsed.has("version") {
        write!(context.out, "{}", usage::version(&TOOL))?;
        return Ok(0);
    }
    shared::warn_of_spare_words(parsed, context);
    let machine = Machine::from_host(&context.host)?;
    let settings = Settings::read(parsed, &machine)?;
    let cpus = settings.cpus(&machine.allowed)?;
    let file = shared::json_file(settings.common.json.as_ref())?;
    let session = shared::prepare(request(&settings, &cpus, context)?, context)?;
    let _locked = (settings.common.lock_memory)
        .then(shared::lock_memory)
        .transpose()?;
    if settings.prompt {
        write!(context.out, "Press return to start test: ")?;
        context.out.flush()?;
        std::io::stdin().lock().read_line(&mut String::new())?;
    }
    if !settings.common.quiet {
        write!(context.out, "{}", banner(&settings, cpus.len()))?;
    }
    let (signals, stop) = (context.signals.clone(), context.signals.stop.clone());
    let mut view = View {
        output: LiveOutput::new(&mut *context.out, signals),
        quiet: settings.common.quiet,
    };
    let outcome = session.run(context.store.as_deref(), &mut view, &stop);
    view.output.finish()?;
    let outcome = outcome?;
    write(&settings, &outcome, file, context)
}

fn request(
    settings: &Settings,
    cpus: &CpuSet,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let parameters = [
        ("lock", "inherit".to_owned()),
        ("hold", HOLD.to_owned()),
        ("spin", SPIN.to_owned()),
        ("interval", shared::micros(INTERVAL.whole_micros())),
    ];
    Ok(Request {
        cpus: Some(cpus.clone()),
        policy: Some(settings.policy),
        phases: vec![PhaseRequest::only(settings.length(), Vec::new())],
        ..shared::request(context, "inversion", &parameters, settings.high, 0)?
    })
}

/// Returns the text before the run.
fn banner(settings: &Settings, groups: usize) -> String {
    let duration = match settings.common.duration_s {
        0 => "infinite".to_owned(),
        seconds => format!("{seconds} seconds"),
    };
    let inversions =
        (settings.inversions).map_or_else(|| "unlimited".to_owned(), |count| count.to_string());
    let thread = |name: &str, below: u8| {
        let policy = match settings.policy {
            Policy::RoundRobin => "SCHED_RR",
            _ => "SCHED_FIFO",
        };
        format!(
            "{name:>10} thread {policy} priority {}\n",
            settings.high - below
        )
    };
    format!(
        "Starting PI Stress Test\n\
         Number of thread groups: {groups}\n\
         Duration of test run: {duration}\n\
         Number of inversions per group: {inversions}\n\
         {groups} groups of 3 threads will be created\n{}{}{}\n",
        thread("High", 0),
        thread("Med", 1),
        thread("Low", 2),
    )
}

/// Prints the number of inversions during the run.
struct View<'a> {
    output: LiveOutput<'a>,
    quiet: bool,
}

impl Watcher for View<'_> {
    fn begin(&mut self, _: &Recording) {}

    fn progress(&mut self, snapshot: &Snapshot) {
        if !self.quiet {
            let counts = snapshot
                .workers
                .iter()
                .map(|worker| worker.accounting.recorded);
            let total: u64 = counts.sum();
            self.output
                .print(|out| writeln!(out, "\x1b[1ACurrent Inversions: {total}"));
        }
    }

    fn end(&mut self) {
        if !self.quiet {
            self.output
                .print(|out| writeln!(out, "\x1b[1BStopping test"));
        }
    }

    fn every(&self) -> Duration {
        // The original's interval.
        Duration::from_millis(750)
    }
}

/// The part of the JSON file after the head.
#[derive(Serialize)]
struct Body<'a> {
    inversion: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    punctual: Option<Additions<'a>>,
}

/// The waits of one group, from the table of the probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waits {
    cpu: u64,
    median_us: u64,
    max_us: u64,
    /// Inversions in which the middle thread ran before the high thread had the lock.
    overtaken: u64,
    /// The other inversions.
    undisturbed: u64,
}

impl Waits {
    fn all(recording: &Recording) -> Vec<Self> {
        let keys = ["cpu", "p50_ns", "max_ns", "overtaken", "undisturbed"];
        let rows = shared::rows(recording, "bounds", keys);
        rows.map(|[cpu, median, max, overtaken, undisturbed]| Self {
            cpu,
            median_us: Nanos(median).whole_micros(),
            max_us: Nanos(max).whole_micros(),
            overtaken,
            undisturbed,
        })
        .collect()
    }

    /// Returns whether the priority was not inherited. If the kernel throttles real-time threads,
    /// or other threads of higher priority run on the CPU, a few inversions can look like this.
    fn failed(self) -> bool {
        self.overtaken > self.undisturbed
    }
}

/// Prints and writes the results. Returns the exit status.
fn write(
    settings: &Settings,
    outcome: &Outcome,
    file: Option<Output>,
    context: &mut ToolContext<'_>,
) -> Result<u8, CompatError> {
    let recording = &outcome.recording;
    let groups = Waits::all(recording);
    if settings.verbose {
        for (group, waits) in groups.iter().enumerate() {
            writeln!(
                context.out,
                "group {group} (CPU {}): wait for the lock: median {} us, max {} us",
                waits.cpu, waits.median_us, waits.max_us
            )?;
        }
    }
    let inversion = recording
        .threads
        .iter()
        .map(|t| t.accounting.recorded)
        .sum();
    write!(context.out, "{}", summary(inversion, recording.duration_ns))?;
    let mut status = 0;
    for (group, waits) in groups
        .iter()
        .enumerate()
        .filter(|(_, waits)| waits.failed())
    {
        status = 255;
        context.say(&format!(
            "ERROR: group {group} (CPU {}): in {} of {} inversions, the middle thread ran before \
             the high thread had the lock: the low thread did not inherit its priority",
            waits.cpu,
            waits.overtaken,
            waits.overtaken + waits.undisturbed
        ));
    }
    if settings.common.json.is_some() {
        let body = Body {
            inversion,
            punctual: context.additions(recording, None),
        };
        let bytes = json::file(context, &recording.host, status, &body)?;
        shared::put_json(file, &bytes, context)?;
    }
    context.report_outcome(outcome);
    Ok(status)
}

/// Returns the last two lines of the original.
fn summary(inversions: u64, duration: Nanos) -> String {
    let seconds = duration.0 / Nanos::from_secs(1).0;
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    format!(
        "Total inversion performed: {inversions}\n\
         Test Duration: {days} days, {hours} hours, {} minutes, {} seconds\n",
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getopt;

    fn machine() -> Machine {
        Machine {
            present: "0-3".parse().unwrap(),
            allowed: "0-3".parse().unwrap(),
        }
    }

    fn read(line: &str) -> Result<Settings, CompatError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let parsed = getopt::parse(&words, TOOL.options, false)?;
        Settings::read(&parsed, &machine())
    }

    /// The output of pi_stress 2.4, without the line of the admin thread.
    #[test]
    fn text_is_the_originals() {
        let settings = read("-D 2 -g 1").unwrap();
        assert_eq!(
            banner(&settings, 1),
            "Starting PI Stress Test\n\
             Number of thread groups: 1\n\
             Duration of test run: 2 seconds\n\
             Number of inversions per group: unlimited\n\
             1 groups of 3 threads will be created\n      \
             High thread SCHED_FIFO priority 3\n       \
             Med thread SCHED_FIFO priority 2\n       \
             Low thread SCHED_FIFO priority 1\n\n"
        );
        assert_eq!(
            summary(149_640, Nanos::from_secs(3)),
            "Total inversion performed: 149640\n\
             Test Duration: 0 days, 0 hours, 0 minutes, 3 seconds\n"
        );
        let long = summary(1, Nanos::from_secs(2 * 86_400 + 3 * 3_600 + 4 * 60 + 5));
        assert!(
            long.ends_with("2 days, 3 hours, 4 minutes, 5 seconds\n"),
            "{long}"
        );
    }

    #[test]
    fn groups_are_placed_as_by_the_original() {
        let cpus = |line| {
            let cpus = read(line).unwrap().cpus(&machine().allowed);
            cpus.map(|cpus| cpus.to_string())
                .map_err(|error| error.to_string())
        };
        assert_eq!(cpus(""), Ok("1-3".to_owned()));
        assert_eq!(cpus("-g 2"), Ok("1-2".to_owned()));
        assert_eq!(cpus("-g 4"), Ok("0-3".to_owned()));
        assert_eq!(cpus("-u"), Ok("0".to_owned()));
        assert!(cpus("-g 5").unwrap_err().contains("(4)"));
    }

    #[test]
    fn the_shorter_limit_ends_the_run() {
        let length = |line| read(line).unwrap().length();
        assert!(matches!(length(""), RunLength::UntilStopped));
        assert!(matches!(length("-i 10"), RunLength::For(Nanos(5_000_000))));
        assert!(matches!(
            length("-D 1 -i 10"),
            RunLength::For(Nanos(5_000_000))
        ));
        assert!(matches!(
            length("-D 1 -i 9999"),
            RunLength::For(Nanos(1_000_000_000))
        ));
    }

    #[test]
    fn scheduling_of_the_high_thread_is_read() {
        let settings = read("-r -s id=high,policy=fifo,priority=80").unwrap();
        assert_eq!((settings.policy, settings.high), (Policy::Fifo, 80));
        assert_eq!(read("-r").unwrap().policy, Policy::RoundRobin);
        for line in [
            "-s id=low,priority=1",
            "-s id=high,priority=2",
            "-s id=high,priority=100",
            "-s id=high,policy=deadline,runtime=1",
            "-s high",
            "-g 0",
            "-i x",
        ] {
            assert!(matches!(read(line), Err(CompatError::Usage(_))), "{line}");
        }
    }

    #[test]
    fn mostly_overtaken_groups_fail() {
        let waits = |overtaken, undisturbed| Waits {
            cpu: 1,
            median_us: 0,
            max_us: 0,
            overtaken,
            undisturbed,
        };
        assert!(waits(6, 5).failed());
        assert!(!waits(5, 5).failed());
        assert!(!waits(0, 0).failed());
    }
}
