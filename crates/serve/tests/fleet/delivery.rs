//! A machine delivers; the collector is killed, restored, and refuses.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_serve::deliver::{DeliverError, Deliverer, Target};
use punctual_serve::{Config, enrol, start};
use punctual_store::{Collection, Outbox, Role, SqliteCollection, Store, Wanted};

use crate::place::{Place, json, measured, recording, sha256};

/// Where the collector of [`collector_process`] keeps and listens.
const STORE: &str = "PUNCTUAL_TEST_COLLECTOR_STORE";
const LISTEN: &str = "PUNCTUAL_TEST_COLLECTOR_LISTEN";
/// How often the collector is killed; the gate does it a few times.
const KILLS: &str = "PUNCTUAL_TEST_KILLS";

fn deliverer(to: SocketAddr, token: Option<String>) -> Deliverer {
    let target = Target {
        url: format!("http://{to}/"),
        token,
        roots: None,
    };
    Deliverer::new(target, || false).unwrap()
}

fn deliver(to: SocketAddr, store: &Store) -> Result<Outbox, DeliverError> {
    deliverer(to, None).deliver(store, Duration::from_secs(60), &mut |_| {})
}

#[test]
fn all_that_is_finished_is_delivered_once() {
    let place = Place::new();
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

#[test]
fn what_a_restored_collector_lacks_is_sent_again() {
    let place = Place::new();
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
    let place = Place::new();
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
    assert!(said[0].contains("another content"), "{said:?}");
    assert_eq!(machine.load(one.id).unwrap(), one);
    deliverer.forget_refusals(&machine).unwrap();
    let to = machine
        .destination(&format!("http://{}", server.address))
        .unwrap();
    assert_eq!(machine.outbox(&to).unwrap().due, 1);
}

#[test]
fn without_an_answer_all_stays_due() {
    let place = Place::new();
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

/// The collector as a process of its own, for the test that kills it.
#[test]
fn collector_process() {
    let (Ok(store), Ok(listen)) = (std::env::var(STORE), std::env::var(LISTEN)) else {
        return;
    };
    let collection = Arc::new(SqliteCollection::open(Path::new(&store)).unwrap());
    let config = Config::new(listen.parse().unwrap());
    let _server = start(config, collection).unwrap();
    // Its parent kills it; a parent that died must not leave it behind.
    std::thread::sleep(Duration::from_secs(60));
}

fn spawn(store: &Path, listen: SocketAddr) -> Child {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "delivery::collector_process"])
        .env(STORE, store)
        .env(LISTEN, listen.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(listen).is_err() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

#[test]
fn a_collector_that_is_killed_loses_nothing_and_doubles_nothing() {
    let kills: u64 = std::env::var(KILLS).map_or(2, |text| text.parse().unwrap());
    let place = Place::new();
    let machine_store = place.file("machine.db");
    let machine = Store::open(&machine_store).unwrap();
    let all: Vec<_> = (0..u128::from(kills) * 15)
        .map(|number| recording(number, "board"))
        .collect();
    measured(&machine, &all);
    let listen = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let finished = Arc::clone(&done);
    let sender = std::thread::spawn(move || {
        let machine = Store::open(&machine_store).unwrap();
        let result = deliver(listen, &machine);
        finished.store(true, Ordering::SeqCst);
        result
    });
    for kill in 0..kills {
        let mut child = spawn(&place.store, listen);
        // A while, another one each time, so that it dies at different steps.
        std::thread::sleep(Duration::from_millis(40 + kill * 17 % 90));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut child = spawn(&place.store, listen);
    let result = sender.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(done.load(Ordering::SeqCst));
    assert_eq!(result.unwrap().due, 0);
    let wanted = Wanted {
        most: usize::MAX,
        ..Wanted::default()
    };
    let collection = place.collection();
    let mut kept = BTreeMap::new();
    for listed in collection.list(&wanted).unwrap() {
        let (_, recording) = collection.load(listed.summary.id).unwrap();
        let before = kept.insert(recording.id, sha256(&json(&recording)));
        assert!(before.is_none(), "twice");
    }
    let sent: BTreeMap<_, _> = all.iter().map(|one| (one.id, sha256(&json(one)))).collect();
    assert_eq!(kept, sent);
    assert_eq!(
        collection.machines().unwrap()[0].recordings,
        all.len() as u64
    );
    assert!(collection.quarantined(10).unwrap().is_empty());
}
