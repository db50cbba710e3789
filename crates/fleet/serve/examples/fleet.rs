//! Simulates machines that deliver to a collector while a page is being requested. This is the
//! source of the figures in docs/scale.md. Usage: `fleet ADDRESS MACHINES RUNS SECONDS CONNECTIONS
//! [PID...]`. Each machine first delivers RUNS prepared recordings as fast as they are accepted.
//! For SECONDS seconds, it then delivers a window every ten seconds. The CPU time of the PIDs and
//! their children is reported. With PUNCTUAL_FLEET_WINDOWS=6, a request contains six windows, once
//! a minute. With PUNCTUAL_FLEET_RECORDING=FILE, all recordings are copies of the recording in that
//! file (JSON), except for the machine, ID, time and histograms. With PUNCTUAL_FLEET_TOKENS=FILE,
//! machines log in. `fleet collector STORE ADDRESS [TOKENS MACHINES]` runs a collector for this
//! purpose; it also enrols machines and writes their tokens.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use punctual_model::{Fact, Nanos, Recording, RecordingId, SignedNanos, WaitHistogram, WakeWindow};
use punctual_postgres::PostgresCollection;
use punctual_serve::{Config, enrol};
use punctual_store::{Collection, Role, SqliteCollection, is_database};

/// The interval at which machines send a window.
const PERIOD: Duration = Duration::from_secs(10);

struct Connection {
    stream: BufReader<TcpStream>,
    to: String,
}

impl Connection {
    fn new(to: &str) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream: BufReader::new(stream),
            to: to.to_owned(),
        }
    }

    /// Sends a request. Returns the status and the length of the response.
    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &[u8]) -> (u16, usize) {
        let (to, length) = (&self.to, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        let stream = self.stream.get_mut();
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).unwrap();
            let lower = line.trim().to_ascii_lowercase();
            if let Some(rest) = lower.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(rest) = lower.strip_prefix("content-length: ") {
                length = rest.parse().unwrap();
            } else if lower.is_empty() {
                break;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).unwrap();
        (status, length)
    }
}

/// Returns the recording of a machine's run. As in reality, recordings differ in times, names and
/// histograms.
fn recording(like: &Recording, machine: u64, run: u64) -> Recording {
    let mut one = like.clone();
    let started = Timestamp::now().as_millisecond() - 43_200_000 * i64::try_from(run).unwrap();
    let started = Timestamp::from_millisecond(started).unwrap();
    let ms = u128::try_from(started.as_millisecond()).unwrap();
    let number = u128::from(run << 40 | machine) | u128::from(std::process::id()) << 44;
    one.id = RecordingId(uuid::Uuid::from_u128(
        ms << 80 | 0x7000 << 64 | 1 << 63 | number,
    ));
    one.started = started;
    one.host.hostname = Fact::known(name(machine), "uname");
    one.samples = None;
    for (thread, worker) in one.threads.iter_mut().enumerate() {
        for sample in 0..200 {
            let noise = machine * 31 + sample * sample + thread as u64 * 7;
            let latency = 2_000 + noise * 13 % 40_000;
            worker.histogram.record(SignedNanos(latency as i64));
            worker.accounting.recorded += 1;
            worker.accounting.expected += 1;
        }
    }
    one
}

fn name(machine: u64) -> String {
    format!("board-{machine:05}")
}

fn window(machine: u64, at: Timestamp) -> WakeWindow {
    let mut waits = WaitHistogram::default();
    for sample in 0..60 {
        let wait = 1_500 + (machine * 17 + sample * sample * 11) % 30_000;
        waits.count += 1;
        waits.sum_ns += wait;
        waits.max_ns = waits.max_ns.max(Nanos(wait));
        waits.buckets.push((1_500 + 10 * sample as u32, 1));
    }
    WakeWindow {
        machine: name(machine),
        start: at,
        length_ns: Nanos::from_secs(10),
        real_time: waits.clone(),
        ordinary: waits,
        longest: Vec::new(),
        lost: 0,
    }
}

/// A request that is ready to send.
struct Prepared {
    path: String,
    headers: String,
    body: Vec<u8>,
}

