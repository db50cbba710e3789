//! Tests of delivery to a collector that is killed or restored, or that rejects data.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_model::{
    ChangeAnnotation, ChangeDecision, Nanos, Note, RecordingId, Slot, SlotCause, SlotState,
    WaitHistogram, WakeWindow,
};
use punctual_postgres::PostgresCollection;
use punctual_push::{DeliverError, Deliverer, Target};
use punctual_serve::{Config, enrol, start};
use punctual_store::{
    Collection, Outbox, Role, SeriesStore, SlotFilter, SqliteCollection, Store, is_database,
};
use punctual_testing::postgres::Cluster;
use punctual_testing::skip;

use crate::client::get;
use crate::place::{Sandbox, all_are_kept, json, measured, recording, small};

/// The variables with the store and the address of [`collector_process`].
const STORE: &str = "PUNCTUAL_TEST_COLLECTOR_STORE";
const LISTEN: &str = "PUNCTUAL_TEST_COLLECTOR_LISTEN";
/// How many times the collector is killed. Automated checks kill it only a few times.
const KILLS: &str = "PUNCTUAL_TEST_KILLS";
/// Number of recordings to deliver in the meantime, and the minimum lifetime of a collector in ms.
const RECORDINGS: &str = "PUNCTUAL_TEST_RECORDINGS";
const STEP: &str = "PUNCTUAL_TEST_STEP";

fn deliverer(to: SocketAddr, token: Option<String>) -> Deliverer {
    let target = Target {
        url: format!("http://{to}/"),
        token,
        machine: "board".to_owned(),
        identity: None,
        roots: None,
    };
    Deliverer::new(target, || false).unwrap()
}

fn deliver(to: SocketAddr, store: &Store) -> Result<Outbox, DeliverError> {
    deliverer(to, None).deliver(store, Duration::from_secs(60), &mut |_| {})
}

#[test]
fn all_that_is_finished_is_delivered_once() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    measured(
        &machine,
        &[1, 2, 3].map(|number| recording(number, "board")),
    );
    let running = recording(9, "board");
    let _writer = machine
        .begin(&running, &punctual_store::Lease::default())
        .unwrap();
    let token = enrol(&place.collection(), "board-1", Role::Machine).unwrap();
    let server = place.serve_as(|config| config.login = true);
    let deliverer = deliverer(server.address, Some(token));
    let done = deliverer
        .deliver(&machine, Duration::ZERO, &mut |_| {})
        .unwrap();
    let expected = Outbox {
        due: 0,
        delivered: 3,
        refused: 0,
    };
    assert_eq!(done, expected);
    // A second call has nothing to do.
    let done = deliverer
        .deliver(&machine, Duration::ZERO, &mut |_| {})
        .unwrap();
    assert_eq!(done, expected);
    let machines = place.collection().machines().unwrap();
    assert_eq!(
        (machines[0].name.as_str(), machines[0].recordings),
        ("board-1", 3)
    );
}

/// Deliveries do not delay pages.
#[test]
fn lower_priority_threads_store_deliveries() {
    let place = Sandbox::new();
    let server = place.serve();
    let sent = crate::place::deliver(server.address, &recording(1, "board"));
    assert_eq!(sent.status, 201);
    // The 19th field (proc_pid_stat(5)), after the name in parentheses.
    let nice = |folder: &Path| -> Option<i32> {
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_whitespace().nth(16)?.parse().ok()
    };
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let keepers: Vec<i32> = threads
        .map(|entry| entry.path())
        .filter(|path| {
            let name = std::fs::read_to_string(path.join("comm"));
            name.is_ok_and(|name| name.trim() == "punctual-keep")
        })
        .filter_map(|path| nice(&path))
        .collect();
    let own = nice(Path::new("/proc/self")).unwrap();
    assert!(!keepers.is_empty());
    let lower = |keeper: &i32| *keeper > own || own == 19;
    assert!(keepers.iter().all(lower), "{keepers:?}, {own}");
}

