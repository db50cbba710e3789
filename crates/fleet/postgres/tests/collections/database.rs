//! Guarantees of the database only: its partitions, crashes, and tables of earlier versions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use punctual_model::{Recording, RecordingId};
use punctual_postgres::PostgresCollection;
use punctual_store::{Collection, Delivery, MachineNames, Received, Wanted};
use punctual_testing::postgres::Cluster;
use punctual_testing::skip;
use uuid::Uuid;

use super::{database, json, receive, recording, time};

/// Recordings from clocks that are off by years get no separate partition; all others do.
#[test]
fn each_month_is_a_partition() {
    let Some((cluster, url, name)) = database() else {
        return;
    };
    let all = PostgresCollection::open(&url).unwrap();
    let of_ms = |ms: u128, number: u64| {
        let mut one = recording(number, "a");
        one.id = RecordingId(Uuid::from_u128(
            ms << 80 | 0x7000_8000 << 48 | u128::from(number),
        ));
        one
    };
    let now = u128::try_from(Timestamp::now().as_millisecond()).unwrap();
    let (year, century) = (365 * 86_400_000, 36_525 * 86_400_000);
    let kept = [
        of_ms(now, 1),
        of_ms(0, 2),
        of_ms(now + century, 3),
        of_ms(now - year / 2, 4),
    ];
    for one in &kept {
        assert_eq!(receive(&all, "a", one, None), Received::New);
        assert_eq!(receive(&all, "a", one, None), Received::Known);
    }
    let count = |table: &str| {
        cluster
            .sql(&name, &format!("SELECT count(*) FROM {table}"))
            .unwrap()
    };
    assert_eq!(count("recording_other"), "2");
    let month = Timestamp::now().strftime("recording_%Y_%m").to_string();
    assert_eq!(count(&month), "1");
    // Rows in the default partition are moved when their month begins.
    let sql = format!(
        "ALTER TABLE recording DETACH PARTITION {month};
         INSERT INTO recording_other SELECT * FROM {month}; DROP TABLE {month}"
    );
    cluster.sql(&name, &sql).unwrap();
    let all = PostgresCollection::open(&url).unwrap();
    assert_eq!(receive(&all, "a", &of_ms(now + 1, 5), None), Received::New);
    assert_eq!(
        (count("recording_other"), count(&month)),
        ("2".to_owned(), "2".to_owned())
    );
    assert_eq!(all.lacking(&kept.map(|one| one.id)).unwrap(), []);
}

/// Several collectors use one database, which crashes. Nothing is lost or duplicated.
#[test]
fn collectors_share_a_database_that_crashes() {
    let cluster = match Cluster::start() {
        Ok(cluster) => Arc::new(cluster),
        Err(why) => return skip!(Program, "collectors on one database: {why}"),
    };
    let (_, url) = cluster.database().unwrap();
    let open = || PostgresCollection::open(&url).unwrap();
    let collections = [open(), open()];
    let each: Vec<Recording> = (0..60).map(|number| recording(number, "a")).collect();
    let again = |work: &dyn Fn() -> bool| {
        for _ in 0..600 {
            if work() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("it does not come back");
    };
    std::thread::scope(|scope| {
        for collection in collections.iter().chain(&collections) {
            scope.spawn(|| {
                for one in &each {
                    let body = json(one);
                    let delivery = Delivery {
                        machine: "a",
                        sha256: "hash",
                        received: time(0),
                        series: None,
                        recording: one,
                        body: &body,
                    };
                    again(&|| collection.receive(&delivery).is_ok());
                }
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        cluster.crash();
        assert!(collections[0].ready().is_err());
        cluster.begin().unwrap();
    });
    let listed = collections[1]
        .list(&Wanted {
            most: 999,
            ..Wanted::default()
        })
        .unwrap();
    let ids: BTreeSet<_> = listed.iter().map(|one| one.summary.id).collect();
    assert_eq!((listed.len(), ids.len()), (each.len(), each.len()));
    for one in &each {
        assert_eq!(collections[0].load(one.id).unwrap().1, *one);
    }
    let machines = collections[0].machines().unwrap();
    assert_eq!(
        (machines.len(), machines[0].recordings),
        (1, each.len() as u64)
    );
    assert!(collections[0].quarantined(1).unwrap().is_empty());
}

#[test]
fn tables_of_earlier_version_are_converted() {
    let Some((cluster, url, name)) = database() else {
        return;
    };
    let unknown = PostgresCollection::upgrade(&url, false).unwrap_err();
    assert!(
        unknown.to_string().contains("no tables of punctual"),
        "{unknown}"
    );
    let one = recording(1, "host");
    let current = PostgresCollection::open(&url).unwrap();
    receive(&current, "board", &one, None);
    drop(current);
    assert_eq!(PostgresCollection::upgrade(&url, false).unwrap(), None);
    // The tables of version 5 lack these.
    let sql = "DROP TABLE retired, earlier_name; UPDATE punctual_schema SET version = 5";
    cluster.sql(&name, sql).unwrap();
    let refused = PostgresCollection::open(&url).unwrap_err().to_string();
    assert!(refused.contains("run punctual-server upgrade"), "{refused}");
    for (dry_run, opens) in [(true, false), (false, true)] {
        let done = PostgresCollection::upgrade(&url, dry_run).unwrap().unwrap();
        assert_eq!(done.0, 5);
        assert_eq!(PostgresCollection::open(&url).is_ok(), opens);
    }
    let all = PostgresCollection::open(&url).unwrap();
    assert_eq!(all.load(one.id).unwrap().1, one);
    all.rename("board", "renamed").unwrap();
    all.set_retired("renamed", Some(time(1))).unwrap();
    assert_eq!(all.machines().unwrap()[0].retired, Some(time(1)));
    cluster
        .sql(&name, "UPDATE punctual_schema SET version = 1")
        .unwrap();
    let refused = PostgresCollection::upgrade(&url, false).unwrap_err();
    assert!(refused.to_string().contains("version 1"), "{refused}");
}
