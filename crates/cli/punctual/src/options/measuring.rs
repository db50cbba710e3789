//! Values of options that several measuring verbs have.

use punctual_loads::LoadRequest;
use punctual_model::Nanos;
use punctual_session::{Level, RunLength, SessionError};

use crate::verb::Invalid;

/// The names of the levels of trace events.
pub(crate) const LEVELS: [(&str, Level); 2] = [("usual", Level::Default), ("full", Level::Full)];

/// Parses the names of loads. The name `none` means no load.
///
/// # Errors
/// Returns an error if a load with this name does not exist.
pub(crate) fn loads(names: &[String]) -> Result<Vec<LoadRequest>, SessionError> {
    let named = names.iter().filter(|name| *name != "none");
    Ok(named.map(|name| name.parse()).collect::<Result<_, _>>()?)
}

/// Parses the length of a run.
pub(crate) fn run_length(text: &str) -> Result<RunLength, Invalid> {
    if text == "forever" {
        return Ok(RunLength::UntilStopped);
    }
    match text.parse()? {
        Nanos::ZERO => Err(
            "the duration is 0: pass a longer duration, or 'forever' to measure \
            until Ctrl-C"
                .into(),
        ),
        duration => Ok(RunLength::For(duration)),
    }
}

/// Parses a number of late seconds per day.
pub(crate) fn late_seconds(text: &str) -> Result<f64, Invalid> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..86_400.0).contains(&number) => Ok(number),
        _ => Err("must be a number from 0 to below 86400, the seconds of a day".into()),
    }
}

/// Parses a time that must not be 0.
pub(crate) fn length(text: &str) -> Result<Nanos, Invalid> {
    not_zero(text.parse()?)
}

/// Parses the period of a loop, which can also be given as a frequency.
pub(crate) fn period(text: &str) -> Result<Nanos, Invalid> {
    not_zero(Nanos::from_period(text)?)
}

fn not_zero(length: Nanos) -> Result<Nanos, Invalid> {
    match length {
        Nanos::ZERO => Err("must be longer than 0".into()),
        length => Ok(length),
    }
}
