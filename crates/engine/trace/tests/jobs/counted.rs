//! Jobs that the kernel counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use punctual_model::{Histogram, Nanos};
use punctual_trace::{
    CountAsk, CountedJobs, CounterEvents, Followed, JobRecorder, ListedJob, ReleaseCall,
    ScoutEvent, Stage,
};

use rustix::thread::futex;

use super::{HELD_BACK, libc_nanosleep, now, own_tid, recorder, recorder_of};

/// A thread that sleeps and works, until dropped.
struct Worker {
    tid: u32,
    jobs: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    fn begin(length: Duration) -> Self {
        let (jobs, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (tell, told) = std::sync::mpsc::channel();
        let (count, ends) = (Arc::clone(&jobs), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            tell.send(own_tid()).unwrap();
            while !ends.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(200));
                count.fetch_add(1, Ordering::Relaxed);
                let begun = std::time::Instant::now();
                while begun.elapsed() < length {
                    std::hint::spin_loop();
                }
            }
        });
        Self {
            tid: told.recv_timeout(Duration::from_secs(60)).unwrap(),
            jobs,
            stop,
            thread: Some(thread),
        }
    }

    fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }

    /// Returns the number of sleeps so far. On a busy machine, not every call of sleep is one.
    fn sleeps(&self) -> u64 {
        let path = format!("/proc/self/task/{}/status", self.tid);
        let status = std::fs::read_to_string(path).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("voluntary_ctxt_switches"));
        line.unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    }

    fn until(&self, jobs: u64) {
        while self.jobs() < jobs {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn followed(tids: &[u32]) -> Followed {
    let wait = ReleaseCall {
        id: libc_nanosleep(),
        argument: 0,
        ignored: u64::MAX,
    };
    Followed {
        tids: tids.to_vec(),
        calls: vec![libc_nanosleep()],
        releases: tids.iter().map(|tid| (*tid, vec![wait])).collect(),
        ..Followed::default()
    }
}

pub(super) fn ask(threads: &[(u32, Nanos)], origin: Nanos) -> CountAsk {
    CountAsk {
        threads: threads.iter().copied().collect(),
        origin,
        row_length: Nanos::from_millis(50),
    }
}

/// The jobs that a recorder lists and counts for a thread.
#[derive(Debug, Default)]
struct Told {
    all: Histogram,
    execution: Histogram,
    incomplete: u64,
    waits: u64,
    elsewhere: u64,
    rows: BTreeMap<u64, u64>,
    listed: Vec<ListedJob>,
    taken: Vec<Nanos>,
    returned: Vec<(Nanos, Option<(Nanos, Nanos)>)>,
    events: usize,
}

impl Told {
    fn read(&mut self, recorder: &mut JobRecorder, tid: u32) {
        for event in recorder.read() {
            match event {
                ScoutEvent::Job(job) if job.tid == tid => self.listed.push(job),
                ScoutEvent::Taken { at, tid: of } if of == tid => self.taken.push(at),
                ScoutEvent::Returned { at, tid: of, open } if of == tid => {
                    self.returned.push((at, open));
                }
                ScoutEvent::Event(event) if event.pid == tid || event.kind.is_about(tid) => {
                    self.events += 1;
                }
                _ => {}
            }
        }
        for counted in recorder.counted() {
            assert_eq!(counted.tid, tid);
            self.add(counted);
        }
    }

    fn add(&mut self, counted: CountedJobs) {
        for (row, histogram) in counted.rows {
            *self.rows.entry(row).or_default() += histogram.count();
            self.all.merge(&histogram);
        }
        self.execution.merge(&counted.execution);
        self.incomplete += counted.incomplete;
        self.elsewhere += counted.elsewhere;
        self.waits += counted.waits.iter().map(|waits| waits.count).sum::<u64>();
    }
}

/// Begins to count the jobs of a worker.
fn counted(recorder: &mut JobRecorder, worker: &Worker, above: Nanos) -> Told {
    recorder.enter(Stage::Light).unwrap();
    recorder.follow(&followed(&[worker.tid])).unwrap();
    let origin = now();
    recorder
        .count(&ask(&[(worker.tid, above)], origin))
        .unwrap();
    let mut told = Told::default();
    while told.taken.is_empty() {
        thread::sleep(HELD_BACK);
        told.read(recorder, worker.tid);
    }
    told.events = 0;
    told
}

const NEVER: Nanos = Nanos(u64::MAX);

#[test]
fn counted_jobs_are_not_listed() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let worker = Worker::begin(Duration::from_micros(50));
    let begun = worker.sleeps();
    let mut told = counted(&mut recorder, &worker, NEVER);
    let before = worker.sleeps();
    worker.until(worker.jobs() + 500);
    // Rows pass meanwhile.
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(40));
        told.read(&mut recorder, worker.tid);
    }
    // Counting ends: the next events are listed.
    let after = worker.sleeps();
    recorder.count(&CountAsk::default()).unwrap();
    worker.until(worker.jobs() + 20);
    thread::sleep(HELD_BACK);
    told.read(&mut recorder, worker.tid);
    assert_eq!(recorder.lost(), 0);
    let total = told.all.count() + told.listed.len() as u64 + told.incomplete;
    let least = (after - before).saturating_sub(told.elsewhere + 1);
    assert!(total >= least, "{total} of {least}: {told:?}");
    assert!(total <= worker.sleeps() - begun, "{total}");
    // A job of 10 ms or more is listed.
    assert!(
        told.listed
            .iter()
            .all(|job| job.completion - job.release >= Nanos::from_millis(10))
    );
    assert_eq!(told.execution.count(), told.all.count());
    assert!(told.execution.sum() <= told.all.sum());
    assert!(
        told.all.min() >= Some(Nanos::from_micros(50)),
        "{:?}",
        told.all.min()
    );
    assert!(told.rows.len() >= 3, "{:?}", told.rows);
    assert_eq!(told.returned.len(), 1);
    // Each wait ends with a job, except the one in progress. Some kernels lose wake-ups.
    let seen = total - told.incomplete;
    assert!(
        told.waits >= seen && told.waits <= total + 1,
        "{} {seen} {total}",
        told.waits
    );
    assert!(told.events > 20);
}

