//! Tests that nothing is lost or duplicated when the network or the machine fails.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{Nanos, Outcome, Recording, RecordingId, WaitHistogram, WakeWindow};
use punctual_postgres::PostgresCollection;
use punctual_push::{DeliverError, Deliverer, Target};
use punctual_serve::{Config, start};
use punctual_store::{Collection, Outbox, Store};
use punctual_testing::postgres::Cluster;
use punctual_testing::skip;

use crate::client::{get, send};
use crate::place::{Sandbox, all_are_kept, measured, recording, small};

/// Delivers everything that is due, and returns the result. Without patience, it ends at the first
/// failure.
pub(crate) fn deliver(
    to: SocketAddr,
    store: &Store,
    patience: Duration,
) -> Result<(Outbox, Vec<String>), DeliverError> {
    let mut said = Vec::new();
    let done = deliverer(to).deliver(store, patience, &mut |text| said.push(text.to_owned()))?;
    Ok((done, said))
}

pub(crate) fn deliverer(to: SocketAddr) -> Deliverer {
    let target = Target {
        url: format!("http://{to}"),
        token: None,
        machine: "board".to_owned(),
        identity: None,
        roots: None,
    };
    Deliverer::new(target, || false).unwrap()
}

pub(crate) fn window(at: Timestamp, lost: u64) -> WakeWindow {
    WakeWindow {
        machine: "board".to_owned(),
        start: at,
        length_ns: Nanos::from_secs(10),
        real_time: WaitHistogram::default(),
        ordinary: WaitHistogram::default(),
        longest: Vec::new(),
        lost,
    }
}

pub(crate) fn recordings(numbers: std::ops::Range<u128>) -> Vec<Recording> {
    numbers.map(|number| small(number, "board")).collect()
}

/// Number of responses on a connection that is not broken at once.
const ANSWERS: usize = 5;

/// A network that breaks each connection: after some bytes of the request, before the client gets
/// the response that the collector has sent, or, for every fourth connection, after some responses.
struct Cutter {
    address: SocketAddr,
    cuts: Arc<AtomicUsize>,
}

impl Cutter {
    fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cuts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&cuts);
        // This thread ends with the process.
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else {
                    continue;
                };
                let count = Arc::clone(&count);
                std::thread::spawn(move || {
                    // Cut in the head, in the body, after both, or not within the request.
                    let most = [100, 1_500, usize::MAX, usize::MAX][number % 4];
                    let answers = if number % 4 == 3 { ANSWERS } else { 0 };
                    forward(client, server, most, answers);
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, cuts }
    }
}

/// Forwards at most `most` bytes from a client and `answers` responses, assuming that each response
/// arrives in one read.
fn forward(mut client: TcpStream, mut server: TcpStream, most: usize, mut answers: usize) {
    let (mut to_client, mut of_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let back = std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(length @ 1..) = of_server.read(&mut bytes) {
            if answers == 0 || to_client.write_all(&bytes[..length]).is_err() {
                break;
            }
            answers -= 1;
        }
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = of_server.shutdown(Shutdown::Both);
    });
    let (mut bytes, mut sent) = ([0; 512], 0);
    while let Ok(length @ 1..) = client.read(&mut bytes) {
        let length = length.min(most - sent);
        sent += length;
        if server.write_all(&bytes[..length]).is_err() || sent == most {
            break;
        }
    }
    if sent == most {
        let _ = client.shutdown(Shutdown::Both);
    }
    let _ = server.shutdown(Shutdown::Both);
    back.join().unwrap();
}

#[test]
fn cut_network_neither_loses_nor_doubles() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = recordings(0..12);
    measured(&machine, &all);
    for number in 0..3 {
        let at = all[0].started + Duration::from_secs(number * 10);
        machine.add_wake_window(&window(at, number)).unwrap();
    }
    let server = place.serve();
    let cutter = Cutter::before(server.address);
    // Each call ends at the first cut. The other recordings stay due for the next call.
    let left = (0..400)
        .find_map(|_| deliver(cutter.address, &machine, Duration::ZERO).ok())
        .expect("it comes to an end");
    assert_eq!((left.0.due, left.0.delivered, left.0.refused), (0, 12, 0));
    assert!(cutter.cuts.load(Ordering::Relaxed) >= 9);
    all_are_kept(&place.collection(), &all);
    let windows = place.collection().windows("board", Timestamp::MIN, 9);
    let lost: Vec<u64> = windows.unwrap().iter().map(|window| window.lost).collect();
    assert_eq!(lost, [0, 1, 2]);
}

