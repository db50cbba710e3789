//! `messages`: groups of threads that write to each other, as hackbench does.
//!
//! Uses threads instead of processes. The scheduler treats both as tasks, and the path through the
//! socket or pipe is the same. Only the switch between address spaces is missing.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use punctual_model::{Arguments, Typed, parameters};

use crate::workers::{Shift, Worker, Workers};
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
        ],
    ).or("socket");
    SIZE: u64 = Typed::count("size", "Size of a message in bytes", 1..=65_536).or("100");
}

/// The writing end of a channel.
type Writer = Box<dyn Write + Send>;
/// The reading end of a channel.
type Reader = Box<dyn Read + Send>;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let groups = GROUPS.value_in(arguments).unwrap_or(cpus.len() as u64);
    let fan = FAN.value_in(arguments) as usize;
    let size = SIZE.value_in(arguments) as usize;
    let pipes = VIA.value_in(arguments) == "pipe";
    let mut workers = Vec::new();
    for _ in 0..groups {
        group(&mut workers, cpus, fan, size, pipes).map_err(|source| {
            LoadError::start(ENTRY.name, "cannot open the channels of a group", source)
        })?;
    }
    Ok(workers)
}

/// Adds the threads of a group. They may run on any of the CPUs: their placement by the scheduler
/// is part of the load.
fn group(
    workers: &mut Vec<Worker>,
    cpus: &[u32],
    fan: usize,
    size: usize,
    pipes: bool,
) -> io::Result<()> {
    let mut to_each: Vec<Vec<Writer>> = (0..fan).map(|_| Vec::new()).collect();
    for _ in 0..fan {
        let reader = open(pipes, &mut to_each)?;
        workers.push(Worker::new(cpus, move |shift| receive(shift, reader, size)));
    }
    for writers in to_each {
        workers.push(Worker::new(cpus, move |shift| send(shift, writers, size)));
    }
    Ok(())
}

/// Opens a channel to one receiver. Returns its reading end, and adds a writing end for each
/// sender.
fn open(pipes: bool, to_each: &mut [Vec<Writer>]) -> io::Result<Reader> {
    if pipes {
        let (reader, writer) = io::pipe()?;
        let writer = Arc::new(writer);
        for writers in to_each {
            writers.push(Box::new(SharedPipe(Arc::clone(&writer))));
        }
        return Ok(Box::new(reader));
    }
    let (reader, writer) = UnixStream::pair()?;
    let writer = Arc::new(writer);
    for writers in to_each {
        writers.push(Box::new(SharedSocket(Arc::clone(&writer))));
    }
    Ok(Box::new(reader))
}

/// The writing end of a pipe, shared by several senders. It is closed when the last of them drops
/// it.
struct SharedPipe(Arc<io::PipeWriter>);

impl Write for SharedPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The writing end of a socket, shared by several senders.
struct SharedSocket(Arc<UnixStream>);

impl Write for SharedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends until the load stops, then closes its writing ends. A blocked write always completes
/// because receivers read until all senders have closed their ends.
fn send(shift: &Shift, mut writers: Vec<Writer>, size: usize) -> io::Result<()> {
    let message = vec![0x5a; size];
    while !shift.stopping() {
        for writer in &mut writers {
            writer.write_all(&message)?;
        }
    }
    Ok(())
}

/// Reads one message after another until all senders have closed their ends.
fn receive(shift: &Shift, mut reader: Reader, size: usize) -> io::Result<()> {
    let mut message = vec![0; size];
    loop {
        match reader.read_exact(&mut message) {
            Ok(()) => shift.did(1),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
