//! Queueing disciplines of network interfaces, as shown by `tc qdisc`, and the interface of a route
//! (rtnetlink(7)). No file contains them.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use punctual_model::Nanos;

use crate::netlink::{Attributes, append_attribute};
use crate::rtnetlink::{LIST, ask};

/// `RTM_NEWROUTE` from `include/uapi/linux/rtnetlink.h`.
const NEW_ROUTE: u16 = 24;
/// `RTM_GETROUTE`.
const GET_ROUTE: u16 = 26;
/// `RTM_NEWQDISC`.
const NEW_QDISC: u16 = 36;
/// `RTM_GETQDISC`.
const GET_QDISC: u16 = 38;
/// `RTA_DST`.
const DESTINATION: u16 = 1;
/// `RTA_OIF`.
const OUTPUT: u16 = 4;
/// Length of `struct rtmsg`.
const ROUTE_BODY: usize = 12;

/// `TCA_KIND`.
const KIND: u16 = 1;
/// `TCA_OPTIONS`.
const OPTIONS: u16 = 2;
/// Length of `struct tcmsg`.
const QDISC_BODY: usize = 20;
/// `TC_H_MAJ_MASK`.
const MAJOR: u32 = 0xffff_0000;
/// `TCA_ETF_PARMS` from `include/uapi/linux/pkt_sched.h`.
const ETF_PARAMETERS: u16 = 1;
/// `TCA_TAPRIO_ATTR_PRIOMAP`.
const TAPRIO_MAP: u16 = 1;
/// Number of priorities and of traffic classes in `struct tc_mqprio_qopt`.
const CLASSES: usize = 16;

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind, such as `fq_codel`.
    pub kind: String,
    /// Its number; 0 for a default one.
    pub handle: u32,
    /// The class that it belongs to.
    pub parent: u32,
    /// Its parameters, if it is `etf`.
    pub etf: Option<Etf>,
    /// Traffic classes, if it is `mqprio` or `taprio`.
    classes: Option<Classes>,
}

/// Parameters of `etf`, see tc-etf(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etf {
    /// Time before the launch time at which the frame is handed to the driver.
    pub delta: Nanos,
    /// The clock of the launch times (clock_gettime(2)).
    pub clock: i32,
    /// Whether frames may leave before their launch time, which is then only a deadline.
    pub deadline_mode: bool,
    /// Whether the card holds the frame until its launch time.
    pub offload: bool,
}

/// The traffic class of each priority, and the queues of each traffic class
/// (`struct tc_mqprio_qopt`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Classes {
    of_priority: [u8; CLASSES],
    counts: [u16; CLASSES],
    offsets: [u16; CLASSES],
}

impl Qdisc {
    /// The parent of the root: `TC_H_ROOT`.
    pub const ROOT: u32 = u32::MAX;

    /// Returns its place in the syntax of tc(8): `root` or `parent 64:1`.
    pub fn place(&self) -> String {
        let (major, minor) = (self.parent >> 16, self.parent & !MAJOR);
        match (self.parent, major) {
            (Self::ROOT, _) | (_, 0) => "root".to_owned(),
            _ => format!("parent {major:x}:{minor:x}"),
        }
    }

    /// Describes a queueing discipline without traffic classes.
    pub fn new(kind: &str, handle: u32, parent: u32, etf: Option<Etf>) -> Self {
        Self {
            kind: kind.to_owned(),
            handle,
            parent,
            etf,
            classes: None,
        }
    }

