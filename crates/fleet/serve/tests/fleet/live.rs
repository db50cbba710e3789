//! Tests of the live view of a running measurement.

use punctual_model::Completion;
use punctual_store::{Batch, Lease, Store};
use serde_json::Value;

use crate::client::get;
use crate::place::{Sandbox, recording};

#[test]
fn a_run_is_seen_until_it_ends() {
    let place = Sandbox::new();
    let mut one = recording(1, "board");
    let store = Store::open(&place.store).unwrap();
    let server = place.serve();
    assert!(
        get(server.address, "/live")
            .text()
            .contains("No measurement is running")
    );
    let done = one.clone();
    one.completion = Completion::Running;
    let mut writer = store.begin(&one, &Lease::default()).unwrap();
    let batch = Batch {
        elapsed: punctual_model::Nanos::from_secs(2),
        rows: done.series.rows.iter().take(2).cloned().collect(),
        ..Batch::default()
    };
    writer.commit(&batch).unwrap();
    let list = get(server.address, "/live").text();
    assert!(
        list.contains(&format!("data-live=\"/live/{}\"", one.id)),
        "{list}"
    );
    assert!(
        get(server.address, &format!("/recordings/{}", one.id))
            .text()
            .contains("data-live")
    );
    let address = server.address;
    let path = format!("/live/{}", one.id);
    let reader = std::thread::spawn(move || get(address, &path));
    std::thread::sleep(std::time::Duration::from_millis(300));
    writer.finish(&done).unwrap();
    let events = reader.join().unwrap();
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    let text = events.text();
    let progress: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: {\"elapsed"))
        .map(|rest| serde_json::from_str(&format!("{{\"elapsed{rest}")).unwrap())
        .collect();
    assert_eq!(progress[0]["elapsed_ns"], 2_000_000_000u64, "{text}");
    assert!(progress[0]["max_ns"].as_u64().unwrap() > 0);
    assert!(!progress[0]["recent"].as_array().unwrap().is_empty());
    let last = progress.last().unwrap();
    assert_eq!(last["recorded"], done.accounting().recorded);
    assert!(text.contains("event: end"), "{text}");
    assert_eq!(
        get(server.address, "/live/00000000-0000-7000-8000-000000000000").status,
        404
    );
}

#[test]
fn live_view_does_not_delay_shutdown() {
    let place = Sandbox::new();
    let mut one = recording(1, "board");
    one.completion = Completion::Running;
    let store = Store::open(&place.store).unwrap();
    let _writer = store.begin(&one, &Lease::default()).unwrap();
    let server = place.serve();
    let (address, path) = (server.address, format!("/live/{}", one.id));
    let reader = std::thread::spawn(move || get(address, &path).text());
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.stop();
    assert!(reader.join().unwrap().contains("event: progress"));
}
