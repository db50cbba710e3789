//! A collector over real HTTP on loopback: what it takes, keeps, shows and refuses.

#![allow(clippy::unwrap_used)]

mod access;
mod accessible;
mod alerts;
mod browser;
mod client;
mod contract;
mod delivery;
mod devtools;
mod encrypted;
mod faults;
mod guessed;
mod hostile;
mod isolated;
mod live;
mod looks;
mod moving;
mod place;
mod prometheus;
mod push;
mod receiver;
#[path = "../sound/mod.rs"]
mod sound;
mod trends;
mod years;
