//! Checks of network cards that ask each card: coalescing and Energy-Efficient Ethernet.

use punctual_model::{Reading, Severity, path_matches};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::remedy::consider;
use crate::{BASE, Check, Role, Stance};

/// Patterns that stand not for a file but for the answer of each card, such as `adaptive-rx off,
/// rx-usecs 3, rx-frames 32`.
const COALESCING: &str = "ethtool -c *";
const SHOW_EEE: &str = "ethtool --show-eee *";

/// Roles that wait for packets.
pub(super) const PACKETS: &[Role] = &[Role::Network, Role::Trading, Role::Telco];

/// The parameters of one direction: whether the driver adapts the delay, its longest time in
/// microseconds, and the number of packets that end it.
type Names = [&'static str; 3];
const RX: Names = ["adaptive-rx", "rx-usecs", "rx-frames"];
const TX: Names = ["adaptive-tx", "tx-usecs", "tx-frames"];

pub(super) const RECEIVE: Check = Check {
    name: "coalescing",
    subject: "receive coalescing",
    severity: Severity::Info,
    expected: "adaptive-rx off, and rx-usecs 0 or rx-frames 1",
    reads: &[COALESCING],
    judge: |reader| {
        for_packets(reader)?;
        each_card(reader, COALESCING, |text| delay(text, RX))
    },
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
};

pub(super) const TRANSMIT: Check = Check {
    name: "transmit-coalescing",
    subject: "transmit coalescing",
    severity: Severity::Info,
    expected: "adaptive-tx off, and tx-usecs 0 or tx-frames 1",
    reads: &[COALESCING],
    judge: |reader| {
        for_packets(reader)?;
        each_card(reader, COALESCING, |text| delay(text, TX))
    },
    why: "After the card sent a packet, it waits before it reports this. Until then, the packet \
          occupies a send buffer, and its time stamp is missing. A driver whose queues share an \
          interrupt can report 0 here, and delay both directions by the receive coalescing.",
    source: "Documentation/networking/ethtool-netlink.rst, COALESCE_GET; ethtool(8), --coalesce",
    remedies: &[consider(
        "tx-coalescing-us",
        "each packet that is sent then causes an interrupt",
    )],
    ..BASE
};

pub(super) const EEE: Check = Check {
    name: "eee",
    subject: "Energy-Efficient Ethernet",
    severity: Severity::Info,
    expected: "off",
    reads: &[SHOW_EEE],
    judge: |reader| each_card(reader, SHOW_EEE, eee),
    why: "The link sleeps between packets. It needs 17 µs (1000BASE-T) or 30 µs (100BASE-TX) to \
          wake before it sends the next packet.",
    source: "IEEE 802.3, clause 78, Tw_sys_tx; Documentation/networking/ethtool-netlink.rst, EEE_GET",
    stances: &[Stance {
        roles: PACKETS,
        severity: Severity::Medium,
        note: "a link that sleeps delays the first packet after each pause",
    }],
    remedies: &[consider(
        "eee",
        "the card negotiates its link again, which interrupts the network for some seconds",
    )],
    ..BASE
};

/// Returns *not applicable* if packets do not matter for this role.
pub(super) fn for_packets(reader: &FactReader) -> Result<(), Missing> {
    if PACKETS.contains(&reader.role) {
        Ok(())
    } else {
        Err(Missing::not_applicable(format!(
            "not relevant for the role {}",
            reader.role
        )))
    }
}

/// The state of a card.
#[derive(Debug, PartialEq, Eq)]
enum Card {
    Good,
    Bad(String),
    /// The driver does not report the parameters.
    Silent,
}

/// Judges the answer of each card. `judge` returns the reason if an answer cannot be understood.
fn each_card(
    reader: &FactReader,
    pattern: &str,
    judge: impl Fn(&str) -> Result<Card, String>,
) -> Judged {
    let (mut good, mut bad, mut silent) = (0_usize, Vec::new(), Vec::new());
    let mut unknown = None;
    for (source, reading) in answers(reader, pattern)? {
        let card = source.rsplit(' ').next().unwrap_or(source);
        match reading {
            Reading::Text(text) => {
                reader.saw(source, text);
                match judge(text) {
                    Ok(Card::Good) => good += 1,
                    Ok(Card::Bad(state)) => bad.push(format!("{card} {state}")),
                    Ok(Card::Silent) => silent.push(card),
                    Err(why) => unknown = Some(why),
                }
            }
            Reading::Absent => silent.push(card),
            Reading::Unreadable(why) => {
                reader.could_not(source, why);
                unknown = Some(format!("{source}: {why}"));
            }
        }
    }
    let silent = match silent.as_slice() {
        [] => String::new(),
        cards => format!("unknown to the driver of {}", cards.join(", ")),
    };
    match (bad.is_empty(), unknown, good) {
        (false, ..) => Ok(Verdict::Warn(bad.join("; "))),
        (true, Some(why), _) => Err(Missing::Unknown(why)),
        (true, None, 0) => Err(Missing::not_applicable(silent)),
        (true, None, _) if silent.is_empty() => Ok(Verdict::Ok("is off".to_owned())),
        (true, None, _) => Ok(Verdict::Ok(format!("is off; {silent}"))),
    }
}

/// Returns each card with its answer.
fn answers<'a>(
    reader: &FactReader<'a>,
    pattern: &str,
) -> Result<Vec<(&'a str, &'a Reading)>, Missing> {
    let all = reader.facts.files.iter();
    let answers: Vec<(&str, &Reading)> = all
        .filter(|(name, _)| *name != pattern && path_matches(pattern, name))
        .map(|(name, reading)| (name.as_str(), reading))
        .collect();
    if answers.is_empty() {
        // If nothing matched, the reason is in the entry for the pattern itself.
        Err(match reader.text(pattern) {
            Err(Missing::NotApplicable(_)) => Missing::not_applicable("there is no network card"),
            Err(missing) => missing,
            Ok(_) => Missing::unknown("the facts do not name the network card"),
        })
    } else {
        Ok(answers)
    }
}