impl Prepared {
    fn new(one: &Recording, token: &str) -> Self {
        let body = serde_json::to_vec(one).unwrap();
        let hash = punctual_push::protocol::sha256(&body);
        let series = r#"{"name":"osadl","epoch":1,"definition":"{\"probe\":\"timer\"}","begun":"2026-11-01T00:00:00Z"}"#;
        Self {
            path: format!("/v1/recordings/{}", one.id),
            headers: format!(
                "Content-Encoding: zstd\r\nPunctual-SHA256: {hash}\r\nPunctual-Series: {series}\r\n{token}"
            ),
            body: zstd::bulk::compress(&body, 3).unwrap(),
        }
    }

    fn put(&self, connection: &mut Connection) -> u16 {
        connection
            .ask("PUT", &self.path, &self.headers, &self.body)
            .0
    }
}

/// Returns all recordings. Two threads create them.
fn prepare(machines: u64, runs: u64, logins: &Logins) -> Vec<Prepared> {
    let like = match std::env::var("PUNCTUAL_FLEET_RECORDING") {
        Ok(file) => Recording::from_json(&std::fs::read_to_string(file).unwrap()).unwrap(),
        Err(_) => punctual_model::testing::recording(4, 60),
    };
    let one = |number: u64| {
        let one = recording(&like, number % machines, number / machines);
        Prepared::new(&one, &logins.token_for(number % machines))
    };
    let all = machines * runs;
    std::thread::scope(|scope| {
        let half = scope.spawn(|| (all / 2..all).map(one).collect::<Vec<_>>());
        let mut first: Vec<Prepared> = (0..all / 2).map(one).collect();
        first.extend(half.join().unwrap());
        first
    })
}

/// The header with the token for each machine and for the browser.
#[derive(Default)]
struct Logins {
    tokens: Vec<String>,
    viewer: String,
}

impl Logins {
    fn read() -> Self {
        let Ok(file) = std::env::var("PUNCTUAL_FLEET_TOKENS") else {
            return Self::default();
        };
        let text = std::fs::read_to_string(file).unwrap();
        let header = |token: &str| format!("Authorization: Bearer {token}\r\n");
        let mut tokens: Vec<String> = text.lines().map(header).collect();
        let viewer = tokens.remove(0);
        Self { tokens, viewer }
    }

    fn token_for(&self, machine: u64) -> String {
        let token = self.tokens.get(usize::try_from(machine).unwrap());
        token.cloned().unwrap_or_default()
    }
}

fn post(connection: &mut Connection, windows: &[WakeWindow], token: &str) -> u16 {
    let machine = windows.first().map(|window| &window.machine);
    let body = serde_json::json!({"machine": machine, "windows": windows}).to_string();
    let packed = zstd::bulk::compress(body.as_bytes(), 3).unwrap();
    connection
        .ask(
            "POST",
            "/v1/beside",
            &format!("Content-Encoding: zstd\r\n{token}"),
            &packed,
        )
        .0
}

/// Returns the CPU seconds of processes and their running children.
fn cpu(pids: &[String]) -> Vec<f64> {
    let of = |pid: &str| -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<f64> = rest
            .split_whitespace()
            .map(|f| f.parse().unwrap_or(0.0))
            .collect();
        // utime and stime of the process and of its ended children (proc_pid_stat(5)), in units of
        // 1/100 s.
        fields
            .get(11..15)
            .map_or(0.0, |four| four.iter().sum::<f64>() / 100.0)
    };
    let children = |pid: &str| -> f64 {
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let all = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        all.filter(|child| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let rest = stat.rsplit(')').next().unwrap_or_default().to_owned();
            rest.split_whitespace().nth(1) == Some(pid)
        })
        .map(|child| of(&child))
        .sum()
    };
    pids.iter().map(|pid| of(pid) + children(pid)).collect()
}

fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort();
    let place = (times.len() as f64 * share) as usize;
    times
        .get(place.min(times.len().saturating_sub(1)))
        .copied()
        .unwrap_or_default()
}

/// Requests a page repeatedly until `done`, and returns the response times.
fn pages(to: &str, token: &str, done: &AtomicBool) -> Vec<Duration> {
    let mut connection = Connection::new(to);
    let mut times = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let (status, _) = connection.ask("GET", "/", token, b"");
        assert_eq!(status, 200);
        times.push(begun.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    }
    times
}

