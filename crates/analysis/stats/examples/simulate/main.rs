//! Measures the error rates of the methods in this crate on simulated machines:
//! `cargo xtask simulate`. Prints the tables in docs/simulation.md.

#![allow(clippy::print_stdout)]

mod comparisons;
mod counts;
mod critical;
mod experiments;
mod fleet;
mod late;
mod machines;
mod rates;
mod trends;
mod wander;
mod wandering;
mod weeks;

/// Number of simulated machines for each simulated series of runs.
const MACHINES_A_SERIES: u64 = 7;

fn main() {
    let machines: u64 = (std::env::args().nth(1))
        .and_then(|number| number.parse().ok())
        .unwrap_or(2_000);
    let only = std::env::args().nth(2);
    let series = (machines / MACHINES_A_SERIES).max(1);
    if only.as_deref() == Some("series") {
        return trends::write(series);
    }
    if only.as_deref() == Some("critical") {
        return critical::print();
    }
    let is_wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if is_wanted("compare") {
        comparisons::print(machines);
    }
    if is_wanted("trend") {
        trends::print(series);
    }
    if is_wanted("wandering") {
        wandering::print(series);
    }
    if is_wanted("noise") {
        wandering::print_noise(series);
    }
    if is_wanted("fleet") {
        fleet::print();
    }
    if is_wanted("rates") {
        rates::print(machines);
    }
    if is_wanted("weeks") {
        weeks::print(machines);
    }
    if is_wanted("experiments") {
        experiments::print(machines);
    }
}
