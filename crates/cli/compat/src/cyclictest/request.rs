//! Builds the measurement request of cyclictest.

use punctual_model::CpuSet;
use punctual_session::{Request, Tracemark};

use super::settings::{Affinity, Begin, CyclictestSettings};
use crate::lines::Unit;
use crate::machine::Machine;
use crate::shared;
use crate::{CompatError, ToolContext};

/// Builds the request.
///
/// # Errors
/// Returns an error for values that the probe rejects.
pub(super) fn request(
    settings: &CyclictestSettings,
    context: &ToolContext<'_>,
) -> Result<Request, CompatError> {
    let (common, unit) = (&settings.common, settings.unit);
    let break_above = unit.break_above(common.break_value);
    let marked = break_above.filter(|_| common.tracemark);
    let mut request = shared::request(
        context,
        "timer",
        &parameters(settings),
        0,
        common.duration_s,
    )?;
    if settings.is_real_time() {
        request.threads.policy = Some(settings.policy);
        request.threads.priority = Some(settings.priority);
    }
    request.threads.cpus = cpus(settings);
    request.limits.break_above = break_above;
    request.limits.tracemark = marked.map(|_| match unit {
        Unit::Micros => Tracemark::Micros,
        Unit::Nanos => Tracemark::Nanos,
    });
    request.machine.dma_latency_us = settings.holds_latency().then_some(settings.latency_us);
    request.machine.deepest_idle_state = settings.idle_state;
    Ok(request)
}

/// Returns the CPUs to use. From a list, takes at most one CPU per thread.
fn cpus(settings: &CyclictestSettings) -> Option<CpuSet> {
    match &settings.affinity {
        Affinity::Chosen(cpus) => Some(cpus.iter().take(settings.threads as usize).collect()),
        Affinity::Unspecified | Affinity::All | Affinity::Smp => None,
    }
}

/// Returns the CPUs that pinned threads run on.
pub(super) fn cpus_used(settings: &CyclictestSettings, machine: &Machine) -> CpuSet {
    let all = cpus(settings).unwrap_or_else(|| machine.allowed.clone());
    all.iter().take(settings.threads as usize).collect()
}

/// Returns the parameters specific to the probe.
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
