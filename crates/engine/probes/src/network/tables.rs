//! The tables and warnings of a run.

use punctual_host::TimestampAbilities;
use punctual_model::{Cell, Table, counted};

use super::frame_socket::CardStamps;
use super::launch::Launch;
use super::worker::{Parts, WorkerResult};

/// Returns the tables of a run.
pub(super) fn tables(seen: &WorkerResult, launch: Option<&Launch>) -> Vec<Table> {
    let mut tables = vec![
        frames(seen, launch.is_some()),
        parts(&seen.parts, launch.is_some()),
    ];
    tables.extend(launch.map(|launch| {
        let queue = format!("{} on {}", launch.discipline, launch.interface);
        seen.departures.table(&queue)
    }));
    tables
}

fn frames(seen: &WorkerResult, has_launch: bool) -> Table {
    let mut table = Table::new(
        "frames",
        "Frames of the whole run, including its warm-up",
        &[("what", "frames"), ("count", "count")],
    );
    let counts = seen.replies.counts();
    for (what, count) in [
        ("sent", counts.sent),
        ("answered in time", counts.in_time),
        ("answered late, in a later period", counts.late),
        ("answered after a newer frame", counts.reordered),
        ("answered again", counts.again),
        ("forged: answered before it was sent", counts.early),
        ("never answered", counts.unanswered()),
        ("not sent: the thread was too late", seen.skipped),
        ("not sent: the kernel refused", seen.refused),
    ] {
        table.push([Cell::from(what), count.into()]);
    }
    if has_launch {
        for (what, count) in [
            (
                "not sent: launch time passed before the queue",
                seen.passed_on_the_way,
            ),
            (
                "not sent: launch time missed in the queue",
                seen.missed_in_queue,
            ),
        ] {
            table.push([Cell::from(what), count.into()]);
        }
    }
    table
}

fn parts(parts: &Parts, has_launch: bool) -> Table {
    let mut table = Table::new(
        "round_trip_parts",
        "Parts of the round trip, by time stamps, after the warm-up",
        &[
            ("part", "part"),
            ("frames", "frames"),
            ("median_ns", "median"),
            ("p99_ns", "p99"),
            ("max_ns", "max"),
            ("in_longest_ns", "in the longest"),
        ],
    );
    let longest = parts.longest;
    let mut rows = vec![
        (
            if has_launch {
                "send call to device, held"
            } else {
                "send call to device"
            },
            &parts.send,
            longest.map(|all| all.send),
        ),
        (
            "network and machine",
            &parts.network,
            longest.map(|all| all.network),
        ),
        (
            "driver to thread",
            &parts.receive,
            longest.map(|all| all.receive),
        ),
    ];
    if parts.wire.recorded() > 0 {
        rows.push((
            "between the card's time stamps",
            &parts.wire,
            longest.and_then(|all| all.wire),
        ));
    }
    for (name, histogram, in_longest) in rows {
        table.push([
            Cell::from(name),
            histogram.recorded().into(),
            histogram.quantile(0.5).into(),
            histogram.supported_quantile(0.99).into(),
            histogram.max().into(),
            in_longest.into(),
        ]);
    }
    table
}

/// Returns the warnings about a run. `interface` is the one through which the frames leave, if it is
/// known.
pub(super) fn warnings(
    seen: &WorkerResult,
    launch: Option<&Launch>,
    interface: Option<&str>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(error) = &seen.failure {
        warnings.push(format!(
            "the kernel reported errors for {}, the first: {error}",
            counted(seen.failures, "frame", "frames")
        ));
    }
    let early = seen.replies.counts().early;
    if early > 0 {
        warnings.push(format!(
            "{} came before the frame was sent, so another program or machine made them. They are \
             not counted, but the same sender may also have answered frames after they were sent: \
             the figures are trustworthy only without it",
            counted(early, "reply", "replies")
        ));
    }
    let in_time = seen.measured;
    let stamped = seen.parts.send.recorded();
    if stamped < in_time {
        warnings.push(format!(
            "the parts of {} round trips are unknown: the kernel took no software time stamps (ethtool \
             -T shows which ones a device supports)",
            in_time - stamped
        ));
    }
    if let Some(launch) = launch {
        warnings.extend(launch_warnings(seen, launch));
    }
    if let Some(interface) = interface
        && seen.measured > 0
    {
        let abilities = TimestampAbilities::read(interface).unwrap_or_default();
        warnings.extend(stamps_are_off(interface, abilities, seen.card_stamps));
    }
    warnings
}

