//! Handlers that run for a long time: a softirq that makes many deliveries, and an interrupt in
//! which many timers expire.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use punctual_model::{Nanos, ShareKind};
use punctual_rt::{Clock, Instant, Policy, TimerFd};

use crate::stage::{Span, Stage, Truth, fifo, now, settle, sleep_until, soon, thread, victim};

/// One datagram is sent to a group that many sockets have joined on the loopback interface. The
/// kernel delivers a copy to each socket in a single run of NET_RX, in the context of the sender.
#[test]
fn a_softirq_storm_from_the_loopback() {
    const SOCKETS: usize = 3_000;
    let Some(mut stage) = Stage::set(1) else {
        return;
    };
    let cpu = stage.cpus[0];
    let group = Ipv4Addr::new(239, 255, 77, 7);
    let join = || {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = socket.local_addr()?.port();
        socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)?;
        std::io::Result::Ok((socket, port))
    };
    if let Err(error) = join() {
        punctual_testing::skip_refused("a softirq storm: no multicast on the loopback", &error);
        return;
    }
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let count = most.map_or(SOCKETS, |most| SOCKETS.min(most as usize / 2));
    let Some((_members, port)) = members(group, count) else {
        punctual_testing::skip!(
            Right,
            "a softirq storm: {count} sockets cannot share a port"
        );
        return;
    };
    // Measure the latency of a wake-up without a storm.
    let mut quiet: Vec<Nanos> = (0..7)
        .map(|_| {
            let came = victim(fifo(50), &[cpu], soon(), || {}).join().unwrap();
            came.came - came.due
        })
        .collect();
    quiet.sort_unstable();
    let usual = quiet[quiet.len() / 2];
    stage.play("a softirq storm", |stage| {
        let due = soon();
        let victim = victim(fifo(50), &[cpu], due, || {});
        let sender = thread("sender", Policy::Other { nice: -20 }, &[cpu], move || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            sleep_until(due - Nanos::from_millis(3));
            let mut last = Span {
                from: now(),
                to: now(),
            };
            while now() < due {
                let from = now();
                // If there is no such socket or route, the scene has no result.
                let _ = socket.send_to(&[0; 1_000], (group, port));
                last = Span { from, to: now() };
            }
            last
        });
        let (came, last) = (victim.join().unwrap(), sender.join().unwrap());
        settle();
        // The victim's timer interrupts the last send, which continues until its softirq has ended.
        // After that, the victim runs before the sender returns.
        let truth = Truth {
            kind: ShareKind::Softirq,
            who: "NET_RX".to_owned(),
            took: last.within(came.due, came.came).saturating_sub(usual),
        };
        (stage.explain(&came, cpu), vec![truth])
    });
}

/// Returns sockets that have joined a group and share a port.
fn members(group: Ipv4Addr, count: usize) -> Option<(Vec<UdpSocket>, u16)> {
    use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
    let mut port = 0;
    let mut sockets = Vec::new();
    for _ in 0..count {
        let fd = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
        sockopt::set_socket_reuseaddr(&fd, true).ok()?;
        bind(&fd, &std::net::SocketAddrV4::new(group, port)).ok()?;
        let socket = UdpSocket::from(fd);
        socket
            .join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)
            .ok()?;
        port = socket.local_addr().ok()?.port();
        sockets.push(socket);
    }
    Some((sockets, port))
}

/// Many timers expire in one interrupt, just before the victim's timer.
#[test]
fn a_storm_of_timers_in_an_interrupt() {
    const TIMERS: usize = 700;
    let Some(mut stage) = Stage::set(1) else {
        return;
    };
    let cpu = stage.cpus[0];
    stage.play("a storm of timers", |stage| {
        let due = soon();
        let storm = due - Nanos::from_micros(5);
        // A timer expires on the CPU on which it was armed.
        let armed = thread("storm", fifo(40), &[cpu], move || {
            let at = Instant::from_nanos(storm.0);
            let timers: Result<Vec<TimerFd>, _> = (0..TIMERS)
                .map(|_| TimerFd::new(Clock::Monotonic, at, Duration::from_secs(3_600)))
                .collect();
            // Spin through the interrupt to measure how long it takes.
            sleep_until(storm - Nanos::from_millis(1));
            let mut longest = Span {
                from: now(),
                to: now(),
            };
            let mut before = now();
            while before < due + Nanos::from_millis(2) {
                let after = now();
                if after - before > longest.to - longest.from {
                    longest = Span {
                        from: before,
                        to: after,
                    };
                }
                before = after;
            }
            (longest, timers.is_ok())
        });
        let victim = victim(fifo(50), &[cpu], due, || {});
        let ((gap, armed), came) = (armed.join().unwrap(), victim.join().unwrap());
        assert!(armed, "{TIMERS} timers could not be made");
        settle();
        // The whole gap counts, except for the switch to the victim and its return to user space.
        let truth = Truth {
            kind: ShareKind::Interrupt,
            who: "local_timer".to_owned(),
            took: gap.within(came.due, came.came),
        };
        (stage.explain(&came, cpu), vec![truth])
    });
}
