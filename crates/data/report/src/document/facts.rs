//! The facts about a machine as rows of a table.

use std::fmt::Display;

use punctual_model::{CpuFacts, CpuSet, Fact, HostFacts, Recording, grouped};

use super::table::{Cell, Column, Row, Table};
use super::{Field, Tone};
use crate::figures;

/// One fact.
struct FactRow {
    name: String,
    value: Value,
    source: String,
}

/// The value of a fact, as shown in its row.
#[derive(PartialEq)]
enum Value {
    Known(String),
    /// Unknown, with the reason.
    Unknown(String),
}

/// Returns all facts by topic.
pub(crate) fn table(host: &HostFacts) -> Table {
    let topic = Column {
        topic: true,
        ..Column::left("of")
    };
    let mut columns = vec![topic];
    columns.extend(["fact", "value", "read from"].map(Column::left));
    let rows = topics(host).into_iter().flat_map(|(topic, facts)| {
        facts.into_iter().map(move |fact| {
            let value = match fact.value {
                Value::Known(value) => value.into(),
                Value::Unknown(why) => Cell::from(format!("unknown: {why}")).tone(Tone::Faint),
            };
            Row::new([
                topic.clone().into(),
                fact.name.into(),
                value,
                fact.source.into(),
            ])
        })
    });
    Table::new(columns, rows.collect())
}

/// Returns the facts with these names. A fact of a group of CPUs names the CPUs, unless all CPUs are
/// alike.
pub(crate) fn chosen(host: &HostFacts, names: &[&str]) -> Vec<Field> {
    let alike = groups(&host.cpus).len() < 2;
    let mut fields = Vec::new();
    for (topic, facts) in topics(host) {
        for fact in facts {
            if !names.contains(&fact.name.as_str()) {
                continue;
            }
            let name = if topic.starts_with("CPU") && !alike {
                format!("{topic}: {}", fact.name)
            } else {
                fact.name
            };
            fields.push(match fact.value {
                Value::Known(value) => Field::new(name, value),
                Value::Unknown(why) => Field::toned(name, Tone::Faint, format!("unknown: {why}")),
            });
        }
    }
    fields
}

/// Returns all facts by topic, then one topic for each group of similar CPUs.
fn topics(host: &HostFacts) -> Vec<(String, Vec<FactRow>)> {
    let mut topics = vec![
        ("System".to_owned(), system(host)),
        ("Kernel".to_owned(), kernel(host)),
        ("Processor".to_owned(), processor(host)),
        ("Clock and memory".to_owned(), clock_and_memory(host)),
    ];
    topics.extend(groups(&host.cpus).into_iter().map(|(cpus, rows)| {
        let word = if cpus.len() == 1 { "CPU" } else { "CPUs" };
        (format!("{word} {cpus}"), rows)
    }));
    topics
}

fn row<T>(name: &str, fact: &Fact<T>, show: impl Fn(&T) -> String) -> FactRow {
    FactRow {
        name: name.to_owned(),
        value: match fact.get() {
            Some(value) => Value::Known(show(value)),
            None => Value::Unknown(
                (fact.unknown.as_deref())
                    .unwrap_or("no reason is given")
                    .to_owned(),
            ),
        },
        source: fact.source.clone(),
    }
}

fn text<T: Display>(name: &str, fact: &Fact<T>) -> FactRow {
    row(name, fact, T::to_string)
}

fn yes_no(name: &str, fact: &Fact<bool>) -> FactRow {
    row(name, fact, |yes| if *yes { "yes" } else { "no" }.to_owned())
}

fn cpu_list(name: &str, fact: &Fact<CpuSet>) -> FactRow {
    row(name, fact, |cpus| {
        if cpus.is_empty() {
            "none".to_owned()
        } else {
            cpus.to_string()
        }
    })
}

fn system(host: &HostFacts) -> Vec<FactRow> {
    let machine = &host.virtualisation;
    vec![
        text("host name", &host.hostname),
        text("distribution", &host.distribution.name),
        text("machine", &machine.machine),
        text("firmware", &machine.firmware),
        yes_no("virtual machine", &machine.virtual_machine),
        text("hypervisor", &machine.hypervisor),
    ]
}

fn kernel(host: &HostFacts) -> Vec<FactRow> {
    let kernel = &host.kernel;
    vec![
        text("release", &kernel.release),
        text("version", &kernel.version),
        text("architecture", &kernel.architecture),
        yes_no("PREEMPT_RT", &kernel.preempt_rt),
        text("preemption", &kernel.preempt_model),
        text("configuration (hash)", &kernel.configuration),
        text("command line", &kernel.command_line),
        row("timer ticks", &kernel.hz, |hz| format!("{hz} Hz")),
        yes_no("high-resolution timers", &kernel.high_resolution_timers),
        text("lockdown", &kernel.lockdown),
        text("sched_ext scheduler", &kernel.sched_ext),
        row("real-time share", &kernel.rt_runtime_us, |us| match us {
            -1 => "all".to_owned(),
            us => format!("{us} µs a period"),
        }),
        row("real-time period", &kernel.rt_period_us, |us| {
            format!("{us} µs")
        }),
    ]
}

