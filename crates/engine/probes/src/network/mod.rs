//! `network`: the time until another machine answers a cyclic frame, or a reflector returns it.

mod card_clock;
mod clocks;
mod departures;
mod flights;
mod frame;
mod frame_socket;
mod interface;
mod launch;
mod replies;
mod tables;
#[cfg(test)]
mod tests;
mod worker;

use std::sync::Arc;

use punctual_model::{Arguments, Chart, Delay, Nanos, Parameter, Typed, parameters};
use punctual_rt::{Clock, JoinHandle};

use crate::address::resolve;
use crate::entry::Probe;
use crate::monotonic::now;
use crate::policy::measuring_thread;
use crate::{Control, Measured, Plan, ProbeEntry, ProbeError, Ready, Resources};
use card_clock::{CardClock, Comparer};
use clocks::{Pair, RealOffset, real_time};
use departures::Departures;
use flights::{DropReason, Flight};
use frame::{LEAST_PAYLOAD, MOST_PAYLOAD};
use frame_socket::{FrameSocket, Received, SendSettings, Target};
use interface::Interface;
use launch::Launch;
use worker::Worker;

/// The entry of this probe.
pub(crate) const ENTRY: ProbeEntry = ProbeEntry {
    name: "network",
    summary: "how long another machine takes to answer a cyclic frame",
    unit: "ns",
    documentation: include_str!("network.md").trim_ascii_end(),
    privileges: "CAP_NET_RAW, or a group in net.ipv4.ping_group_range; CAP_SYS_NICE or \
                 RLIMIT_RTPRIO for a real-time policy; CAP_NET_ADMIN for launch times with etf, and \
                 for frame priorities above 6",
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
    LAUNCH_TIME: Option<Nanos> = Typed::duration(
        "launch-time",
        "Hold each frame until this long after its scheduled send call (SO_TXTIME)",
        Nanos::ZERO..=Nanos::from_secs(1),
    );
    FRAME_PRIORITY: Option<u64> = Typed::count(
        "frame-priority",
        "Priority of the frames, which selects the queue of the card (SO_PRIORITY) [default: 0]",
        0..=15,
    );
}

/// The longest time for the reply to the first frame, which may need ARP or neighbour discovery.
const FIRST_REPLY: Nanos = Nanos::from_secs(2);

/// The time from the send call of the first frame to its launch.
const FIRST_LEAD: Nanos = Nanos::from_millis(200);

/// Number of attempts to send a first frame that the queueing discipline drops.
const FIRST_TRIES: u32 = 5;

#[derive(Debug)]
struct Network {
    to: Option<String>,
    interface: Option<String>,
    interval: Nanos,
    payload: usize,
    launch_time: Option<Nanos>,
    priority: Option<u8>,
}

/// What [`Network::open`] has found.
struct Opened {
    socket: FrameSocket,
    launch: Option<Launch>,
    /// The name of the interface through which the frames leave, if it is known.
    interface: Option<String>,
}

