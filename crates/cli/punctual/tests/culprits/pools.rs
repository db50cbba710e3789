//! `explain --pid` of programs whose runtime has a pool of threads: Go's, and tokio's in our own
//! server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Sandbox, text};
use crate::jobs::explained;
use crate::stage::Stage;
use punctual_model::cause::Detail;
use punctual_model::{Recording, ReleaseWait, Share, ThreadJobs};
use punctual_testing::Running;
use punctual_testing::Server;

/// Builds a Go program. Returns `None` and prints the reason if there is no Go.
pub(crate) fn built_with_go(place: &Sandbox, name: &str) -> Option<PathBuf> {
    let source = format!("{}/tests/culprits/{name}.go", env!("CARGO_MANIFEST_DIR"));
    let program = place.path(name);
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&program).arg(source);
    match go.current_dir(place.path("")).output() {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", text(&output.stderr)),
        Err(error) => {
            punctual_testing::skip!(Program, "a Go program: go: {error}");
            None
        }
    }
}

fn both(one: &ThreadJobs) -> Option<[&ReleaseWait; 2]> {
    Some([one.release.as_ref()?, one.second_release.as_ref()?])
}

/// Returns whether a share of a job is the wait of an idle thread.
fn is_idle_wait(share: &Share, releases: [&ReleaseWait; 2]) -> bool {
    let Some(Detail::WaitsIn {
        call: Some(call),
        argument,
        ..
    }) = &share.cause.detail
    else {
        return false;
    };
    let objects = [
        format!("futex {:#x}", argument & !7),
        format!("descriptor {argument}"),
    ];
    releases.into_iter().any(|release| {
        let object = release.object.as_deref().unwrap_or_default();
        let object = object.split(" (").next().unwrap_or_default();
        *release.call == *call.0 && objects.iter().any(|one| one == object)
    })
}

/// Threads that are idle in two waits have both as release waits, and no job contains one of them,
/// unless events were lost in it.
fn assert_pool(recording: &Recording) {
    let explanation = recording.explanation.as_ref().unwrap();
    let threads = &explanation.jobs.as_ref().unwrap().threads;
    let pool: Vec<_> = threads
        .iter()
        .filter_map(|one| Some((one, both(one)?)))
        .collect();
    assert!(pool.len() >= 2, "{threads:#?}");
    for (one, releases) in &pool {
        let is = |call: &str| {
            releases
                .iter()
                .any(|release| release.call.starts_with(call))
        };
        assert!(is("epoll_") && is("futex"), "{one:#?}");
        let mut outliers = explanation.outliers.iter();
        let wrong = outliers.find(|outlier| {
            let mut shares = outlier.blame.shares.iter();
            let is_complete = outlier.thread == one.thread && outlier.blame.events_lost == 0;
            is_complete && shares.any(|share| is_idle_wait(share, *releases))
        });
        assert!(wrong.is_none(), "{one:#?} {wrong:#?}");
    }
    let jobs: u64 = pool.iter().map(|(one, _)| one.jobs).sum();
    assert!(jobs > 100, "{jobs}");
}

#[test]
fn go_threads_are_parked_or_poll() {
    let Some(_stage) = Stage::set(2) else {
        return;
    };
    let place = Sandbox::new();
    let Some(program) = built_with_go(&place, "pool") else {
        return;
    };
    let app = Running(Command::new(program).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(200));
    for how in ["", "--no-bpf"] {
        let recording = explained(&place, app.0.id(), &format!("--budget 100us -D 3s {how}"));
        assert_pool(&recording);
        let shown = place.done("show last");
        assert!(shown.contains("threads of a pool"), "{shown}");
    }
    // The user's choice is the only release wait.
    let recording = explained(&place, app.0.id(), "--budget 1ms -D 2s --release epoll");
    let threads = recording.explanation.unwrap().jobs.unwrap().threads;
    let second = threads.iter().find(|one| one.second_release.is_some());
    assert!(second.is_none(), "{second:?}");
}

/// Ends the clients, also if the test fails. The scope of their threads waits for them.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks the server again and again, on one connection.
fn ask(address: &str, pause: Duration, stop: &AtomicBool) {
    let mut connection = TcpStream::connect(address).unwrap();
    let mut answer = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let request = format!("HEAD / HTTP/1.1\r\nHost: {address}\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        assert!(connection.read(&mut answer).unwrap() > 0);
        std::thread::sleep(pause);
    }
}

#[test]
fn tokio_workers_are_parked_or_poll() {
    let Some(_stage) = Stage::set(2) else {
        return;
    };
    let place = Sandbox::new();
    let server = Server::start(place.server("run --listen 127.0.0.1:0"));
    let stop = AtomicBool::new(false);
    let recording = std::thread::scope(|scope| {
        for client in 0..4 {
            let (address, stop) = (server.address(), &stop);
            scope.spawn(move || ask(address, Duration::from_millis(2 + client), stop));
        }
        let _end = Ended(&stop);
        explained(&place, server.pid(), "--budget 100us -D 3s")
    });
    server.end();
    assert_pool(&recording);
}
