//! `messages`: groups of threads that write to each other, as hackbench does.
//!
//! Threads, not processes: to the scheduler both are tasks, and the way through
//! the socket or pipe is the same; what is missing is the change of address
//! space.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use punctual_model::{Arguments, Parameter, ParameterKind};

use crate::entry::count;
use crate::workers::{Shift, Worker, Workers};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "messages",
    summary: "groups of threads that write to each other, as hackbench does",
    parameters: &[
        count(
            "groups",
            256,
            None,
            "Number of groups; default: number of CPUs",
        ),
        count(
            "fan",
            40,
            Some("4"),
            "Number of senders and of receivers per group; each sends to each",
        ),
        Parameter {
            name: "via",
            short: None,
            kind: ParameterKind::Choice(&[
                ("socket", "a pair of Unix stream sockets"),
                ("pipe", "a pipe"),
            ]),
            default: Some("socket"),
            help: "Transport of the messages",
        },
        count("size", 65_536, Some("100"), "Size of a message in bytes"),
    ],
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("messages", &["messages received"], plan, arguments),
};

/// The writing end of a channel.
type Writer = Box<dyn Write + Send>;
/// The reading end of a channel.
type Reader = Box<dyn Read + Send>;

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let groups = arguments.count("groups").unwrap_or(cpus.len() as u64);
    let fan = arguments.count("fan").unwrap_or(4) as usize;
    let size = arguments.count("size").unwrap_or(100) as usize;
    let pipes = arguments.choice("via") == Some("pipe");
    let mut workers = Vec::new();
    for _ in 0..groups {
        group(&mut workers, cpus, fan, size, pipes).map_err(|source| {
            LoadError::start(ENTRY.name, "cannot open the channels of a group", source)
        })?;
    }
    Ok(workers)
}

/// The threads of a group. They may run on any of the CPUs: their placement by
/// the scheduler is part of the load.
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

/// A channel to one receiver: its reading end, and a writing end for each sender.
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

/// A pipe's writing end that several senders have; the last one closes it.
struct SharedPipe(Arc<io::PipeWriter>);

impl Write for SharedPipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket's writing end that several senders have.
struct SharedSocket(Arc<UnixStream>);

impl Write for SharedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends until the load stops, and closes its ends. A write that blocks goes on
/// because receivers read until all have closed.
fn send(shift: &Shift, mut writers: Vec<Writer>, size: usize) -> io::Result<()> {
    let message = vec![0x5a; size];
    while !shift.stopping() {
        for writer in &mut writers {
            writer.write_all(&message)?;
        }
    }
    Ok(())
}

/// Reads message by message until all senders have closed.
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