/// Returns the reason why an answer cannot be understood.
fn unexpected(text: &str) -> String {
    format!("a network card gave the unexpected answer '{}'", line(text))
}

/// Judges how long a card delays the interrupts of one direction. It is good if each packet raises
/// an interrupt immediately. Parameters that the driver does not report are left out.
fn delay(text: &str, names: Names) -> Result<Card, String> {
    let wrong = || unexpected(text);
    let [adaptive, micros, frames] = names;
    let mut adapts = None;
    let (mut time, mut count) = (None, None);
    for part in text.split(", ") {
        let number = |value: &str| value.parse::<u32>().map_err(|_| wrong());
        match part.split_once(' ').ok_or_else(wrong)? {
            (name, word) if name == adaptive => adapts = Some(word != "off"),
            (name, value) if name == micros => time = Some(number(value)?),
            (name, value) if name == frames => count = Some(number(value)?),
            (name, _) if RX.contains(&name) || TX.contains(&name) => {}
            _ => return Err(wrong()),
        }
    }
    Ok(match (adapts, time, count) {
        (None, None, None) => Card::Silent,
        (Some(true), ..) => Card::Bad(format!("adaptive ({adaptive})")),
        (_, None, None) => {
            return Err(format!(
                "a network card reports neither {micros} nor {frames}"
            ));
        }
        (_, _, Some(1)) | (_, None | Some(0), None | Some(0)) => Card::Good,
        (_, None | Some(0), Some(count)) => {
            Card::Bad(format!("for {count} packets, without a time limit"))
        }
        (_, Some(time), _) => Card::Bad(format!("up to {time} us")),
    })
}

/// Judges an answer such as `eee on, active off, tx-lpi on, tx-timer 17, advertise 0x28`.
fn eee(text: &str) -> Result<Card, String> {
    let mut on = None;
    let mut active = None;
    for part in text.split(", ") {
        match part.split_once(' ') {
            Some(("eee", word @ ("on" | "off"))) => on = Some(word == "on"),
            Some(("active", word @ ("on" | "off"))) => active = Some(word == "on"),
            Some(("tx-lpi" | "tx-timer" | "advertise", _)) => {}
            _ => return Err(unexpected(text)),
        }
    }
    match (on, active) {
        (None, _) => Err("a network card does not report whether it is on".to_owned()),
        (Some(false), _) => Ok(Card::Good),
        // The link may use it after it was negotiated again.
        (Some(true), Some(false)) => Ok(Card::Bad("on, but the link does not use it now".into())),
        (Some(true), _) => Ok(Card::Bad("on".to_owned())),
    }
}
