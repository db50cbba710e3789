//! `messages`: groups of threads that write to each other, as hackbench does.
//!
//! Uses threads instead of processes. The scheduler treats both as tasks, and the path through the
//! socket or pipe is the same. Only the switch between address spaces is missing.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use punctual_model::{Arguments, Typed, parameters};

use crate::workers::{Worker, Workers};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "messages",
    summary: "groups of threads that write to each other, as hackbench does",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("messages", &["messages received"], plan, arguments),
};

parameters! {
    GROUPS: Option<u64> = Typed::count(
        "groups",
        "Number of groups; default: number of CPUs",
        1..=256,
    );
    FAN: u64 = Typed::count(
        "fan",
        "Number of senders and of receivers per group; each sender writes to each receiver",
        1..=40,
    ).or("4");
    VIA: &'static str = Typed::choice(
        "via",
        "Transport of the messages",
        &[
            ("socket", "a pair of Unix stream sockets"),
            ("pipe", "a pipe"),
            ("tcp", "a TCP connection over the loopback interface"),
        ],
    ).or("socket");
    SIZE: u64 = Typed::count("size", "Size of a message in bytes", 1..=65_536).or("100");
}

/// The writing end of a channel.
type Writer = Box<dyn Write + Send>;
/// The reading end of a channel.
type Reader = Box<dyn Read + Send>;

/// Transport of messages.
#[derive(Clone, Copy)]
enum Via {
    /// A pair of Unix stream sockets.
    Socket,
    /// A pipe.
    Pipe,
    /// A TCP connection over the loopback interface.
    Tcp,
}

impl Via {
    fn named(name: &str) -> Self {
        match name {
            "pipe" => Self::Pipe,
            "tcp" => Self::Tcp,
            _ => Self::Socket,
        }
    }
}

/// The channels of a group.
struct Group {
    /// The reading end of each receiver.
    readers: Vec<Reader>,
    /// The writing ends of each sender: one to each receiver.
    writers: Vec<Vec<Writer>>,
}

impl Group {
    /// Opens the channels of `fan` senders and `fan` receivers.
    fn open(fan: usize, via: Via) -> io::Result<Self> {
        let mut writers: Vec<Vec<Writer>> = (0..fan).map(|_| Vec::new()).collect();
        let readers = (0..fan).map(|_| channel(via, &mut writers));
        Ok(Self {
            readers: readers.collect::<io::Result<_>>()?,
            writers,
        })
    }
}

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let groups = GROUPS.value_in(arguments).unwrap_or(cpus.len() as u64);
    let fan = FAN.value_in(arguments) as usize;
    let size = SIZE.value_in(arguments) as usize;
    let via = Via::named(VIA.value_in(arguments));
    let mut workers = Vec::new();
    // The threads may run on any of the CPUs: their placement by the scheduler is part of the load.
    for _ in 0..groups {
        let group = Group::open(fan, via).map_err(|source| {
            LoadError::start(ENTRY.name, "cannot open the channels of a group", source)
        })?;
        for reader in group.readers {
            workers.push(Worker::new(cpus, move |shift| {
                receive(reader, size, || shift.did(1))
            }));
        }
        for writers in group.writers {
            workers.push(Worker::new(cpus, move |shift| {
                send(writers, size, || !shift.stopping())
            }));
        }
    }
    Ok(workers)
}

/// Opens a channel to one receiver. Returns its reading end, and adds a writing end for each
/// sender.
fn channel(via: Via, to_each: &mut [Vec<Writer>]) -> io::Result<Reader> {
    match via {
        Via::Pipe => {
            let (reader, writer) = io::pipe()?;
            share(writer, to_each);
            Ok(Box::new(reader))
        }
        Via::Socket => {
            let (reader, writer) = UnixStream::pair()?;
            share(writer, to_each);
            Ok(Box::new(reader))
        }
        Via::Tcp => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            #[expect(
                clippy::disallowed_methods,
                reason = "the listener is that of this thread"
            )]
            let writer = TcpStream::connect(listener.local_addr()?)?;
            share(writer, to_each);
            Ok(Box::new(listener.accept()?.0))
        }
    }
}

/// Adds the writing end of a channel to the writers of each sender.
fn share<W>(writer: W, to_each: &mut [Vec<Writer>])
where
    W: Send + Sync + 'static,
    for<'w> &'w W: Write,
{
    let writer = Arc::new(writer);
    for writers in to_each {
        writers.push(Box::new(Shared(Arc::clone(&writer))));
    }
}

/// A writing end that several senders share. It is closed when the last of them drops it.
struct Shared<W>(Arc<W>);

impl<W> Write for Shared<W>
where
    for<'w> &'w W: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends to each receiver in turn while `next` returns true, then closes its writing ends. A
/// blocked write always completes because receivers read until all senders have closed their ends.
fn send(mut writers: Vec<Writer>, size: usize, mut next: impl FnMut() -> bool) -> io::Result<()> {
    let message = vec![0x5a; size];
    while next() {
        for writer in &mut writers {
            writer.write_all(&message)?;
        }
    }
    Ok(())
}

/// Reads one message after another until all senders have closed their ends. Calls `received` for
/// each.
fn receive(mut reader: Reader, size: usize, mut received: impl FnMut()) -> io::Result<()> {
    let mut message = vec![0; size];
    loop {
        match reader.read_exact(&mut message) {
            Ok(()) => received(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
