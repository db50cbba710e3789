//! Documents that cover more than one recording: experiments, comparisons, trends, fleets.

mod checkup;
mod comparison;
mod experiment;
mod fleet;
mod hunt;
mod improvement;
mod lint;
mod monthly;
mod numbers;
mod series_proof;
mod trend;

pub use checkup::checkup;
pub use comparison::comparison;
pub use experiment::{experiment, experiment_text, experiments, overlaid};
pub use fleet::{MachineRow, MachineState, machine, minutes};
pub use hunt::hunt;
pub use improvement::improvement;
pub use lint::lint;
pub use monthly::{Causes, monthly, pictured};
pub use numbers::numbers;
pub use series_proof::series_proof;
pub use trend::{acknowledge, changes, notes, trend};
