//! All settings, in the order in which they are changed; they are put back the
//! other way round.
//!
//! Ranges are the kernel's own where it checks (`kernel/sysctl.c`,
//! `mm/page-writeback.c`, `kernel/sched/rt.c`), and the type's otherwise: the
//! kernel has the last word, and what it does not take is rolled back.

mod memory;
mod network;
mod power;
mod watch;
mod work;

use super::{Knob, Place, Risk, Scope, Values};
use crate::special::Special;

/// A row of one file for the whole machine.
const fn machine(
    name: &'static str,
    summary: &'static str,
    path: &'static str,
    values: Values,
) -> Knob {
    Knob {
        name,
        summary,
        caution: "",
        risk: Risk::Low,
        source: "",
        place: Place::File(path),
        values,
        scope: Scope::Machine,
        refusal: "",
    }
}

/// A row of one file for each CPU or device.
const fn each(
    name: &'static str,
    summary: &'static str,
    pattern: &'static str,
    values: Values,
    scope: Scope,
) -> Knob {
    Knob {
        place: Place::Each(pattern),
        scope,
        ..machine(name, summary, "", values)
    }
}

/// A row that is more than files.
const fn special(
    name: &'static str,
    summary: &'static str,
    how: &'static dyn Special,
    values: Values,
) -> Knob {
    Knob {
        place: Place::Special(how),
        ..machine(name, summary, "", values)
    }
}

impl Knob {
    const fn risk(self, risk: Risk, caution: &'static str) -> Self {
        Self {
            risk,
            caution,
            ..self
        }
    }

    const fn refused(self, refusal: &'static str) -> Self {
        Self { refusal, ..self }
    }

    const fn from(self, source: &'static str) -> Self {
        Self { source, ..self }
    }
}

const ON_OFF: Values = Values::Switch;
const BIG: i64 = i32::MAX as i64;

const fn up_to(max: i64) -> Values {
    Values::Number { min: 0, max }
}

/// The parts of the table, in order. A new setting is a row of one of them.
const PARTS: [&[Knob]; 5] = [
    power::ROWS,
    work::ROWS,
    memory::ROWS,
    watch::ROWS,
    network::ROWS,
];

const COUNT: usize = {
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

/// All settings.
pub const KNOBS: &[Knob] = &all();

const fn all() -> [Knob; COUNT] {
    let mut knobs = [PARTS[0][0]; COUNT];
    let (mut place, mut part) = (0, 0);
    while part < PARTS.len() {
        let mut row = 0;
        while row < PARTS[part].len() {
            knobs[place] = PARTS[part][row];
            place += 1;
            row += 1;
        }
        part += 1;
    }
    knobs
}
