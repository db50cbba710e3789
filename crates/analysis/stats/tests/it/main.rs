//! The statistics on simulated machines, in one program.

// Test helpers panic on errors, like the tests themselves.
#![allow(clippy::unwrap_used)]

mod alarms;
mod bounds;
mod trends;
mod truth;
mod weeks_hold;

// The simulations of `cargo xtask simulate`, without the tables that it prints.
#[path = "../../examples/simulate/counts.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod counts;
#[path = "../../examples/simulate/late.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod late;
#[path = "../../examples/simulate/machines.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod machines;
#[path = "../../examples/simulate/rates.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod rates;
#[path = "../../examples/simulate/wander.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod wander;
#[path = "../../examples/simulate/wandering.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod wandering;
#[path = "../../examples/simulate/weeks.rs"]
#[allow(dead_code, clippy::print_stdout)]
mod weeks;