impl Network {
    fn new(arguments: &Arguments) -> Self {
        Self {
            to: TO.value_in(arguments),
            interface: INTERFACE.value_in(arguments),
            interval: INTERVAL.value_in(arguments),
            payload: SIZE.value_in(arguments) as usize,
            launch_time: LAUNCH_TIME.value_in(arguments),
            priority: FRAME_PRIORITY.value_in(arguments).map(|value| value as u8),
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
    fn open(&self) -> Result<Opened, ProbeError> {
        let (target, option) = self.target()?;
        let failed = |why: String| ProbeError::Unfit(format!("{option}: {why}"));
        let launch = self
            .launch_time
            .map(|lead| {
                Launch::new((lead, self.interval), target, self.priority.unwrap_or(0))
                    .map_err(|why| ProbeError::Unfit(format!("--launch-time {lead}: {why}")))
            })
            .transpose()?;
        let settings = SendSettings {
            clock: launch.as_ref().map(|launch| launch.clock),
            priority: self.priority,
        };
        let mut socket = FrameSocket::open(target, self.payload, token(), settings)
            .map_err(|error| failed(frame_socket::reason(&error, target)))?;
        await_reply(&mut socket, launch.as_ref(), target).map_err(failed)?;
        Ok(Opened {
            socket,
            launch,
            interface: launch::interface_to(target).ok(),
        })
    }
}

/// Sends a first frame and waits for its reply.
fn await_reply(
    socket: &mut FrameSocket,
    launch: Option<&Launch>,
    target: Target,
) -> Result<(), String> {
    let mut tries = 1;
    let send = |socket: &mut FrameSocket| {
        socket
            .send(first_flight(launch))
            .map_err(|error| format!("the first frame was not sent: {error}"))
    };
    let no_reply = |why: String| Err(format!("no reply to the first frame{why}"));
    let hold = launch.map_or(Nanos::ZERO, |launch| FIRST_LEAD + launch.lead);
    let deadline = || now() + hold + FIRST_REPLY;
    send(socket)?;
    let mut until = deadline();
    loop {
        if let Some(launch) = launch
            && let Some((_, why)) = socket.next_dropped()
        {
            if tries == FIRST_TRIES {
                let why = match why {
                    DropReason::OnTheWay => {
                        "their launch time had passed when they reached its queue"
                    }
                    DropReason::InQueue => {
                        "it took them out of its queue after their launch time: increase its delta"
                    }
                };
                let by = &launch.discipline;
                return no_reply(format!(": {by} dropped {tries} frames because {why}"));
            }
            tries += 1;
            send(socket)?;
            until = deadline();
        }
        match socket.receive() {
            Received::Reply { .. } => return Ok(()),
            Received::Failed(error) => return no_reply(format!(": {error}")),
            Received::Foreign => {}
            Received::Nothing => {
                let left = until.saturating_sub(now());
                if left == Nanos::ZERO {
                    let why = silence(target, launch);
                    return no_reply(format!(" within {FIRST_REPLY}: {why}"));
                }
                if let Err(error) = socket.wait(left) {
                    return no_reply(format!(": {error}"));
                }
            }
        }
    }
}

/// Returns a frame that checks the connection. Its launch time is certain to be ahead.
fn first_flight(launch: Option<&Launch>) -> Flight {
    let real = real_time();
    let monotonic = now();
    Flight {
        number: 0,
        sent: Pair { real, monotonic },
        launch: launch.map(|launch| launch.time(monotonic + FIRST_LEAD, RealOffset::measure())),
        is_measured: false,
    }
}

/// Returns the likely reason for a missing reply.
fn silence(target: Target, launch: Option<&Launch>) -> String {
    let mut reason = match target {
        Target::Machine(address) => format!(
            "the machine is not there, or a firewall drops ICMP echo (try: ping {})",
            address.ip()
        ),
        Target::Segment(..) => "nothing returns the frames: connect a switch port in loopback \
                                mode, or another reflector"
            .to_owned(),
    };
    if let (Target::Machine(_), Some(launch)) = (target, launch)
        && launch.clock == Clock::Tai
    {
        reason += &format!(
            ". etf drops frames without a launch time, such as those of ARP: serve them with \
             another queue (mqprio), or add a permanent neighbour: ip neighbour replace ADDRESS \
             lladdr MAC dev {} nud permanent",
            launch.interface
        );
    }
    reason
}

impl Probe for Network {
    fn prepare(self, plan: &Plan, _: &dyn Resources) -> Result<Ready, ProbeError> {
        plan.refuse_deadline(ENTRY.name)?;
        let cpu = plan.first_cpu(ENTRY.name)?;
        if let Some(duration) = plan.duration
            && self.interval > duration
        {
            return Err(ProbeError::IntervalTooLong {
                interval: self.interval,
                duration,
            });
        }
        let Opened {
            mut socket,
            launch,
            interface,
        } = self.open()?;
        let worker = plan.worker(None, cpu, 1_000_000_000 / self.interval.0);
        let (interval, duration) = (self.interval, plan.duration);
        let (scheduling, warm_up) = (plan.scheduling, plan.warm_up_of(plan.duration));
        Ok(
            plan.ready([worker], move |recorders, control: &Arc<Control>| {
                let Ok([recorder]) = <[_; 1]>::try_from(recorders) else {
                    return Err(ProbeError::NoCpu { probe: ENTRY.name });
                };
                let mut warnings = Vec::new();
                let comparer = launch.as_ref().and_then(|launch| {
                    let (comparer, card) = card_clock(launch, &mut warnings)?;
                    socket.departures = Departures::new(Some(card));
                    Some(comparer)
                });
                let worker = Worker {
                    socket,
                    recorder,
                    interval,
                    duration,
                    warm_up,
                    launch: launch.clone(),
                    control: Arc::clone(control),
                };
                let name = format!("network/{cpu}");
                let thread = measuring_thread(&name, &[cpu], scheduling);
                let thread = thread.spawn(move || worker.run())?;
                if let Some(comparer) = comparer {
                    compare(comparer, &thread, &mut warnings);
                }
                let (outcome, seen) = thread.join()??;
                let launch = launch.as_ref();
                warnings.extend(tables::warnings(&seen, launch, interface.as_deref()));
                Ok(Measured {
                    tables: tables::tables(&seen, launch),
                    workers: vec![outcome],
                    warnings,
                })
            }),
        )
    }
}

/// Returns a number that no other run uses.
fn token() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Opens the clock of the card.
fn card_clock(launch: &Launch, warnings: &mut Vec<String>) -> Option<(Comparer, CardClock)> {
    match card_clock::open(&launch.interface) {
        Ok(opened) => opened,
        Err(why) => {
            warnings.push(format!(
                "the card's time stamps cannot be compared with the launch times: {why}"
            ));
            None
        }
    }
}

/// Compares the clock of the card with the system clock until the thread ends.
fn compare<T>(comparer: Comparer, thread: &JoinHandle<T>, warnings: &mut Vec<String>) {
    if let Err(error) = comparer.attend(thread) {
        warnings.push(format!(
            "the card's clock could not be read to the end: {error}"
        ));
    }
}
