//! The network: queues, packets that are held back, time stamps. Where packets
//! go is among the interrupts.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::Severity;

use super::Topic;
use crate::look::{Judged, Look, Missing, Verdict};
use crate::role::SPINNING;
use crate::{BASE, Check, Role, Stance};

pub(super) const TOPIC: Topic = Topic {
    name: "network",
    title: "Network",
    checks: CHECKS,
};

/// Cards have a device; loopback, bridges and tunnels have none.
const CARD: &str = "/sys/class/net/*/device/uevent";
const QUEUE: &str = "/sys/class/net/*/queues/rx-#/rps_cpus";
const FLUSH: &str = "/sys/class/net/*/gro_flush_timeout";

/// Who waits for packets.
const PACKETS: &[Role] = &[Role::Network, Role::Trading, Role::Telco];

const CHECKS: &[Check] = &[
    Check {
        name: "queues",
        title: "Network cards have no more queues than other CPUs",
        severity: Severity::Info,
        expected: "as many as CPUs that are not measured, or fewer",
        reads: &[CARD, QUEUE],
        judge: queues,
        why: "A card's driver makes a queue, and an interrupt, for each CPU; those beyond the other CPUs come to measured ones.",
        source: "Documentation/networking/scaling.rst, RSS: Receive Side Scaling; ethtool(8), --set-channels",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "a queue's interrupt stops a thread that spins; OpenShift's and tuned's tuning set as many queues as there are other CPUs",
        }],
        now: &["# ethtool -L DEVICE combined N: the link may go down for a moment"],
        ..BASE
    },
    Check {
        name: "held-back",
        title: "The kernel holds no packets back",
        severity: Severity::Info,
        expected: "gro_flush_timeout 0; the card's own delay is told by ethtool -c",
        reads: &[CARD, FLUSH],
        judge: held_back,
        why: "Packets wait in the card or in the kernel for more to come, so that one interrupt serves them all.",
        source: "Documentation/networking/napi.rst, Software IRQ coalescing; ethtool(8), --coalesce",
        stances: &[Stance {
            roles: PACKETS,
            severity: Severity::Medium,
            note: "each packet is late by it. No file tells what the card itself does: see ethtool -c",
        }],
        now: &[
            "# echo 0 > /sys/class/net/DEVICE/gro_flush_timeout",
            "# ethtool -C DEVICE adaptive-rx off rx-usecs 0, where the card does it itself",
        ],
        ..BASE
    },
    Check {
        name: "time-stamps",
        title: "Time stamps of packets are not switched on and off",
        severity: Severity::Info,
        expected: "no program that does it, or one that keeps them on",
        judge: time_stamps,
        why: "The first socket that wants them and the last one to close change the kernel's code, which interrupts every CPU, isolated ones too.",
        source: "net/core/dev.c, net_enable_timestamp; Red Hat, 7.6 release notes, rt-entsk; rtentsk(1)",
        stances: &[Stance {
            roles: SPINNING,
            severity: Severity::Medium,
            note: "RHEL for Real Time and tuned's realtime tools keep such a socket open with rtentsk",
        }],
        now: &["# run rtentsk, or any program that keeps a socket with SO_TIMESTAMP open"],
        ..BASE
    },
];

/// The device of a path below /sys/class/net.
fn device_of(file: &str) -> &str {
    file.split('/').nth(4).unwrap_or_default()
}

/// The names of the network cards.
fn cards<'a>(look: &Look<'a>) -> Result<BTreeSet<&'a str>, Missing> {
    let files = look.files(CARD).map_err(|missing| match missing {
        Missing::NotApplicable(_) => Missing::not_applicable("there is no network card"),
        other => other,
    })?;
    Ok(files.iter().map(|(file, _)| device_of(file)).collect())
}

fn queues(look: &Look) -> Judged {
    let others = look.elsewhere()?.len();
    let cards = cards(look)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, _) in look.files(QUEUE)? {
        if cards.contains(device_of(file)) {
            *counts.entry(device_of(file)).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return Err(Missing::unknown("no card shows its queues"));
    }
    for (card, count) in counts.iter().take(4) {
        look.saw(
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
    Ok(match over.is_empty() {
        true => Verdict::Ok(format!("at most {most}, with {others} other CPUs")),
        false => Verdict::Warn(format!(
            "{} has {most}, with {others} other CPUs",
            over.join(", ")
        )),
    })
}

fn held_back(look: &Look) -> Judged {
    if !PACKETS.contains(&look.role) {
        return Err(Missing::not_applicable(format!(
            "no matter for the role {}",
            look.role
        )));
    }
    let cards = cards(look)?;
    let mut held = Vec::new();
    for (file, text) in look.files(FLUSH)? {
        let card = device_of(file);
        if !cards.contains(card) {
            continue;
        }
        look.saw(file, text);
        let nanos: u64 = text
            .parse()
            .map_err(|_| Missing::unknown(format!("{file} is no number")))?;
        if nanos > 0 {
            held.push(format!("{card} up to {nanos} ns"));
        }
    }
    Ok(match held.is_empty() {
        true => Verdict::Ok("none; ethtool -c tells what the card itself does".to_owned()),
        false => Verdict::Warn(held.join(", ")),
    })
}

fn time_stamps(look: &Look) -> Judged {
    // chronyd opens a socket for each question it asks of a server.
    if look.running(&["chronyd"])?.is_empty() {
        return Ok(Verdict::Ok(
            "no program that is known for it runs".to_owned(),
        ));
    }
    let kept = !look.running(&["rtentsk", "ptp4l"])?.is_empty();
    Ok(Verdict::mild(
        kept,
        match kept {
            true => "chronyd does, and another program keeps them on",
            false => "chronyd does, with each question to a server",
        },
    ))
}
