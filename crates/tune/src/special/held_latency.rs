//! `/dev/cpu_dma_latency`: a request that stands for as long as a process holds
//! the file open. A small process of this program does, until it is ended.
//!
//! It is told from all other processes by its command line, which names the
//! journal: so it is found also where the program that started it was killed
//! before it could write down a process number, and no other is ended.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use punctual_rt::DmaLatency;

use super::{Special, invalid, may_write};
use crate::knob::Context;
use crate::site::Site;
use crate::{Knob, TuneError};

/// The verb of this program that holds the request.
pub const HOLD_VERB: &str = "hold-latency";

const DEVICE: &str = "/dev/cpu_dma_latency";
const NONE: &str = "none";
const SETTING: &str = "dma-latency-us";
/// The kernel's own value for no limit.
const MOST_US: i32 = 2_000_000_000;

/// How long the holder may take to start or to end.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 5_000 });
const TURN: Duration = Duration::from_millis(2);

pub(crate) struct HeldLatency;

/// What the verb [`HOLD_VERB`] does: holds the request until the process is
/// ended. Its own session: no terminal's end takes it along.
///
/// # Errors
/// [`TuneError::Holder`] where the device cannot be opened.
pub fn hold_latency(micros: i32) -> Result<(), TuneError> {
    // Already the leader of one: as well.
    let _ = rustix::process::setsid();
    let held = DmaLatency::hold(Path::new(DEVICE), micros);
    let _held = held.map_err(|error| TuneError::Holder {
        setting: SETTING,
        reason: error.to_string(),
    })?;
    loop {
        std::thread::park();
    }
}

fn holder_failed(reason: String) -> TuneError {
    TuneError::Holder {
        setting: SETTING,
        reason,
    }
}

/// The words after the program's name.
fn arguments(site: &Site<'_>, micros: &str) -> [OsString; 5] {
    [
        HOLD_VERB.into(),
        "--latency-us".into(),
        micros.into(),
        "--journal".into(),
        site.journal.into(),
    ]
}

/// The process that holds the request for this journal: its number, its command
/// line, and what it holds.
fn holder(site: &Site<'_>) -> Option<(u32, String, String)> {
    let journal = site.journal.to_string_lossy();
    site.processes().into_iter().find_map(|pid| {
        let path = site.below(&format!("/proc/{pid}/cmdline"));
        let line = site.files.read(&path).ok()?;
        let words: Vec<&str> = line.split_terminator('\0').collect();
        match words.as_slice() {
            [_, verb, "--latency-us", micros, "--journal", whose]
                if *verb == HOLD_VERB && *whose == journal =>
            {
                Some((pid, line.clone(), (*micros).to_owned()))
            }
            _ => None,
        }
    })
}

/// Waits until something is so.
fn soon(mut so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + PATIENCE;
    loop {
        if so() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(TURN);
    }
}

fn end(site: &Site<'_>) -> Result<(), TuneError> {
    while let Some((pid, line, _)) = holder(site) {
        // One that has just ended by itself is as well.
        if let Err(source) = site.files.end(pid, &line)
            && holder(site).is_some_and(|(now, _, _)| now == pid)
        {
            return Err(holder_failed(format!(
                "process {pid}, which holds {DEVICE}, cannot be ended: {source}"
            )));
        }
        let gone = soon(|| holder(site).is_none_or(|(now, _, _)| now != pid));
        if !gone {
            return Err(holder_failed(format!(
                "process {pid}, which holds {DEVICE}, does not end"
            )));
        }
    }
    Ok(())
}

fn start(site: &Site<'_>, micros: &str) -> Result<(), TuneError> {
    let program = std::env::current_exe().map_err(|source| {
        holder_failed(format!(
            "this program cannot be found to be started: {source}"
        ))
    })?;
    let mut words = vec![program.into_os_string()];
    words.extend(arguments(site, micros));
    site.files
        .start(&words)
        .map_err(|source| holder_failed(format!("its holder cannot be started: {source}")))?;
    let wanted: i32 = micros.parse().unwrap_or(MOST_US);
    // The kernel shows the strictest of all requests.
    let device = site.below(DEVICE);
    let in_force =
        || holder(site).is_some() && site.files.number(&device).is_ok_and(|now| now <= wanted);
    match soon(in_force) {
        true => Ok(()),
        false => Err(holder_failed(format!(
            "the process that was to hold {DEVICE} at {micros} does not"
        ))),
    }
}

impl Special for HeldLatency {
    fn path(&self) -> &'static str {
        DEVICE
    }

    fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError> {
        let there = site.files.exists(&site.below(DEVICE));
        Ok(there.then(String::new).into_iter().collect())
    }

    /// What this program's own holder holds; other programs' requests are
    /// theirs.
    fn read(&self, site: &Site<'_>, _: &str) -> Result<String, TuneError> {
        Ok(holder(site).map_or_else(|| NONE.to_owned(), |(_, _, micros)| micros))
    }

    fn write(&self, site: &Site<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        end(site)?;
        match value {
            NONE => Ok(()),
            micros => start(site, micros),
        }
    }

    fn may_write(&self, site: &Site<'_>, _: &str) -> Result<(), TuneError> {
        may_write(site, DEVICE)
    }

    fn readable(&self, value: &str) -> String {
        match value {
            NONE => "not held".to_owned(),
            micros => format!("{micros} held"),
        }
    }

    fn resolve(
        &self,
        knob: &Knob,
        _: &Site<'_>,
        _: &str,
        asked: &str,
        _: &Context,
    ) -> Result<Option<String>, TuneError> {
        match asked.parse::<i32>() {
            Ok(micros) if (0..=MOST_US).contains(&micros) => Ok(Some(micros.to_string())),
            _ => Err(invalid(knob, "", asked)),
        }
    }

    fn remark(&self, site: &Site<'_>, _: &str, _: &str) -> Option<String> {
        let (pid, _, micros) = holder(site)?;
        Some(format!(
            "process {pid} holds {DEVICE} at {micros} us until `punctual tune revert`"
        ))
    }
}
