//! Chains of threads in a trace.

use std::fs;

use punctual_model::{FromJson as _, Nanos, TraceChains};

use crate::common::{Sandbox, text};

/// An interrupt wakes a thread, which wakes the motor on another CPU.
const CHAIN: &str = "\
          <idle>-0       [000] d.h1.   10.000100: irq_handler_entry: irq=24 name=eth0-rx-0
          <idle>-0       [000] d.h2.   10.000104: sched_waking: comm=filter pid=1201 prio=49 target_cpu=000
          <idle>-0       [000] d.h1.   10.000106: irq_handler_exit: irq=24 ret=handled
          <idle>-0       [000] d..2.   10.000110: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=filter next_pid=1201 next_prio=49
          filter-1201    [000] d..2.   10.000310: sched_waking: comm=motor pid=1300 prio=19 target_cpu=001
          filter-1201    [000] d..2.   10.000320: sched_switch: prev_comm=filter prev_pid=1201 prev_prio=49 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
            make-77      [001] d..2.   10.000350: sched_switch: prev_comm=make prev_pid=77 prev_prio=120 prev_state=R ==> next_comm=motor next_pid=1300 next_prio=19
           motor-1300    [001] d..2.   10.000600: sched_switch: prev_comm=motor prev_pid=1300 prev_prio=19 prev_state=S ==> next_comm=make next_pid=77 next_prio=120
";

#[test]
fn chains_are_followed_from_end_to_end() {
    let place = Sandbox::new();
    let path = place.path("chain.txt");
    fs::write(&path, CHAIN).unwrap();
    let trace = format!("explain --trace {}", path.display());
    let found = place.done(&format!("{trace} --from irq:eth0 --to comm:motor"));
    assert!(
        found.contains("1 of 1 chain from irq:eth0 reached comm:motor"),
        "{found}"
    );
    assert!(
        found.contains("chain 1 of the longest: 500 µs from 10.000100"),
        "{found}"
    );
    for part in [
        ["interrupt eth0-rx-0", "interrupt", "4.00 µs"],
        ["filter-1201", "waits for a CPU", "6.00 µs"],
        ["filter-1201", "runs", "200 µs"],
        ["motor-1300", "waits for a CPU", "40.0 µs"],
        ["motor-1300", "runs", "250 µs"],
    ] {
        let has = |line: &str| part.iter().all(|text| line.contains(text));
        assert!(found.lines().any(has), "{part:?}: {found}");
    }
    // Each part of the document is separate.
    for heading in [
        "chains  ",
        "thread or interrupt  ",
        "chain 1 of the longest",
    ] {
        assert!(
            found.contains(&format!("\n\n{heading}")),
            "{heading}: {found}"
        );
    }
    let ends = format!("{trace} --from irq:eth0 --to comm:motor");
    let chains = TraceChains::from_json(place.done(&format!("{ends} --json")).as_bytes()).unwrap();
    assert_eq!((chains.begun, chains.latencies.recorded()), (1, 1));
    assert_eq!(
        (chains.from.as_str(), chains.to.as_str()),
        ("irq:eth0", "comm:motor")
    );
    let [chain] = chains.longest.as_slice() else {
        panic!("{chains:?}");
    };
    assert_eq!(chain.latency(), Nanos::from_micros(500));
    let sums = chains.edges.iter().map(|edge| edge.total.0).sum::<u64>();
    assert_eq!(sums, 500_000);
    place.done(&format!("{ends} -o chains.html"));
    let page = fs::read_to_string(place.path("chains.html")).unwrap();
    for text in [
        "Chains from irq:eth0 to comm:motor",
        "250 µs",
        "waits for a CPU",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let by_thread = place.done(&format!("{trace} --from comm:filter --to comm:motor"));
    assert!(by_thread.contains("496 µs from 10.000104"), "{by_thread}");
    let unknown = place.refused(&format!("{trace} --from irq:eth1 --to comm:motor"), 1);
    assert!(
        unknown.contains("no irq:eth1; its interrupts: eth0-rx-0"),
        "{unknown}"
    );
    let unknown = place.refused(&format!("{trace} --from irq:eth0 --to comm:valve"), 1);
    assert!(unknown.contains("no comm:valve"), "{unknown}");
    // The switch from the idle thread to make is missing.
    let idle = "make-77      [001] d..2.   10.000090: sched_switch: prev_comm=make prev_pid=77 \
                prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n";
    fs::write(place.path("idle.txt"), format!("{idle}{CHAIN}")).unwrap();
    let output = place.run("explain --trace idle.txt --from irq:eth0 --to comm:motor");
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{shown}");
    assert!(
        shown.contains("CPU 1: 1 switch from its idle thread is missing"),
        "{shown}"
    );
    for (line, expected) in [
        ("--from irq:eth0", "--to"),
        ("--to comm:motor", "--from"),
        ("--from eth0 --to comm:motor", "irq:NAME or comm:NAME"),
        ("--from irq:eth0 --to irq:eth1", "a chain ends in a thread"),
        ("--from irq:eth0 --to comm:motor --budget 1ms", "--budget"),
        ("--from irq:eth0 --to comm:motor -o chains.svg", ".html"),
    ] {
        let refused = place.refused(&format!("{trace} {line}"), 2);
        assert!(refused.contains(expected), "{line}: {refused}");
    }
    // The text of perf script has no flags, and this one no interrupts.
    let perf = "filter 1201 [000] 10.000310: sched:sched_waking: comm=motor pid=1300 prio=19 \
                target_cpu=001\n\
                filter 1201 [000] 10.000320: sched:sched_switch: prev_comm=filter prev_pid=1201 \
                prev_prio=49 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n";
    fs::write(&path, perf).unwrap();
    let refused = place.refused(&format!("{trace} --from comm:filter --to comm:motor"), 1);
    assert!(
        refused.contains("record irq:* and irq_vectors:*"),
        "{refused}"
    );
}
