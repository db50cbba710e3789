//! Tests that read the machine on which they run.

use std::process::Command;
use std::time::{Duration, Instant};

use punctual_host::{Host, fingerprint};
use punctual_model::Nanos;

fn command(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

#[test]
fn facts_agree_with_uname() {
    let facts = Host::live().facts();
    let kernel = &facts.kernel;
    for (option, fact) in [
        ("-r", &kernel.release),
        ("-v", &kernel.version),
        ("-m", &kernel.architecture),
    ] {
        match command("uname", option) {
            Some(expected) => assert_eq!(fact.value.as_deref(), Some(expected.as_str())),
            None => punctual_testing::skip!(Program, "uname {option}: there is no such command"),
        }
    }
}

#[test]
fn facts_hold_together() {
    let host = Host::live();
    let facts = host.facts();
    let online = host.online().unwrap();
    assert!(!online.is_empty());
    assert!(online.is_subset(&host.present().unwrap()));
    assert!(!host.allowed().unwrap().intersection(&online).is_empty());
    assert_eq!(facts.processor.online.get(), Some(&online));
    assert!(facts.cpus.windows(2).all(|pair| pair[0].cpu < pair[1].cpu));
    assert!(
        online
            .iter()
            .all(|cpu| facts.cpus.iter().any(|facts| facts.cpu == cpu))
    );
    assert!(
        facts
            .memory
            .total_bytes
            .value
            .is_some_and(|bytes| bytes > 1 << 20)
    );
    assert_eq!(facts.fingerprint, fingerprint(&facts));
    assert_eq!(facts.fingerprint, host.facts().fingerprint);
}

#[test]
fn this_process_has_a_start() {
    let host = Host::live();
    let start = host.process_start(std::process::id());
    assert!(start.is_some_and(|ticks| ticks > 0));
    assert_eq!(host.process_start(std::process::id()), start);
    // PID that cannot exist, because it is larger than any process ID (`/proc/sys/kernel/pid_max`,
    // 2^22).
    assert_eq!(host.process_start(u32::MAX), None);
    assert_eq!(host.boot_id(), Host::live().boot_id());
}

#[test]
fn interrupts_come() {
    let host = Host::live();
    let before = host.counters();
    if let Some(line) = before
        .unknown()
        .iter()
        .find(|line| line.starts_with("interrupts:"))
    {
        punctual_testing::skip_refused("interrupts come", line);
        return;
    }
    // Idle CPUs stop their ticks, but each wake-up of this thread needs a timer interrupt.
    let started = Instant::now();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let duration = Nanos(started.elapsed().as_nanos() as u64);
    let online = host.online().unwrap();
    let moved = host.counters().since(&before, &online, duration);
    let interrupts: u64 = moved.cpus.iter().map(|cpu| cpu.interrupts_total()).sum();
    assert!(interrupts > 0, "{moved:?}");
    // No CPU handles 10 million interrupts per second.
    assert!(interrupts < 10_000_000 * (online.len() as u64) * (1 + duration.0 / 1_000_000_000));
    assert!(moved.context_switches.is_none_or(|switches| switches > 0));
    assert!(
        moved
            .cpus
            .iter()
            .filter(|cpu| online.contains(cpu.cpu))
            .all(|cpu| cpu.measured)
    );
}
