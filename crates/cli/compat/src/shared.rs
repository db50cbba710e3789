//! Code that several tools share: from the command line to a session, and the output before and
//! after the run.

use std::path::Path;

use punctual_files::Output;
use punctual_model::{Arguments, Cell, Nanos, Policy, Recording, Table};
use punctual_rt::{LockMode, MemoryLock};
use punctual_session::{
    MachineRequest, Outcome, PhaseRequest, RecordingRequest, Request, RunLength, Session,
    ThreadRequest,
};

use crate::lines::Unit;
use crate::{CompatError, Parsed, ToolContext};

/// Builds the request of a tool from a probe with its parameters, a SCHED_FIFO priority (0 for the
/// normal policy), and a duration in seconds (0 to run until stopped). The originals measure from
/// the first cycle on, without a warm-up.
///
/// # Errors
/// Returns an error for values that the probe rejects.
pub(crate) fn request(
    context: &ToolContext<'_>,
    probe: &str,
    parameters: &[(&'static str, String)],
    priority: u8,
    duration_s: u64,
) -> Result<Request, CompatError> {
    let probe =
        punctual_probes::probe(probe).map_err(|error| CompatError::Fatal(error.to_string()))?;
    let words = (parameters.iter()).map(|(name, value)| (*name, value.as_str()));
    let arguments = Arguments::check(probe.parameters, words)
        .map_err(|error| CompatError::Usage(error.to_string()))?;
    let length = match duration_s {
        0 => RunLength::UntilStopped,
        seconds => RunLength::For(Nanos::from_secs(seconds)),
    };
    Ok(Request {
        partner: context.partner.clone(),
        threads: ThreadRequest {
            policy: Some(match priority {
                0 => Policy::Other,
                _ => Policy::Fifo,
            }),
            priority: (priority > 0).then_some(priority),
            ..ThreadRequest::default()
        },
        warm_up: Some(Nanos::ZERO),
        may_be_empty: true,
        machine: MachineRequest {
            journal: context.journal.clone(),
            ..MachineRequest::default()
        },
        recording: RecordingRequest {
            label: None,
            command_line: context.command_line.clone(),
        },
        ..Request::new(
            probe,
            arguments,
            vec![PhaseRequest::only(length, Vec::new())],
        )
    })
}

/// Prepares the session of a request.
///
/// # Errors
/// Returns the errors of the session. If the privilege for a real-time policy is missing, returns
/// the message of the originals.
pub(crate) fn prepare(request: Request, context: &ToolContext<'_>) -> Result<Session, CompatError> {
    Session::prepare(request, context.host.clone()).map_err(|error| {
        if ToolContext::is_privilege(&error) {
            CompatError::Exit {
                message: "Unable to change scheduling policy!\n\
                          either run as root or join realtime group"
                    .to_owned(),
                status: 1,
            }
        } else {
            error.into()
        }
    })
}

/// Formats microseconds as a probe parameter.
pub(crate) fn micros(micros: u64) -> String {
    format!("{micros}us")
}

/// Checks the path given with `--json` before the measurement.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn json_file(path: Option<&String>) -> Result<Option<Output>, CompatError> {
    path.filter(|path| *path != "-")
        .map(output_file)
        .transpose()
}

/// Checks the path of a file that is written at the end.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub(crate) fn output_file(path: &String) -> Result<Output, CompatError> {
    Output::file(Path::new(path)).map_err(|error| CompatError::Exit {
        message: format!("Failed to open '{path}': {}", error.reason()),
        status: 1,
    })
}

/// Writes to the file, or to stdout if its name is `-`.
///
/// # Errors
/// Returns the errors of the file.
pub(crate) fn put_json(
    file: Option<Output>,
    bytes: &[u8],
    context: &mut ToolContext<'_>,
) -> Result<(), CompatError> {
    match file {
        Some(file) => file.put(bytes)?,
        None => context.out.write_all(bytes)?,
    }
    Ok(())
}

/// Reports on stderr that a break ended the run.
pub(crate) fn report_break(
    tool: &str,
    limit_us: u64,
    outcome: &Outcome,
    context: &mut ToolContext<'_>,
) {
    let Some(broke) = outcome.broke else {
        return;
    };
    let value = Unit::Micros.convert(broke.latency);
    let hint = if context.behaviour.strict {
        "exit status 3"
    } else {
        "with PUNCTUAL_STRICT=1 the exit status is 3"
    };
    context.say(&format!(
        "{tool}: stopped at a break: {value} us is above {limit_us} us ({hint})"
    ));
}

/// Locks memory for `-m`.
///
/// # Errors
/// Returns an error if locking is refused.
pub(crate) fn lock_memory() -> Result<MemoryLock, CompatError> {
    punctual_rt::lock_process_memory(LockMode::OnFault).map_err(|error| CompatError::Exit {
        message: format!("mlockall: {error}"),
        status: 255,
    })
}

/// Warns about words that are not the value of an option.
pub(crate) fn warn_of_spare_words(parsed: &Parsed, context: &mut ToolContext<'_>) {
    for word in &parsed.operands {
        context.warn(&format!("ignored '{word}': not an option or its value"));
    }
}

/// Returns the rows of a table, but only the columns with these keys. A value that is not a number
/// is 0.
pub(crate) fn rows<'a, const N: usize>(
    recording: &'a Recording,
    name: &str,
    keys: [&str; N],
) -> impl Iterator<Item = [u64; N]> + 'a {
    let table: Option<&Table> = recording.tables.iter().find(|table| table.name == name);
    let places = table.and_then(|table| {
        let place = |key: &str| table.columns.iter().position(|column| column.key == key);
        keys.iter()
            .map(|key| place(key))
            .collect::<Option<Vec<usize>>>()
    });
    let all = table.zip(places).into_iter();
    all.flat_map(|(table, places)| {
        table.rows.iter().map(move |row| {
            std::array::from_fn(|nth| match row.get(places[nth]) {
                Some(Cell::Count(count)) => *count,
                _ => 0,
            })
        })
    })
}
