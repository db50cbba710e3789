//! `[deliver]` of a plan: what the service recorded goes to a collector.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_record::Deliver;

use crate::exit::with_causes;
use crate::output;

/// A collector that does not answer is tried for so long, then again at the next look.
#[cfg(feature = "serve")]
const PATIENCE: Duration = Duration::from_secs(300);
/// How often is looked whether the service ends.
const STEP: Duration = Duration::from_millis(200);

/// Delivers until the service ends. It never ends the service: what failed is said once,
/// and is due at the next look.
pub(super) fn deliver(plan: &Deliver, store: &Path, stop: &Arc<AtomicBool>) {
    let mut said = None;
    while !stop.load(Ordering::Relaxed) {
        let failed = once(plan, store, stop)
            .err()
            .map(|error| with_causes(&error));
        if failed != said {
            match &failed {
                Some(error) => output::note(&format!("delivery to {}: {error}", plan.to)),
                None => output::note(&format!("delivery to {} works again", plan.to)),
            }
            said = failed;
        }
        let end = Instant::now() + Duration::from(plan.every);
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(STEP);
        }
    }
}

#[cfg(feature = "serve")]
fn once(plan: &Deliver, store: &Path, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    use crate::verbs::deliver::{host_name, identity, set_stop, stopped, token_of};
    use punctual_serve::deliver::{Deliverer, Target};
    set_stop(stop);
    let target = Target {
        url: plan.to.clone(),
        token: token_of(plan.token_file.as_deref())?,
        machine: host_name(),
        identity: identity(),
        roots: plan.ca.clone(),
    };
    let store = punctual_store::Store::open(store)?;
    let deliverer = Deliverer::new(target, stopped)?;
    deliverer.deliver(&store, PATIENCE, &mut |text| output::note(text))?;
    Ok(())
}

#[cfg(not(feature = "serve"))]
fn once(_: &Deliver, _: &Path, _: &Arc<AtomicBool>) -> anyhow::Result<()> {
    anyhow::bail!("this build of punctual cannot deliver (feature serve)")
}
