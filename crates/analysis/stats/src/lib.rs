//! Two recordings compared; rates of late episodes; experiments on one variable.
//!
//! **For:** whether one machine, kernel or setting reacts earlier than another,
//! by how much, and how sure that is ([`compare`]); and whether the two were
//! measured alike at all.
//!
//! **Knows:** the domain model, and the statistics.
//!
//! **Must not know:** files, terminals, the store, Linux. All of it is a pure
//! function of its arguments: the same recordings give the same answer, on each
//! machine.
//!
//! # Why wake-ups are not counted as independent
//! Wake-ups of one second share what disturbs that second: a load, a frequency, an
//! interrupt that comes in bursts. An interval that took each as a witness of its
//! own would be several times too narrow, and would find a difference between any
//! two runs. So whole stretches of the run are what is drawn from: the intervals
//! of the time series, all threads of a stretch together, joined to blocks until
//! neighbours hardly hang together any more (`blocks`). Of these as many are drawn
//! again and again, with replacement (`resample`; the block bootstrap: Künsch,
//! Annals of Statistics 17, 1989; Carlstein, Annals of Statistics 14, 1986). With
//! fewer than [`LEAST_BLOCKS`] blocks, or without a time series, an interval is
//! *unknown*.
//!
//! What wanders slowly hides under the noise of single stretches, and late samples may
//! all come from one burst. So each figure is looked at once more over the whole length
//! of the run (`longrun`): in its slowest waves, of which there are few, so that
//! intervals are those of the t distribution. A figure that comes and goes too slowly
//! for the run is *unknown*. `tests/truth.rs` and `tests/alarms.rs` count the false alarms
//! of machines that are made up, also of such; `cargo xtask simulate` of many more
//! (docs/simulation.md).
//!
//! One run of each tells these two runs apart. What changes from one start of the same
//! machine to the next is in neither. With several runs a side ([`compare_runs`]) the
//! run is the unit, and an exact rank test over all ways to deal the runs out judges the
//! figures together (`permute`); so few that no arrangement can be rare enough claim
//! nothing.
//!
//! # Why several figures are judged together
//! Of twenty figures of equal machines one differs with 95% confidence. What is
//! called a difference here holds for all figures of a comparison together (Holm,
//! Scandinavian Journal of Statistics 6, 1979); the intervals are of each alone.
//!
//! Maxima are not compared: the largest of n samples is worth its bound and no
//! more.
//!
//! # Rates and experiments
//! A rate of late periods and its bounds are `punctual_model::Rate`: the verdict of each
//! recording needs them. How often they hold is counted here (`tests/bounds.rs`).
//! [`pairs`] judges an experiment on one variable, [`screening`] ranks many settings.
//!
//! # Years
//! [`changes`] finds where a series of runs steps to another level, [`trend`] says what
//! that means for a series of recordings.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod alike;
mod blocks;
pub mod carry_over;
pub mod changes;
mod compare;
mod comparison;
mod counts;
mod figure;
pub mod holm;
mod lanes;
mod longrun;
pub mod pairs;
mod permute;
mod proportion;
mod resample;
pub mod screening;
mod sentence;
pub mod separate;
mod shortfalls;
pub mod tail;
pub mod trend;

use schemars::JsonSchema;

pub use blocks::LEAST_BLOCKS;
pub use compare::{compare, compare_runs};
pub use comparison::{
    COMPARISON_SCHEMA, Change, Comparison, Difference, Estimate, Lane, Later, Options, Quantile,
    Rate, RateOfSide, Shortfall, Side, Unit,
};

/// Why two recordings cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// They measured different things.
    #[error(
        "'{baseline}' and '{candidate}' measure different things: compare recordings of one probe"
    )]
    Probes {
        /// The baseline's probe.
        baseline: String,
        /// The candidate's probe.
        candidate: String,
    },
    /// A side without a run.
    #[error("baseline and candidate need at least one recording each")]
    NoRun,
    /// There is nothing to compare.
    #[error("recording {id} holds no latencies: there is nothing to compare")]
    Nothing {
        /// The short ID of the recording.
        id: String,
    },
    /// Each way is measured for itself, and they have none in common.
    #[error(
        "the recordings have no way of measuring in common: the baseline has {baseline}, the \
         candidate {candidate}"
    )]
    NoLane {
        /// The baseline's.
        baseline: String,
        /// The candidate's.
        candidate: String,
    },
}
