//! The options of rtla, and the tables of its tools.

use punctual_session::{TextEvents, TracerGroup};

use super::actions::Action;
use super::settings::{RtlaSettings, fatal, scheduling};
use crate::option_row::{OptionRow, put};
use crate::{CompatError, Given, NextWord};

type Row = OptionRow<RtlaSettings>;

pub(super) const TIMERLAT_HIST: &[Row] = &[
    AUTO,
    PERIOD_TIMERLAT,
    IRQ,
    THREAD,
    STACK,
    CPUS,
    HOUSEKEEPING,
    CGROUP,
    DURATION,
    DEBUG,
    DUMP_TASKS,
    TRACE,
    EVENT,
    FILTER,
    TRIGGER,
    NANO,
    NO_AA,
    BUCKET_SIZE,
    ENTRIES,
    NO_IRQ,
    NO_THREAD,
    NO_HEADER,
    NO_SUMMARY,
    NO_INDEX,
    WITH_ZEROS,
    DMA_LATENCY,
    PRIORITY,
    USER_THREADS,
    KERNEL_THREADS,
    USER_LOAD,
    WARM_UP,
    BUFFER_SIZE,
    IDLE_STATE,
    ON_THRESHOLD,
    ON_END,
    BPF_ACTION,
    STACK_FORMAT,
    ALIGNED,
    Row::HELP,
];

pub(super) const TIMERLAT_TOP: &[Row] = &[
    AUTO,
    AA_ONLY,
    PERIOD_TIMERLAT,
    IRQ,
    THREAD,
    STACK,
    CPUS,
    HOUSEKEEPING,
    CGROUP,
    DURATION,
    DEBUG,
    DUMP_TASKS,
    TRACE,
    EVENT,
    FILTER,
    TRIGGER,
    NANO,
    NO_AA,
    QUIET,
    DMA_LATENCY,
    PRIORITY,
    USER_THREADS,
    KERNEL_THREADS,
    USER_LOAD,
    WARM_UP,
    BUFFER_SIZE,
    IDLE_STATE,
    ON_THRESHOLD,
    ON_END,
    BPF_ACTION,
    STACK_FORMAT,
    ALIGNED,
    Row::HELP,
];

pub(super) const OSNOISE_HIST: &[Row] = &[
    AUTO_NOISE,
    PERIOD_OSNOISE,
    RUNTIME,
    STOP,
    STOP_TOTAL,
    THRESHOLD,
    CPUS,
    HOUSEKEEPING,
    CGROUP,
    DURATION,
    DEBUG,
    TRACE_NOISE,
    EVENT,
    FILTER,
    TRIGGER,
    BUCKET_SIZE,
    ENTRIES,
    NO_HEADER,
    NO_SUMMARY,
    NO_INDEX,
    WITH_ZEROS,
    PRIORITY,
    WARM_UP,
    BUFFER_SIZE,
    ON_THRESHOLD,
    ON_END,
    Row::HELP,
];

/// Also those of hwnoise.
pub(super) const OSNOISE_TOP: &[Row] = &[
    AUTO_NOISE,
    PERIOD_OSNOISE,
    RUNTIME,
    STOP,
    STOP_TOTAL,
    THRESHOLD,
    CPUS,
    HOUSEKEEPING,
    CGROUP,
    DURATION,
    DEBUG,
    TRACE_NOISE,
    EVENT,
    FILTER,
    TRIGGER,
    QUIET,
    PRIORITY,
    WARM_UP,
    BUFFER_SIZE,
    ON_THRESHOLD,
    ON_END,
    Row::HELP,
];

