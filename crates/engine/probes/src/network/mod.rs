//! `network`: the time until another machine answers a cyclic frame.

mod echo_socket;
mod frame;
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
use echo_socket::{EchoSocket, Received};
use frame::{LEAST_PAYLOAD, MOST_PAYLOAD};
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
        "Machine to measure: a name or an IP address",
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
    interval: Nanos,
    payload: usize,
}

impl Network {
    fn new(arguments: &Arguments) -> Self {
        Self {
            to: TO.value_in(arguments),
            interval: INTERVAL.value_in(arguments),
            payload: SIZE.value_in(arguments) as usize,
        }
    }

    /// Opens a socket to the machine, and waits for the reply to a first frame.
    fn open(&self) -> Result<EchoSocket, ProbeError> {
        let unfit = |text: String| ProbeError::Unfit(text);
        let to = self
            .to
            .as_deref()
            .ok_or_else(|| unfit("the machine to measure is missing: pass --to HOST".to_owned()))?;
        let failed = |why: String| unfit(format!("--to {to}: {why}"));
        let address = resolve((to, 0_u16))
            .map_err(|error| failed(format!("the name does not resolve: {error}")))?
            .ok_or_else(|| failed("the name has no address".to_owned()))?;
        let mut socket = EchoSocket::open(address, self.payload, token())
            .map_err(|error| failed(echo_socket::reason(&error)))?;
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
                        return Err(failed(format!(
                            "no reply to the first frame within {FIRST_REPLY}: the machine is not \
                             there, or a firewall drops ICMP echo (try: ping {to})"
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
        "Parts of the round trip, by the kernel's software time stamps, after the warm-up",
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
    for (name, histogram, in_longest) in [
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
    ] {
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
