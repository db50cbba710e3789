//! `socket`: the time until a message of small writes is answered.

mod channel;
mod message;
mod rounds;
pub mod server;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use punctual_model::{
    Arguments, Cell, Chart, Delay, Histogram, Nanos, Scheduling, Table, Typed, parameters,
};

use crate::entry::Probe;
use crate::policy::measuring_thread;
use crate::{
    AddressError, Control, LaneOutcome, LaneSpec, Measured, Plan, ProbeEntry, ProbeError, Ready,
    Recorder, Resources,
};
use channel::{Target, WAYS, Way};
use rounds::Worker;
use server::Server;

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "socket",
    summary: "how long a message of small writes takes to be answered",
    unit: "ns",
    documentation: "\
One thread on the first of the chosen CPUs sends a message of 30 bytes, waits for \
the 30 bytes of the reply, and begins the next. Over TCP the message is 15 pieces of \
2 bytes, as a program writes that hands over field after field:

- `default`: 15 writes. The kernel sends the first at once and holds the others back \
until the first is acknowledged (Nagle's algorithm), and the receiver holds the \
acknowledgement back as it has nothing to send yet (delayed ACK, 40 ms and more). \
Where both meet, this is about a hundred times slower than the others or worse. A \
receiver that is in its quick-ACK mode, as Linux is for the first segments of a \
connection, answers sooner.
- `nodelay`: 15 writes with TCP_NODELAY, each a segment of its own.
- `cork`: 15 writes between setting and clearing TCP_CORK, which make one segment.
- `writev`: one writev of the 15 pieces.
- `more`: 15 sends, all but the last with MSG_MORE, which make one segment.
- `udp` and `unix`, for comparison: one datagram, and one write to a stream socket.

The latency of a sample goes from before the first write until the whole reply is \
read: all system calls of the sender, the network, the wake-up and two system calls \
of the server (a read, or 15 where the pieces come apart, and a write), and the \
wake-up of this thread. It is a round trip. The server sets TCP_NODELAY, \
so that its reply never waits.

By default the server is two or more threads of this process with the normal \
policy, reached over the loopback (the Unix socket is a socketpair), on the second \
of the chosen CPUs if there is one, else on the same. `--connect HOST:PORT` measures \
to another machine, where `punctual measure socket --serve` runs.

The ways take the run's time in equal parts, one after the other, each on a \
connection of its own and each with its own warm-up at the start of its part; \
without --duration, in turns of 10 s. A message that has no reply within 1 s is \
missed, and its connection is made anew. After 20 ms of messages the thread sleeps \
for a tenth of the time they took, so that it never takes a CPU for itself at a \
real-time priority. Messages a second, in the table, are those without that \
pause: their number by the sum of their latencies.

Sources: tcp(7), socket(7), send(2), RFC 896 (Nagle), RFC 1122 section 4.2.3.2 \
(delayed ACK), Linux net/ipv4/tcp_input.c (quick ACKs).",
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
        "Measure to the echo server at this HOST:PORT (of a name, its IPv4 address), instead of one of its own",
    );
}

/// The length of a mechanism's turn in a run without end.
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
    scheduling: Scheduling,
    ways: Vec<Way>,
    other: Option<(SocketAddr, String)>,
    duration: Option<Nanos>,
    turn: Nanos,
    warm_up: Nanos,
}

impl Socket {
    fn new(arguments: &Arguments) -> Self {
        Self {
            via: VIA.of(arguments),
            connect: CONNECT.of(arguments),
        }
    }

    fn ways(&self) -> Result<Vec<Way>, ProbeError> {
        if self.via == Way::Unix.word() && self.connect.is_some() {
            return Err(ProbeError::Unfit(
                "a Unix socket does not reach another machine: leave --connect, or choose \
                 another --via"
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
        let found = name
            .to_socket_addrs()
            .map_err(|error| wrong(error.into()))?;
        let found: Vec<SocketAddr> = found.collect();
        // IPv4 first: `localhost` is often ::1 as well, and the server does not listen there by
        // default.
        let ipv4 = found.iter().find(|address| address.is_ipv4());
        match ipv4.or(found.first()).copied() {
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
        let mut cpus = plan.cpus.iter();
        let Some(cpu) = cpus.next() else {
            return Err(ProbeError::NoCpu { probe: ENTRY.name });
        };
        let ways = self.ways()?;
        let other = self.other()?;
        if let Some((address, name)) = &other {
            // Fails now if it cannot be reached; later failures are warnings.
            ways[0].open(&Target::Other(*address, name.clone()), &Control::new())?;
        }
        let turn = (plan.duration).map_or(ENDLESS_TURN, |all| Nanos(all.0 / ways.len() as u64));
        let warm_up = plan.warm_up_of(Some(turn));
        if warm_up >= turn {
            return unfit(format!(
                "a warm-up of {warm_up} leaves nothing of the {turn} that each of {} ways has: \
                 choose one with --via, a shorter --warm-up or a longer --duration",
                ways.len()
            ));
        }
        let lane = |way: &Way| LaneSpec {
            label: Some(way.word().to_owned()),
            cpu: Some(cpu),
            from_cpu: None,
            scheduling: plan.scheduling,
            // A round trip takes at least some 10 us; the ring has room for more.
            rate_hz: 20_000,
        };
        let lanes: Vec<_> = ways.iter().map(lane).collect();
        let run = Run {
            cpu,
            server_cpu: cpus.next().unwrap_or(cpu),
            scheduling: plan.scheduling,
            ways,
            other,
            duration: plan.duration,
            turn,
            warm_up,
        };
        Ok(Ready {
            warm_up,
            ..plan.ready(lanes, move |recorders, control| {
                run.measure(recorders, control)
            })
        })
    }
}

impl Run {
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
            duration: self.duration,
            warm_up: self.warm_up,
            control: Arc::clone(control),
        };
        let (lanes, warnings) = measuring_thread(
            &format!("socket/{}", self.cpu),
            &[self.cpu],
            self.scheduling,
        )
        .spawn(move || worker.run())?
        .join()??;
        Ok(Measured {
            tables: vec![throughput(&self.ways, &lanes)],
            lanes,
            warnings,
        })
    }
}

/// Messages per second, by mechanism.
fn throughput(ways: &[Way], lanes: &[LaneOutcome]) -> Table {
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
    let usual = (ways.iter().zip(lanes))
        .find(|(way, _)| **way == Way::Default)
        .and_then(|(_, lane)| rate(&lane.histogram));
    for (way, lane) in ways.iter().zip(lanes) {
        let histogram = &lane.histogram;
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

/// Returns messages per second of the time they took; `None` if there were none.
fn rate(histogram: &Histogram) -> Option<f64> {
    let taken = histogram.sum();
    (taken > Nanos::ZERO).then(|| histogram.recorded() as f64 / taken.as_secs_f64())
}
