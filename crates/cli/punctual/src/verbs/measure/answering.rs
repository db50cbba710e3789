//! `measure socket --serve`: the server of the `socket` probe, for a measurement from
//! another machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, ArgMatches, Command};
use punctual_probes::echo::{MESSAGE_BYTES, Server};

use crate::exit::{Exit, UsageError};
use crate::output;

/// The probe that the server answers.
const PROBE: &str = "socket";

/// The option, which is also the ID of its value.
const SERVE: &str = "serve";

/// Interval at which the stop flag is polled.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Adds `--serve` to the options of the `socket` probe.
pub(super) fn option(probe: &str, command: Command) -> Command {
    if probe != PROBE {
        return command;
    }
    let option = Arg::new(SERVE)
        .long(SERVE)
        .value_name("[ADDR:]PORT")
        .num_args(0..=1)
        .default_missing_value("127.0.0.1:0")
        .exclusive(true)
        .help("Answer the socket probe of another machine until Ctrl-C, without measuring")
        .long_help(format!(
            "Answer the socket probe of another machine until Ctrl-C, without measuring [default \
             address: 127.0.0.1 and a free port]\n\n\
             Listens for TCP and UDP on one port, and answers only messages of this probe. Each \
             message and each answer has {MESSAGE_BYTES} bytes. Anyone who can reach the address \
             can request answers."
        ));
    command.arg(option)
}

/// Returns the address that was given with `--serve`, if any.
pub(super) fn requested(probe: &str, matches: &ArgMatches) -> Option<String> {
    let is_here = probe == PROBE;
    is_here.then(|| matches.get_one::<String>(SERVE).cloned())?
}

/// Runs the server until Ctrl-C.
pub(super) fn serve(listen: &str) -> Result<Exit> {
    let address = address(listen)?;
    // Set up the flag before the server starts, so that Ctrl-C always stops it cleanly.
    let stop = crate::running::stop_flag()?;
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

/// Parses `PORT` or `ADDR:PORT`. A host name is also accepted as the address.
fn address(text: &str) -> Result<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let wrong = |reason: String| UsageError(format!("--serve {text}: {reason}"));
    let found: Vec<SocketAddr> = text
        .to_socket_addrs()
        .map_err(|error| wrong(format!("{error} (expected PORT or ADDR:PORT)")))?
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
    fn answering_listens_locally_by_default() {
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
