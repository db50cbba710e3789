//! How often the methods of this crate are wrong, of machines that are made up:
//! `cargo xtask simulate`. Prints the table that docs/simulation.md quotes.

#![allow(clippy::print_stdout)]

mod comparisons;
mod machines;

fn main() {
    let machines: u64 = (std::env::args().nth(1))
        .and_then(|number| number.parse().ok())
        .unwrap_or(2_000);
    comparisons::print(machines);
}
