//! Checks of the network: queues, delayed packets, time stamps. The routing of packets to CPUs
//! belongs to the topic of interrupts.

use std::collections::{BTreeMap, BTreeSet};

use punctual_model::{Reading, Severity, path_matches, path_of};

use super::Topic;
use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::remedy::consider;
use crate::{BASE, Check, Remedy, Role, Stance};
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
/// Pattern that stands not for a file but for the answer of each card, such as `adaptive-rx off,
/// rx-usecs 3, rx-frames 32`.
const COALESCING: &str = "ethtool -c *";

/// Roles that wait for packets.
const PACKETS: &[Role] = &[Role::Network, Role::Trading, Role::Telco];

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
    Check {
        name: "coalescing",
        subject: "receive coalescing",
        severity: Severity::Info,
        expected: "adaptive-rx off, and rx-usecs 0 or rx-frames 1",
        reads: &[COALESCING],
        judge: coalescing,
        why: "After a packet, the card waits for more packets, so that one interrupt serves all of \
              them. With adaptive coalescing, the driver chooses the delay.",
        source: "Documentation/networking/ethtool-netlink.rst, COALESCE_GET; ethtool(8), --coalesce",
        stances: &[Stance {
            roles: PACKETS,
            severity: Severity::Medium,
            note: "coalescing delays each packet. Without it, a card that receives very many \
                   packets a second drops some",
        }],
        remedies: &[consider(
            "rx-coalescing-us",
            "a card that receives very many packets drops some",
        )],
        ..BASE
    },
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

/// Returns *not applicable* if packets do not matter for this role.
fn for_packets(reader: &FactReader) -> Result<(), Missing> {
    if PACKETS.contains(&reader.role) {
        Ok(())
    } else {
        Err(Missing::not_applicable(format!(
            "not relevant for the role {}",
            reader.role
        )))
    }
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

fn coalescing(reader: &FactReader) -> Judged {
    for_packets(reader)?;
    let (mut at_once, mut held, mut silent) = (0_usize, Vec::new(), Vec::new());
    let mut refused = None;
    for (source, reading) in answers(reader)? {
        let card = source.rsplit(' ').next().unwrap_or(source);
        match reading {
            Reading::Text(text) => {
                reader.saw(source, text);
                match delay(text)? {
                    None => at_once += 1,
                    Some(delay) => held.push(format!("{card} {delay}")),
                }
            }
            Reading::Absent => silent.push(card),
            Reading::Unreadable(why) => {
                reader.could_not(source, why);
                refused = Some(format!("{source}: {why}"));
            }
        }
    }
    let silent = match silent.as_slice() {
        [] => String::new(),
        cards => format!("unknown to the driver of {}", cards.join(", ")),
    };
    match (held.is_empty(), refused, at_once) {
        (false, ..) => Ok(Verdict::Warn(held.join("; "))),
        (true, Some(why), _) => Err(Missing::Unknown(why)),
        (true, None, 0) => Err(Missing::not_applicable(silent)),
        (true, None, _) if silent.is_empty() => Ok(Verdict::Ok("is off".to_owned())),
        (true, None, _) => Ok(Verdict::Ok(format!("is off; {silent}"))),
    }
}

/// Returns each card with its answer.
fn answers<'a>(reader: &FactReader<'a>) -> Result<Vec<(&'a str, &'a Reading)>, Missing> {
    let all = reader.facts.files.iter();
    let answers: Vec<(&str, &Reading)> = all
        .filter(|(name, _)| *name != COALESCING && path_matches(COALESCING, name))
        .map(|(name, reading)| (name.as_str(), reading))
        .collect();
    if answers.is_empty() {
        // If nothing matched, the reason is in the entry for the pattern itself.
        Err(match reader.text(COALESCING) {
            Err(Missing::NotApplicable(_)) => Missing::not_applicable("there is no network card"),
            Err(missing) => missing,
            Ok(_) => Missing::unknown("the facts do not name the network card"),
        })
    } else {
        Ok(answers)
    }
}

/// Describes how long a card delays packets. Returns `None` if each packet raises an interrupt
/// immediately. Parameters that the driver does not report are left out.
fn delay(text: &str) -> Result<Option<String>, Missing> {
    let wrong = || {
        Missing::unknown(format!(
            "a network card gave the unexpected answer '{}'",
            line(text)
        ))
    };
    let mut adaptive = false;
    let (mut micros, mut frames) = (None, None);
    for part in text.split(", ") {
        let number = |value: &str| value.parse::<u32>().map_err(|_| wrong());
        match part.split_once(' ').ok_or_else(wrong)? {
            ("adaptive-rx", word) => adaptive = word != "off",
            ("rx-usecs", value) => micros = Some(number(value)?),
            ("rx-frames", value) => frames = Some(number(value)?),
            _ => return Err(wrong()),
        }
    }
    Ok(match (adaptive, micros, frames) {
        (true, ..) => Some("adaptive (adaptive-rx)".to_owned()),
        (false, None, None) => {
            return Err(Missing::unknown(
                "a network card reports neither rx-usecs nor rx-frames",
            ));
        }
        (_, _, Some(1)) | (_, None | Some(0), None | Some(0)) => None,
        (_, None | Some(0), Some(frames)) => {
            Some(format!("for {frames} packets, without a time limit"))
        }
        (_, Some(micros), _) => Some(format!("up to {micros} us")),
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