#[test]
fn restored_collector_receives_missing_recordings() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = [1, 2, 3].map(|number| recording(number, "board"));
    measured(&machine, &all);
    let server = place.serve();
    deliver(server.address, &machine).unwrap();
    Store::open(&place.store)
        .unwrap()
        .delete(all[1].id)
        .unwrap();
    deliver(server.address, &machine).unwrap();
    assert!(
        place
            .collection()
            .lacking(&all.map(|one| one.id))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_refused_recording_stays_and_is_named() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let one = recording(1, "board");
    measured(&machine, std::slice::from_ref(&one));
    let server = place.serve();
    let mut other = one.clone();
    other.label = None;
    crate::place::deliver(server.address, &other);
    let mut said = Vec::new();
    let deliverer = deliverer(server.address, None);
    let done = deliverer
        .deliver(&machine, Duration::ZERO, &mut |text| {
            said.push(text.to_owned())
        })
        .unwrap();
    assert_eq!((done.refused, done.delivered), (1, 0));
    assert!(said[0].contains("different content"), "{said:?}");
    assert_eq!(machine.load(one.id).unwrap(), one);
    (deliverer.redeliver(&machine, Duration::ZERO, &mut |_| {})).unwrap();
    let to = machine
        .destination(&format!("http://{}", server.address))
        .unwrap();
    assert_eq!(machine.outbox(&to).unwrap().due, 1);
}

#[test]
fn without_an_answer_all_stays_due() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    measured(&machine, &[recording(1, "board")]);
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = deliverer(nobody, None)
        .deliver(&machine, Duration::ZERO, &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, DeliverError::GaveUp(_)), "{error}");
    let server = place.serve_as(|config| config.login = true);
    let error = deliver(server.address, &machine).unwrap_err();
    assert!(
        matches!(error, DeliverError::Token { status: 401, .. }),
        "{error}"
    );
    let to = machine
        .destination(&format!("http://{}", server.address))
        .unwrap();
    assert_eq!(machine.outbox(&to).unwrap().due, 1);
}

/// The collector as a separate process, for the test that kills it.
#[test]
fn collector_process() {
    let (Ok(store), Ok(listen)) = (std::env::var(STORE), std::env::var(LISTEN)) else {
        return;
    };
    let collection = open(&store);
    let config = Config::new(listen.parse().unwrap());
    let _server = start(config, collection).unwrap();
    // The parent kills this process. If the parent has died, the process ends after this time.
    std::thread::sleep(Duration::from_secs(3_600));
}

fn open(store: &str) -> Arc<dyn Collection> {
    if is_database(store) {
        Arc::new(PostgresCollection::open(store).unwrap())
    } else {
        Arc::new(SqliteCollection::open(Path::new(store)).unwrap())
    }
}

fn spawn(store: &str, listen: SocketAddr) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "delivery::collector_process"])
        .env(STORE, store)
        .env(LISTEN, listen.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(listen).is_err() && Instant::now() < end {
        // A collector that cannot reach its database ends.
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Returns a number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Kills a collector on `store` repeatedly while a machine delivers, and calls `crash` in between.
/// Afterwards, each recording is stored exactly once, by ID and content.
fn killed_collector(place: &Sandbox, store: &str, crash: &dyn Fn(u64)) {
    let kills = number(KILLS, 2);
    let machine_store = place.file("machine.db");
    let machine = Store::open(&machine_store).unwrap();
    // Thousands of full recordings would not fit into memory.
    let count = u128::from(number(RECORDINGS, kills * 15));
    let all = (0..count).map(|number| small(number, "board"));
    all.clone().for_each(|one| measured(&machine, &[one]));
    let listen = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let sender = std::thread::spawn(move || {
        let machine = Store::open(&machine_store).unwrap();
        deliverer(listen, None).deliver(&machine, Duration::from_secs(300), &mut |_| {})
    });
    for kill in 0..kills {
        let mut child = spawn(store, listen);
        // The lifetime varies, so that the collector dies at different steps.
        let step = number(STEP, 40);
        std::thread::sleep(Duration::from_millis(step + kill * 17 % (2 * step + 10)));
        child.kill().unwrap();
        child.wait().unwrap();
        crash(kill);
    }
    let mut child = spawn(store, listen);
    let result = sender.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(result.unwrap().due, 0);
    all_are_kept(open(store).as_ref(), all);
}

#[test]
fn killed_collector_and_crashed_database_lose_nothing() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return skip!(Program, "a collector on PostgreSQL: {why}"),
    };
    let (_, url) = cluster.database().unwrap();
    killed_collector(&Sandbox::new(), &url, &|kill| {
        if kill % 5 == 0 {
            cluster.crash();
            cluster.begin().unwrap();
        }
    });
}

#[test]
fn killed_collector_neither_loses_nor_doubles() {
    let place = Sandbox::new();
    let store = place.store.display().to_string();
    killed_collector(&place, &store, &|_| {});
}

