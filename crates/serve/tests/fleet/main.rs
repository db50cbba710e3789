//! A collector over real HTTP on loopback: what it takes, keeps, shows and refuses.

#![allow(clippy::unwrap_used)]

mod access;
mod browser;
mod client;
mod contract;
mod delivery;
mod encrypted;
mod hostile;
mod place;
mod prometheus;
mod trends;