#[test]
fn longer_jobs_are_listed_with_their_times() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let worker = Worker::begin(Duration::from_micros(300));
    let mut told = counted(&mut recorder, &worker, Nanos::from_micros(100));
    let before = worker.jobs();
    worker.until(before + 100);
    thread::sleep(HELD_BACK);
    told.read(&mut recorder, worker.tid);
    assert!(told.listed.len() >= 99, "{}", told.listed.len());
    assert_eq!(told.all.count(), 0);
    assert_eq!(told.events, 0);
    for job in &told.listed {
        let response = job.completion - job.release;
        assert!(response >= job.ran && job.ran > Nanos::ZERO, "{job:?}");
        assert!(response >= Nanos::from_micros(300), "{job:?}");
        assert!(!job.comm.is_empty());
    }
    // The records of the job are in the ring.
    let last = told.listed.last().unwrap();
    let slice = recorder.slice(last.release, last.completion, Stage::Light);
    let is_own = |event: &&punctual_model::TraceEvent| event.pid == worker.tid;
    let own: Vec<_> = slice.events.iter().filter(is_own).collect();
    let sleeps = |event: &&&punctual_model::TraceEvent| matches!(event.kind, punctual_model::EventKind::SleepsIn { id, .. } if id == libc_nanosleep());
    assert!(own.iter().any(|event| sleeps(&event)), "{own:?}");
    let named = own.iter().filter_map(|event| match &event.kind {
        punctual_model::EventKind::Switch { prev, .. } => Some(prev.comm),
        _ => None,
    });
    assert!(named.clone().count() > 0 && named.clone().all(|comm| comm == last.comm));
}

#[test]
fn full_stage_counts_until_jobs_are_read() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let worker = Worker::begin(Duration::from_millis(2));
    let mut told = counted(&mut recorder, &worker, NEVER);
    recorder.enter(Stage::Full).unwrap();
    let from = now();
    worker.until(worker.jobs() + 10);
    let to = now();
    thread::sleep(HELD_BACK);
    told.read(&mut recorder, worker.tid);
    assert!(told.returned.is_empty() && told.events == 0);
    let jobs = told.all.count() + told.listed.len() as u64;
    assert!(jobs >= 8, "{jobs}");
    // The system calls are in the ring.
    let slice = recorder.slice(from, to, Stage::Full);
    let calls = slice.events.iter().filter(|event| {
        event.pid == worker.tid
            && matches!(event.kind, punctual_model::EventKind::SysEnter { id, .. } if id == libc_nanosleep())
    });
    assert!(calls.count() >= 8);
    // The jobs are read: that in progress is handed over.
    recorder.count(&CountAsk::default()).unwrap();
    worker.until(worker.jobs() + 5);
    thread::sleep(HELD_BACK);
    told.read(&mut recorder, worker.tid);
    let [(at, open)] = told.returned[..] else {
        panic!("{:?}", told.returned);
    };
    if let Some((release, ran)) = open {
        assert!(release <= at && ran <= at - release);
    }
    assert!(told.events > 20, "{}", told.events);
}

