use std::net::TcpListener;
use std::time::Duration;

use punctual_model::{Scheduling, SignedNanos};

use super::*;
use crate::SelfCost;
use crate::testing::{self, DEADLINE, OTHER, permitted, plan, worker};

fn socket(given: &[(&str, &str)]) -> Socket {
    Socket::new(&testing::arguments(PARAMETERS, given))
}

fn measure(socket: Socket, scheduling: Scheduling, millis: u64) -> Result<Measured, ProbeError> {
    let ready = testing::prepare(socket, &plan(scheduling, Nanos::from_millis(millis)))?;
    testing::run(ready, &Arc::new(Control::new()))
}

#[test]
fn each_way_gets_its_replies() {
    let mut measured = measure(socket(&[]), OTHER, 1_800).unwrap();
    for _ in 0..3 {
        let mut workers = measured.workers.iter();
        if workers.all(|worker| worker.accounting.recorded > 0) {
            break;
        }
        // The machine was busy; try again.
        measured = measure(socket(&[]), OTHER, 10_000).unwrap();
    }
    assert_eq!(measured.workers.len(), 9);
    assert_eq!(measured.warnings, [""; 0]);
    let table = &measured.tables[0];
    for (row, (way, worker)) in Way::ALL.iter().zip(&measured.workers).enumerate() {
        assert!(worker.accounting.recorded > 0, "{way:?}");
        assert_eq!(worker.accounting.missed, 0, "{way:?}");
        assert_eq!(table.rows[row][0], Cell::from(way.word()));
        assert_eq!(table.rows[row][1], worker.accounting.recorded.into());
    }
    assert_eq!(table.rows[0][4], Cell::Number(1.0), "default to itself");
}

#[test]
fn it_runs_at_a_real_time_priority() {
    let Some(fifo) = permitted(10, 10) else {
        return;
    };
    let measured = measure(socket(&[("via", "writev")]), fifo, 200).unwrap();
    assert!(measured.workers[0].accounting.recorded > 0);
}

#[test]
fn a_server_elsewhere_is_reached_by_name() {
    let server = Server::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let name = format!("localhost:{}", server.address().port());
    // If `localhost` has no IPv4 address, no server listens there.
    let resolved = socket(&[("connect", &name)]).other();
    let name = match resolved {
        Ok(Some((address, _))) if address == server.address() => name,
        _ => server.address().to_string(),
    };
    let name: &'static str = name.leak();
    let measured = measure(socket(&[("connect", name)]), OTHER, 600).unwrap();
    assert_eq!(measured.workers.len(), 8, "all but the Unix socket");
    let sent: u64 = measured.workers.iter().map(|l| l.accounting.expected).sum();
    assert_eq!(server.answered(), sent);
}

#[test]
fn no_reply_in_time_is_missed() {
    // This socket accepts connections into its backlog but never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let name: &'static str = silent.local_addr().unwrap().to_string().leak();
    let socket = socket(&[("connect", name), ("via", "nodelay")]);
    let measured = measure(socket, OTHER, 300).unwrap();
    let account = measured.workers[0].accounting;
    assert_eq!(account.recorded, 0);
    // The only message was begun in the warm-up, and counts as missed there.
    assert_eq!((account.expected, account.warm_up_missed), (1, 1));
    assert_eq!(measured.tables[0].rows[0][2], Cell::Unknown);
}

#[test]
fn vanished_server_is_a_warning() {
    let server = Server::listen("127.0.0.1:0".parse().unwrap(), &[]).unwrap();
    let name: &'static str = server.address().to_string().leak();
    let going = std::thread::spawn(move || {
        while server.answered() < 100 {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let socket = socket(&[("connect", name), ("via", "cork")]);
    let measured = measure(socket, OTHER, 800).unwrap();
    going.join().unwrap();
    let account = measured.workers[0].accounting;
    assert!(account.expected >= 100, "{account:?}");
    assert_eq!(measured.warnings.len(), 1);
    assert!(measured.warnings[0].starts_with("cork: the connection failed"));
}

#[test]
fn stop_ends_reply_wait() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let name: &'static str = silent.local_addr().unwrap().to_string().leak();
    let socket = socket(&[("connect", name), ("via", "default")]);
    let endless = Plan {
        duration: None,
        ..plan(OTHER, Nanos::ZERO)
    };
    let control = Arc::new(Control::new());
    testing::stop_after(&control, Duration::from_millis(50));
    let ready = testing::prepare(socket, &endless).unwrap();
    assert_eq!(ready.warm_up, Nanos::from_secs(1));
    let measured = testing::run(ready, &control).unwrap();
    let account = measured.workers[0].accounting;
    // The run was stopped during the first message, unless the machine stalled.
    assert_eq!(account.recorded, 0, "{account:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let second = Nanos::from_secs(1);
    let refused =
        |given: &[_], scheduling| testing::refusal(socket(given), &plan(scheduling, second));
    let unix = [("via", "unix"), ("connect", "127.0.0.1:9")];
    assert!(refused(&unix, OTHER).contains("Unix socket"));
    for connect in [
        "nowhere",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:99999",
        ":",
    ] {
        let error = refused(&[("connect", connect)], OTHER);
        assert!(error.contains("HOST:PORT"), "{error}");
    }
    assert!(refused(&[], DEADLINE).contains("SCHED_DEADLINE"));
    let long = Plan {
        warm_up: Some(Nanos::from_millis(500)),
        ..plan(OTHER, second)
    };
    let error = testing::refusal(socket(&[]), &long);
    assert!(error.contains("leaves no time to measure"), "{error}");
    assert!(testing::prepare(socket(&[("via", "udp")]), &long).is_ok());
}

#[test]
fn nobody_there_is_an_error() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let name: &'static str = free.local_addr().unwrap().to_string().leak();
    drop(free);
    let error = measure(socket(&[("connect", name)]), OTHER, 200).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(name) && text.contains("punctual measure socket --serve"),
        "{text}"
    );
    assert!(!error.is_usage());
}

#[test]
fn rate_is_messages_per_elapsed_time() {
    let control = Arc::new(Control::new());
    let of = |latencies: &[i64]| {
        let (mut recorder, _reader) = worker(Nanos::ZERO, &control);
        recorder.start(Nanos::ZERO);
        for latency in latencies {
            recorder.sample(Nanos(1), SignedNanos(*latency));
        }
        recorder.finish(latencies.len() as u64, SelfCost::default())
    };
    let slow = of(&[40_000_000, 60_000_000]);
    let fast = of(&[200_000; 10]);
    let table = throughput(
        &[Way::NoDelay, Way::Default, Way::Udp],
        &[fast, slow, of(&[])],
    );
    let row = |way: &str, count: u64, rate: f64, median: u64, times: f64| {
        let cells: [Cell; 5] = [
            way.into(),
            count.into(),
            rate.into(),
            Nanos(median).into(),
            times.into(),
        ];
        cells.to_vec()
    };
    let shown: Vec<String> = table.rows[0]
        .iter()
        .zip(&table.columns)
        .map(|(c, k)| c.show(k))
        .collect();
    assert_eq!(shown, ["nodelay", "10", "5000", "200 µs", "250"]);
    assert_eq!(table.rows[1][..3], row("default", 2, 20.0, 0, 0.0)[..3]);
    assert_eq!(
        table.rows[2][2..],
        [Cell::Unknown, Cell::Unknown, Cell::Unknown]
    );
}
