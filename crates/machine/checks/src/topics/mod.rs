//! The topics of the audit, one file each. They contain knowledge about the machine but no generic
//! code.

mod cache_partition;
mod card_interrupts;
mod cards;
mod clock;
mod counting;
mod firmware;
mod handler_threads;
mod idle_states;
mod interrupt_parameters;
mod interruptions;
mod interrupts;
mod irqbalance;
mod isolation;
mod kernel;
mod limits;
mod memory;
mod network;
mod pci;
mod power;
mod rcu;
mod rights;
mod scheduler;
mod stolen;
mod throttled;
mod topology;
mod watchdogs;

use crate::Check;

/// A topic and its checks.
#[derive(Debug)]
pub struct Topic {
    /// Name: the prefix of its findings' names.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// Its checks.
    pub checks: &'static [Check],
}

/// All topics.
pub const TOPICS: &[Topic] = &[
    kernel::TOPIC,
    isolation::TOPIC,
    interrupts::TOPIC,
    network::TOPIC,
    scheduler::TOPIC,
    watchdogs::TOPIC,
    memory::TOPIC,
    power::TOPIC,
    clock::TOPIC,
    firmware::TOPIC,
    topology::TOPIC,
    rights::TOPIC,
];
