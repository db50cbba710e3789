//! Tests with fifty machines, where the late ones may or may not have a fact in common, and with
//! ten thousand machines in the overview.

use std::fmt::Write;

use punctual_model::{Accounting, Fact, Histogram, Recording, RecordingId, SignedNanos};
use punctual_serve::Running;
use rusqlite::params;
use uuid::Uuid;

use crate::client::{get, send};
use crate::place::{Sandbox, deliver, recording};
use crate::years::Nightly;

/// Maximum size of a page with all its parts, compressed, in bytes.
const MOST_BYTES: usize = 150_000;

/// Returns the newest recordings of a machine. If the governor `separates` the machines, those with
/// `powersave` are late.
fn runs(machine: u128, separates: bool) -> (String, Vec<Recording>) {
    let name = format!("board-{machine:02}");
    let mut one = recording(machine * 1_000, &name);
    let powersave = machine.is_multiple_of(3);
    let governor = if powersave {
        "powersave"
    } else {
        "performance"
    };
    for cpu in &mut one.host.cpus {
        cpu.governor = Fact::known(governor.to_owned(), "cpufreq/scaling_governor");
    }
    let known = |text: String| Fact::known(text, "/proc");
    let release = if machine.is_multiple_of(2) {
        "6.12.38-rt"
    } else {
        "6.6.30-rt"
    };
    one.host.kernel.release = known(release.to_owned());
    one.host.processor.microcode = known(format!("0x{:x}", 240 + machine % 5));
    one.host.kernel.command_line = known(format!("quiet root=UUID={:x}", machine * 7_919));
    // Noise that is unrelated to any fact.
    let noise = machine * 7_919 % 23;
    let late = 20 + noise + if separates && powersave { 40 } else { 0 };
    for thread in &mut one.threads {
        thread.histogram = Histogram::new();
        for sample in 0..1_000 {
            thread
                .histogram
                .record(SignedNanos(late as i64 * 1_000 + sample));
        }
        thread.accounting = Accounting {
            expected: 1_000,
            recorded: 1_000,
            ..Accounting::default()
        };
        (thread.missed_histogram, thread.open) = Default::default();
    }
    one.series.rows = Default::default();
    let all = (0..3u128).map(|run| {
        let mut again = one.clone();
        again.id = RecordingId(Uuid::from_u128(one.id.0.as_u128() + run));
        again.started += std::time::Duration::from_secs(run as u64 * 43_200);
        again
    });
    (name, all.collect())
}

/// Starts a collector with fifty machines.
pub(crate) fn fifty(place: &Sandbox, separates: bool) -> Running {
    let mut nightly = Nightly::default();
    let all: Vec<_> = (1..=50).map(|machine| runs(machine, separates)).collect();
    for (name, recordings) in &all {
        nightly.add(name, recordings);
    }
    let (_, source) = nightly.source();
    let server = place.serve_as(|config| config.trends = source);
    for (_, recordings) in &all {
        assert_eq!(deliver(server.address, &recordings[2]).status, 201);
    }
    server
}