/// Starts a server that gives the same answer to each request.
fn answering(status: &'static str, text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 65_536];
            let _ = stream.read(&mut bytes);
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
                text.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// Pages and errors from other servers are not mistaken for answers of a collector.
#[test]
fn foreign_server_takes_and_refuses_nothing() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    measured(&machine, &recordings(0..1));
    for status in [
        "200 OK",
        "404 Not Found",
        "301 Moved",
        "501 Not Implemented",
    ] {
        let address = answering(status, "<h1>Welcome</h1>");
        let ended = deliver(address, &machine, Duration::ZERO);
        assert!(matches!(ended, Err(DeliverError::GaveUp(_))), "{ended:?}");
        assert_eq!(left(&machine, address), (1, 0, 0));
    }
}

/// An older collector does not know the schema of a recording. The recording stays due, and the
/// message names the remedy at once.
#[test]
fn recording_that_an_older_collector_cannot_read_stays_due() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    measured(&machine, &recordings(0..1));
    let error = r#"{"error": "update the collector"}"#;
    let address = answering("501 Not Implemented", error);
    let patience = Duration::from_secs(3_600);
    let ended = deliver(address, &machine, patience).unwrap_err();
    assert!(matches!(ended, DeliverError::Unusable(_)), "{ended:?}");
    assert_eq!(ended.to_string(), "update the collector");
    assert_eq!(left(&machine, address), (1, 0, 0));
}

/// Returns how many recordings are due, delivered and refused.
fn left(machine: &Store, to: SocketAddr) -> (u64, u64, u64) {
    let to = machine.destination(&format!("http://{to}")).unwrap();
    let outbox = machine.outbox(&to).unwrap();
    (outbox.due, outbox.delivered, outbox.refused)
}

/// The machine's store is replaced by an older copy. The collector already knows recordings
/// delivered since then, recordings made since then exist only in the collector, and new ones are
/// accepted as new.
#[test]
fn restored_machine_doubles_nothing() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = recordings(0..6);
    let server = place.serve();
    let deliver = |store: &Store| deliver(server.address, store, Duration::ZERO).unwrap().0;
    measured(&machine, &all[..2]);
    machine.add_wake_window(&window(all[0].started, 0)).unwrap();
    deliver(&machine);
    measured(&machine, &all[2..3]);
    let copy = place.file("copy.db");
    machine.backup(&copy).unwrap();
    measured(&machine, &all[3..4]);
    machine.add_wake_window(&window(all[1].started, 1)).unwrap();
    deliver(&machine);
    drop(machine);
    let restored = Store::open(&copy).unwrap();
    measured(&restored, &all[4..]);
    restored
        .add_wake_window(&window(all[2].started, 2))
        .unwrap();
    let done = deliver(&restored);
    assert_eq!((done.due, done.delivered, done.refused), (0, 5, 0));
    all_are_kept(&place.collection(), &all);
    let windows = place.collection().windows("board", Timestamp::MIN, 9);
    let lost: Vec<u64> = windows.unwrap().iter().map(|window| window.lost).collect();
    assert_eq!(lost, [0, 1, 2]);
}

/// A collector replaced by an older copy gets the later recordings again. Recordings that it has
/// removed are delivered only if all recordings are requested.
#[test]
fn restored_collector_regains_later_recordings() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = recordings(0..140);
    let server = place.serve();
    let address = server.address;
    let deliver = || deliver(address, &machine, Duration::ZERO).unwrap().0;
    measured(&machine, &all[..70]);
    deliver();
    let copy = place.file("copy.db");
    Store::open(&place.store).unwrap().backup(&copy).unwrap();
    measured(&machine, &all[70..]);
    deliver();
    drop(server);
    for beside in ["collector.db-wal", "collector.db-shm"] {
        // The last connection removes them.
        let _ = std::fs::remove_file(place.file(beside));
    }
    std::fs::rename(&copy, &place.store).unwrap();
    let _server = place.serve_as(|config| config.listen = address);
    assert_eq!(deliver().due, 0);
    all_are_kept(&place.collection(), &all);
    let lacking = || place.collection().lacking(&ids(&all)).unwrap();
    let collector = Store::open(&place.store).unwrap();
    collector.delete(all[0].id).unwrap();
    deliver();
    assert_eq!(lacking(), [all[0].id]);
    let again = deliverer(address);
    (again.redeliver(&machine, Duration::ZERO, &mut |_| {})).unwrap();
    deliver();
    assert_eq!(lacking(), []);
}

