//! `socket`: the time until a message that consists of small writes is answered.

mod channel;
mod message;
mod rounds;
pub mod server;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use punctual_model::{Arguments, Cell, Chart, Delay, Histogram, Nanos, Table, Typed, parameters};

use crate::address::resolve;
use crate::entry::Measure;
use crate::entry::Probe;
use crate::run::Terms;
use crate::{
    AddressError, Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Recorder, Resources,
    WorkerOutcome,
};
use channel::{Target, WAYS, Way};
use rounds::Worker;
use server::Server;

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "socket",
    summary: "how long a message of small writes takes to be answered",
    unit: "ns",
    documentation: include_str!("socket.md").trim_ascii_end(),
    privileges: "none; CAP_SYS_NICE or RLIMIT_RTPRIO for a real-time policy",
    replaces: "the TCP latency examples of real-time guides; for one write in one direction \
               and back, netperf TCP_RR and sockperf ping-pong",
    chart: Chart::Bars,
    explained: Ok(Delay::Call),
    parameters: PARAMETERS,
    prepare: |arguments, plan, resources| Socket::new(arguments).prepare(plan, resources),
};

parameters! {
    VIA: &'static str = Typed::choice(
        "via",
        "How the message goes",
        WAYS,
    ).or("all");
    CONNECT: Option<String> = Typed::text(
        "connect",
        "Echo server to measure, HOST:PORT (a name resolves to IPv4) [default: a server in this process]",
    );
}

/// The length of a mechanism's turn in a run without a planned end.
const ENDLESS_TURN: Nanos = Nanos::from_secs(10);

#[derive(Debug)]
struct Socket {
    via: &'static str,
    connect: Option<String>,
}

/// A probe that is ready to start.
struct Run {
    cpu: u32,
    /// The CPU of the server, if it is in this process.
    server_cpu: u32,
    terms: Terms,
    ways: Vec<Way>,
    other: Option<(SocketAddr, String)>,
    turn: Nanos,
}

impl Socket {
    fn new(arguments: &Arguments) -> Self {
        Self {
            via: VIA.value_in(arguments),
            connect: CONNECT.value_in(arguments),
        }
    }

    fn ways(&self) -> Result<Vec<Way>, ProbeError> {
        if self.via == Way::Unix.word() && self.connect.is_some() {
            return Err(ProbeError::Unfit(
                "a Unix socket cannot reach another machine: omit --connect, or choose another \
                 --via"
                    .to_owned(),
            ));
        }
        let mut ways = Way::ALL.to_vec();
        ways.retain(|way| match self.via {
            "all" => *way != Way::Unix || self.connect.is_none(),
            word => way.word() == word,
        });
        Ok(ways)
    }

    /// Returns the address of `--connect`.
    fn other(&self) -> Result<Option<(SocketAddr, String)>, ProbeError> {
        let Some(name) = &self.connect else {
            return Ok(None);
        };
        let wrong = |why| ProbeError::Connect {
            name: name.clone(),
            why,
        };
        match resolve(name.as_str()).map_err(|error| wrong(error.into()))? {
            Some(address) if address.port() != 0 => Ok(Some((address, name.clone()))),
            Some(_) => Err(wrong(AddressError::PortZero)),
            None => Err(wrong(AddressError::NoAddress)),
        }
    }
}

impl Probe for Socket {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        let unfit = |reason: String| Err(ProbeError::Unfit(reason));
        plan.refuse_deadline(ENTRY.name)?;
        let cpu = plan.first_cpu(ENTRY.name)?;
        let ways = self.ways()?;
        let other = self.other()?;
        if let Some((address, name)) = &other {
            // If the server cannot be reached, fail now. Later failures only lead to warnings.
            ways[0].open(&Target::Other(*address, name.clone()), &Control::new())?;
        }
        let turn = (plan.duration).map_or(ENDLESS_TURN, |all| Nanos(all.0 / ways.len() as u64));
        let warm_up = plan.warm_up_of(Some(turn));
        if warm_up >= turn {
            return unfit(format!(
                "a warm-up of {warm_up} leaves no time to measure, because each of the {} \
                 mechanisms runs for {turn}: choose one with --via, a shorter --warm-up or a \
                 longer --duration",
                ways.len()
            ));
        }
        // A round trip takes at least some 10 us. The ring has room for more samples than this rate
        // suggests.
        let worker = |way: &Way| plan.worker(Some(way.word().to_owned()), cpu, 20_000);
        let workers: Vec<_> = ways.iter().map(worker).collect();
        let run = Run {
            cpu,
            server_cpu: plan.cpus.iter().nth(1).unwrap_or(cpu),
            terms: Terms {
                warm_up,
                ..Terms::from_plan(plan)
            },
            ways,
            other,
            turn,
        };
        Ok(Ready {
            warm_up,
            ..plan.ready(workers, run)
        })
    }
}

impl Measure for Run {
    fn measure(
        self,
        recorders: Vec<Recorder>,
        control: &Arc<Control>,
    ) -> Result<Measured, ProbeError> {
        let target = match self.other {
            Some((address, name)) => Target::Other(address, name),
            None => {
                let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                Target::Own(Server::listen(loopback, &[self.server_cpu])?)
            }
        };
        let worker = Worker {
            ways: self.ways.iter().copied().zip(recorders).collect(),
            target,
            turn: self.turn,
            duration: self.terms.duration,
            warm_up: self.terms.warm_up,
            control: Arc::clone(control),
        };
        let thread = self.terms.thread("socket", self.cpu);
        let (workers, warnings) = thread.spawn(move || worker.run())?.join()??;
        Ok(Measured {
            tables: vec![throughput(&self.ways, &workers)],
            workers,
            warnings,
        })
    }
}

/// Messages per second, by mechanism.
fn throughput(ways: &[Way], workers: &[WorkerOutcome]) -> Table {
    let mut table = Table::new(
        "throughput",
        "Messages answered, after the warm-up",
        &[
            ("way", "way"),
            ("messages", "messages"),
            ("messages_per_s", "messages/s"),
            ("median_ns", "median"),
            ("times_default", "times default"),
        ],
    );
    let usual = (ways.iter().zip(workers))
        .find(|(way, _)| **way == Way::Default)
        .and_then(|(_, worker)| rate(&worker.histogram));
    for (way, worker) in ways.iter().zip(workers) {
        let histogram = &worker.histogram;
        let rate = rate(histogram);
        let times = rate.zip(usual).map(|(rate, usual)| rate / usual);
        table.push([
            Cell::from(way.word()),
            histogram.recorded().into(),
            rate.into(),
            histogram.quantile(0.5).into(),
            times.into(),
        ]);
    }
    table
}

/// Returns the number of messages per second of the time that they took; `None` if there were none.
fn rate(histogram: &Histogram) -> Option<f64> {
    let taken = histogram.sum();
    (taken > Nanos::ZERO).then(|| histogram.recorded() as f64 / taken.as_secs_f64())
}
