//! Settings that are more than the writing of a file: one file each.

mod coalescing;
mod dirty;
mod held_latency;
mod idle_limit;
mod irq;
mod irqbalance;
mod partition;
mod priority;
mod smt;
mod turbo;

use crate::knob::Context;
use crate::site::Site;
use crate::{Knob, TuneError};

pub(crate) use coalescing::RxCoalescing;
pub(crate) use dirty::{DIRTY, DIRTY_BACKGROUND};
pub(crate) use held_latency::HeldLatency;
pub use held_latency::{HOLD_VERB, hold_latency};
pub(crate) use idle_limit::IdleLimit;
pub use idle_limit::deeper_idle_states;
pub(crate) use irq::IrqAffinity;
pub(crate) use irqbalance::IrqbalanceBan;
pub(crate) use partition::Partition;
pub(crate) use priority::ThreadPriority;
pub(crate) use smt::Smt;
pub(crate) use turbo::Turbo;

/// How such a setting is found, read and changed.
///
/// What `read` gives can be written back: it goes to the journal as the old
/// value. `write` may be ended anywhere; writing the old value after that must
/// lead back.
pub(crate) trait Special: Sync {
    /// Its file, for messages and documentation.
    fn path(&self) -> &'static str;
    /// How one of several is named.
    fn instance_form(&self) -> Option<&'static str> {
        None
    }
    /// Whether one must say which: all of them is hardly ever meant.
    fn needs_selector(&self) -> bool {
        false
    }
    /// Whether a reboot leaves it as it was set.
    fn outlives_reboot(&self) -> bool {
        false
    }
    /// Those there are; empty where this machine does not have it.
    fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError>;
    /// Why there is none.
    fn absence(&self, _: &Site<'_>) -> String {
        format!("{} is not there", self.path())
    }
    /// Other names of an instance.
    fn aliases(&self, _: &Site<'_>, _: &str) -> Vec<String> {
        Vec::new()
    }
    /// An instance as a person names it.
    fn shown(&self, instance: &str) -> String {
        instance.to_owned()
    }
    /// Its value.
    fn read(&self, site: &Site<'_>, instance: &str) -> Result<String, TuneError>;
    /// Changes it.
    fn write(&self, site: &Site<'_>, instance: &str, value: &str) -> Result<(), TuneError>;
    /// Whether this process may.
    fn may_write(&self, site: &Site<'_>, instance: &str) -> Result<(), TuneError>;
    /// Why nobody may, whatever their rights.
    fn refusal(&self, _: &Site<'_>, _: &str) -> Option<String> {
        None
    }
    /// Whether `read` can have given this text for this instance: what a journal
    /// says is only written where it can.
    fn holds(&self, instance: &str, value: &str) -> bool;
    /// Whether two texts are the same value.
    fn same(&self, found: &str, wanted: &str) -> bool {
        found == wanted
    }
    /// A value as a person reads it.
    fn readable(&self, value: &str) -> String {
        value.to_owned()
    }
    /// What is to be written for what a person asked; nothing where this
    /// instance is not concerned.
    fn resolve(
        &self,
        knob: &Knob,
        site: &Site<'_>,
        instance: &str,
        asked: &str,
        context: &Context,
    ) -> Result<Option<String>, TuneError>;
    /// Whether the instance has ended for good, so that there is nothing left
    /// to put back.
    fn is_gone(&self, _: &Site<'_>, _: &str) -> bool {
        false
    }
    /// What the reader must know of a value that is in force, or will be.
    fn remark(&self, _: &Site<'_>, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// Reads a file that must be there.
pub(crate) fn read(site: &Site<'_>, file: &str) -> Result<String, TuneError> {
    let path = site.below(file);
    match site.files.read(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(TuneError::Read { path, source }),
    }
}

/// Writes a file that must be there.
pub(crate) fn write(site: &Site<'_>, file: &str, value: &str) -> Result<(), TuneError> {
    let path = site.below(file);
    let set = site.files.set(&path, value);
    set.map_err(|source| site.not_written(path, source))
}

/// Whether a file may be written.
pub(crate) fn may_write(site: &Site<'_>, file: &str) -> Result<(), TuneError> {
    let path = site.below(file);
    let writable = site.files.writable(&path);
    writable.map_err(|source| site.not_written(path, source))
}

/// One of the words for on and off.
pub(crate) fn on_or_off(knob: &Knob, asked: &str) -> Result<String, TuneError> {
    match asked {
        "on" | "true" | "yes" | "1" => Ok("on".to_owned()),
        "off" | "false" | "no" | "0" => Ok("off".to_owned()),
        _ => Err(invalid(knob, "", asked)),
    }
}

/// A value that it does not take.
pub(crate) fn invalid(knob: &Knob, instance: &str, asked: &str) -> TuneError {
    TuneError::Invalid {
        setting: knob.setting(instance),
        value: asked.to_owned(),
        expected: format!("it takes {}", knob.takes()),
    }
}
