//! The time of samples.

use punctual_model::Nanos;
use punctual_rt::Clock;

/// Returns the time on CLOCK_MONOTONIC.
pub(crate) fn now() -> Nanos {
    Nanos(Clock::Monotonic.now().as_nanos())
}
