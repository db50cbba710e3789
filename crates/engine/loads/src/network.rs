//! `network`: traffic over the loopback interface.
//!
//! Both ends are in this process, on 127.0.0.1 and on ports chosen by the kernel. So no data leaves
//! the machine, and no other program can connect.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use punctual_model::{Arguments, Typed, parameters};

use crate::workers::{Pace, Shift, Worker, Workers};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "network",
    summary: "TCP and UDP traffic over the loopback interface",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("network", &["bytes received"], plan, arguments),
};

parameters! {
    PROTOCOL: &'static str = Typed::choice(
        "protocol",
        "Transport protocol",
        &[
            ("both", "pairs that use TCP and UDP alternately"),
            ("tcp", "TCP"),
            ("udp", "UDP"),
        ],
    ).or("both");
    PAIRS: u64 = Typed::count(
        "pairs",
        "Number of sender and receiver pairs",
        1..=1024,
    ).or("2");
    SIZE: u64 = Typed::count("size", "Bytes per send", 1..=65_507).or("1400");
    RATE: Option<u64> = Typed::count(
        "rate",
        "Maximum send rate of each pair in Mbit/s; default: unlimited",
        1..=1_000_000,
    );
}

/// Timeout of a blocking call, after which the stop flag is checked.
const MOMENT: Duration = Duration::from_millis(50);

/// Bytes per second in one Mbit/s.
pub(crate) const MEGABIT: u64 = 125_000;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let size = SIZE.value_in(arguments) as usize;
    let rate = RATE.value_in(arguments).map(|mega| mega * MEGABIT);
    let mut workers = Vec::new();
    for pair in 0..PAIRS.value_in(arguments) {
        let tcp = match PROTOCOL.value_in(arguments) {
            "tcp" => true,
            "udp" => false,
            _ => pair % 2 == 0,
        };
        workers.extend(
            workers_of_pair(tcp, cpus, size, rate)
                .map_err(|source| LoadError::start(ENTRY.name, "cannot open a pair", source))?,
        );
    }
    Ok(workers)
}

/// Creates a connected sender and receiver.
pub(crate) fn workers_of_pair(
    tcp: bool,
    cpus: &[u32],
    size: usize,
    rate: Option<u64>,
) -> io::Result<[Worker; 2]> {
    Ok(if tcp {
        let (from, to) = tcp_pair()?;
        [
            Worker::new(cpus, move |shift| {
                send(shift, size, rate, |bytes| (&from).write(bytes))
            }),
            Worker::new(cpus, move |shift| {
                receive(shift, |block| match (&to).read(block) {
                    // The sender has closed the connection.
                    Ok(0) => Err(ErrorKind::WouldBlock.into()),
                    result => result,
                })
            }),
        ]
    } else {
        let (from, to) = udp_pair()?;
        [
            Worker::new(cpus, move |shift| {
                send(shift, size, rate, |bytes| from.send(bytes))
            }),
            Worker::new(cpus, move |shift| receive(shift, |block| to.recv(block))),
        ]
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the listener is that of this thread"
)]
fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let from = TcpStream::connect(listener.local_addr()?)?;
    let own = from.local_addr()?;
    let to = loop {
        let (stream, peer) = listener.accept()?;
        // Another program on the machine may have connected first.
        if peer == own {
            break stream;
        }
    };
    from.set_nodelay(true)?;
    from.set_write_timeout(Some(MOMENT))?;
    to.set_read_timeout(Some(MOMENT))?;
    Ok((from, to))
}

fn udp_pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // A connected socket receives from its peer only.
    from.connect(to.local_addr()?)?;
    to.connect(from.local_addr()?)?;
    from.set_write_timeout(Some(MOMENT))?;
    to.set_read_timeout(Some(MOMENT))?;
    Ok((from, to))
}

/// Returns whether to retry the call, which is the case after a signal to the program or a timeout.
fn passes(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn send(
    shift: &Shift,
    size: usize,
    rate: Option<u64>,
    mut call: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let message = vec![0x5a; size];
    let mut pace = Pace::new(rate);
    while !shift.stopping() {
        match call(&message) {
            Ok(bytes) => pace.after(shift, bytes as u64),
            Err(error) if passes(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn receive(shift: &Shift, mut call: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
    let mut block = vec![0; 65_536];
    while !shift.stopping() {
        match call(&mut block) {
            Ok(bytes) => shift.did(bytes as u64),
            Err(error) if passes(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
