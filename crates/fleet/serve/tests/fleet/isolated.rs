//! Tests in separate namespaces, with network failures and full disks.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use punctual_postgres::PostgresCollection;
use punctual_push::DeliverError;
use punctual_serve::{Config, Running, start};
use punctual_store::{Collection, SqliteCollection, Store};
use punctual_testing::postgres::Cluster;
use punctual_testing::skip;

use crate::faults::{deliver, recordings};
use crate::place::{Sandbox, all_are_kept, measured};

/// The name of the test to run in namespaces.
const INSIDE: &str = "PUNCTUAL_TEST_ISOLATED";
/// The size of a small disk.
const DISK: u64 = 24 << 20;
/// The disk size for a database. An empty database takes 40 MB, and its log 2 × 16 MB.
const DISK_OF_DATABASE: u64 = 160 << 20;

/// Returns whether this process is in separate namespaces for network (loopback only) and mounts.
/// Otherwise runs the test again in such a process, and asserts that it succeeds.
fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some_and(|name| name == test) {
        return true;
    }
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "--propagation", "private"]);
        command.args(["sh", "-c", script]);
        command
    };
    if Command::new("ip").arg("-V").output().is_err() {
        skip!(Program, "ip(8) of iproute2 is not installed");
        return false;
    }
    let allowed = unshare("ip link set lo up").output();
    if !allowed.is_ok_and(|done| done.status.success()) {
        skip!(Right, "namespaces of its own need root");
        return false;
    }
    let done = unshare("ip link set lo up && exec \"$0\" --exact \"$1\"")
        .arg(std::env::current_exe().unwrap())
        .arg(format!("isolated::{test}"))
        .env(INSIDE, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    punctual_testing::skip_inside(&String::from_utf8_lossy(&done.stderr));
    false
}

fn link(state: &str) {
    let done = Command::new("ip")
        .args(["link", "set", "lo", state])
        .status();
    assert!(done.unwrap().success());
}

#[test]
fn vanished_network_neither_loses_nor_doubles() {
    if !is_inside("vanished_network_neither_loses_nor_doubles") {
        return;
    }
    let place = Sandbox::new();
    let file = place.file("machine.db");
    let all = recordings(0..40);
    measured(&Store::open(&file).unwrap(), &all);
    let server = place.serve();
    let address = server.address;
    let sender = std::thread::spawn(move || {
        let machine = Store::open(&file).unwrap();
        deliver(address, &machine, Duration::from_secs(120))
    });
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(80));
        link("down");
        std::thread::sleep(Duration::from_millis(300));
        link("up");
    }
    let (done, _) = sender.join().unwrap().unwrap();
    assert_eq!((done.due, done.delivered), (0, 40));
    all_are_kept(&place.collection(), &all);
}

/// A small disk with little free space, which only this process sees.
struct Disk {
    folder: PathBuf,
}

/// Mounts a disk of this size.
fn mount(folder: &Path, size: u64) {
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o"])
        .arg(format!("size={size}"))
        .arg("none")
        .arg(folder)
        .status();
    assert!(mounted.unwrap().success());
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Unmount the disk, so that the folder can be removed. The mount ends with the process at
        // the latest.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
        let _ = std::fs::remove_dir(&self.folder);
    }
}

