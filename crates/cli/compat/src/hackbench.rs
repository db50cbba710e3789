//! hackbench measures how long groups of threads take to pass messages to each other.
//!
//! The facts about the original are from rt-tests, `src/hackbench/hackbench.c`, and from the output
//! of version 2.4.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use punctual_loads::{Exchange, Exchanged, Via};
use punctual_rt::{Policy, ThreadRef, set_policy};

use crate::machine::Machine;
use crate::option_row::{OptionRow, put, specs};
use crate::shared;
use crate::{CompatError, Difference, Family, Parsed, Tool, ToolContext, Uses};

pub(crate) const TOOL: Tool = Tool {
    name: "hackbench",
    summary: "how long groups of threads take to pass messages to each other",
    uses: Uses::Load("messages"),
    family: Family::RtTests,
    options: &specs::<_, { OPTIONS.len() }>(OPTIONS),
    removed: &[],
    differences: &[
        Difference {
            what: "The tasks are always threads, and the first line shows this. `-P` prints a \
                warning.",
            why: "The switch between address spaces is missing, so the time is shorter than that \
                of processes. Compare it with `hackbench -T` only.",
        },
        Difference {
            what: "No recording is stored.",
            why: "The result is one time, without a latency.",
        },
        Difference {
            what: "After SIGINT or SIGTERM, the senders stop, and the tool ends with status 1 and \
                the number of messages that were passed.",
            why: "The original then prints a time that looks like that of all messages.",
        },
    ],
    run,
};

/// Largest message in bytes. Each thread has memory for one.
const LARGEST: usize = 1 << 20;

/// Maximum number of threads.
const MOST_TASKS: usize = 100_000;

/// The settings from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    exchange: Exchange,
    fifo: bool,
    processes: bool,
    pipe: bool,
    inet: bool,
}

/// In the order of the original's help.
const OPTIONS: &[OptionRow<Settings>] = &[
    OptionRow::new(
        "-f --fds=NUM",
        "number of senders and of receivers in each group; default 20",
        put!(exchange.fan = |given| given.at_least(1)? as usize),
    ),
    OptionRow::flag(
        "-F --fifo",
        "use SCHED_FIFO for the main thread",
        |settings| {
            settings.fifo = true;
        },
    ),
    OptionRow::new(
        "-g --groups=NUM",
        "number of groups; default 10",
        put!(exchange.groups = |given| given.at_least(1)? as usize),
    ),
    OptionRow::HELP,
    OptionRow::new(
        "-l --loops=LOOPS",
        "number of messages from each sender to each receiver; default 100",
        put!(exchange.loops = |given| given.at_least(1)?),
    ),
    OptionRow::flag("-p --pipe", "send through pipes", |settings| {
        settings.pipe = true
    }),
    OptionRow::flag("-i --inet", "send through TCP connections", |settings| {
        settings.inet = true;
    }),
    OptionRow::new(
        "-s --datasize=SIZE",
        "bytes in a message, up to 1048576; default 100",
        |settings, given, _| {
            let size = given.at_least(1)? as usize;
            settings.exchange.size = Some(size)
                .filter(|size| *size <= LARGEST)
                .ok_or_else(|| given.bad("a number of bytes up to 1048576"))?;
            Ok(())
        },
    ),
    OptionRow::flag("-T --threads", "use threads", |settings| {
        settings.processes = false
    }),
    OptionRow::flag(
        "-P --process",
        "use threads too, with a warning",
        |settings| {
            settings.processes = true;
        },
    ),
];

impl Settings {
    fn read(parsed: &Parsed, machine: &Machine) -> Result<Self, CompatError> {
        let mut settings = Self {
            exchange: Exchange {
                groups: 10,
                fan: 20,
                loops: 100,
                size: 100,
                via: Via::Socket,
            },
            fifo: false,
            processes: false,
            pipe: false,
            inet: false,
        };
        parsed.read_into(&mut settings, OPTIONS, machine)?;
        settings.exchange.via = match (settings.pipe, settings.inet) {
            (true, true) => {
                return Err(CompatError::Usage(
                    "--pipe|-p and --inet|-i cannot be used together".to_owned(),
                ));
            }
            (true, false) => Via::Pipe,
            (false, true) => Via::Tcp,
            (false, false) => Via::Socket,
        };
        let Exchange { groups, fan, .. } = settings.exchange;
        let tasks = groups.saturating_mul(fan).saturating_mul(2);
        if tasks > MOST_TASKS {
            return Err(CompatError::Usage(format!(
                "{groups} groups with {fan} senders and receivers each are {tasks} threads, more \
                 than {MOST_TASKS}: use fewer --groups or --fds"
            )));
        }
        Ok(settings)
    }
}

