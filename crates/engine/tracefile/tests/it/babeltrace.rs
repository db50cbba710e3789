//! Compares the events of CTF traces with those that babeltrace2 prints.

use std::process::Command;

use punctual_model::EventKind;
use punctual_tracefile::Item;

use crate::ctf::two_cpus;
use crate::made_ctf::Written;

/// Time in ticks, CPU and name of an event.
type Row = (u64, u32, String);

/// Parses `[00000010334630248] sched_switch: { cpu_id = 0 }, { prev_comm = …`.
fn printed(line: &str) -> Option<Row> {
    let (time, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (name, rest) = rest.trim_start().split_once(": ")?;
    let (_, cpu) = rest.split_once("cpu_id = ")?;
    let cpu = cpu.split_whitespace().next()?;
    Some((time.parse().ok()?, cpu.parse().ok()?, name.to_owned()))
}

fn row(item: &Item) -> Row {
    let Item::Event(event) = item else {
        panic!("{item:?}");
    };
    let name = match event.kind {
        EventKind::Switch { .. } => "sched_switch",
        EventKind::Waking { .. } => "sched_waking",
        EventKind::IrqEntry { .. } => "irq_handler_entry",
        EventKind::IrqExit { .. } => "irq_handler_exit",
        EventKind::SysEnter { .. } => "syscall_entry_futex",
        EventKind::SysExit { .. } => "syscall_exit_futex",
        _ => panic!("{event:?}"),
    };
    (event.time.0, event.cpu, name.to_owned())
}

/// babeltrace2 2.0 reads CTF 1.8 only.
#[test]
fn babeltrace2_prints_the_same_events() {
    for form in Written::ALL.into_iter().filter(|form| !form.is_json) {
        let folder = tempfile::tempdir().unwrap();
        form.write(folder.path(), &two_cpus());
        let output = Command::new("babeltrace2")
            .args(["--clock-cycles", "--no-delta"])
            .arg(folder.path())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) => return punctual_testing::skip!(Program, "babeltrace2: {error}"),
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let parse = |line: &str| printed(line).unwrap_or_else(|| panic!("{line}"));
        let theirs: Vec<Row> = text.lines().map(parse).collect();
        let (items, _) = crate::sound::folder(folder.path()).unwrap();
        let own: Vec<Row> = items.iter().map(row).collect();
        assert_eq!(own, theirs);
    }
}