/// Returns the text of a page without its markup.
fn text(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        let rest = part.split_once('>').map_or(part, |(_, rest)| rest);
        let _ = write!(text, "{rest} ");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn apart(page: &str) -> String {
    let part = page
        .split("Facts that separate the machines")
        .nth(1)
        .unwrap();
    text(part)
}

#[test]
fn the_fact_that_separates_is_named_first() {
    let place = Sandbox::new();
    let server = fifty(&place, true);
    let page = get(server.address, "/series?name=nightly").text();
    let said = apart(&page);
    assert!(
        said.contains("Facts whose values correlate with the figure. This does not show a cause"),
        "{said}"
    );
    let (first, others) = said.split_once("cpu governor").unwrap();
    assert!(first.ends_with("not known "), "the first row: {said}");
    assert!(
        others.contains("powersave: ") && others.contains("16 machines"),
        "{said}"
    );
    let (own, rest) = others.split_once("performance").unwrap();
    assert!(own.contains("<0.001") || own.contains("&lt;0.001"), "{own}");
    assert!(!own.contains("not significant"), "{own}");
    for other in ["kernel release", "processor microcode"] {
        let row = rest.split_once(other).unwrap().1;
        let row = &row[..row.find(':').unwrap()];
        assert!(row.contains("not significant"), "{other}: {row}");
    }
    // When the machines are grouped by that fact, the worse group comes first.
    let page = get(server.address, "/series?name=nightly&by=cpu.governor").text();
    let table = page.split("<tbody>").nth(1).unwrap();
    assert!(table.find("powersave").unwrap() < table.find("performance").unwrap());
}

#[test]
fn where_nothing_separates_no_fact_is_blamed() {
    let place = Sandbox::new();
    let server = fifty(&place, false);
    for figure in ["p99", "max"] {
        let path = format!("/series?name=nightly&figure={figure}");
        let said = apart(&get(server.address, &path).text());
        assert!(
            said.contains("No fact is significantly correlated with the figure"),
            "{said}"
        );
        assert!(!said.contains("go with the figure"), "{said}");
    }
}

/// Adds this number of machines, similar to one that has delivered.
pub(crate) fn enrol(place: &Sandbox, machines: u32) {
    let store = rusqlite::Connection::open(&place.store).unwrap();
    let changed = store.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO machine (name, recordings, last_seen_ns, latest, latest_started_ns, headline,
             outcome, completion, max_ns, p99_ns, fingerprint, due, missed, unknown)
         SELECT printf('plant-%02d/line-%03d/board-%05d', i % 7, i % 211, i),
             recordings + i % 700, last_seen_ns - (i * 7919 % 50) * 3600000000000, latest,
             latest_started_ns, headline,
             CASE i % 97 WHEN 0 THEN 'missed' WHEN 1 THEN 'unknown' WHEN 2 THEN 'no_requirement'
                 ELSE 'held' END,
             completion, 40000 + i * 7919 % 100000, 6000 + i * 104729 % 9000, fingerprint, due,
             missed, unknown
         FROM machine, n WHERE name = 'template'",
        params![machines],
    );
    assert_eq!(changed.unwrap(), machines as usize);
}

/// Returns the compressed size of the response for a path.
fn weight(server: &Running, path: &str) -> usize {
    let answer = send(
        server.address,
        "GET",
        path,
        &[("Accept-Encoding", "gzip")],
        b"",
    );
    assert_eq!(answer.status, 200, "{path}");
    answer.body.len()
}

#[test]
fn ten_thousand_machines_fit_small_pages() {
    let place = Sandbox::new();
    let server = place.serve();
    assert_eq!(
        deliver(server.address, &recording(1, "template")).status,
        201
    );
    enrol(&place, 10_000);
    let page = get(server.address, "/").text();
    assert!(text(&page).contains("10001 all"), "{}", text(&page));
    assert!(page.contains("Page 1 of 11"));
    assert_eq!(page.matches("/machine?name=").count(), 1_000);
    let last = get(server.address, "/?page=10").text();
    assert_eq!(last.matches("/machine?name=").count(), 1);
    // The most urgent machines come first. The filters for state and name search all machines.
    let silent = text(&page).find("silent").unwrap();
    assert!(silent < text(&page).find("✓ held").unwrap_or(usize::MAX));
    let found = get(server.address, "/?name=BOARD-00042&state=").text();
    assert_eq!(found.matches("/machine?name=").count(), 1);
    // A machine that delivers nothing any more is silent, whatever its last verdict was.
    let silent = get(server.address, "/?state=silent").text();
    assert!(silent.contains("Page 1 of "), "{}", text(&silent));
    let assets = page.split('"').filter(|part| part.starts_with("/assets/"));
    let assets: usize = assets.map(|path| weight(&server, path)).sum();
    for path in ["/", "/?page=5", "/changes", "/recordings"] {
        let sent = assets + weight(&server, path);
        assert!(sent < MOST_BYTES, "{path}: {sent} bytes");
    }
}