#[test]
fn ended_threads_leave_their_counts_to_others() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let first = Worker::begin(Duration::from_micros(20));
    let second = Worker::begin(Duration::from_micros(20));
    let mut told = counted(&mut recorder, &first, NEVER);
    // There are counts for one thread only.
    let tids = [first.tid, second.tid];
    recorder.follow(&followed(&tids)).unwrap();
    let both = ask(&[(tids[0], NEVER), (tids[1], NEVER)], now());
    recorder.count(&both).unwrap();
    assert_eq!(recorder.uncounted(), 1);
    first.until(first.jobs() + 50);
    drop(first);
    thread::sleep(HELD_BACK);
    recorder.follow(&followed(&tids[1..])).unwrap();
    recorder.count(&ask(&[(tids[1], NEVER)], now())).unwrap();
    assert_eq!(recorder.uncounted(), 0);
    let last = recorder.counted();
    assert!(last.iter().any(|one| one.tid == tids[0]));
    last.into_iter()
        .filter(|one| one.tid == tids[0])
        .for_each(|one| told.add(one));
    assert!(told.all.count() + told.listed.len() as u64 >= 49);
    let mut later = Told::default();
    while later.taken.is_empty() {
        thread::sleep(HELD_BACK);
        later.read(&mut recorder, tids[1]);
    }
    second.until(second.jobs() + 50);
    later.read(&mut recorder, tids[1]);
    // The counts of the first thread are not among them.
    assert!(later.all.count() > 40 && later.all.count() < second.jobs());
}

#[test]
fn counters_of_listed_jobs_are_read() {
    let Some(mut recorder) = recorder_of(Some(CounterEvents::SOFTWARE)) else {
        return;
    };
    let worker = Worker::begin(Duration::from_micros(300));
    let _ = counted(&mut recorder, &worker, Nanos::from_micros(100));
    worker.until(worker.jobs() + 50);
    thread::sleep(HELD_BACK);
    let (mut readings, mut jobs) = (Vec::new(), Vec::new());
    for event in recorder.read() {
        match event {
            ScoutEvent::Counter(reading) if reading.tid == worker.tid => readings.push(reading),
            ScoutEvent::Job(job) => jobs.push(job),
            _ => {}
        }
    }
    assert!(jobs.len() > 10);
    let job = jobs.last().unwrap();
    let at = |time: Nanos| {
        readings
            .iter()
            .find(move |one| one.time == time && one.counter == punctual_model::Counter::Cycles)
    };
    let (first, last) = (at(job.release).unwrap(), at(job.completion).unwrap());
    let ran = last.enabled - first.enabled;
    assert!(ran.0.abs_diff(job.ran.0) < 200_000, "{ran} {job:?}");
}

/// The map has room for 4,096 places.
#[test]
fn waits_at_too_many_places_are_counted() {
    let Some(mut recorder) = recorder() else {
        return;
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, told) = std::sync::mpsc::channel();
    let ends = Arc::clone(&stop);
    let thread = thread::spawn(move || {
        tell.send(own_tid()).unwrap();
        let words: Vec<AtomicU32> = (0..5_000).map(|_| AtomicU32::new(0)).collect();
        let soon = rustix::time::Timespec {
            tv_sec: 0,
            tv_nsec: 1_000,
        };
        while !ends.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_micros(200));
            for word in &words {
                let _ = futex::wait(word, futex::Flags::PRIVATE, 0, Some(&soon));
            }
        }
    });
    let tid = told.recv_timeout(Duration::from_secs(60)).unwrap();
    recorder.follow(&followed(&[tid])).unwrap();
    recorder.enter(Stage::Light).unwrap();
    let asked = ask(&[(tid, Nanos::from_secs(1))], now());
    recorder.count(&asked).unwrap();
    let begun = std::time::Instant::now();
    let mut unplaced = 0;
    while unplaced == 0 && begun.elapsed() < Duration::from_secs(120) {
        thread::sleep(Duration::from_millis(20));
        recorder.read();
        unplaced += recorder
            .counted()
            .iter()
            .map(|one| one.unplaced)
            .sum::<u64>();
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    assert!(unplaced > 0);
    assert_eq!(recorder.waits_elsewhere().len(), 4_096);
}
