//! A collector over real HTTP on loopback: what it accepts, stores, shows and rejects.

#![allow(clippy::unwrap_used)]

mod access;
mod accessible;
mod alertmanager;
mod alerts;
mod browser;
mod client;
mod contract;
mod delivery;
mod devtools;
mod dictionaries;
mod encrypted;
mod faults;
mod guessed;
mod hostile;
mod isolated;
mod keys;
mod live;
mod looks;
mod many;
mod moving;
mod place;
mod profile;
mod program;
mod prometheus;
mod proofs;
mod push;
mod receiver;
mod refusals;
mod scraped;
mod scripts;
mod senders;
#[path = "../sound/mod.rs"]
mod sound;
mod trends;
mod years;
