//! Comparison of recordings, rates of late seconds, experiments on one variable.
//!
//! **For:** deciding whether one machine, kernel or setting reacts earlier than another, with the
//! size of the difference and its confidence ([`compare`]); and checking whether the two
//! measurements are comparable.
//!
//! **Knows:** the domain model, and the statistics.
//!
//! **Must not know:** files, terminals, the store, Linux. All functions are pure: the same
//! recordings give the same result on every machine.
//!
//! # Why wake-ups are not counted as independent
//! Wake-ups within a second share the disturbances of that second, such as a load, a frequency or a
//! burst of interrupts. If each wake-up were treated as independent, the intervals would be several
//! times too narrow, and any two runs would seem to differ. The resampling unit is therefore a
//! block of the run: consecutive intervals of the time series with all threads, joined until
//! neighbouring blocks are hardly correlated (`blocks`). Blocks are drawn with replacement
//! (`resample`; the block bootstrap: Künsch, Annals of Statistics 17, 1989; Carlstein, Annals of
//! Statistics 14, 1986). With fewer than [`LEAST_BLOCKS`] blocks, or without a time series, an
//! interval is *unknown*.
//!
//! The noise of single blocks hides slow wandering, and late samples may all be from one burst.
//! Therefore, the slowest variations of each figure over the whole run are also examined
//! (`longrun`). There are only a few of them, so the intervals use the t distribution. A figure
//! that varies too slowly for the run is *unknown*. `tests/truth.rs` and `tests/alarms.rs` count
//! the false alarms of simulated machines, including machines whose level wanders. `cargo xtask
//! simulate` does so for many more (docs/simulation.md).
//!
//! With one run per side, the result applies only to these two runs. It does not cover differences
//! between two boots of the same machine. With several runs per side ([`compare_runs`]), the run is
//! the unit: an exact rank test over all permutations of the runs judges the figures together
//! (`permute`). If there are so few runs that no permutation is rare enough, the result is
//! inconclusive.
//!
//! # Why several figures are judged together
//! If two equal machines are compared by twenty figures at 95% confidence, one figure is expected
//! to differ. A difference reported here is significant for all figures of a comparison together
//! (Holm, Scandinavian Journal of Statistics 6, 1979). Each interval, however, applies only to its
//! own figure.
//!
//! Maxima are not compared, because the largest of n samples supports only a bound.
//!
//! # Rates and experiments
//! `punctual_model::Rate` has the rate of late periods and its bounds, because the verdict of each
//! recording needs them. This crate tests how often the bounds hold (`tests/bounds.rs`). [`pairs`]
//! judges an experiment on one variable, and [`screening`] ranks many settings.
//!
//! # Years
//! [`changes`] finds steps at which a series of runs changes to another level. [`trend`] interprets
//! them for a series of recordings.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod alike;
mod blocks;
pub mod carry_over;
pub mod changes;
mod compare;
mod comparison;
mod counts;
pub mod discoveries;
mod figure;
pub mod holm;
mod identity;
mod longrun;
pub mod pairs;
mod permute;
mod proportion;
mod resample;
pub mod screening;
mod sentence;
pub mod separate;
pub mod shift;
mod shortfalls;
pub mod tail;
mod thread_pair;
pub mod trend;

pub use blocks::LEAST_BLOCKS;
pub use compare::{compare, compare_runs};
pub use comparison::{
    COMPARISON_SCHEMA, Change, Channel, Comparison, Difference, Estimate, Later, Options, Quantile,
    Rate, RateOfSide, Shortfall, Side, Unit,
};
pub use identity::throughput_change;

/// Reason why two recordings cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// The recordings are of different probes.
    #[error(
        "'{baseline}' and '{candidate}' measure different things: compare recordings of the same \
         probe"
    )]
    Probes {
        /// The baseline's probe.
        baseline: String,
        /// The candidate's probe.
        candidate: String,
    },
    /// A side has no run.
    #[error("baseline and candidate need at least one recording each")]
    NoRun,
    /// A recording has no latencies.
    #[error("recording {id} contains no latencies: there is nothing to compare")]
    Nothing {
        /// The short ID of the recording.
        id: String,
    },
    /// No thread of one application exists in the other.
    #[error(
        "no thread of the candidate matches one of the baseline by name and role, so the recordings \
         are of different applications.\nbaseline: {baseline}\ncandidate: {candidate}"
    )]
    NoThread {
        /// The threads of the baseline.
        baseline: String,
        /// The threads of the candidate.
        candidate: String,
    },
    /// Each mechanism is measured separately, and the two recordings have no mechanism in common.
    #[error(
        "the recordings have no measured mechanism in common: the baseline measured {baseline}, \
         the candidate {candidate}"
    )]
    NoChannel {
        /// The mechanisms of the baseline.
        baseline: String,
        /// The mechanisms of the candidate.
        candidate: String,
    },
}
