//! How often the methods of this crate are wrong, of machines that are made up:
//! `cargo xtask simulate`. Prints the table that docs/simulation.md quotes.

#![allow(clippy::print_stdout)]

mod comparisons;
mod experiments;
mod machines;

fn main() {
    let machines: u64 = (std::env::args().nth(1))
        .and_then(|number| number.parse().ok())
        .unwrap_or(2_000);
    let only = std::env::args().nth(2);
    if only.as_deref() != Some("experiments") {
        comparisons::print(machines);
        println!();
    }
    experiments::print(machines);
}
