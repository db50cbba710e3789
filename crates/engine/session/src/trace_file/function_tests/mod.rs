//! Functions of the tracer function_graph: one trace in each form gives the same causes, and no function
//! is named that did not run while the thread waited.

mod machine;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;
use punctual_culprit::Wanted;
use punctual_model::{Nanos, Share};
use punctual_tracefile::{Input, open};

use machine::{FUNCTIONS, Kind, Line, Machine, Run, Thread, VICTIM, Wait, simulate};

use super::{ExplainedTrace, TraceRequest, explain_trace};

/// Formats the fields of an event.
fn event(line: &Line) -> String {
    let current = line.current;
    match &line.kind {
        Kind::Switch(state, next) => format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> \
             next_comm={} next_pid={} next_prio={}",
            current.comm, current.pid, current.prio, next.comm, next.pid, next.prio
        ),
        _ => format!(
            "sched_waking: comm={} pid={} prio={} target_cpu=001",
            VICTIM.comm, VICTIM.pid, VICTIM.prio
        ),
    }
}

fn mark(us: u64) -> char {
    match us {
        1_000_001.. => '$',
        100_001.. => '@',
        10_001.. => '*',
        1_001.. => '#',
        101.. => '!',
        11.. => '+',
        _ => ' ',
    }
}

fn duration(us: u64) -> String {
    format!("{} {us}.000 us", mark(us))
}

/// Returns for each line its duration and its function, or no function if the line before shows both. A
/// function that calls no other has one line.
fn written(lines: &[Line]) -> Vec<Option<(String, String)>> {
    let next_of = |place: usize| {
        let cpu = lines[place].cpu;
        lines[place + 1..].iter().find(|line| line.cpu == cpu)
    };
    let mut shown: Vec<bool> = vec![false; lines.len()];
    let mut all = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        let indent = "  ".repeat(line.depth + 1);
        all.push(match &line.kind {
            Kind::Returns(..) if shown[place] => None,
            Kind::Returns(took) => Some((duration(*took), format!("{indent}}}"))),
            Kind::Calls(name) => match next_of(place) {
                Some(next) if matches!(next.kind, Kind::Returns(..)) => {
                    let Kind::Returns(took) = next.kind else {
                        unreachable!("it returns")
                    };
                    let next = lines[place + 1..]
                        .iter()
                        .position(|line| line.cpu == next.cpu);
                    shown[place + 1 + next.unwrap()] = true;
                    Some((duration(took), format!("{indent}{name}();")))
                }
                _ => Some((String::new(), format!("{indent}{name}() {{"))),
            },
            _ => Some((String::new(), format!("{indent}  /* {} */", event(line)))),
        });
    }
    all
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// The text of tracefs, with or without the column of the thread.
fn tracefs(lines: &[Line], with_thread: bool) -> String {
    let mut text = "# tracer: function_graph\n#\n# CPU  DURATION      FUNCTION CALLS\n".to_owned();
    let mut last = [None, None];
    for (line, written) in lines.iter().zip(written(lines)) {
        let current = line.current;
        let name = |thread: Thread| format!("{:.7}-{}", thread.comm, thread.pid);
        if let Some(last) = last[line.cpu]
            .replace(current)
            .filter(|last| *last != current)
        {
            let (rule, cpu) = ("-".repeat(42), line.cpu);
            let (from, to) = (name(last), name(current));
            let _ = writeln!(text, " {rule}\n {cpu})   {from}  =>   {to}  \n {rule}\n");
        }
        let Some((took, function)) = written else {
            continue;
        };
        let thread = if with_thread {
            format!("{:^14} | ", name(current))
        } else {
            String::new()
        };
        let (time, cpu) = (seconds(line.us), line.cpu);
        let _ = writeln!(text, " {time} |  {cpu}) {thread}{took:<14}|{function}");
    }
    text
}

/// The text of `trace-cmd report`.
fn trace_cmd(lines: &[Line]) -> String {
    let mut text = "cpus=2\n".to_owned();
    for (line, written) in lines.iter().zip(written(lines)) {
        let Some((took, function)) = written else {
            continue;
        };
        let text_of = match line.kind {
            Kind::Calls(_) => format!("funcgraph_entry:      {took:<14}|{function}"),
            Kind::Returns(..) => format!("funcgraph_exit:       {took:<14}|{function}"),
            _ => event(line),
        };
        let Thread { comm, pid, .. } = line.current;
        let (comm, time) = (if pid == 0 { "<idle>" } else { comm }, seconds(line.us));
        let _ = writeln!(
            text,
            "{comm:>16}-{pid:<5} [{:03}] {time}: {text_of}",
            line.cpu
        );
    }
    text
}

