//! A posting thread in a separate process. This file contains the protocol between the two
//! processes, and the code of the posting process.
//!
//! The program is started again instead of being forked, because a program with threads may call
//! almost no functions after a fork. svsematest --fork needs this. The process gets its
//! [`PostingTask`] as an argument, inherits the shared memory and the mechanism's descriptor, and
//! reports on stdout, line by line. It reads the start and stop commands from stdin, and exits when
//! stdin ends, even if its threads are still running.

use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use punctual_model::{FromJson, Scheduling, from_json, to_json};
use punctual_rt::{
    EventFd, Instant, LockMode, MessageQueue, SharedNumbers, SystemVSemaphore, Tid, current_tid,
    inherited, interrupt, send_signal_to,
};
use serde::{Deserialize, Serialize};

use super::mechanisms::{End, Post, Reach, Token, Wait, Way, post_byte};
use super::pair::{PairSettings, poster};
use super::shared_state::{Numbers, SharedState};
use crate::policy::measuring_thread;
use crate::thread_group::ThreadGroup;
use crate::{Control, Opening, PartnerError, ProbeError};

/// The messages of the process. The second one is followed by the reason.
pub(super) const READY: &str = "poster: ready";
pub(super) const FAILED: &str = "poster: failed ";
pub(super) const DONE: &str = "poster: done";

/// The commands on the stdin of the process. The first one is followed by the start time in ns of
/// CLOCK_MONOTONIC.
pub(super) const GO: &str = "go ";
pub(super) const STOP: &str = "stop";

/// The values of `--via` for which the posting end can be in another process.
pub(super) const WAYS: &[&str] = &[
    "futex", "sem-sysv", "pipe", "eventfd", "mq", "socket", "signal",
];

/// Explains why this mechanism is not one of them.
pub(super) fn ways_there_are(via: &str) -> String {
    format!(
        "--processes does not support --via {via}, which works only within one process: use one \
         of {}",
        WAYS.join(", ")
    )
}

/// The task of the posting thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PostingTask {
    pub(super) name: String,
    /// The descriptor of the shared memory.
    pub(super) numbers: i32,
    pub(super) end: End,
    /// The descriptor of the mechanism, if it has one.
    pub(super) descriptor: Option<i32>,
    pub(super) cpus: Vec<u32>,
    pub(super) scheduling: Scheduling,
    pub(super) settings: PairSettings,
}

to_json!(PostingTask);
from_json!(PostingTask);

impl PostingTask {
    fn descriptor(&self) -> Result<OwnedFd, ProbeError> {
        let number = self.descriptor.ok_or(PartnerError::NoDescriptor)?;
        Ok(inherited(number)?)
    }
}

/// The futex in the shared memory.
#[derive(Debug)]
pub(super) struct SharedFutexes(pub(super) Arc<SharedNumbers>);

impl Way for SharedFutexes {
    type Post<'a> = FutexPost;
    type Wait<'a> = FutexWait<'a>;

    fn post_end(&self) -> Result<FutexPost, punctual_rt::Error> {
        Ok(FutexPost(Arc::clone(&self.0)))
    }

    fn wait_end(&self) -> Result<FutexWait<'_>, punctual_rt::Error> {
        Ok(FutexWait {
            numbers: &self.0,
            seen: 0,
        })
    }

    fn reach(&self) -> Option<Reach<'_>> {
        Some((End::Futex, None))
    }
}

pub(super) struct FutexPost(Arc<SharedNumbers>);

impl Post for FutexPost {
    #[inline]
    fn post(&mut self) -> Result<(), punctual_rt::Error> {
        self.0.futex().post()
    }
}

pub(super) struct FutexWait<'a> {
    numbers: &'a SharedNumbers,
    seen: u32,
}

impl Wait for FutexWait<'_> {
    #[inline]
    fn wait(&mut self) -> Result<(), punctual_rt::Error> {
        self.numbers.futex().wait_while(self.seen)?;
        self.seen = self.numbers.futex().value();
        Ok(())
    }
}

/// The posting end of a mechanism that posts through its own object.
struct Whole<T>(T);

impl<T: Token> Post for Whole<T> {
    #[inline]
    fn post(&mut self) -> Result<(), punctual_rt::Error> {
        T::post(&self.0)
    }
}

/// The posting end of a mechanism that writes bytes.
struct Bytes<T>(T);

impl<T: Write> Post for Bytes<T> {
    #[inline]
    fn post(&mut self) -> Result<(), punctual_rt::Error> {
        post_byte(&mut self.0, "write to the other process")
    }
}

/// A signal to a thread of another process.
struct Signals {
    numbers: Arc<SharedNumbers>,
    process: i32,
    thread: Option<Tid>,
}

impl Post for Signals {
    fn prepare(&mut self) -> Result<(), punctual_rt::Error> {
        if self.thread.is_none() {
            self.thread = SharedState::from_numbers(&self.numbers).waiter();
        }
        Ok(())
    }

    #[inline]
    fn post(&mut self) -> Result<(), punctual_rt::Error> {
        let to = |thread| send_signal_to(self.process, thread);
        self.thread.map_or(Ok(()), to)
    }
}

