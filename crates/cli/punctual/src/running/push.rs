//! Pushes to a collector, for a verb and for the service.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Result;
use punctual_files::Budget;
use punctual_host::Host;
use punctual_monitor::Push as Plan;
use punctual_push::{Deliverer, Target};

use crate::output;

/// How long a service keeps retrying if the collector does not answer. After that, it waits until
/// the next push is due.
const PATIENCE: Duration = Duration::from_secs(300);

/// The flag that Ctrl-C or SIGTERM sets to stop a push.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

pub(crate) fn stopped() -> bool {
    STOP.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Sets the flag that stops a push.
pub(crate) fn set_stop(flag: &Arc<AtomicBool>) {
    STOP.get_or_init(|| Arc::clone(flag));
}

/// Returns the identity of this machine: a hash of its machine-id(5), its current boot, and its
/// name. Returns `None` if the boot is not known.
pub(crate) fn identity() -> Option<String> {
    let (host, name) = (Host::live(), host_name());
    let id = match host.machine() {
        // A container may not have a machine-id file.
        id if id == name || id == "unknown" => "-".to_owned(),
        id => id,
    };
    let plain = |text: String| -> String {
        let plain = |c: char| if c.is_ascii_graphic() { c } else { '?' };
        text.chars().map(plain).collect()
    };
    Some(format!("{id} {} {}", plain(host.boot_id()?), plain(name)))
}

/// Returns the name of this machine, the same as in its recordings.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Returns the token from the file, or from the environment.
pub(crate) fn token_of(file: Option<&Path>) -> Result<Option<String>> {
    let token = match file {
        Some(path) => {
            // A token has a few dozen letters.
            Some(Budget::bytes(4_096).read_text(path)?)
        }
        None => std::env::var("PUNCTUAL_TOKEN").ok(),
    };
    let token = token.map(|token| token.trim().to_owned());
    Ok(token.filter(|token| !token.is_empty()))
}

/// Pushes all data that is due, as configured by `[push]` in a plan.
pub(crate) fn push_once(plan: &Plan, store: &Path, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
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
