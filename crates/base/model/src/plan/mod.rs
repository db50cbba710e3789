//! Plans of measurements over years: slots, and the runs of a series.

mod series_run;
mod slot;

pub use series_run::{RunGroup, SeriesRun, run_groups};
pub use slot::{
    ChangeAnnotation, ChangeDecision, CpuClass, Note, SeriesEpoch, Slot, SlotCause, SlotState,
    WakeWindow,
};