fn ids(all: &[Recording]) -> Vec<RecordingId> {
    all.iter().map(|one| one.id).collect()
}

/// Damaged recordings or windows in the machine's store do not block others.
#[test]
fn damage_is_named_and_rest_delivered() {
    let place = Sandbox::new();
    let file = place.file("machine.db");
    let machine = Store::open(&file).unwrap();
    let all = recordings(0..3);
    measured(&machine, &all);
    for number in 0..3 {
        let at = all[0].started + Duration::from_secs(number * 10);
        machine.add_wake_window(&window(at, number)).unwrap();
    }
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection
        .execute_batch(
            "UPDATE wake_window SET crc = crc + 1 WHERE key = 2;
             UPDATE pack SET body = zeroblob(length(body)) WHERE recording = 2",
        )
        .unwrap();
    let server = place.serve();
    let (done, said) = deliver(server.address, &machine, Duration::ZERO).unwrap();
    assert_eq!((done.due, done.delivered, done.refused), (0, 2, 1));
    let said = said.join("\n");
    assert!(said.contains("its local copy is damaged"), "{said}");
    assert!(said.contains("not delivered: 1"), "{said}");
    all_are_kept(&place.collection(), &[all[0].clone(), all[2].clone()]);
    let windows = place.collection().windows("board", Timestamp::MIN, 9);
    assert_eq!(windows.unwrap().len(), 2);
}

/// With clocks that are wrong by years, everything is stored. The state of the machine is that of
/// its last recording, not of the one with the newest time.
#[test]
fn wrong_clocks_hide_no_later_recording() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let server = place.serve();
    let now = Timestamp::now();
    let at = |time: Timestamp, number: u128, outcome| {
        let mut one = recording(number, "board");
        let ms = u128::try_from(time.as_millisecond()).unwrap();
        one.id = RecordingId(uuid::Uuid::from_u128(ms << 80 | 0x7000_8000 << 48 | number));
        one.started = time;
        // The collector judges each recording by its data.
        for limit in &mut one.requirement.limits {
            limit.at_most = if outcome == Outcome::Met {
                1_000_000_000
            } else {
                1
            };
        }
        one.verdict = one.judge();
        assert_eq!(one.verdict.outcome, outcome);
        one
    };
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let minutes = |minutes: u64| now - Duration::from_secs(minutes * 60);
    let all = [
        at(minutes(30), 1, Outcome::Met),
        at(time("2038-01-19T03:14:07Z"), 2, Outcome::Met),
        at(time("1970-01-01T00:10:00Z"), 3, Outcome::Exceeded),
    ];
    let state = || {
        let machines = place.collection().machines().unwrap();
        let latest = machines[0].latest.clone().unwrap();
        (latest.id, latest.outcome)
    };
    for one in &all {
        measured(&machine, std::slice::from_ref(one));
        deliver(server.address, &machine, Duration::ZERO).unwrap();
        assert_eq!(state(), (one.id, one.verdict.outcome));
    }
    // The clock is correct again.
    let right = at(Timestamp::now(), 4, Outcome::Met);
    measured(&machine, std::slice::from_ref(&right));
    deliver(server.address, &machine, Duration::ZERO).unwrap();
    assert_eq!(state(), (right.id, Outcome::Met));
    // A late delivery of an earlier measurement does not change the state.
    let late = at(minutes(60), 5, Outcome::Exceeded);
    measured(&machine, std::slice::from_ref(&late));
    deliver(server.address, &machine, Duration::ZERO).unwrap();
    assert_eq!(state(), (right.id, Outcome::Met));
    let [first, second, third] = all;
    all_are_kept(&place.collection(), &[first, second, third, right, late]);
}

