use punctual_model::{Cell, Scheduling};

use super::*;
use crate::testing::{self, DEADLINE, OTHER, plan};
use crate::{Control, ProbeError};

fn flight(number: u64) -> Flight {
    Flight {
        number,
        ..first_flight(None)
    }
}

fn network(given: &[(&str, &str)]) -> Network {
    Network::new(&testing::arguments(PARAMETERS, given))
}

/// Measures 200 ms. Returns `None`, with a visible line, if this process may not send ICMP echo.
fn measure(given: &[(&str, &str)], scheduling: Scheduling) -> Option<Measured> {
    let plan = plan(scheduling, Nanos::from_millis(200));
    let ready = match testing::prepare(network(given), &plan) {
        Err(error) if error.to_string().contains("CAP_NET_RAW") => {
            punctual_testing::skip!(Right, "{error}");
            return None;
        }
        ready => ready.unwrap(),
    };
    Some(testing::run(ready, &Arc::new(Control::new())).unwrap())
}

#[test]
fn loopback_answers_each_frame() {
    for to in ["127.0.0.1", "::1", "localhost"] {
        let given = [("to", to), ("interval", "2ms"), ("size", "900")];
        let Some(measured) = measure(&given, OTHER) else {
            return;
        };
        let account = measured.workers[0].accounting;
        let [frames, parts] = &measured.tables[..] else {
            panic!("two tables");
        };
        let count = |row: usize| match frames.rows[row][1] {
            Cell::Count(count) => count,
            ref cell => panic!("{cell:?}"),
        };
        assert_eq!(account.expected, 100, "{account:?}");
        assert!(account.recorded > 0, "{account:?}");
        // Each period is in one row.
        let refused = count(7);
        assert_eq!(count(0) + count(6) + refused, 100, "{frames:?}");
        assert_eq!(count(0), count(1) + count(2) + count(5), "{frames:?}");
        let stamped = parts.rows.iter().map(|row| &row[1]);
        let measured = Cell::Count(account.recorded);
        assert!(
            stamped.into_iter().all(|count| *count == measured),
            "{parts:?}"
        );
    }
}

#[test]
fn unprivileged_and_raw_sockets_agree() {
    for to in ["127.0.0.1:0", "[::1]:0"] {
        let to = to.parse().unwrap();
        let open = |raw| Some((raw, FrameSocket::echo(to, 64, 7, raw).ok()?));
        let sockets: Vec<(bool, FrameSocket)> =
            [false, true].into_iter().filter_map(open).collect();
        if sockets.is_empty() {
            punctual_testing::skip!(Right, "no right to send ICMP echo");
        }
        for (raw, mut socket) in sockets {
            for number in 0..3 {
                socket.send(flight(number)).unwrap();
                let answered = loop {
                    match socket.receive() {
                        Received::Reply { number, stamps } => {
                            break (number, stamps.kernel.is_some());
                        }
                        Received::Failed(error) => panic!("{error}"),
                        Received::Nothing => socket.wait(Nanos::from_secs(5)).unwrap(),
                        Received::Foreign => {}
                    }
                };
                assert_eq!(answered, (number, true));
                let (_, stamps) = socket.sent_at(number).unwrap();
                assert!(stamps.kernel.is_some(), "raw: {raw}");
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let second = Nanos::from_secs(1);
    let refused =
        |given: &[_], scheduling| testing::refusal(network(given), &plan(scheduling, second));
    assert!(refused(&[], OTHER).contains("--to HOST"));
    let error = refused(&[("to", "nowhere.invalid")], OTHER);
    assert!(error.contains("does not resolve"), "{error}");
    assert!(refused(&[("to", "127.0.0.1")], DEADLINE).contains("SCHED_DEADLINE"));
    let held = [("to", "127.0.0.1"), ("launch-time", "1ms")];
    let error = refused(&held, OTHER);
    assert!(error.starts_with("--launch-time 1.00 ms: "), "{error}");
    assert!(error.contains("tc qdisc replace dev lo root fq"), "{error}");
    let far = [("to", "127.0.0.1"), ("launch-time", "65ms")];
    assert!(refused(&far, OTHER).contains("65 frames would wait"));
    let long = [("to", "127.0.0.1"), ("interval", "2s")];
    let error = testing::prepare(network(&long), &plan(OTHER, second)).err();
    assert!(matches!(error, Some(ProbeError::IntervalTooLong { .. })));
}
