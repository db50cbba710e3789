//! Launch times: the queueing discipline of the interface holds each frame until its launch time
//! (SO_TXTIME, tc-etf(8), tc-fq(8)).

use nix::net::if_::if_indextoname;
use punctual_host::{Qdisc, outgoing_interface};
use punctual_model::{Nanos, counted};
use punctual_rt::Clock;

use super::clocks::{RealOffset, tai_ahead};
use super::flights::LaunchTime;
use super::frame_socket::Target;

/// How the frames of a run get their launch times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    /// Time from the scheduled send call to the launch.
    pub(super) lead: Nanos,
    /// The clock of the launch times.
    pub(super) clock: Clock,
    /// How long before the launch time frames may leave: the delta of etf, unless the card holds them
    /// until their launch time.
    early: Nanos,
    /// How far this clock is ahead of CLOCK_REALTIME, if it is CLOCK_TAI.
    tai_ahead: Nanos,
    /// The interface through which the frames leave.
    pub(super) interface: String,
    /// The queueing discipline that holds the frames, as tc(8) shows it.
    pub(super) discipline: String,
}

impl Launch {
    /// The largest number of frames that wait for their launch. A flow of `fq` has room for 100
    /// frames, and the buffer of a socket for about 200.
    pub(super) const MOST_WAITING: u64 = 64;

    /// Finds the queueing discipline that serves the frames.
    ///
    /// # Errors
    /// Returns the reason if none holds frames until a launch time, with the command that installs
    /// one.
    pub(super) fn new(
        (lead, interval): (Nanos, Nanos),
        target: Target,
        priority: u8,
    ) -> Result<Self, String> {
        let waiting = lead.0.div_ceil(interval.0);
        if waiting > Self::MOST_WAITING {
            return Err(format!(
                "{} would wait for their launch at an interval of {interval}, but the queue holds \
                 {}: choose at most {}",
                counted(waiting, "frame", "frames"),
                Self::MOST_WAITING,
                Nanos(interval.0.saturating_mul(Self::MOST_WAITING))
            ));
        }
        let index = index_to(target)?;
        let interface = name_of(index)?;
        let all = Qdisc::of_interface(index).map_err(|error| {
            format!("the queueing disciplines of {interface} cannot be read: {error}")
        })?;
        let (clock, discipline) = served_by(&interface, &all, priority)?;
        let serving = Qdisc::serving(&all, priority);
        let held_by_etf = serving
            .iter()
            .filter_map(|one| one.etf.filter(|etf| !etf.offload));
        Ok(Self {
            lead,
            clock,
            early: held_by_etf.map(|etf| etf.delta).max().unwrap_or_default(),
            tai_ahead: tai_ahead(),
            interface,
            discipline,
        })
    }

    /// Returns the time from the scheduled send call until the frame may leave.
    pub(super) const fn hold(&self) -> Nanos {
        self.lead.saturating_sub(self.early)
    }

    /// Returns the launch time of a frame whose send call is due at `due`.
    pub(super) fn time(&self, due: Nanos, offset: RealOffset) -> LaunchTime {
        let monotonic = due + self.lead;
        LaunchTime {
            monotonic,
            disciplined: match self.clock {
                Clock::Tai => offset.real(monotonic) + self.tai_ahead,
                _ => monotonic,
            },
            offset,
        }
    }
}

/// Returns the name of the interface through which the frames leave.
///
/// # Errors
/// Returns the reason why it is unknown.
pub(super) fn interface_to(target: Target) -> Result<String, String> {
    name_of(index_to(target)?)
}

fn index_to(target: Target) -> Result<u32, String> {
    match target {
        Target::Segment(interface, _) => Ok(interface.index),
        Target::Machine(to) => outgoing_interface(to)
            .map_err(|error| format!("the interface to {} is unknown: {error}", to.ip())),
    }
}

fn name_of(index: u32) -> Result<String, String> {
    let name = if_indextoname(index)
        .map_err(|error| format!("the name of interface {index} is unknown: {error}"))?;
    Ok(name.to_string_lossy().into_owned())
}

/// Returns the clock and the name of the queueing discipline that serves frames of this priority.
fn served_by(interface: &str, all: &[Qdisc], priority: u8) -> Result<(Clock, String), String> {
    let serving = Qdisc::serving(all, priority);
    let Some(first) = serving.first() else {
        return Err(format!(
            "{interface} has no queueing discipline: {}",
            remedy(interface, None)
        ));
    };
    let mut names: Vec<String> = serving.iter().map(|one| one.to_string()).collect();
    names.sort();
    names.dedup();
    let names = names.join(", ");
    let place = match first.parent {
        Qdisc::ROOT => interface.to_owned(),
        _ => format!("{interface} for frames of priority {priority}"),
    };
    if serving.iter().any(|one| one.kind != first.kind) {
        return Err(format!(
            "the queues of {place} have different queueing disciplines ({names}), and a frame can take \
             any of these queues: {}",
            remedy(interface, Some(first))
        ));
    }
    let clock = match first.kind.as_str() {
        "fq" => Clock::Monotonic,
        "etf" => {
            let mut all = serving.iter().map(|one| one.etf);
            let usable = all.all(|etf| {
                etf.is_some_and(|etf| etf.clock == libc::CLOCK_TAI && !etf.deadline_mode)
            });
            if !usable {
                return Err(format!(
                    "the queueing discipline of {place} is {names}, which needs CLOCK_TAI and no deadline \
                     mode to hold frames until their launch time: {}",
                    remedy(interface, Some(first))
                ));
            }
            Clock::Tai
        }
        _ => {
            return Err(format!(
                "the queueing discipline of {place} is {names}, which does not hold frames until their \
                 launch time: {}",
                remedy(interface, Some(first))
            ));
        }
    };
    Ok((clock, names))
}

