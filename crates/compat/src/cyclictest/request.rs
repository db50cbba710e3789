//! The measurement of cyclictest.

use punctual_model::{Arguments, CpuSet, Nanos, Policy};
use punctual_session::{Request, Tracemark};

use super::settings::{Affinity, Begin, CyclictestSettings};
use crate::lines::Unit;
use crate::shared::{self, Machine};
use crate::{CompatError, ToolContext};

/// The request.
///
/// # Errors
/// Values that the probe refuses.
pub(super) fn request(
    settings: &CyclictestSettings,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let probe =
        punctual_probes::probe("timer").map_err(|error| CompatError::Fatal(error.to_string()))?;
    let given = parameters(settings);
    let words = given.iter().map(|(name, value)| (*name, value.as_str()));
    let arguments = Arguments::check(probe.parameters, words)
        .map_err(|error| CompatError::Usage(error.to_string()))?;
    let is_real_time = settings.is_real_time();
    Ok(Request {
        cpus: cpus(settings),
        policy: Some(match is_real_time {
            true => settings.policy,
            false => Policy::Other,
        }),
        priority: is_real_time.then_some(settings.priority),
        // The original measures from its first cycle on.
        warm_up: Some(Nanos::ZERO),
        break_above: (settings.common.break_limit > 0)
            .then(|| settings.unit.above(settings.common.break_limit)),
        tracemark: (settings.common.tracemark && settings.common.break_limit > 0).then_some(
            match settings.unit {
                Unit::Micros => Tracemark::Micros,
                Unit::Nanos => Tracemark::Nanos,
            },
        ),
        dma_latency_us: settings.holds_latency().then_some(settings.latency_us),
        deepest_idle_state: settings.idle_state,
        journal: context.journal.clone(),
        command_line: context.command_line.clone(),
        ..Request::new(
            probe,
            arguments,
            vec![shared::phase(settings.common.duration_s)],
        )
    })
}

/// The CPUs; of a list at most one per thread.
fn cpus(settings: &CyclictestSettings) -> Option<CpuSet> {
    match &settings.affinity {
        Affinity::Chosen(cpus) => Some(cpus.iter().take(settings.threads as usize).collect()),
        Affinity::Unspecified | Affinity::All | Affinity::Smp => None,
    }
}

/// The CPUs that bound threads run on.
pub(super) fn cpus_used(settings: &CyclictestSettings, machine: &Machine) -> CpuSet {
    let all = cpus(settings).unwrap_or_else(|| machine.allowed.clone());
    all.iter().take(settings.threads as usize).collect()
}

/// The probe's own parameters.
fn parameters(settings: &CyclictestSettings) -> Vec<(&'static str, String)> {
    let micros = |micros: u64| format!("{micros}us");
    let mut given = vec![
        ("interval", micros(settings.interval_us)),
        ("distance", micros(settings.distance_us)),
        ("threads", settings.threads.to_string()),
        ("offset", micros(settings.offset_us.into())),
    ];
    let mut flag = |name: &'static str, set: bool| {
        if set {
            given.push((name, "yes".to_owned()));
        }
    };
    flag("unbound", settings.affinity == Affinity::Unspecified);
    flag("aligned", settings.begin == Begin::Aligned);
    flag("full-second", settings.begin == Begin::FullSecond);
    flag("priority-spread", settings.priority_spread);
    if settings.loops > 0 {
        given.push(("wakeups", settings.loops.to_string()));
    }
    if settings.realtime_clock {
        given.push(("clock", "realtime".to_owned()));
    }
    match (settings.posix_timers, settings.relative) {
        (true, _) => given.push(("wait", "signal".to_owned())),
        (false, true) => given.push(("wait", "relative".to_owned())),
        (false, false) => {}
    }
    given
}