/// Runs `work` for each number on several connections, and reports the results.
fn phase(
    title: &str,
    (to, viewer): (&str, &str),
    (connections, pids): (u64, &[String]),
    numbers: u64,
    work: &(dyn Fn(&mut Connection, u64) -> u16 + Sync),
) {
    let next = AtomicU64::new(0);
    let times = Mutex::new(Vec::new());
    let (failed, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (before, begun) = (cpu(pids), Instant::now());
    let mut shown = std::thread::scope(|scope| {
        let asked = scope.spawn(|| pages(to, viewer, &done));
        let workers: Vec<_> = (0..connections)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = Connection::new(to);
                    let mut own = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= numbers {
                            break;
                        }
                        let begun = Instant::now();
                        let status = work(&mut connection, number);
                        own.push(begun.elapsed());
                        failed.fetch_add(u64::from(status >= 300), Ordering::Relaxed);
                    }
                    times.lock().unwrap().extend(own);
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        done.store(true, Ordering::Relaxed);
        asked.join().unwrap()
    });
    let took = begun.elapsed().as_secs_f64();
    let mut times = times.into_inner().unwrap();
    println!(
        "{title}: {numbers} requests, {} failed, {:.0}/s, p50 {:?}, p99 {:?}; overview p50 {:?}, \
         p99 {:?} of {}",
        failed.into_inner(),
        numbers as f64 / took,
        percentile(&mut times, 0.5),
        percentile(&mut times, 0.99),
        percentile(&mut shown, 0.5),
        percentile(&mut shown, 0.99),
        shown.len(),
    );
    for ((pid, before), after) in pids.iter().zip(before).zip(cpu(pids)) {
        println!(
            "  CPU of {pid}: {:.1}% of one, {:.3} ms a request",
            (after - before) / took * 100.0,
            (after - before) / numbers as f64 * 1e3,
        );
    }
}

/// Serves until it is killed. With `logins` (a file for tokens and a number of machines), only
/// these machines have access.
fn collector(store: &str, address: &str, logins: &[String]) {
    let collection: Arc<dyn Collection> = if is_database(store) {
        Arc::new(PostgresCollection::open(store).unwrap())
    } else {
        Arc::new(SqliteCollection::open(Path::new(store)).unwrap())
    };
    let mut config = Config::new(address.parse().unwrap());
    if let [file, machines] = logins {
        config.login = true;
        let enrol = |name: &str, role| enrol(collection.as_ref(), name, role).unwrap();
        let mut tokens = enrol("viewer", Role::Viewer);
        for machine in 0..machines.parse().unwrap() {
            tokens += &format!("\n{}", enrol(&name(machine), Role::Machine));
        }
        std::fs::write(file, tokens).unwrap();
    }
    punctual_serve::run(config, collection, |address| println!("{address}")).unwrap();
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [what, store, address, logins @ ..] = &arguments[..]
        && what == "collector"
    {
        return collector(store, address, logins);
    }
    let [to, machines, runs, seconds, connections, pids @ ..] = &arguments[..] else {
        println!("fleet ADDRESS MACHINES RUNS SECONDS CONNECTIONS [PID...]");
        return;
    };
    let [machines, runs, seconds, connections] =
        [machines, runs, seconds, connections].map(|text| text.parse::<u64>().unwrap());
    let logins = Logins::read();
    let page = (to.as_str(), logins.viewer.as_str());
    let prepared = prepare(machines, runs, &logins);
    let sent: usize = prepared.iter().map(|one| one.body.len()).sum();
    println!("{} bytes a recording", sent / prepared.len().max(1));
    phase(
        "recordings",
        page,
        (connections, pids),
        machines * runs,
        &|connection, number| prepared[usize::try_from(number).unwrap()].put(connection),
    );
    drop(prepared);
    // The machines take turns, evenly distributed over the period.
    let together = std::env::var("PUNCTUAL_FLEET_WINDOWS");
    let together: u32 = together.map_or(1, |text| text.parse().unwrap());
    let period = PERIOD * together;
    let begun = Instant::now();
    let first = Timestamp::now();
    let gap = period / u32::try_from(machines).unwrap();
    phase(
        "windows",
        page,
        (connections, pids),
        seconds * machines / period.as_secs(),
        &|connection, number| {
            let due = gap * u32::try_from(number).unwrap();
            std::thread::sleep((begun + due).saturating_duration_since(Instant::now()));
            let at = |window: u32| first + due + PERIOD * window;
            let windows = (0..together)
                .map(|number_of_window| window(number % machines, at(number_of_window)));
            let token = logins.token_for(number % machines);
            post(connection, &windows.collect::<Vec<_>>(), &token)
        },
    );
}
