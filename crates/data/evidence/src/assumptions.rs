//! The assumptions of a verdict, with the evidence for each in the recording.

use punctual_model::{Completion, Recording, SETTING_CHANGED, THREAD_MOVED, counted};

use crate::{Check, State};

pub(crate) fn assumptions(recording: &Recording) -> Vec<Check> {
    let has = |text: &str| {
        recording
            .warnings
            .iter()
            .find(|warning| warning.contains(text))
    };
    let finished = recording.completion == Completion::Finished;
    let mut all = vec![Check::new(
        "finished",
        finished,
        format!("the run is {}", recording.completion),
    )];
    let failed: Vec<&str> = (recording.load.iter().filter(|load| load.failed))
        .map(|load| load.name.as_str())
        .collect();
    all.push(Check::new(
        "load",
        failed.is_empty(),
        match (recording.load.len(), failed.as_slice()) {
            (0, _) => "there was no load".to_owned(),
            (_, []) => "each load ran until the end".to_owned(),
            (_, failed) => format!("failed: {}", failed.join(", ")),
        },
    ));
    let changed = has(SETTING_CHANGED).or_else(|| has(THREAD_MOVED));
    all.push(Check::new(
        "settings",
        changed.is_none(),
        match changed {
            None => "no change was noticed".to_owned(),
            Some(warning) => warning.clone(),
        },
    ));
    let stops = recording.suspensions.len() as u64;
    all.push(Check::new(
        "clock",
        stops == 0,
        match (stops, recording.host.clock.source.get()) {
            (0, Some(source)) => {
                format!("the clock source was {source}, and the run was not suspended")
            }
            (0, None) => "the run was not suspended".to_owned(),
            (stops, _) => format!("the run was suspended {}", counted(stops, "time", "times")),
        },
    ));
    let dropped = recording.series.dropped;
    all.push(Check::new(
        "observer",
        dropped == 0,
        match dropped {
            0 => "no sample is missing in the time series".to_owned(),
            dropped => format!(
                "{} missing in the time series",
                counted(dropped, "sample is", "samples are")
            ),
        },
    ));
    all.push(temperature(recording));
    all.push(Check {
        what: "stationary",
        state: State::Unknown,
        found: "whether the machine always behaves like this is not shown by one recording"
            .to_owned(),
    });
    all
}

/// Returns whether the temperature is known during the run. A verdict is not disputed by a machine
/// that warms up: it is disputed if late periods follow the temperature, which the verdict tests.
fn temperature(recording: &Recording) -> Check {
    let power = recording.interference.power.as_ref();
    let points = power.map_or(&[][..], |power| power.points.as_slice());
    let read = || points.iter().filter_map(|point| point.max_milli_celsius);
    match read().min().zip(read().max()) {
        Some((low, high)) => Check::new(
            "temperature",
            true,
            format!(
                "{:.1} to {:.1} °C during the run",
                low as f64 / 1e3,
                high as f64 / 1e3
            ),
        ),
        None => Check {
            what: "temperature",
            state: State::Unknown,
            found: "the temperature was not readable during the run".to_owned(),
        },
    }
}