/// Runs a posting thread in this process, for the program that started it: reads commands from
/// `input` and reports on `output`.
///
/// # Errors
/// If `output` is closed.
pub fn serve_partner(
    task: &str,
    input: impl BufRead + Send + 'static,
    output: &mut dyn Write,
) -> io::Result<()> {
    let said = match serve(task, input, output) {
        Ok(()) => DONE.to_owned(),
        // The message must be a single line, even if the text has several lines.
        Err(error) => format!("{FAILED}{}", error.to_string().replace('\n', " ")),
    };
    writeln!(output, "{said}")?;
    output.flush()
}

fn serve(
    task: &str,
    input: impl BufRead + Send + 'static,
    output: &mut dyn Write,
) -> Result<(), ProbeError> {
    let task = PostingTask::from_json(task.as_bytes()).map_err(PartnerError::Told)?;
    interrupt::install_interrupt_handler()?;
    let numbers = Arc::new(SharedNumbers::attach(inherited(task.numbers)?)?);
    // If the lock fails in this process, it has also failed in the other process, which prints a
    // warning.
    let _locked = punctual_rt::lock_process_memory(LockMode::OnFault);
    let connection = Connection { input, output };
    match task.end {
        End::Futex => {
            let end = FutexPost(Arc::clone(&numbers));
            connection.post(task, numbers, end)
        }
        End::Pipe => {
            let pipe = io::PipeWriter::from(task.descriptor()?);
            connection.post(task, numbers, Bytes(pipe))
        }
        End::Socket => {
            let socket = std::os::unix::net::UnixStream::from(task.descriptor()?);
            socket
                .set_nonblocking(false)
                .map_err(PartnerError::Socket)?;
            connection.post(task, numbers, Bytes(socket))
        }
        End::EventFd => {
            let counter = EventFd::from(task.descriptor()?);
            connection.post(task, numbers, Whole(counter))
        }
        End::Queue => {
            let queue = MessageQueue::from(task.descriptor()?);
            connection.post(task, numbers, Whole(queue))
        }
        End::Set(id) => connection.post(task, numbers, Whole(SystemVSemaphore::of_other(id))),
        End::Signal(process) => {
            let signals = Signals {
                numbers: Arc::clone(&numbers),
                process,
                thread: None,
            };
            connection.post(task, numbers, signals)
        }
    }
}

/// The connection to the program that started this one.
struct Connection<'a, I> {
    input: I,
    output: &'a mut dyn Write,
}

impl<I: BufRead + Send + 'static> Connection<'_, I> {
    /// The main function of the process. It prepares the thread, reports that it is ready, lets it
    /// post when the start arrives, and waits for its end.
    fn post<P: Post + Send + 'static>(
        self,
        task: PostingTask,
        numbers: Arc<SharedNumbers>,
        end: P,
    ) -> Result<(), ProbeError> {
        let control = Arc::new(Control::new());
        let mut group = ThreadGroup::new(&control);
        let surroundings = task.settings;
        let builder = measuring_thread(&task.name, &task.cpus, task.scheduling);
        let shared = Numbers::Shared(numbers);
        group.spawn_member(builder, move |member| {
            let state = shared.state();
            state.set_partner(current_tid());
            let used = poster(state, end, &surroundings, member)?;
            state.set_usage(&used);
            Ok(None::<()>)
        })?;
        let begin = listen(self.input, &control, task.end)?;
        if group.ready() {
            let said = writeln!(self.output, "{READY}").and_then(|()| self.output.flush());
            // If the output has no reader, the input has also ended.
            #[expect(clippy::disallowed_methods, reason = "ends with the input")]
            let start = said.ok().and_then(|()| begin.recv().ok());
            group.open(start.map_or(Opening::Cancelled, Opening::Start));
        } else {
            group.open(Opening::Cancelled);
        }
        group.join().map(drop)
    }
}

/// Reads the commands on stdin, on a separate thread. The start arrives on the channel.
fn listen(
    input: impl BufRead + Send + 'static,
    control: &Arc<Control>,
    end: End,
) -> Result<Receiver<Instant>, PartnerError> {
    let (begin, started) = channel();
    let control = Arc::clone(control);
    let life = move || {
        obey(input, &begin, &control);
        // The parent has ended. Remove the semaphore set, because the kernel would otherwise keep
        // it.
        if let End::Set(id) = end {
            SystemVSemaphore::of_other(id).remove();
        }
        punctual_rt::demote_own_threads();
        std::process::exit(1);
    };
    let thread = std::thread::Builder::new().name("listen".to_owned());
    thread.spawn(life).map_err(PartnerError::Listen)?;
    Ok(started)
}

/// Executes the commands until stdin ends.
fn obey(input: impl BufRead, begin: &Sender<Instant>, control: &Control) {
    for line in input.lines().map_while(Result::ok) {
        if let Some(start) = line.strip_prefix(GO).and_then(|text| text.parse().ok()) {
            // If no thread waits for the start, that thread has already failed.
            let _ = begin.send(Instant::from_nanos(start));
        } else if line == STOP {
            control.stop();
        }
    }
}