    /// Reads the queueing disciplines of an interface.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn of_interface(index: u32) -> io::Result<Vec<Self>> {
        let answers = ask(GET_QDISC, LIST, &qdisc_body(index), NEW_QDISC)?;
        let all = answers.iter().filter_map(|answer| Self::read(answer));
        Ok(all
            .filter(|(of, _)| *of == index)
            .map(|(_, qdisc)| qdisc)
            .collect())
    }

    /// Returns those that can serve a frame of this priority (`SO_PRIORITY`): the root, or the
    /// queues of a card that the root distributes the frames to.
    pub fn serving(all: &[Self], priority: u8) -> Vec<&Self> {
        let Some(root) = all.iter().find(|one| one.parent == Qdisc::ROOT) else {
            return Vec::new();
        };
        let is_child = |one: &&Self| one.parent & MAJOR == root.handle & MAJOR;
        let queue = |one: &&Self| one.parent & !MAJOR;
        match (root.kind.as_str(), &root.classes) {
            ("mq", _) => all.iter().filter(is_child).collect(),
            ("mqprio" | "taprio", Some(classes)) => {
                let queues = classes.queues(priority);
                let serves = |one: &&Self| is_child(one) && queues.contains(&queue(one));
                all.iter().filter(serves).collect()
            }
            _ => vec![root],
        }
    }

    /// Parses the content of an answer. Returns it with the index of its interface.
    fn read(answer: &[u8]) -> Option<(u32, Self)> {
        let number = |at: usize| {
            let four = answer.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(four))
        };
        let (index, handle, parent) = (number(4)?, number(8)?, number(12)?);
        let attribute = |wanted| {
            let mut all = Attributes(answer.get(QDISC_BODY..)?);
            all.find(|(number, _)| *number == wanted)
                .map(|(_, content)| content)
        };
        let kind = attribute(KIND)?.split(|byte| *byte == 0).next()?;
        let kind = String::from_utf8_lossy(kind);
        let options = attribute(OPTIONS).unwrap_or_default();
        let nested = |wanted| {
            let found = Attributes(options).find(|(number, _)| *number == wanted);
            found.map(|(_, content)| content)
        };
        let etf = (kind == "etf").then(|| Etf::read(nested(ETF_PARAMETERS)?));
        let classes = match kind.as_ref() {
            "mqprio" => Classes::read(options),
            "taprio" => nested(TAPRIO_MAP).and_then(Classes::read),
            _ => None,
        };
        let qdisc = Self {
            classes,
            ..Self::new(&kind, handle, parent, etf.flatten())
        };
        Some((index, qdisc))
    }
}

/// As in the output of `tc qdisc`.
impl fmt::Display for Qdisc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        let Some(etf) = &self.etf else {
            return Ok(());
        };
        write!(f, " delta {}", etf.delta)?;
        if etf.offload {
            f.write_str(" offload")?;
        }
        if etf.deadline_mode {
            f.write_str(" deadline_mode")?;
        }
        Ok(())
    }
}

impl Etf {
    /// Parses a `struct tc_etf_qopt`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| {
            let four = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(i32::from_ne_bytes(four))
        };
        let flags = number(8)?;
        Some(Self {
            delta: Nanos(u64::try_from(number(0)?).ok()?),
            clock: number(4)?,
            deadline_mode: flags & 1 != 0,
            offload: flags & 2 != 0,
        })
    }
}

impl Classes {
    /// Parses a `struct tc_mqprio_qopt`.
    fn read(bytes: &[u8]) -> Option<Self> {
        let of_priority = bytes.get(1..1 + CLASSES)?.try_into().ok()?;
        let table = |start: usize| {
            let mut table = [0; CLASSES];
            for (entry, two) in table
                .iter_mut()
                .zip(bytes.get(start..start + 2 * CLASSES)?.chunks_exact(2))
            {
                *entry = u16::from_ne_bytes(two.try_into().ok()?);
            }
            Some(table)
        };
        let tables = 2 + CLASSES;
        Some(Self {
            of_priority,
            counts: table(tables)?,
            offsets: table(tables + 2 * CLASSES)?,
        })
    }

    /// Returns the queues for frames of this priority. The first queue is 1, as in the numbers of
    /// the classes.
    fn queues(&self, priority: u8) -> std::ops::Range<u32> {
        let class = self.of_priority[usize::from(priority) % CLASSES];
        let class = usize::from(class) % CLASSES;
        let first = u32::from(self.offsets[class]) + 1;
        first..first + u32::from(self.counts[class])
    }
}