/// Returns each form of the trace.
fn forms(lines: &[Line]) -> Vec<(&'static str, String)> {
    let full = tracefs(lines, true);
    let quoted: String = full.lines().map(|line| format!("> {line}\n")).collect();
    let single: String = (full.lines())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n")
        .collect();
    vec![
        ("without threads", tracefs(lines, false)),
        ("mail", quoted),
        ("CRLF", full.replace('\n', "\r\n")),
        ("single blanks", single),
        ("trace-cmd", trace_cmd(lines)),
        ("tracefs", full),
    ]
}

fn explained(text: &str) -> ExplainedTrace {
    let input = Input::stream(std::io::Cursor::new(text.as_bytes().to_vec()));
    let request = TraceRequest {
        file: "trace".to_owned(),
        wanted: Wanted {
            most: 200,
            ..Wanted::longest()
        },
        command_line: Vec::new(),
    };
    explain_trace(open(input).unwrap().as_mut(), request).unwrap()
}

/// Returns the victim's reactions: begin, end and shares.
fn reactions(text: &str) -> Vec<(Nanos, Nanos, Vec<Share>)> {
    let explained = explained(text);
    let outliers = explained.recording.explanation.unwrap().outliers;
    let own = outliers
        .into_iter()
        .filter(|one| one.blame.victim.tid == VICTIM.pid);
    own.map(|one| {
        let end = one.monotonic_ns + one.latency_ns;
        (one.monotonic_ns, end, one.blame.shares)
    })
    .collect()
}

/// Returns the time of a wait while a function of this name ran on the victim's CPU. Runs within the wait
/// of less than 10 µs do not count.
fn time_of(machine: &Machine, name: &str, wait: &Wait) -> u64 {
    let is_long = |run: &&Run| {
        let within = run
            .end
            .min(wait.to)
            .saturating_sub(run.begin.max(wait.from));
        within >= 10 && run.name == name
    };
    let own = machine.runs.iter().filter(is_long);
    let spans = own.flat_map(|run| &run.spans);
    let micros: BTreeSet<u64> = spans
        .flat_map(|(from, to)| (*from).max(wait.from)..(*to).min(wait.to))
        .collect();
    micros.len() as u64
}

fn steps() -> impl Strategy<Value = Vec<(u64, u8)>> {
    let wait = prop_oneof![4 => 1u64..30, 1 => 100u64..3_000];
    proptest::collection::vec((wait, any::<u8>()), 1..120)
}

proptest! {
    #[test]
    fn forms_of_functions_give_the_same_causes(steps in steps()) {
        let machine = simulate(&steps);
        let mut forms = forms(&machine.lines);
        let (_, full) = forms.pop().unwrap();
        let expected = reactions(&full);
        for (form, text) in forms {
            prop_assert_eq!(&reactions(&text), &expected, "{}", form);
        }
    }

    #[test]
    fn named_function_ran_while_the_thread_waited(steps in steps()) {
        let machine = simulate(&steps);
        for (from, to, shares) in reactions(&tracefs(&machine.lines, true)) {
            let (from, to) = (from.0 / 1_000, to.0 / 1_000);
            let wait = machine.waits.iter().find(|wait| (wait.from, wait.to) == (from, to));
            let wait = wait.expect("a wait");
            let times = FUNCTIONS[1].1.map(|name| time_of(&machine, name, wait));
            let most = times.iter().copied().max().unwrap_or(0);
            let named: Vec<_> = shares.iter().filter_map(|one| one.cause.function.as_ref()).collect();
            for function in &named {
                let time = time_of(&machine, &function.function.0, wait);
                prop_assert!(function.ns.0 <= time * 1_000, "{:?}", function);
                prop_assert!(function.ns.0 > most * 500, "{:?} of {}", function, most);
            }
            if most * 10 >= to - from && most >= 10 && shares.len() == 1 {
                prop_assert_eq!(named.len(), 1);
            }
        }
    }

    /// The first lines of a trace are overwritten, and a quotation leaves out others.
    #[test]
    fn missing_lines_accuse_no_other_function(
        steps in steps(),
        gone in proptest::collection::vec(any::<bool>(), 16),
    ) {
        let machine = simulate(&steps);
        let text = tracefs(&machine.lines, true);
        let is_kept = |number: usize, line: &str| {
            !gone[number % gone.len()] || line.contains("sched_")
        };
        let cut: String = (text.lines().enumerate())
            .filter(|(number, line)| is_kept(*number, line))
            .map(|(_, line)| format!("{line}\n"))
            .collect();
        for (from, to, shares) in reactions(&cut) {
            let wait = Wait { from: from.0 / 1_000, to: to.0 / 1_000 };
            for function in shares.iter().filter_map(|one| one.cause.function.as_ref()) {
                let time = time_of(&machine, &function.function.0, &wait);
                prop_assert!(function.ns.0 <= time * 1_000, "{:?}", function);
            }
        }
    }
}

