//! `fork`: short-lived processes.

use std::time::Duration;

use punctual_model::{Achieved, Arguments, Typed, parameters};

use crate::process::{Account, Processes, Script};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "fork",
    summary: "shells that start short processes: a storm of fork, exec and exit",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Processes,
    build: |arguments| Processes::load("fork", script, achieved, arguments),
};

parameters! {
    PROCESSES: Option<u64> = Typed::count(
        "processes",
        "Number of shells; default: number of CPUs",
        1..=4096,
    );
}

/// Each shell waits for a process to end before it starts the next one, so there are never more
/// than two per shell. Each line of output stands for four processes: two that are only forked, and
/// two that also call exec.
const STORM: &str = r#"
storm() {
  while :; do
    ( : ); sh -c :; ( : ); sh -c :
    echo
  done
}
left=$1
while [ "$left" -gt 1 ]; do
  storm &
  left=$((left - 1))
done
storm
"#;

/// See [`STORM`].
const PROCESSES_A_LINE: u64 = 4;

fn script(arguments: &Arguments, cpus: &[u32]) -> Result<Script, LoadError> {
    let shells = PROCESSES.value_in(arguments).unwrap_or(cpus.len() as u64);
    Ok(Script {
        shell: STORM.to_owned(),
        arguments: vec![shells.to_string().into()],
        title: "the storm of processes".to_owned(),
        scratch: None,
        // There is nothing to clean up.
        grace: Duration::ZERO,
    })
}

fn achieved(account: &Account) -> Vec<Achieved> {
    vec![Achieved {
        what: "processes".to_owned(),
        count: account.output.lines * PROCESSES_A_LINE,
        duration_ns: account.lasted,
    }]
}