/// Returns the index of the interface through which packets to this address leave.
///
/// # Errors
/// Returns the kernel's error, such as an unreachable network.
pub fn outgoing_interface(to: SocketAddr) -> io::Result<u32> {
    let mut body = vec![0; ROUTE_BODY];
    let address = match to {
        SocketAddr::V4(to) => {
            body[0] = 2; // AF_INET
            to.ip().octets().to_vec()
        }
        SocketAddr::V6(to) if to.scope_id() != 0 => return Ok(to.scope_id()),
        SocketAddr::V6(to) => {
            body[0] = 10; // AF_INET6
            to.ip().octets().to_vec()
        }
    };
    body[1] = (8 * address.len()) as u8;
    append_attribute(&mut body, DESTINATION, &address);
    let answers = ask(GET_ROUTE, 0, &body, NEW_ROUTE)?;
    let route = answers.first().and_then(|answer| answer.get(ROUTE_BODY..));
    let output = Attributes(route.unwrap_or_default())
        .find(|(number, _)| *number == OUTPUT)
        .and_then(|(_, index)| index.try_into().ok());
    output.map(u32::from_ne_bytes).ok_or_else(|| {
        let why = format!("the route to {} has no interface", to.ip());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Returns a `struct tcmsg` for the queueing disciplines of an interface.
fn qdisc_body(index: u32) -> [u8; QDISC_BODY] {
    let mut body = [0; QDISC_BODY];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::{put_nest, text};

    /// Returns an answer of the kernel.
    fn answer(kind: &str, (handle, parent): (u32, u32), options: &[u8]) -> Vec<u8> {
        let mut bytes = qdisc_body(7).to_vec();
        bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
        bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
        append_attribute(&mut bytes, KIND, &text(kind));
        append_attribute(&mut bytes, OPTIONS, options);
        bytes
    }

    fn qdisc(kind: &str, place: (u32, u32), options: &[u8]) -> Qdisc {
        let (index, qdisc) = Qdisc::read(&answer(kind, place, options)).unwrap();
        assert_eq!(index, 7);
        qdisc
    }

    fn etf_options(delta: i32, flags: u32) -> Vec<u8> {
        let mut parameters = delta.to_ne_bytes().to_vec();
        parameters.extend(11_i32.to_ne_bytes());
        parameters.extend(flags.to_ne_bytes());
        let mut options = Vec::new();
        append_attribute(&mut options, ETF_PARAMETERS, &parameters);
        options
    }

    /// Priority 3 is traffic class 1, which has the queues 2 and 3; the others are class 0.
    fn map() -> Vec<u8> {
        let mut map = vec![2];
        map.extend((0..16).map(|priority| u8::from(priority == 3)));
        map.push(1);
        let table = |first: [u16; 2]| {
            let mut table = [0; CLASSES];
            table[..2].copy_from_slice(&first);
            table.map(u16::to_ne_bytes).concat()
        };
        map.extend(table([1, 2]));
        map.extend(table([0, 1]));
        map
    }

    #[test]
    fn etf_is_read_with_its_parameters() {
        let etf = qdisc("etf", (0x1_0000, Qdisc::ROOT), &etf_options(200_000, 2));
        let known = Etf {
            delta: Nanos::from_micros(200),
            clock: 11,
            deadline_mode: false,
            offload: true,
        };
        assert_eq!(etf.etf, Some(known));
        assert_eq!(etf.to_string(), "etf delta 200 µs offload");
        assert_eq!(Qdisc::serving(std::slice::from_ref(&etf), 0), [&etf]);
        let damaged = qdisc("etf", (0x1_0000, Qdisc::ROOT), &etf_options(-1, 2));
        assert_eq!(damaged.etf, None);
    }

    #[test]
    fn each_queue_of_a_card_serves() {
        // The default discipline of a card has the number 0.
        for handle in [0, 0x8001_0000] {
            let all = [
                qdisc("clsact", (0xffff_0000, 0xffff_fff1), &[]),
                qdisc("mq", (handle, Qdisc::ROOT), &[]),
                qdisc("fq", (0, handle | 1), &[]),
                qdisc("pfifo_fast", (0, handle | 2), &[]),
            ];
            assert_eq!(Qdisc::serving(&all, 0), [&all[2], &all[3]]);
        }
        assert!(Qdisc::serving(&[], 0).is_empty());
    }

    #[test]
    fn priority_selects_the_queues() {
        let mut nested = Vec::new();
        put_nest(&mut nested, TAPRIO_MAP, &map());
        for (kind, options) in [("mqprio", map()), ("taprio", nested)] {
            let root = 0x64_0000;
            let all = [
                qdisc(kind, (root, Qdisc::ROOT), &options),
                qdisc("fq_codel", (0, root | 1), &[]),
                qdisc("etf", (0x1_0000, root | 2), &etf_options(0, 0)),
                qdisc("fq", (0, root | 3), &[]),
            ];
            assert_eq!(Qdisc::serving(&all, 0), [&all[1]], "{kind}");
            assert_eq!(Qdisc::serving(&all, 3), [&all[2], &all[3]], "{kind}");
        }
    }

    #[test]
    fn loopback_has_route_and_discipline() {
        for to in ["127.0.0.1:0", "[::1]:0"] {
            let index = match outgoing_interface(to.parse().unwrap()) {
                Ok(index) => index,
                // There is no IPv6, or no network at all.
                Err(error) if error.raw_os_error().is_some() => {
                    punctual_testing::skip_refused("a route", &error);
                    return;
                }
                Err(error) => panic!("{error}"),
            };
            let all = Qdisc::of_interface(index).unwrap();
            assert_eq!(Qdisc::serving(&all, 0).len(), 1, "{all:?}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            kind in "etf|mqprio|taprio|mq",
            priority: u8,
        ) {
            let _ = Qdisc::read(&bytes);
            let (_, root) = Qdisc::read(&answer(&kind, (0, Qdisc::ROOT), &bytes)).unwrap();
            let _ = Qdisc::serving(&[root.clone(), root], priority);
        }
    }
}
