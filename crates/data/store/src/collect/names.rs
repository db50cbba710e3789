//! Names of machines, and the earlier names of machines that were renamed.

use std::borrow::Cow;
use std::collections::BTreeMap;

use punctual_model::{SeriesEpoch, WakeWindow};

use super::Delivery;
use crate::StoreError;

/// Changes the names of machines.
pub trait MachineNames {
    /// Renames a machine: all its data and its token get the name `new`. The old name becomes an
    /// earlier name of the machine, so deliveries that still use it are stored under `new`.
    ///
    /// # Errors
    /// [`StoreError::NotRenamed`] if no machine is named `old`, if `new` is in use, or if `old` has
    /// recordings that were measured in this store; otherwise any error while writing. In each case,
    /// nothing changes.
    fn rename(&self, old: &str, new: &str) -> Result<(), StoreError>;

    /// Returns the earlier names with the current name of their machine.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn earlier_names(&self) -> Result<BTreeMap<String, String>, StoreError>;

    /// Adds an earlier name of a machine, unless the name is already in use.
    ///
    /// # Errors
    /// Returns an error if the store cannot be written.
    fn put_earlier_name(&self, earlier: &str, machine: &str) -> Result<(), StoreError>;

    /// Returns the current name of the machine that delivers under `name`.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read.
    fn current_name(&self, name: &str) -> Result<String, StoreError> {
        let current = self.earlier_names()?.remove(name);
        Ok(current.unwrap_or_else(|| name.to_owned()))
    }
}

/// A delivery under an earlier name of its machine.
pub struct Redirected {
    machine: String,
    series: Option<SeriesEpoch>,
}

impl Redirected {
    /// Takes the current name of the machine.
    pub fn new(delivery: &Delivery<'_>, machine: String) -> Self {
        let series = delivery.series.map(|epoch| SeriesEpoch {
            machine: machine.clone(),
            host: Some(machine.clone()),
            ..epoch.clone()
        });
        Self { machine, series }
    }

    /// Returns the delivery under the current name.
    pub fn delivery<'a>(&'a self, delivery: &Delivery<'a>) -> Delivery<'a> {
        Delivery {
            machine: &self.machine,
            series: self.series.as_ref(),
            ..delivery.clone()
        }
    }
}

/// Replaces earlier names in windows of wake-ups.
pub fn redirect_windows<'a>(
    earlier: &BTreeMap<String, String>,
    deliveries: &'a [Vec<WakeWindow>],
) -> Cow<'a, [Vec<WakeWindow>]> {
    let mut windows = deliveries.iter().flatten();
    if !windows.any(|window| earlier.contains_key(&window.machine)) {
        return Cow::Borrowed(deliveries);
    }
    let mut deliveries = deliveries.to_vec();
    for window in deliveries.iter_mut().flatten() {
        if let Some(machine) = earlier.get(&window.machine) {
            machine.clone_into(&mut window.machine);
        }
    }
    Cow::Owned(deliveries)
}
