//! `[push]` of a plan: what the service recorded goes to a collector.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_monitor::Push;

use crate::exit::with_causes;
use crate::output;
use crate::verbs::fleet;

/// How often is looked whether the service ends.
const STEP: Duration = Duration::from_millis(200);

/// Pushes until the service ends. It never ends the service: what failed is said once,
/// and is due at the next look.
pub(super) fn push(plan: &Push, store: &Path, stop: &Arc<AtomicBool>) {
    let mut said = None;
    while !stop.load(Ordering::Relaxed) {
        let failed = fleet::push_once(plan, store, stop)
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
