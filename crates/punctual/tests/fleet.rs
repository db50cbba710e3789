//! A fleet in PostgreSQL: served, delivered to, copied to a file and back.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use common::{Place, signal, text};
use punctual_testing::postgres::Cluster;
use serde_json::Value;

#[test]
fn a_fleet_in_a_database_is_served_and_copied() {
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return punctual_testing::skip!("a fleet in PostgreSQL: {why}"),
    };
    let (_, database) = cluster.database().unwrap();
    let place = Place::new();
    place.done("measure timer -q --policy other --dma-latency off -D 200ms");
    let mut serve = place.command("serve --listen 127.0.0.1:0 --store");
    let mut server = (serve.arg(&database))
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.rsplit(' ').next().unwrap().trim().to_owned();
    place.done(&format!("deliver --to {address}"));
    signal(&server, "TERM");
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    // A client of the database that a task drops panics.
    assert!(!rest.contains("panicked"), "{rest}");
    assert_eq!(server.wait().unwrap().code(), Some(0), "{rest}");
    let copied = |from: &str, to: &str| -> Value {
        let output = place.command("store copy --json").args([from, to]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let file = place.path("fleet.db").display().to_string();
    assert_eq!(copied(&database, &file)["recordings"], 1);
    let back = copied(&file, &database);
    assert_eq!(
        (&back["recordings"], &back["known"]),
        (&0.into(), &1.into())
    );
}
