//! `network`: the time until another machine answers a cyclic frame, or a reflector returns it.

mod frame;
mod frame_socket;
mod interface;
mod replies;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Nanos, Parameter, Table, Typed, counted, parameters,
};

use crate::address::resolve;
use crate::entry::Probe;
use crate::monotonic::now;
use crate::policy::measuring_thread;
use crate::{Measured, Plan, ProbeEntry, ProbeError, Ready, Resources, WorkerSpec};
use frame::{LEAST_PAYLOAD, MOST_PAYLOAD};
use frame_socket::{FrameSocket, Received, Target};
use interface::Interface;
use worker::{Parts, Seen, Worker};

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "network",
    summary: "how long another machine takes to answer a cyclic frame",
    unit: "ns",
    documentation: include_str!("network.md").trim_ascii_end(),
    privileges: "CAP_NET_RAW, or a group in net.ipv4.ping_group_range; CAP_SYS_NICE or \
                 RLIMIT_RTPRIO for a real-time policy",
    replaces: "chrt 90 ping -i .001",
    chart: Chart::Latency,
    explained: Ok(Delay::Call),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Network::new(arguments).prepare(plan, resources),
};

parameters! {
    TO: Option<String> = Typed::text(
        "to",
        "Machine to measure: a name or an IP address. With --interface: Ethernet address of the \
         frames [default: that of the interface]",
    );
    INTERFACE: Option<String> = Typed::text(
        "interface",
        "Send Ethernet frames through this interface, to a device that returns them",
    );
    INTERVAL: Nanos = Typed::duration(
        Parameter::INTERVAL,
        "Time from one frame to the next",
        Nanos::from_micros(100)..=Nanos::from_secs(10),
    ).short('i').or("1ms");
    SIZE: u64 = Typed::count(
        "size",
        "Bytes of payload in a frame",
        LEAST_PAYLOAD as u64..=MOST_PAYLOAD as u64,
    ).or("64");
}

/// The longest time for the reply to the first frame, which may need ARP or neighbour discovery.
const FIRST_REPLY: Nanos = Nanos::from_secs(2);

#[derive(Debug)]
struct Network {
    to: Option<String>,
    interface: Option<String>,
    interval: Nanos,
    payload: usize,
}

impl Network {
    fn new(arguments: &Arguments) -> Self {
        Self {
            to: TO.value_in(arguments),
            interface: INTERFACE.value_in(arguments),
            interval: INTERVAL.value_in(arguments),
            payload: SIZE.value_in(arguments) as usize,
        }
    }

    /// Returns the destination of the frames, and the option that sets it, for messages.
    fn target(&self) -> Result<(Target, String), ProbeError> {
        let unfit = |option: &str, why: String| ProbeError::Unfit(format!("{option}: {why}"));
        let to = self.to.as_deref().map(|to| (to, format!("--to {to}")));
        if let Some(name) = &self.interface {
            let option = format!("--interface {name}");
            let interface = Interface::named(name).map_err(|why| unfit(&option, why))?;
            let address = match to {
                None => interface.address,
                Some((to, option)) => interface::address(to).ok_or_else(|| {
                    let why = "it is not an Ethernet address such as 02:00:5e:00:53:01";
                    unfit(&option, why.to_owned())
                })?,
            };
            return Ok((Target::Segment(interface, address), option));
        }
        let Some((to, option)) = to else {
            return Err(ProbeError::Unfit(
                "the machine to measure is missing: pass --to HOST, or --interface NAME".to_owned(),
            ));
        };
        let address = resolve((to, 0_u16))
            .map_err(|error| unfit(&option, format!("the name does not resolve: {error}")))?
            .ok_or_else(|| unfit(&option, "the name has no address".to_owned()))?;
        Ok((Target::Machine(address), option))
    }

    /// Opens a socket to the machine, and waits for the reply to a first frame.
    fn open(&self) -> Result<FrameSocket, ProbeError> {
        let (target, option) = self.target()?;
        let failed = |why: String| ProbeError::Unfit(format!("{option}: {why}"));
        let mut socket = FrameSocket::open(target, self.payload, token())
            .map_err(|error| failed(frame_socket::reason(&error, target)))?;
        let asked = now();
        socket
            .send(0)
            .map_err(|error| failed(format!("the first frame was not sent: {error}")))?;
        loop {
            match socket.receive() {
                Received::Reply { .. } => return Ok(socket),
                Received::Failed(error) => {
                    return Err(failed(format!("no reply to the first frame: {error}")));
                }
                Received::Foreign => {}
                Received::Nothing => {
                    let left = (asked + FIRST_REPLY).saturating_sub(now());
                    if left == Nanos::ZERO {
                        let reason = match target {
                            Target::Machine(address) => format!(
                                "the machine is not there, or a firewall drops ICMP echo (try: \
                                 ping {})",
                                address.ip()
                            ),
                            Target::Segment(..) => "nothing returns the frames: connect a switch \
                                                    port in loopback mode, or another reflector"
                                .to_owned(),
                        };
                        return Err(failed(format!(
                            "no reply to the first frame within {FIRST_REPLY}: {reason}"
                        )));
                    }
                    let waited = socket.wait(left);
                    waited.map_err(|error| failed(error.to_string()))?;
                }
            }
        }
    }
}

impl Probe for Network {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let Some(cpu) = plan.cpus.iter().next() else {
            return Err(ProbeError::NoCpu { probe: ENTRY.name });
        };
        if let Some(duration) = plan.duration
            && self.interval > duration
        {
            return Err(ProbeError::IntervalTooLong {
                interval: self.interval,
                duration,
            });
        }
        let socket = self.open()?;
        let specification = WorkerSpec {
            label: None,
            cpu: Some(cpu),
            from_cpu: None,
            scheduling: plan.scheduling,
            rate_hz: 1_000_000_000 / self.interval.0,
        };
        let (interval, duration) = (self.interval, plan.duration);
        let (scheduling, warm_up) = (plan.scheduling, plan.warm_up_of(plan.duration));
        Ok(plan.ready([specification], move |recorders, control| {
            let Ok([recorder]) = <[_; 1]>::try_from(recorders) else {
                return Err(ProbeError::NoCpu { probe: ENTRY.name });
            };
            let worker = Worker {
                socket,
                recorder,
                interval,
                duration,
                warm_up,
                control: Arc::clone(control),
            };
            let name = format!("network/{cpu}");
            let thread = measuring_thread(&name, &[cpu], scheduling);
            let (outcome, seen) = thread.spawn(move || worker.run())?.join()??;
            Ok(Measured {
                tables: vec![frames(&seen), parts(&seen.parts)],
                workers: vec![outcome],
                warnings: warnings(&seen),
            })
        }))
    }
}

/// Returns a number that no other run uses.
fn token() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn frames(seen: &Seen) -> Table {
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
        ("never answered", counts.unanswered()),
        ("not sent: the thread was too late", seen.skipped),
        ("not sent: the kernel refused", seen.refused),
    ] {
        table.push([Cell::from(what), count.into()]);
    }
    table
}

fn parts(parts: &Parts) -> Table {
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
            "send call to device",
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

fn warnings(seen: &Seen) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(error) = &seen.failure {
        warnings.push(format!(
            "the kernel reported errors for {}, the first: {error}",
            counted(seen.failures, "frame", "frames")
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
    warnings
}