/// Returns the commands that install a suitable queueing discipline.
fn remedy(interface: &str, found: Option<&Qdisc>) -> String {
    let place = found.map_or_else(|| "root".to_owned(), Qdisc::place);
    format!(
        "install one that does: tc qdisc replace dev {interface} {place} fq, or: tc qdisc replace dev {interface} {place} \
         etf clockid CLOCK_TAI delta 200000"
    )
}

#[cfg(test)]
mod tests {
    use punctual_host::Etf;

    use super::*;

    fn qdisc(kind: &str, handle: u32, parent: u32) -> Qdisc {
        let etf = Etf {
            delta: Nanos::from_micros(200),
            clock: libc::CLOCK_TAI,
            deadline_mode: false,
            offload: false,
        };
        Qdisc::new(kind, handle, parent, (kind == "etf").then_some(etf))
    }

    #[test]
    fn disciplines_determine_the_clock() {
        let served = |all: &[Qdisc]| served_by("eth0", all, 0);
        let fq = (Clock::Monotonic, "fq".to_owned());
        assert_eq!(
            served(&[qdisc("fq", 0x1_0000, Qdisc::ROOT)]),
            Ok(fq.clone())
        );
        let etf = (Clock::Tai, "etf delta 200 µs".to_owned());
        assert_eq!(served(&[qdisc("etf", 0x1_0000, Qdisc::ROOT)]), Ok(etf));
        let queues = [
            qdisc("mq", 0x1_0000, Qdisc::ROOT),
            qdisc("fq", 0, 0x1_0001),
            qdisc("fq", 0, 0x1_0002),
        ];
        assert_eq!(served(&queues), Ok(fq));
    }

    #[test]
    fn other_disciplines_are_named_with_a_remedy() {
        let refused = |all: &[Qdisc]| served_by("eth0", all, 0).unwrap_err();
        let error = refused(&[]);
        assert!(error.contains("eth0 has no queueing discipline"), "{error}");
        let error = refused(&[qdisc("pfifo_fast", 0, Qdisc::ROOT)]);
        assert!(error.contains("is pfifo_fast, which does not"), "{error}");
        assert!(
            error.contains("tc qdisc replace dev eth0 root fq"),
            "{error}"
        );
        let error = refused(&[
            qdisc("mq", 0x64_0000, Qdisc::ROOT),
            qdisc("etf", 0x1_0000, 0x64_0001),
            qdisc("fq_codel", 0, 0x64_0002),
        ]);
        assert!(error.contains("(etf delta 200 µs, fq_codel)"), "{error}");
        assert!(
            error.contains("dev eth0 parent 64:1 etf clockid"),
            "{error}"
        );
        let mut deadline = qdisc("etf", 0x1_0000, Qdisc::ROOT);
        deadline.etf = deadline.etf.map(|etf| Etf {
            deadline_mode: true,
            ..etf
        });
        let error = refused(&[deadline]);
        assert!(error.contains("deadline_mode, which needs"), "{error}");
        let mut other = qdisc("etf", 0x1_0000, Qdisc::ROOT);
        other.etf = None;
        assert!(refused(&[other]).contains("is etf, which needs"));
    }

    /// Returns launch times half a microsecond after the send call.
    fn launch(clock: Clock) -> Launch {
        Launch {
            lead: Nanos(500),
            clock,
            early: Nanos(200),
            tai_ahead: Nanos::from_secs(37),
            interface: "eth0".to_owned(),
            discipline: String::new(),
        }
    }

    #[test]
    fn launch_time_is_on_the_clock_of_the_discipline() {
        let offset = RealOffset::measure();
        let due = Nanos(1_000);
        let of_fq = launch(Clock::Monotonic).time(due, offset);
        assert_eq!(
            (of_fq.monotonic, of_fq.disciplined),
            (Nanos(1_500), Nanos(1_500))
        );
        let of_etf = launch(Clock::Tai).time(due, offset);
        let tai = offset.real(Nanos(1_500)) + Nanos::from_secs(37);
        assert_eq!((of_etf.monotonic, of_etf.disciplined), (Nanos(1_500), tai));
        assert_eq!(launch(Clock::Tai).hold(), Nanos(300));
    }
}