const AUTO: Row = Row::new(
    "-a --auto=US",
    "stop at a latency of US us or more, and show its causes; same as -i US -T US -s US -t",
    |settings, given, _| {
        let limit = given.micros_from(1)?;
        (settings.stop_us, settings.stop_total_us) = (limit, limit);
        settings.stack_us = limit;
        settings
            .trace_file
            .get_or_insert(settings.trace_default.into());
        Ok(())
    },
);
const AA_ONLY: Row = Row::new(
    "--aa-only=US",
    "like -a without -t, and print only the analysis",
    |settings, given, _| {
        let limit = given.micros_from(1)?;
        (settings.stop_us, settings.stop_total_us) = (limit, limit);
        settings.stack_us = limit;
        settings.only_analysis = true;
        Ok(())
    },
);
const AUTO_NOISE: Row = Row::new(
    "-a --auto=US",
    "stop at a single noise of US us or more; same as -s US -T 1 -t",
    |settings, given, _| {
        settings.stop_us = given.micros_from(1)?;
        settings.threshold_us = 1;
        settings
            .trace_file
            .get_or_insert(settings.trace_default.into());
        Ok(())
    },
);
const PERIOD_TIMERLAT: Row = Row::new(
    "-p --period=US",
    "period of the timer, 100 to 1000000 us; default 1000",
    put!(period_us = |given| in_range(given, 100, 1_000_000)?),
);
const PERIOD_OSNOISE: Row = Row::new(
    "-p --period=US",
    "time from the start of one spin to the next, up to 10000000 us; default 1000000",
    put!(period_us = |given| in_range(given, 1_000, 10_000_000)?),
);
const RUNTIME: Row = Row::new(
    "-r --runtime=US",
    "time to spin in each period, 100 us or more; default: the period, or 750000 for hwnoise",
    put!(runtime_us = |given| Some(in_range(given, 100, 10_000_000)?)),
);
const IRQ: Row = Row::new(
    "-i --irq=US",
    "stop at an interrupt latency of US us or more; needs the kernel's tracer",
    put!(stop_us = |given| given.micros_from(0)?),
);
const THREAD: Row = Row::new(
    "-T --thread=US",
    "stop at a thread latency of US us or more",
    put!(stop_total_us = |given| given.micros_from(0)?),
);
const STOP: Row = Row::new(
    "-s --stop=US",
    "stop at a single noise of US us or more",
    put!(stop_us = |given| given.micros_from(0)?),
);
const STOP_TOTAL: Row = Row::new(
    "-S --stop-total=US",
    "stop at a total noise of a period above US us; needs the kernel's tracer",
    put!(stop_total_us = |given| given.micros_from(0)?),
);
const THRESHOLD: Row = Row::new(
    "-T --threshold=US",
    "shortest gap that counts as noise; default 1",
    put!(threshold_us = |given| in_range(given, 0, 1_000_000)?),
);
const STACK: Row = Row::new(
    "-s --stack=US",
    "record the causes of thread latencies above US us, with the kernel's stack",
    put!(stack_us = |given| given.micros_from(0)?),
);
const CPUS: Row = Row::new(
    "-c --cpus=CPUS",
    "CPUs to measure, e.g. 0-3,8; default: all usable",
    |settings, given, machine| {
        settings.cpus = Some(machine.cpus(given, given.text())?);
        Ok(())
    },
);
const HOUSEKEEPING: Row = Row::new(
    "-H --house-keeping=CPUS",
    "CPUs of the main thread, which prints the output",
    |settings, given, machine| {
        settings.housekeeping = Some(machine.cpus(given, given.text())?);
        Ok(())
    },
);
const CGROUP: Row = Row::or_next(
    "-C --cgroup[=NAME]",
    NextWord::Any,
    "move the measuring threads to the control group NAME; default: that of this program",
    |settings, given, _| {
        settings.group = Some(match without_equals(given.text()) {
            "" => TracerGroup::Own,
            name => TracerGroup::Named(name.to_owned()),
        });
        Ok(())
    },
);
const DURATION: Row = Row::new(
    "-d --duration=TIME",
    "length of the run in seconds, or with another unit: 90, 90s, 5m, 1h; default: until stopped",
    |settings, given, _| {
        settings.duration_s = match given.duration()? {
            0 => return Err(given.bad("a duration above 0")),
            seconds => seconds,
        };
        Ok(())
    },
);
const DEBUG: Row = Row::flag("-D --debug", "print the settings on stderr", |settings| {
    settings.debug = true
});
const DUMP_TASKS: Row = Row::flag(
    "--dump-tasks",
    "no effect, with a warning: the recording shows which tasks ran on the CPU of the latency",
    |settings| {
        settings.warnings.push(
            "--dump-tasks has no effect: the analysis names the tasks on the CPU of the latency, \
             not those of the other CPUs"
                .to_owned(),
        );
    },
);
const TRACE: Row = Row::or_next(
    "-t --trace[=FILE]",
    NextWord::Any,
    "at a stop, write the kernel's trace to FILE; default: timerlat_trace.txt",
    |settings, given, _| {
        trace_to(settings, given.text());
        Ok(())
    },
);
const TRACE_NOISE: Row = Row::or_next(
    "-t --trace[=FILE]",
    NextWord::Any,
    "at a stop, write the kernel's trace to FILE; default: osnoise_trace.txt",
    |settings, given, _| {
        trace_to(settings, given.text());
        Ok(())
    },
);
const EVENT: Row = Row::new(
    "-e --event=EVENT",
    "add an event to the trace: SYSTEM:EVENT, or SYSTEM for all its events; may be repeated",
    |settings, given, _| {
        let events = given.text().parse::<TextEvents>();
        let events = events.map_err(|error| fatal(&format!("--event: {error}")))?;
        settings.events.push(events);
        Ok(())
    },
);
const FILTER: Row = Row::new(
    "--filter=FILTER",
    "record the previous -e only if the kernel's filter fits, such as prev_pid == 12",
    |settings, given, _| {
        latest_event(settings, "--filter")?.filter = Some(given.text().to_owned());
        Ok(())
    },
);
const TRIGGER: Row = Row::new(
    "--trigger=TRIGGER",
    "set a trigger of the kernel for the previous -e; a histogram (hist:...) is written to \
     SYSTEM_EVENT_hist.txt after the run",
    |settings, given, _| {
        latest_event(settings, "--trigger")?.trigger = Some(given.text().to_owned());
        Ok(())
    },
);
const NANO: Row = Row::flag("-n --nano", "print figures in ns", |settings| {
    settings.nanos = true
});
const NO_AA: Row = Row::flag(
    "--no-aa",
    "do not analyse the latency that stopped the run",
    |settings| settings.no_analysis = true,
);
const BUCKET_SIZE: Row = Row::new(
    "-b --bucket-size=N",
    "width of a row, 1 to 999999; default 1",
    put!(rows.width = |given| counted(given, 1, 999_999)?),
);
const ENTRIES: Row = Row::new(
    "-E --entries=N",
    "number of rows, 10 to 9999999; default 256",
    |settings, given, _| {
        // Scripts look for the line of the original.
        settings.rows.entries = counted(given, 10, 9_999_999)
            .map_err(|error| fatal(&format!("Entries must be > 10 and < 10000000\n{error}")))?
            as usize;
        Ok(())
    },
);
const NO_IRQ: Row = Row::flag("--no-irq", "omit interrupt latencies", |settings| {
    settings.rows.no_irq = true
});
const NO_THREAD: Row = Row::flag("--no-thread", "omit thread latencies", |settings| {
    settings.rows.no_thread = true
});
const NO_HEADER: Row = Row::flag("--no-header", "omit the header", |settings| {
    settings.rows.no_header = true
});
const NO_SUMMARY: Row = Row::flag("--no-summary", "omit the summary", |settings| {
    settings.rows.no_summary = true
});
const NO_INDEX: Row = Row::flag(
    "--no-index",
    "omit the first column; needs --with-zeros",
    |settings| settings.rows.no_index = true,
);
const WITH_ZEROS: Row = Row::flag("--with-zeros", "print rows without samples", |settings| {
    settings.rows.with_zeros = true
});
const QUIET: Row = Row::flag("-q --quiet", "print only after the run", |settings| {
    settings.quiet = true
});
const DMA_LATENCY: Row = Row::new(
    "--dma-latency=US",
    "limit the exit latency of idle states to US us, 0 to 10000",
    put!(dma_latency_us = |given| Some(counted(given, 0, 10_000)? as i32)),
);
const IDLE_STATE: Row = Row::new(
    "--deepest-idle-state=N",
    "disable idle states deeper than state N on the CPUs; -1: all states",
    |settings, given, _| {
        settings.idle_state = match given.whole()? {
            state @ -1.. => Some(state.into()),
            _ => return Err(given.bad("a number of -1 or more")),
        };
        Ok(())
    },
);
const PRIORITY: Row = Row::new(
    "-P --priority=POLICY:PRIO",
    "f:1 to f:99, r:1 to r:99 or o:0; default f:95 for timerlat, o:0 for osnoise",
    put!(scheduling = |given| Some(scheduling(given)?)),
);
const USER_THREADS: Row = Row::flag(
    "-u --user-threads",
    "the timers wake threads in user space; default if the kernel supports it",
    |settings| settings.user_threads = true,
);
const KERNEL_THREADS: Row = Row::flag(
    "-k --kernel-threads",
    "the timers wake threads of the kernel",
    |settings| settings.kernel_threads = true,
);
const USER_LOAD: Row = Row::new(
    "-U --user-load",
    "refused: the timers wake a program of the user",
    |_, _, _| {
        Err(CompatError::Usage(
            "-U is not supported: no program but punctual can wait for the timers; use -u"
                .to_owned(),
        ))
    },
);
const WARM_UP: Row = Row::new(
    "--warm-up=S",
    "seconds before the samples count, in addition to the duration",
    put!(warm_up_s = |given| given.duration()?),
);
const BUFFER_SIZE: Row = Row::new(
    "--trace-buffer-size=KB",
    "size of the trace's buffer of each CPU",
    put!(buffer_kib = |given| Some(given.at_least(1)?)),
);
const ON_THRESHOLD: Row = Row::new(
    "--on-threshold=ACTION",
    "action at a stop: trace[,file=FILE]; shell,command=CMD; signal,num=N,pid=PID|parent; continue",
    |settings, given, _| {
        let action = Action::read(given, settings.trace_default)?;
        settings.on_threshold.push(action);
        Ok(())
    },
);
const ON_END: Row = Row::new(
    "--on-end=ACTION",
    "action after the run",
    |settings, given, _| {
        let action = Action::read(given, settings.trace_default)?;
        settings.on_end.push(action);
        Ok(())
    },
);
const BPF_ACTION: Row = Row::new(
    "--bpf-action=PROGRAM",
    "refused: run a BPF program at a stop",
    |_, given, _| {
        Err(fatal(&format!(
            "BPF actions are not supported in tracefs-only mode, so '{}' is not loaded: use \
             --on-threshold shell,command=CMD",
            given.text()
        )))
    },
);
const STACK_FORMAT: Row = Row::new(
    "--stack-format=FORMAT",
    "refused: form of the stacks",
    |_, given, _| Err(given.bad("supported: stacks are shown in full by punctual explain")),
);
const ALIGNED: Row = Row::new(
    "-A --aligned=US",
    "refused: start the timers of the CPUs US us apart",
    |_, given, _| {
        Err(given
            .bad("supported: punctual measure timer --aligned starts all timers at the same time"))
    },
);

/// Reads the file of `-t`. The original also accepts `-t=FILE`.
fn trace_to(settings: &mut RtlaSettings, file: &str) {
    let file = match without_equals(file) {
        "" => settings.trace_default,
        file => file,
    };
    settings.trace_file = Some(file.into());
}

fn without_equals(text: &str) -> &str {
    text.strip_prefix('=').unwrap_or(text)
}

fn latest_event<'s>(
    settings: &'s mut RtlaSettings,
    option: &str,
) -> Result<&'s mut TextEvents, CompatError> {
    let latest = settings.events.last_mut();
    latest.ok_or_else(|| fatal(&format!("{option} requires a previous -e")))
}

fn in_range(given: &Given, least: u64, most: u64) -> Result<u64, CompatError> {
    match given.micros_from(least)? {
        micros if micros <= most => Ok(micros),
        _ => Err(given.bad(&format!("a time from {least} to {most} us"))),
    }
}

fn counted(given: &Given, least: i32, most: u64) -> Result<u64, CompatError> {
    match given.at_least(least)? {
        number if number <= most => Ok(number),
        _ => Err(given.bad(&format!("a number from {least} to {most}"))),
    }
}