impl Disk {
    fn new(place: &Sandbox) -> Self {
        let folder = place.file("disk");
        std::fs::create_dir(&folder).unwrap();
        mount(&folder, DISK);
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Fills the disk until `left` bytes are free.
    fn fill(&self, left: u64) {
        let path = self.file("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut length = 0;
        while file.write_all(&[1; 4_096]).is_ok() {
            length += 4_096;
        }
        file.set_len(length - left).unwrap();
    }

    fn make_room(&self) {
        std::fs::remove_file(self.file("filler")).unwrap();
    }
}

fn serve(store: &Path) -> Running {
    let config = Config::new("127.0.0.1:0".parse().unwrap());
    start(config, Arc::new(SqliteCollection::open(store).unwrap())).unwrap()
}

#[test]
fn full_collector_disk_loses_nothing() {
    if !is_inside("full_collector_disk_loses_nothing") {
        return;
    }
    let place = Sandbox::new();
    let disk = Disk::new(&place);
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = recordings(0..40);
    measured(&machine, &all);
    let store = disk.file("collector.db");
    let server = serve(&store);
    disk.fill(160 << 10);
    let full = deliver(server.address, &machine, Duration::ZERO);
    let Err(DeliverError::GaveUp(why)) = full else {
        panic!("{full:?}");
    };
    assert!(why.contains("the disk of the collector is full"), "{why}");
    let to = machine.destination(&format!("http://{}", server.address));
    let outbox = machine.outbox(&to.unwrap()).unwrap();
    assert!(outbox.due > 0 && outbox.delivered > 0, "{outbox:?}");
    assert_eq!(outbox.refused, 0);
    // Reading still works.
    assert_eq!(crate::client::get(server.address, "/ready").status, 200);
    disk.make_room();
    let (done, _) = deliver(server.address, &machine, Duration::ZERO).unwrap();
    assert_eq!((done.due, done.delivered), (0, 40));
    all_are_kept(&SqliteCollection::open(&store).unwrap(), &all);
}

/// Even while the database's disk is full, no delivery is acknowledged unless it is stored. All
/// deliveries arrive exactly once when there is space again.
#[test]
fn full_database_disk_loses_nothing() {
    if let Err(why) = Cluster::installed() {
        return skip!(Program, "a database on a full disk: {why}");
    }
    if !is_inside("full_database_disk_loses_nothing") {
        return;
    }
    let small = |folder: &Path| {
        mount(folder, DISK_OF_DATABASE);
        Ok(())
    };
    let cluster = Cluster::start_in(&["max_wal_size=32MB".to_owned()], small).unwrap();
    let disk = Disk {
        folder: cluster.folder().to_owned(),
    };
    let (_, url) = cluster.database().unwrap();
    let place = Sandbox::new();
    let machine = Store::open(&place.file("machine.db")).unwrap();
    let all = recordings(0..60);
    measured(&machine, &all[..5]);
    let collection = Arc::new(PostgresCollection::open(&url).unwrap());
    let config = Config::new("127.0.0.1:0".parse().unwrap());
    let server = start(config, Arc::clone(&collection) as Arc<dyn Collection>).unwrap();
    let deliver = || deliver(server.address, &machine, Duration::ZERO);
    deliver().unwrap();
    measured(&machine, &all[5..]);
    disk.fill(32 << 10);
    let full = deliver();
    let Err(DeliverError::GaveUp(why)) = full else {
        panic!("{full:?}");
    };
    assert!(why.contains("the disk of the collector is full"), "{why}");
    let to = machine.destination(&format!("http://{}", server.address));
    let to = to.unwrap();
    let outbox = machine.outbox(&to).unwrap();
    assert!(outbox.due > 0 && outbox.delivered >= 5, "{outbox:?}");
    assert_eq!(outbox.refused, 0);
    let answered = machine.delivered(&to, 0, all.len()).unwrap();
    assert_eq!(collection.lacking(&answered).unwrap(), []);
    // The disk is still full, so nothing changes.
    deliver().unwrap_err();
    assert_eq!(machine.outbox(&to).unwrap(), outbox);
    disk.make_room();
    let (done, _) = deliver().unwrap();
    assert_eq!((done.due, done.delivered), (0, 60));
    all_are_kept(collection.as_ref(), &all);
    drop(server);
    // The database must end before its disk is unmounted.
    drop((collection, cluster));
}

#[test]
fn full_machine_disk_loses_nothing() {
    if !is_inside("full_machine_disk_loses_nothing") {
        return;
    }
    let place = Sandbox::new();
    let disk = Disk::new(&place);
    let machine = Store::open(&disk.file("machine.db")).unwrap();
    let all = recordings(0..20);
    measured(&machine, &all);
    let server = place.serve();
    machine
        .destination(&format!("http://{}", server.address))
        .unwrap();
    disk.fill(0);
    // A delivery that could not be marked as delivered is repeated.
    let full = deliver(server.address, &machine, Duration::ZERO);
    if let Err(error) = &full {
        assert!(matches!(error, DeliverError::Store(_)), "{error}");
        assert!(error.to_string().contains("no space left"), "{error}");
    }
    disk.make_room();
    let (done, _) = deliver(server.address, &machine, Duration::ZERO).unwrap();
    assert_eq!((done.due, done.delivered), (0, 20));
    all_are_kept(&place.collection(), &all);
}
