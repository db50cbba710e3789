//! `-R`: checks the resolution of the clock.

use std::hint::black_box;

use punctual_rt::Clock;

use super::settings::CyclictestSettings;
use crate::ToolContext;

/// Limits for the number of reads, which should take about a millisecond.
const FEWEST: u64 = 1_000;
const MOST: u64 = 100_000;

/// Reads the clock repeatedly. Warns if its steps are coarser than the resolution that the kernel
/// reports.
pub(super) fn check(settings: &CyclictestSettings, context: &mut ToolContext<'_>) {
    let clock = if settings.realtime_clock {
        Clock::Realtime
    } else {
        Clock::Monotonic
    };
    let reported = clock.resolution().as_nanos() as u64;
    let read = || clock.now().as_nanos();
    let before = read();
    for _ in 0..FEWEST {
        black_box(read());
    }
    let took = read().saturating_sub(before) / FEWEST;
    let readings = 1_000_000u64.checked_div(took).unwrap_or(MOST);
    let times: Vec<u64> = (0..readings.clamp(FEWEST, MOST)).map(|_| read()).collect();
    if settings.debug {
        let count = times.len();
        context.say(&format!(
            "INFO: For {count} consecutive calls to clock_gettime():"
        ));
        context.say("INFO: time, delta time (nsec)");
    }
    let mut smallest = None;
    for pair in times.windows(2) {
        let step = pair[1].saturating_sub(pair[0]);
        if step > 0 {
            smallest = Some(smallest.map_or(step, |smallest: u64| smallest.min(step)));
        }
        if settings.debug {
            let (seconds, rest) = (pair[1] / 1_000_000_000, pair[1] % 1_000_000_000);
            context.say(&format!("INFO: {seconds}.{rest:06}  {step:5}"));
        }
    }
    let Some(measured) = smallest else {
        return context.warn(
            "measured clock resolution: unknown, because the clock does not \
            advance",
        );
    };
    if settings.verbose || measured > reported {
        context.warn(&format!("reported clock resolution: {reported} nsec"));
        context.warn(&format!(
            "measured clock resolution approximately: {measured} nsec"
        ));
    }
}
