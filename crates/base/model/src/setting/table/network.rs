//! Network queues, and SMT at the end.

use super::super::{Risk, Scope, Setting, Values};
use super::{BIG, each, machine, special, up_to};

pub(super) const ROWS: &[Setting] = &[
    // The network.
    each(
        "rps-cpus",
        "the CPUs that process the packets of a receive queue (none: the CPU that handles the \
         interrupt of the queue)",
        "/sys/class/net/*/queues/rx-#/rps_cpus",
        Values::Mask,
        Scope::Machine,
    )
    .risk(
        Risk::Low,
        "Each packet costs one more inter-processor interrupt.",
    )
    .from("Documentation/networking/scaling.rst")
    .wanted("housekeeping"),
    machine(
        "rps-default-cpus",
        "the CPUs for the receive queues of devices that are added later",
        "/proc/sys/net/core/rps_default_mask",
        Values::Mask,
    )
    .risk(
        Risk::Low,
        "Each packet costs one more inter-processor interrupt.",
    )
    .from("Documentation/admin-guide/sysctl/net.rst")
    .wanted("housekeeping"),
    machine(
        "rfs-entries",
        "total number of flows that are steered to the CPU of their reader",
        "/proc/sys/net/core/rps_sock_flow_entries",
        Values::PowerOfTwo { max: 1 << 29 },
    )
    .risk(Risk::Low, "Takes memory.")
    .from("Documentation/networking/scaling.rst"),
    each(
        "rfs-queue-entries",
        "number of flows of one queue that are steered to the CPU of their reader",
        "/sys/class/net/*/queues/rx-#/rps_flow_cnt",
        Values::PowerOfTwo { max: 1 << 29 },
        Scope::Machine,
    )
    .risk(Risk::Low, "Takes memory.")
    .from("Documentation/networking/scaling.rst"),
    each(
        "xps-cpus",
        "the CPUs that send through a queue",
        "/sys/class/net/*/queues/tx-#/xps_cpus",
        Values::Mask,
        Scope::Machine,
    )
    .risk(Risk::Low, "CPUs that have no separate queue share a queue.")
    .from("Documentation/networking/scaling.rst"),
    machine(
        "busy-poll-us",
        "how long poll(2) and select(2) poll the network device directly, in microseconds",
        "/proc/sys/net/core/busy_poll",
        up_to(BIG),
    )
    .risk(Risk::Low, "Polling takes CPU time.")
    .from("Documentation/admin-guide/sysctl/net.rst"),
    machine(
        "busy-read-us",
        "how long a read from a socket polls the network device directly, in microseconds",
        "/proc/sys/net/core/busy_read",
        up_to(BIG),
    )
    .risk(Risk::Low, "Polling takes CPU time.")
    .from("Documentation/admin-guide/sysctl/net.rst"),
    // A card that negotiates its link again can lose other parameters, so this comes first.
    special(
        "eee",
        "whether the link of a network card sleeps between packets (Energy-Efficient Ethernet)",
        "/sys/class/net/*, by netlink (ethtool --set-eee)",
        "network card",
        Values::Own("`on` or `off`"),
    )
    .risk(
        Risk::Medium,
        "The card negotiates its link again, which interrupts the network for some seconds.",
    )
    .from("Documentation/networking/ethtool-netlink.rst (EEE_SET); ethtool(8), --set-eee")
    .wanted("off")
    .by_hand("it interrupts the network for some seconds")
    .long(),
    special(
        "rx-coalescing-us",
        "how long a network card delays a packet to wait for more packets, in microseconds (0: no \
         delay)",
        "/sys/class/net/*, by netlink (ethtool -C)",
        "network card",
        Values::Own("a number of microseconds, 0 to 1000000"),
    )
    .risk(
        Risk::Medium,
        "0: each packet causes an interrupt. During a flood of packets, a CPU does nothing else.",
    )
    .from("Documentation/networking/ethtool-netlink.rst (COALESCE_SET)")
    .wanted("0"),
    special(
        "tx-coalescing-us",
        "how long a network card delays the interrupt after it sent a packet, in microseconds (0: \
         no delay)",
        "/sys/class/net/*, by netlink (ethtool -C, transmit)",
        "network card",
        Values::Own("a number of microseconds, 0 to 1000000"),
    )
    .risk(
        Risk::Medium,
        "0: each packet that is sent causes an interrupt, which takes CPU time at high rates.",
    )
    .from("Documentation/networking/ethtool-netlink.rst (COALESCE_SET)")
    .wanted("0"),
    each(
        "gro-flush-ns",
        "how long the kernel collects packets of a card to process them together, in nanoseconds",
        "/sys/class/net/*/gro_flush_timeout",
        up_to(i64::MAX),
        Scope::Machine,
    )
    .risk(
        Risk::Low,
        "0: packets are processed one by one, which costs CPU time.",
    )
    .from("Documentation/networking/napi.rst, Software IRQ coalescing")
    .wanted("0"),
    // SMT comes last, because changing it takes CPUs offline. Reverting uses the opposite order, so
    // SMT comes first there.
    special(
        "smt",
        "whether each core runs several hardware threads",
        "/sys/devices/system/cpu/smt/control",
        "",
        Values::Own("`on` or `off`"),
    )
    .risk(
        Risk::High,
        "Off: half of the CPUs go offline, and threads bound to them run elsewhere.",
    )
    .from("Documentation/ABI/testing/sysfs-devices-system-cpu (smt/control)")
    .wanted("off")
    .boot("nosmt"),
];