fn launch_warnings(seen: &WorkerResult, launch: &Launch) -> Vec<String> {
    let mut warnings = Vec::new();
    let departures = &seen.departures;
    if seen.passed_on_the_way > 0 {
        warnings.push(format!(
            "{} reached the queue after the launch time, and {} dropped them: choose a --launch-time \
             longer than {}",
            counted(seen.passed_on_the_way, "frame", "frames"),
            launch.discipline,
            launch.lead
        ));
    }
    if seen.missed_in_queue > 0 {
        warnings.push(format!(
            "{} reached the queue in time, but {} took them out of it too late and dropped them: \
             increase the delta of etf",
            counted(seen.missed_in_queue, "frame", "frames"),
            launch.discipline
        ));
    }
    let unknown = seen
        .launched
        .saturating_sub(departures.stamped_by_driver() + departures.clock_was_set);
    if unknown > 0 {
        warnings.push(format!(
            "the departure of {} is unknown: the driver took no software time stamps of them (ethtool \
             -T shows which ones a device supports)",
            counted(unknown, "frame", "frames")
        ));
    }
    if departures.clock_was_set > 0 {
        warnings.push(format!(
            "CLOCK_REALTIME was set during the run: {} cannot be compared with the launch time",
            counted(departures.clock_was_set, "time stamp", "time stamps")
        ));
    }
    if departures.card_unknown > 0 {
        warnings.push(format!(
            "{} of the card cannot be compared with the launch time, because the relation of its \
             clock to the system clock is unknown",
            counted(departures.card_unknown, "time stamp", "time stamps")
        ));
    }
    warnings
}

/// Returns the command that enables the time stamps of a card, if the card supports them but took
/// none.
fn stamps_are_off(
    interface: &str,
    abilities: TimestampAbilities,
    took: CardStamps,
) -> Option<String> {
    let which = match (
        abilities.sent && !took.sent,
        abilities.received && !took.received,
    ) {
        (true, true) => "sent and received frames",
        (true, false) => "sent frames",
        (false, true) => "received frames",
        (false, false) => return None,
    };
    let (sent, received) = (u8::from(abilities.sent), u8::from(abilities.received));
    Some(format!(
        "{interface} can take hardware time stamps of {which}, but took none. To enable them: \
         hwstamp_ctl -i {interface} -t {sent} -r {received}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_abilities_are_shown_with_the_command() {
        let abilities = |sent, received| TimestampAbilities {
            sent,
            received,
            clock: Some(0),
        };
        let took = |sent, received| CardStamps { sent, received };
        for (abilities, took, expected) in [
            (abilities(false, false), took(false, false), None),
            (abilities(true, true), took(true, true), None),
            (abilities(true, false), took(true, false), None),
            (
                abilities(true, true),
                took(false, false),
                Some(
                    "sent and received frames, but took none. To enable them: hwstamp_ctl -i eth0 -t 1 -r 1",
                ),
            ),
            (
                abilities(true, true),
                took(true, false),
                Some(
                    "received frames, but took none. To enable them: hwstamp_ctl -i eth0 -t 1 -r 1",
                ),
            ),
            (
                abilities(true, false),
                took(false, false),
                Some("sent frames, but took none. To enable them: hwstamp_ctl -i eth0 -t 1 -r 0"),
            ),
        ] {
            let expected =
                expected.map(|text| format!("eth0 can take hardware time stamps of {text}"));
            assert_eq!(stamps_are_off("eth0", abilities, took), expected);
        }
    }
}
