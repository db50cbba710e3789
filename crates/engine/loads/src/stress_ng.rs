//! `stress-ng`: any stressor of stress-ng, if installed.

use std::time::Duration;

use punctual_model::{Achieved, Arguments, Typed, parameters};

use crate::process::{Account, Processes, Script};
use crate::{LoadEntry, LoadError, LoadKind, scratch};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "stress-ng",
    summary: "stress-ng with the given options, if it is installed",
    parameters: PARAMETERS,
    bare: Some("options"),
    needs: Some("stress-ng"),
    kind: LoadKind::Processes,
    build: |arguments| Processes::load("stress-ng", script, achieved, arguments),
};

parameters! {
    OPTIONS: Option<String> = Typed::text(
        "options",
        "Options in shell syntax: '--cpu 2 --vm 1 --vm-bytes 64M'",
    );
}

/// Time that stress-ng has after SIGTERM to print its figures and to remove its files.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Options that give the processes of stress-ng a real-time policy, which no load may have.
const REAL_TIME: &[&str] = &["--sched", "--schedpolicy", "--schedmix", "--cyclic"];

fn script(arguments: &Arguments, _cpus: &[u32]) -> Result<Script, LoadError> {
    let options = OPTIONS.value_in(arguments).unwrap_or_default();
    let refused = options.split_whitespace().find(|word| {
        let name = word.split('=').next().unwrap_or(word);
        REAL_TIME.contains(&name)
    });
    if let Some(option) = refused {
        return Err(LoadError::Unfit {
            load: ENTRY.name,
            why: format!("{option} can set a real-time priority, which loads must not have"),
        });
    }
    Ok(Script {
        shell: format!("exec stress-ng --quiet --metrics --yaml /dev/stdout {options}"),
        arguments: Vec::new(),
        title: format!("stress-ng {options}"),
        // stress-ng writes its temporary files to the working folder.
        scratch: Some(scratch::unique(&scratch::folder())),
        grace: GRACE,
    })
}

/// Returns the figures of each stressor, from the YAML written at the end: `- stressor: cpu`,
/// followed a few lines later by `bogo-ops: 808`.
pub(crate) fn achieved(account: &Account) -> Vec<Achieved> {
    let text = String::from_utf8_lossy(&account.output.text);
    let mut achieved = Vec::new();
    let mut stressor = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- stressor:") {
            stressor = Some(name.trim().to_owned());
        } else if let Some(count) = line.strip_prefix("bogo-ops:")
            && let (Some(name), Ok(count)) = (stressor.take(), count.trim().parse())
        {
            achieved.push(Achieved {
                what: format!("{name} bogo operations"),
                count,
                duration_ns: account.lasted,
            });
        }
    }
    achieved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadRequest;
    use crate::process::Output;
    use punctual_model::Nanos;

    fn read(text: &str) -> Vec<(String, u64)> {
        achieved(&Account {
            output: Output {
                text: text.as_bytes().to_vec(),
                lines: 0,
            },
            lasted: Nanos::from_secs(1),
            ..Account::default()
        })
        .into_iter()
        .map(|done| (done.what, done.count))
        .collect()
    }

    #[test]
    fn its_figures_are_read() {
        let text = "metrics:\n    - stressor: cpu\n      bogo-ops: 808\n      bogo-ops-per-second-real-time: 951.2\n    - stressor: vm\n      bogo-ops: 0\n";
        assert_eq!(
            read(text),
            [
                ("cpu bogo operations".to_owned(), 808),
                ("vm bogo operations".to_owned(), 0)
            ]
        );
        for nothing in ["", "bogo-ops: 1", "- stressor: x\nbogo-ops: many"] {
            assert_eq!(read(nothing), []);
        }
    }

    #[test]
    fn it_gets_no_real_time_priority() {
        for options in ["--cpu 1 --sched fifo", "--sched=rr --cpu 1", "--cyclic 1"] {
            let arguments = Arguments::check(ENTRY.parameters, [("options", options)]).unwrap();
            let error = script(&arguments, &[0]).err().unwrap();
            assert!(error.to_string().contains("real-time"), "{error}");
        }
        assert!("stress-ng:--cpu 1".parse::<LoadRequest>().is_ok());
    }
}