/// Series memberships, windows, slots and decisions arrive. A restored collector gets them again,
/// and decisions about recordings of other machines are ignored.
#[test]
fn what_is_beside_recordings_is_delivered() {
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = [1, 2].map(|number| recording(number, "host"));
    measured(&machine, &all);
    let now = all[0].started;
    let epoch = machine
        .put_series(
            "machine-id",
            Some("host"),
            "osadl",
            "{\"probe\":\"timer\"}",
            now,
        )
        .unwrap();
    let slot = Slot {
        machine: epoch.machine.clone(),
        series: epoch.name.clone(),
        epoch: 1,
        due: now,
        cause: SlotCause::At,
        state: SlotState::Missed,
        reason: Some("off".to_owned()),
        recording: None,
    };
    machine.add_slot(&epoch, &slot).unwrap();
    machine.join_series(all[0].id, &epoch).unwrap();
    let window = WakeWindow {
        machine: epoch.machine.clone(),
        start: now,
        length_ns: Nanos::from_secs(10),
        real_time: WaitHistogram::new(),
        ordinary: WaitHistogram::new(),
        longest: Vec::new(),
        lost: 3,
    };
    machine.add_wake_window(&window).unwrap();
    let foreign = recording(7, "other");
    let marks = [all[0].id, foreign.id].map(|recording| ChangeAnnotation {
        id: RecordingId::new(),
        series: "osadl".to_owned(),
        figure: "idle/general/tail/worse".to_owned(),
        recording,
        decision: ChangeDecision::Acknowledged,
        who: "me".to_owned(),
        why: "known".to_owned(),
        at: now,
    });
    marks
        .iter()
        .for_each(|mark| machine.put_change_mark(mark).unwrap());
    let notes = [None, Some(all[0].id), Some(foreign.id)].map(|recording| Note {
        id: RecordingId::new(),
        recording,
        series: None,
        // The note is about the machine that delivers it, not the one it names.
        machine: recording.map(|_| "board-2".to_owned()),
        at: now,
        text: "new <b>fan</b>".to_owned(),
        author: "ada".to_owned(),
        written: now,
    });
    (notes.iter()).for_each(|note| machine.put_note(note).unwrap());
    let token = enrol(&place.collection(), "board-1", Role::Machine).unwrap();
    let server = place.serve_as(|config| config.login = true);
    let other = enrol(&place.collection(), "board-2", Role::Machine).unwrap();
    let bearer = [("Authorization", &*format!("Bearer {other}"))];
    assert_eq!(
        crate::place::put_recording(server.address, foreign.id, &json(&foreign), &bearer).status,
        201
    );
    let deliverer = deliverer(server.address, Some(token));
    let deliver = || {
        deliverer
            .deliver(&machine, Duration::ZERO, &mut |_| {})
            .unwrap()
    };
    let check = || {
        let all = place.collection();
        let runs = all.runs("osadl", Some("board-1"), None).unwrap();
        assert_eq!(
            runs.iter().map(|run| run.recording).collect::<Vec<_>>(),
            [slot_run()]
        );
        let slots = all.slots(&SlotFilter::default()).unwrap();
        assert_eq!((slots.len(), slots[0].state), (1, SlotState::Missed));
        let windows = all.windows("board-1", now, 9).unwrap();
        assert_eq!(windows.iter().map(|one| one.lost).collect::<Vec<_>>(), [3]);
        assert_eq!(all.change_marks(None).unwrap(), marks[..1]);
        let own = notes[..2].iter().map(|note| Note {
            machine: Some("board-1".to_owned()),
            ..note.clone()
        });
        assert_eq!(all.notes().unwrap(), own.collect::<Vec<_>>());
    };
    fn slot_run() -> RecordingId {
        recording(1, "host").id
    }
    deliver();
    check();
    // A second delivery changes nothing. A restored collector gets the missing data again.
    deliver();
    check();
    let restored = Store::open(&place.store).unwrap();
    restored.delete(all[1].id).unwrap();
    let connection = rusqlite::Connection::open(&place.store).unwrap();
    connection
        .execute_batch("DELETE FROM wake_window; DELETE FROM slot")
        .unwrap();
    deliver();
    check();
    let open = place.serve();
    let page = |machine: &str| get(open.address, &format!("/machine?name={machine}")).text();
    assert_eq!(page("board-1").matches("ada: new &lt;b&gt;fan").count(), 2);
    assert_eq!(page("board-2").matches("ada: new").count(), 0);
}