fn processor(host: &HostFacts) -> Vec<FactRow> {
    let processor = &host.processor;
    vec![
        text("model", &processor.model),
        text("vendor", &processor.vendor),
        text("microcode", &processor.microcode),
        cpu_list("CPUs online", &processor.online),
        cpu_list("CPUs present", &processor.present),
        cpu_list("isolated", &processor.isolated),
        cpu_list("nohz_full", &processor.nohz_full),
        text("SMT", &processor.smt),
        text("idle driver", &processor.idle_driver),
        cpu_list("NUMA nodes", &processor.numa_nodes),
    ]
}

fn clock_and_memory(host: &HostFacts) -> Vec<FactRow> {
    let memory = &host.memory;
    vec![
        text("clock source", &host.clock.source),
        row("clock sources available", &host.clock.available, |list| {
            list.join(", ")
        }),
        row("memory", &memory.total_bytes, |n| figures::bytes(*n)),
        row("swap", &memory.swap_bytes, |n| figures::bytes(*n)),
        text("transparent huge pages", &memory.transparent_huge_pages),
    ]
}

/// Groups CPUs that have the same facts. The core and the siblings always differ, so they appear
/// only in the JSON output.
fn groups(cpus: &[CpuFacts]) -> Vec<(CpuSet, Vec<FactRow>)> {
    let mut groups: Vec<(CpuSet, Vec<FactRow>)> = Vec::new();
    for cpu in cpus {
        let rows = cpu_rows(cpu);
        let alike = |a: &[FactRow]| a.iter().zip(&rows).all(|(a, b)| a.value == b.value);
        match groups.iter_mut().find(|(_, known)| alike(known)) {
            Some((set, _)) => set.insert(cpu.cpu),
            None => groups.push(([cpu.cpu].into_iter().collect(), rows)),
        }
    }
    groups
}

fn cpu_rows(cpu: &CpuFacts) -> Vec<FactRow> {
    vec![
        text("package", &cpu.package),
        cpu_list("shares last-level cache", &cpu.shares_cache_with),
        text("governor", &cpu.governor),
        row("lowest frequency", &cpu.frequency_min_khz, |khz| {
            frequency(*khz)
        }),
        row("highest frequency", &cpu.frequency_max_khz, |khz| {
            frequency(*khz)
        }),
        row("idle states", &cpu.idle_states, |states| {
            let each = states.iter().map(|state| {
                let off = if state.disabled { ", off" } else { "" };
                format!("{} ({}{off})", state.name, state.exit_latency_ns)
            });
            let list: Vec<String> = each.collect();
            if list.is_empty() {
                "none".to_owned()
            } else {
                list.join(", ")
            }
        }),
    ]
}

fn frequency(khz: u64) -> String {
    match khz {
        0..1_000_000 => format!("{} MHz", grouped(khz / 1_000)),
        _ => format!("{:.2} GHz", khz as f64 / 1e6),
    }
}

/// Returns how the measurement was made, as (name, value): parameters, command line, load.
pub(crate) fn run(recording: &Recording) -> Vec<(String, String)> {
    let mut rows = vec![
        ("id".to_owned(), recording.id.to_string()),
        ("started".to_owned(), figures::started(recording, 3)),
        ("duration".to_owned(), figures::duration(recording)),
        ("completion".to_owned(), recording.completion.to_string()),
        ("program".to_owned(), recording.probe.program.clone()),
        (
            "command line".to_owned(),
            recording.probe.command_line.join(" "),
        ),
        ("probe".to_owned(), recording.probe.name.clone()),
    ];
    if let Some(source) = figures::source_text(recording) {
        rows.insert(0, ("source".to_owned(), source));
    }
    for (key, value) in &recording.probe.parameters {
        let (name, shown) = match (key.strip_suffix("_ns"), value.as_u64()) {
            (Some(name), Some(ns)) => (name.to_owned(), punctual_model::Nanos(ns).to_string()),
            _ => (
                key.clone(),
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
            ),
        };
        rows.push((name.replace('_', " "), shown));
    }
    rows.push(("load".to_owned(), figures::loads_text(recording)));
    if let Some(kept) = recording.samples {
        let text = format!(
            "{} kept in {}",
            grouped(kept.count),
            figures::bytes(kept.bytes)
        );
        rows.push(("samples".to_owned(), text));
    }
    rows.push((
        "host fingerprint".to_owned(),
        match recording.host.fingerprint.as_str() {
            "" => "unknown".to_owned(),
            fingerprint => fingerprint.to_owned(),
        },
    ));
    rows
}
