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
mod hostile;
mod live;
mod looks;
mod moving;
mod place;
mod prometheus;
mod push;
mod receiver;
mod trends;
mod years;