/// Windows and slots are delivered once, even if the machine's clock is wrong. Only months that
/// changed are sent again.
#[test]
fn slots_of_years_are_sent_once() {
    use punctual_model::{Slot, SlotCause, SlotState};
    use punctual_store::{SeriesStore, SlotFilter};
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let now: Timestamp = "2026-11-03T07:10:00Z".parse().unwrap();
    let epoch = (machine.put_series("id", Some("board"), "osadl", "{}", now)).unwrap();
    let slot = |days: u64| Slot {
        machine: epoch.machine.clone(),
        series: epoch.name.clone(),
        epoch: 1,
        due: now - Duration::from_secs(days * 86_400),
        cause: SlotCause::At,
        state: SlotState::Missed,
        reason: None,
        recording: None,
    };
    for days in 0..90 {
        machine.add_slot(&epoch, &slot(days)).unwrap();
    }
    let server = place.serve();
    let deliver = || deliver(server.address, &machine, Duration::ZERO).unwrap();
    deliver();
    let kept = || place.collection().slots(&SlotFilter::default()).unwrap();
    assert_eq!(kept().len(), 90);
    // Data that the collector lost in unchanged months is not sent again, because it was
    // acknowledged. The month of a new slot is sent again.
    let connection = rusqlite::Connection::open(&place.store).unwrap();
    connection.execute_batch("DELETE FROM slot").unwrap();
    let mut next = slot(0);
    next.due = now + Duration::from_secs(86_400);
    machine.add_slot(&epoch, &next).unwrap();
    deliver();
    let november = kept();
    assert_eq!(november.len(), 4, "{november:?}");
    deliver();
    assert_eq!(kept().len(), 4);
}

/// The readiness check soon shows that the database is missing, and that it is back. Meanwhile, the
/// machine keeps the due recordings.
#[test]
fn server_without_database_is_not_ready() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return skip!(Program, "a server without its database: {why}"),
    };
    let (_, url) = cluster.database().unwrap();
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = recordings(0..2);
    measured(&machine, &all);
    let collection = Arc::new(PostgresCollection::open(&url).unwrap());
    let config = Config::new("127.0.0.1:0".parse().unwrap());
    let server = start(config, Arc::clone(&collection) as Arc<dyn Collection>).unwrap();
    let ready = || get(server.address, "/ready");
    assert_eq!(ready().status, 200);
    cluster.crash();
    let down = ready();
    assert_eq!(down.status, 503, "{down:?}");
    assert!(down.header("retry-after").is_some(), "{down:?}");
    // The process is alive and needs no restart.
    assert_eq!(get(server.address, "/health").status, 200);
    let ended = deliver(server.address, &machine, Duration::ZERO);
    assert!(matches!(ended, Err(DeliverError::GaveUp(_))), "{ended:?}");
    cluster.begin().unwrap();
    assert_eq!(ready().status, 200);
    let done = deliver(server.address, &machine, Duration::ZERO).unwrap().0;
    assert_eq!((done.due, done.delivered), (0, 2));
    all_are_kept(collection.as_ref(), &all);
    drop(server);
}

/// Simultaneous deliveries of many machines are stored together. Each gets its own response, and
/// nothing is lost or duplicated.
#[test]
fn simultaneous_windows_each_get_answers() {
    let place = Sandbox::new();
    let server = place.serve();
    let at = recordings(0..1)[0].started;
    let send = |machine: u64| {
        let windows = [window(at, machine), window(at, machine)];
        let body = serde_json::json!({"machine": format!("m{machine}"), "windows": windows});
        let packed = zstd::bulk::compress(body.to_string().as_bytes(), 3).unwrap();
        let headers = [("Content-Encoding", "zstd")];
        let answer = send(server.address, "POST", "/v1/beside", &headers, &packed);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["windows"].as_u64().unwrap()
    };
    let new: u64 = std::thread::scope(|scope| {
        let each: Vec<_> = (0..30)
            .map(|number| {
                scope.spawn({
                    let send = &send;
                    move || send(number / 2)
                })
            })
            .collect();
        each.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(new, 15);
    let machines = place.collection().window_machines().unwrap();
    assert_eq!(machines.len(), 15);
    for (machine, name) in machines.iter().enumerate() {
        let kept = place.collection().windows(name, at, 9).unwrap();
        assert_eq!(kept.len(), 1, "{machine}");
        assert_eq!(format!("m{}", kept[0].lost), *name);
    }
}