#[test]
fn function_that_delays_a_thread_is_named() {
    let text = "\
# tracer: function_graph
  100.000000 |   1)    <idle>-0    |               |  /* sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=worker next_pid=7 next_prio=120 */
  100.000010 |   1)    worker-7    |               |  do_ioctl() {
  100.000020 |   1)    worker-7    |               |    flush_all() {
  100.000030 |   1)    worker-7    |               |      /* sched_waking: comm=control pid=9 prio=9 target_cpu=001 */
  100.000040 |   1)    worker-7    | ! 412.000 us  |      wait_for_device();
  100.000455 |   1)    worker-7    | ! 435.000 us  |    }
  100.000460 |   1)    worker-7    | ! 450.000 us  |  }
  100.000470 |   1)    worker-7    |               |  /* sched_switch: prev_comm=worker prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=control next_pid=9 next_prio=9 */
";
    let [(.., shares)] = &reactions_of(text, 9)[..] else {
        panic!("one reaction");
    };
    let [share] = &shares[..] else {
        panic!("{shares:?}");
    };
    assert_eq!(share.ns, Nanos(440_000));
    let label = share.cause.label();
    assert!(
        label.ends_with("function wait_for_device took 412 µs of it"),
        "{label}"
    );
}

fn reactions_of(text: &str, tid: u32) -> Vec<(Nanos, Nanos, Vec<Share>)> {
    let outliers = explained(text).recording.explanation.unwrap().outliers;
    let own = outliers
        .into_iter()
        .filter(|one| one.blame.victim.tid == tid);
    own.map(|one| (one.monotonic_ns, one.latency_ns, one.blame.shares))
        .collect()
}

#[test]
fn graph_of_a_latency_tracer_names_the_function() {
    let text = "\
# tracer: irqsoff
#
# irqsoff latency trace v1.1.5 on 6.12.40-rt
# --------------------------------------------------------------------
# latency: 459 us, #9/9, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:4)
#    -----------------
#    | task: bash-1507 (uid:0 nice:0 policy:0 rt_prio:0)
#    -----------------
#  => started at: my_ioctl
#  => ended at:   return_to_handler
#
#
#                                       _-----=> irqs-off
#                                      / _----=> need-resched
#                                     | / _---=> hardirq/softirq
#                                     || / _--=> preempt-depth
#                                     ||| /
#   REL TIME      CPU  TASK/PID       ||||     DURATION                  FUNCTION CALLS
#      |          |     |    |        ||||      |   |                     |   |   |   |
        0 us |   0)   bash-1507    |  d... |   0.000 us    |  _raw_spin_lock_irqsave();
        1 us |   0)   bash-1507    |  d..1 |               |  my_reset() {
        2 us |   0)   bash-1507    |  d..1 |               |    my_poll() {
        3 us |   0)   bash-1507    |  d..1 | ! 201.000 us  |      my_read();
      205 us |   0)   bash-1507    |  d..1 | ! 203.000 us  |      my_read();
      409 us |   0)   bash-1507    |  d..1 | ! 407.000 us  |    }
      450 us |   0)   bash-1507    |  d..1 | ! 449.000 us  |  }
      458 us |   0)   bash-1507    |  d..1 |   0.000 us    |  _raw_spin_unlock_irqrestore();
    bash-1507      0d..1  459us : <stack trace>
 => my_ioctl
 => do_syscall_64
";
    let explained = explained(text);
    let explanation = explained.recording.explanation.unwrap();
    let [outlier] = &explanation.outliers[..] else {
        panic!("{:?}", explanation.outliers);
    };
    assert_eq!(outlier.latency_ns, Nanos(459_000));
    let labels: Vec<String> = (outlier.blame.shares.iter())
        .map(|share| share.cause.label())
        .collect();
    let [label] = &labels[..] else {
        panic!("{labels:?}");
    };
    assert!(label.starts_with("interrupts off: bash-1507"), "{label}");
    assert!(
        label.contains("203 µs in my_read < my_poll < my_reset"),
        "{label}"
    );
    assert!(
        label.ends_with("function my_read took 404 µs of it"),
        "{label}"
    );
}

#[test]
fn functions_without_events_are_listed() {
    let text = "\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
 0)               |  slow_open() {
 0) + 20.500 us   |    slow_lookup();
 0) ! 412.000 us  |  }
 ------------------------------------------
 0)   a-1    =>    b-2
 ------------------------------------------

 0) + 30.000 us   |  slow_lookup();
 0)   1.000 us    |  quick();
";
    let explained = explained(text);
    let explanation = explained.recording.explanation.unwrap();
    assert!(explanation.outliers.is_empty());
    let trace = explanation.trace.unwrap();
    let sums: Vec<(String, u64, u64)> = (trace.functions.iter())
        .map(|sum| (sum.function.to_string(), sum.runs, sum.longest_ns.0))
        .collect();
    assert_eq!(
        sums,
        [
            ("slow_open".to_owned(), 1, 412_000),
            ("slow_lookup".to_owned(), 2, 30_000)
        ]
    );
    let warnings = explained.recording.warnings;
    assert!(
        warnings.iter().any(|one| one.contains("funcgraph-abstime")),
        "{warnings:?}"
    );
}
