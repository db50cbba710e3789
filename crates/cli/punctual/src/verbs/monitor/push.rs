//! `[push]` in a plan: pushes the recordings of the service to a collector.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_monitor::Push;

use crate::exit::with_causes;
use crate::output;
use crate::running::push::push_once;

/// Interval at which the stop flag is polled.
const STEP: Duration = Duration::from_millis(200);

/// Pushes until the service ends. A failure does not end the service. It is reported once, and the
/// data remains due for the next push.
pub(super) fn push(plan: &Push, store: &Path, stop: &Arc<AtomicBool>) {
    let mut said = None;
    while !stop.load(Ordering::Relaxed) {
        let failed = push_once(plan, store, stop)
            .err()
            .map(|error| with_causes(&error));
        if failed != said {
            match &failed {
                Some(error) => output::note(&format!("push to {}: {error}", plan.to)),
                None => output::note(&format!("push to {} works again", plan.to)),
            }
            said = failed;
        }
        let end = Instant::now() + Duration::from(plan.every);
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(STEP);
        }
    }
}
