//! Checks of the network: queues, delayed packets, time stamps. The routing of packets to CPUs
//! belongs to the topic of interrupts.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{Severity, path_of};

use super::Topic;
use super::cards::{self, PACKETS, for_packets};
use crate::fact_reader::{FactReader, Judged, Missing, Verdict};
use crate::remedy::consider;
use crate::{BASE, Check, Remedy, Stance};
use punctual_model::SPINNING;

pub(super) const TOPIC: Topic = Topic {
    name: "network",
    title: "Network",
    checks: CHECKS,
};

/// Files that exist only for network cards. Cards have a device; loopback, bridges and tunnels do
/// not.
const CARD: &str = "/sys/class/net/*/device/uevent";
const QUEUE: &str = path_of("rps-cpus");
const FLUSH: &str = path_of("gro-flush-ns");

const CHECKS: &[Check] = &[
    Check {
        name: "queues",
        subject: "receive queues",
        severity: Severity::Info,
        expected: "at most as many as there are CPUs that are not measured",
        reads: &[CARD, QUEUE],
        judge: queues,
        why: "The card's driver creates a queue with an interrupt for each CPU. If there are more \
              queues than other CPUs, some queues interrupt measured CPUs.",
        source: "Documentation/networking/scaling.rst, RSS: Receive Side Scaling; ethtool(8), --set-channels",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "the interrupt of a queue stops a spinning thread. OpenShift's tuning and tuned \
                   set as many queues as there are other CPUs",
        }],
        remedies: &[Remedy::Decide(
            "ethtool -L DEVICE combined N: the link may go down for a moment",
        )],
        ..BASE
    },
    Check {
        name: "held-back",
        subject: "gro_flush_timeout",
        severity: Severity::Info,
        expected: "gro_flush_timeout 0",
        reads: &[CARD, FLUSH],
        judge: held_back,
        why: "Packets wait in the kernel until more packets arrive, and are then delivered \
              together.",
        source: "Documentation/networking/napi.rst, Software IRQ coalescing",
        stances: &[Stance {
            roles: PACKETS,
            severity: Severity::Medium,
            note: "the timeout delays each packet",
        }],
        remedies: &[consider(
            "gro-flush-ns",
            "packets are then delivered one by one",
        )],
        ..BASE
    },
    cards::RECEIVE,
    cards::TRANSMIT,
    cards::EEE,
    Check {
        name: "time-stamps",
        subject: "packet time stamps",
        severity: Severity::Info,
        expected: "no program that switches time stamps on and off, or a program that keeps them \
                   on",
        judge: time_stamps,
        why: "When the first socket requests time stamps and when the last such socket closes, the \
              kernel patches its code, which interrupts every CPU, even isolated CPUs.",
        source: "net/core/dev.c, net_enable_timestamp; Red Hat, 7.6 release notes, rt-entsk; rtentsk(1)",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "RHEL for Real Time and tuned's realtime tools keep such a socket open with rtentsk",
        }],
        remedies: &[Remedy::Decide(
            "run rtentsk, or any program that keeps a socket with SO_TIMESTAMP open",
        )],
        ..BASE
    },
];

/// Returns the device of a path below /sys/class/net.
fn device_of(file: &str) -> &str {
    file.split('/').nth(4).unwrap_or_default()
}

/// Returns the names of the network cards.
fn cards<'a>(reader: &FactReader<'a>) -> Result<BTreeSet<&'a str>, Missing> {
    let files = reader.files(CARD).map_err(|missing| match missing {
        Missing::NotApplicable(_) => Missing::not_applicable("there is no network card"),
        other => other,
    })?;
    Ok(files.iter().map(|(file, _)| device_of(file)).collect())
}

fn queues(reader: &FactReader) -> Judged {
    let others = reader.elsewhere()?.len();
    let cards = cards(reader)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, _) in reader.files(QUEUE)? {
        if cards.contains(device_of(file)) {
            *counts.entry(device_of(file)).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return Err(Missing::unknown("no network card shows its queues"));
    }
    for (card, count) in counts.iter().take(4) {
        reader.saw(
            format!("/sys/class/net/{card}/queues"),
            &format!("{count} receive queues"),
        );
    }
    let most = counts.values().max().copied().unwrap_or(0);
    let over: Vec<&str> = counts
        .iter()
        .filter(|(_, count)| **count > others)
        .map(|(card, _)| *card)
        .collect();
    Ok(if over.is_empty() {
        Verdict::Ok(format!("at most {most} queues for {others} other CPUs"))
    } else {
        Verdict::Warn(format!(
            "{} has {most} queues for {others} other CPUs",
            over.join(", ")
        ))
    })
}

fn held_back(reader: &FactReader) -> Judged {
    for_packets(reader)?;
    let cards = cards(reader)?;
    let mut held = Vec::new();
    for (file, text) in reader.files(FLUSH)? {
        let card = device_of(file);
        if !cards.contains(card) {
            continue;
        }
        reader.saw(file, text);
        let nanos: u64 = text
            .parse()
            .map_err(|_| Missing::unknown(format!("{file} is not a number")))?;
        if nanos > 0 {
            held.push(format!("{card} up to {nanos} ns"));
        }
    }
    Ok(if held.is_empty() {
        Verdict::Ok("none".to_owned())
    } else {
        Verdict::Warn(held.join(", "))
    })
}

fn time_stamps(reader: &FactReader) -> Judged {
    // chronyd opens a socket for each request to a server.
    if reader.running(&["chronyd"])?.is_empty() {
        return Ok(Verdict::Ok(
            "are constant: no program is running that is known to switch them".to_owned(),
        ));
    }
    let kept = !reader.running(&["rtentsk", "ptp4l"])?.is_empty();
    Ok(Verdict::mild(
        kept,
        if kept {
            "are kept on by a program other than chronyd"
        } else {
            "are switched on and off by chronyd with each request to a server"
        },
    ))
}
