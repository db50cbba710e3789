//! `timers`: many timers.

use std::io;
use std::os::fd::OwnedFd;

use punctual_model::{Arguments, Nanos, Typed, parameters};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::workers::{self, Shift, Worker, Workers, one_each};
use crate::{LoadEntry, LoadError, LoadKind};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "timers",
    summary: "many timers that expire at different times and cause interrupts and wake-ups",
    parameters: PARAMETERS,
    bare: None,
    needs: None,
    kind: LoadKind::Threads,
    build: |arguments| Workers::load("timers", &["timers fired"], plan, arguments),
};

parameters! {
    THREADS: Option<u64> = workers::THREADS;
    TIMERS: u64 = Typed::count(
        "timers",
        "Number of timers per thread; each timer is an open file",
        1..=10_000,
    ).or("50");
    INTERVAL: Nanos = Typed::duration(
        "interval",
        "Interval of each timer",
        Nanos::from_micros(50)..=Nanos::from_secs(1),
    ).or("5ms");
}

/// Longest wait between two checks of the stop flag.
const MOMENT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

fn plan(arguments: &Arguments, cpus: &[u32]) -> Result<Vec<Worker>, LoadError> {
    let timers = TIMERS.value_in(arguments);
    let interval = INTERVAL.value_in(arguments);
    let mut workers = Vec::new();
    for cpu in one_each(arguments, cpus) {
        let set = Timers::open(timers, interval)
            .map_err(|source| LoadError::start(ENTRY.name, "cannot open the timers", source))?;
        workers.push(Worker::new(&cpu, move |shift| set.fire(shift)));
    }
    Ok(workers)
}

/// The timers of a thread.
struct Timers {
    epoll: OwnedFd,
    timers: Vec<OwnedFd>,
    interval: Nanos,
}

impl Timers {
    fn open(count: u64, interval: Nanos) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut timers = Vec::new();
        for index in 0..count {
            let timer = timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?;
            let data = epoll::EventData::new_u64(index);
            epoll::add(&epoll, &timer, data, epoll::EventFlags::IN)?;
            timers.push(timer);
        }
        Ok(Self {
            epoll,
            timers,
            interval,
        })
    }

    /// Starts the timers, spread over one interval, and then reads each timer that fires. The
    /// thread itself starts them, because the kernel lets them expire on its CPU.
    fn fire(self, shift: &Shift) -> io::Result<()> {
        let count = self.timers.len() as u64;
        for (index, timer) in (1..).zip(&self.timers) {
            let times = Itimerspec {
                it_interval: timespec(self.interval.0),
                it_value: timespec((self.interval.0 * index / count).max(1)),
            };
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &times)?;
        }
        let mut events = Vec::with_capacity(64);
        while !shift.stopping() {
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, Some(&MOMENT)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut fired = 0;
            for event in events.drain(..) {
                fired += take(&self.timers[event.data.u64() as usize])?;
            }
            shift.did(fired);
        }
        Ok(())
    }
}

/// Returns 1 if the timer has fired since the last read, otherwise 0. The value read is the number
/// of intervals, but a timer fires only once before it is read: the kernel restarts it on read
/// (`fs/timerfd.c`).
fn take(timer: &OwnedFd) -> io::Result<u64> {
    let mut passed = [0; 8];
    match rustix::io::read(timer, &mut passed) {
        Ok(_) => Ok(1),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn timespec(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: (nanos / 1_000_000_000) as _,
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}