fn run(parsed: &Parsed, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    shared::warn_of_spare_words(parsed, context);
    let settings = Settings::read(parsed, &Machine::from_host(&context.host)?)?;
    let exchange = &settings.exchange;
    if settings.processes {
        context.warn("the tasks are threads, not processes");
    }
    write!(context.out, "{}", head(exchange))?;
    context.out.flush()?;
    let before = || {
        let fifo = Policy::Fifo { priority: 1 };
        if settings.fifo {
            set_policy(ThreadRef::Current, &fifo).map_err(io::Error::other)?;
        }
        Ok(())
    };
    let stop = Arc::clone(&context.signals.stop);
    let exchanged = exchange
        .run(&stop, before)
        .map_err(|error| failed(exchange, &error))?;
    if stop.load(Ordering::Relaxed) {
        return Err(CompatError::Exit {
            message: format!(
                "stopped by a signal after {} of {} messages",
                exchanged.messages,
                messages(exchange)
            ),
            status: 1,
        });
    }
    writeln!(context.out, "{}", time(exchanged))?;
    Ok(0)
}

/// Returns the number of all messages.
fn messages(exchange: &Exchange) -> u64 {
    let pairs = (exchange.fan as u64).saturating_mul(exchange.fan as u64);
    let each = pairs.saturating_mul(exchange.groups as u64);
    each.saturating_mul(exchange.loops)
}

fn failed(exchange: &Exchange, error: &io::Error) -> CompatError {
    let (groups, fan) = (exchange.groups, exchange.fan);
    CompatError::Exit {
        message: format!(
            "cannot pass messages between {} threads through {} channels: {error}; use fewer \
             --groups or --fds, or raise the limit of open files (ulimit -n)",
            groups.saturating_mul(fan).saturating_mul(2),
            groups.saturating_mul(fan)
        ),
        status: 1,
    }
}

/// Returns the first two lines of the original.
fn head(exchange: &Exchange) -> String {
    let Exchange {
        groups,
        fan,
        loops,
        size,
        ..
    } = exchange;
    let fds = fan.saturating_mul(2);
    format!(
        "Running in threaded mode with {groups} groups using {fds} file descriptors each (== {} \
         tasks)\nEach sender will pass {loops} messages of {size} bytes\n",
        groups.saturating_mul(fds)
    )
}

fn time(exchanged: Exchanged) -> String {
    let millis = exchanged.duration.as_millis();
    format!("Time: {}.{:03}", millis / 1_000, millis % 1_000)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::getopt;

    fn read(line: &str) -> Result<Settings, CompatError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let parsed = getopt::parse(&words, TOOL.options, false)?;
        let machine = Machine {
            present: "0".parse().unwrap(),
            allowed: "0".parse().unwrap(),
        };
        Settings::read(&parsed, &machine)
    }

    /// The output of hackbench 2.4.
    #[test]
    fn text_is_the_originals() {
        assert_eq!(
            head(&read("-T -l 20").unwrap().exchange),
            "Running in threaded mode with 10 groups using 40 file descriptors each (== 400 \
             tasks)\nEach sender will pass 20 messages of 100 bytes\n"
        );
        let exchanged = |millis| Exchanged {
            duration: Duration::from_millis(millis),
            messages: 1,
        };
        assert_eq!(time(exchanged(190)), "Time: 0.190");
        assert_eq!(time(exchanged(12_005)), "Time: 12.005");
    }

    #[test]
    fn options_match_the_original() {
        let settings = read("-f 3 -g 2 -l 7 -s 1000 -p").unwrap();
        let exchange = settings.exchange;
        assert_eq!(
            (exchange.fan, exchange.groups, exchange.loops, exchange.size),
            (3, 2, 7, 1_000)
        );
        assert_eq!(exchange.via, Via::Pipe);
        assert_eq!(messages(&exchange), 3 * 3 * 2 * 7);
        assert_eq!(read("-i").unwrap().exchange.via, Via::Tcp);
        assert_eq!(read("").unwrap().exchange.via, Via::Socket);
        assert!(read("-P").unwrap().processes);
        for line in [
            "-g 5000 -f 20",
            "-s 1048577",
            "-p -i",
            "-f 0",
            "-g x",
            "-l 0",
            "-s -1",
            "-z",
        ] {
            assert!(matches!(read(line), Err(CompatError::Usage(_))), "{line}");
        }
    }
}
