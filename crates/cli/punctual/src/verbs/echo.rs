//! `echo`: the server of the `socket` probe, for a measurement from another
//! machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use punctual_probes::echo::{MESSAGE_BYTES, Server};

use super::{Run, Verb, measure};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb::of::<Echo>("echo");

/// Polling interval of the stop flag.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Answer `measure socket --connect` of another machine
#[derive(Parser)]
#[command(long_about = long())]
struct Echo {
    /// Address to listen on; default ADDR 127.0.0.1; port 0: any free one
    #[arg(long, value_name = "[ADDR:]PORT", default_value = "127.0.0.1:0")]
    listen: String,
}

fn long() -> String {
    format!(
        "Answer `punctual measure socket --connect` of another machine, over TCP and UDP on \
         one port, until Ctrl-C. It answers only that probe's messages, each of \
         {MESSAGE_BYTES} bytes with as many.\n\nAnyone who reaches the address can make it \
         answer: by default it listens on this machine only."
    )
}

impl Run for Echo {
    fn run(self, _: &Context) -> Result<Exit> {
        let address = address(&self.listen)?;
        // Before the server: from here on Ctrl-C stops it cleanly.
        let stop = measure::stop_flag()?;
        let server = Server::listen(address, &[])?;
        let listening = server.address();
        output::note(&format!("listening on {listening}, TCP and UDP"));
        if listening.ip().is_unspecified() {
            output::note("listening on every address: reachable from all networks");
        }
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_AGAIN);
        }
        output::note(&format!(
            "answered {} messages",
            punctual_model::grouped(server.answered())
        ));
        Ok(Exit::Done)
    }
}

/// `PORT`, `ADDR:PORT`, or a name in place of the address.
fn address(text: &str) -> Result<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let wrong = |reason: String| UsageError(format!("--listen {text}: {reason}"));
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| wrong(format!("{error} (it takes PORT or ADDR:PORT)")))?
        .collect();
    let ipv4 = found.iter().find(|address| address.is_ipv4());
    match ipv4.or(found.first()) {
        Some(address) => Ok(*address),
        None => Err(wrong("the name has no address".to_owned()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_listens_on_this_machine_unless_told_otherwise() {
        let read = |text| address(text).unwrap().to_string();
        assert_eq!(read("7007"), "127.0.0.1:7007");
        assert_eq!(read("0.0.0.0:7007"), "0.0.0.0:7007");
        assert_eq!(read("[::1]:7"), "[::1]:7");
        for wrong in ["", "65536", "127.0.0.1", "127.0.0.1:x", ":"] {
            let error = address(wrong).unwrap_err();
            assert!(error.is::<UsageError>(), "{wrong}: {error}");
        }
    }
}
