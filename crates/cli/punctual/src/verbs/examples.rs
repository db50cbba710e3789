//! Examples for the manual pages.

/// Command lines and their effects. The page of a command shows the examples that begin with its
/// words. The main page shows the first ones.
pub(super) const EXAMPLES: &[(&str, &str)] = &[
    (
        "punctual check --period 1ms --budget 100us -o report.html",
        "Check whether this machine is fit for a control loop of 1 kHz.",
    ),
    (
        "punctual doctor",
        "Find the settings of this machine that cost latency.",
    ),
    (
        "punctual measure timer -D 60s --load cpu --max-latency 200us",
        "Measure wake-up latency under load for a minute; exit with 3 if it exceeds 200 µs.",
    ),
    ("punctual show last", "Show the newest recording."),
    (
        "punctual tune apply low-latency",
        "Apply a profile of settings until it is reverted.",
    ),
    (
        "punctual compare last~1 last",
        "Compare the two newest recordings.",
    ),
    (
        "punctual sign last -o statement.json",
        "Write a signed statement about the newest recording, for another reader.",
    ),
    (
        "punctual verify statement.json",
        "Verify a statement that this machine signed; pass --key for another signer.",
    ),
    (
        "punctual key -o keys.txt",
        "Export the public key of this machine for a reader (verify --keys).",
    ),
    (
        "punctual report last -o report.html",
        "Write a page with all plots and figures.",
    ),
    (
        "punctual app lint --comm motion -D 10s",
        "Check a running program for actions that its real-time threads should avoid.",
    ),
    (
        "punctual experiment --set thp=never --threshold 50us -D 20m",
        "Show by experiment whether a setting helps on this machine.",
    ),
    (
        "punctual experiment --a ./old.sh --b ./new.sh -o report.html",
        "Compare two states of the machine, each set up by a command.",
    ),
    (
        "punctual experiment resume",
        "Continue the newest experiment after an interruption.",
    ),
    (
        "punctual monitor check --plan monitor.toml",
        "Check a plan and show when its series are due.",
    ),
    (
        "punctual monitor install --write",
        "Install the service that follows the plan /etc/punctual/monitor.toml.",
    ),
    (
        "punctual monitor slots --since 24h",
        "List the slots of one day with their outcomes.",
    ),
    (
        "punctual mcp",
        "Answer questions of a language model; register this command in its client.",
    ),
    (
        "punctual store backup /backup/punctual.db",
        "Copy the store, even while a run writes to it.",
    ),
    (
        "punctual store merge other.db",
        "Merge the recordings of another machine into this store.",
    ),
    (
        "punctual improve --cpus 2-3 --load farm -o bench.toml",
        "Try the recommended settings, and write those that help to a profile.",
    ),
    (
        "punctual improve --dry-run",
        "Show which settings would be tried, and which effects the run can detect.",
    ),
    (
        "punctual measure timer --phases idle:60s,cpu+disk:60s",
        "Measure without load, then under load.",
    ),
    (
        "punctual measure timer --break 500us --explain",
        "Stop at the first latency above 500 µs and name its cause.",
    ),
    (
        "punctual measure hardware -D 10m",
        "Measure time taken by firmware or a hypervisor.",
    ),
    (
        "punctual tune enable control --cpus 2-3",
        "Apply a profile at every boot, until a boot with these settings fails.",
    ),
    (
        "punctual tune cmdline write control --cpus 2-3",
        "Show the changes to the boot loader's files, then write them after confirmation.",
    ),
    (
        "punctual watch --by cpu -D 10s",
        "Watch all wake-ups for 10 s, by CPU.",
    ),
    (
        "punctual watch --by cgroup -D 10s",
        "Watch which containers and units wait, and which delay others.",
    ),
    (
        "punctual measure timer --cgroup /system.slice/motion.service",
        "Measure inside a control group, with its CPUs and its quota.",
    ),
    (
        "punctual app list",
        "List the applications that publish their own figures.",
    ),
    (
        "punctual app record motion -D 60s",
        "Record the latencies that an application measures itself.",
    ),
    (
        "punctual doctor --role audio --json",
        "Audit the machine for another role, and print the result as JSON.",
    ),
    (
        "punctual machine facts capture -o machine.json",
        "Capture the state of this machine.",
    ),
    (
        "punctual machine kernel check",
        "Check the configuration of the running kernel.",
    ),
    ("punctual list", "List the recordings."),
    (
        "punctual show last --json",
        "Print the newest recording as JSON.",
    ),
    (
        "punctual explain --pid 1234 --event sched:sched_migrate_task",
        "Show an additional trace event with each outlier of an application.",
    ),
    (
        "punctual explain last",
        "Name the causes of the outliers of a recording.",
    ),
    (
        "punctual plot last --kind timeline -o timeline.png",
        "Draw latency over time.",
    ),
    (
        "punctual plot last~1 last --x-max 200us -o both.svg",
        "Draw two recordings up to 200 µs.",
    ),
    (
        "punctual trend osadl --since 112d",
        "Show a series of the plan over 112 days; exit with 3 if a regression is open.",
    ),
    (
        "punctual trend changes osadl --open",
        "List the open regressions.",
    ),
    (
        "punctual trend ack 350df237-tail replaced",
        "Acknowledge a change point, with the reason.",
    ),
    (
        "punctual trend note add --at 2026-11-03 rebooted",
        "Add a note at a point in time; trends show it.",
    ),
    (
        "punctual machine facts diff last~1 last",
        "Show the facts of the machine that differ between two recordings.",
    ),
    (
        "punctual plot osadl --kind surface -o surface.png",
        "Draw a series as a surface of counts over latencies and runs.",
    ),
    (
        "punctual report --series osadl --since 30d -o month.html",
        "Write the monthly report of a series.",
    ),
    (
        "punctual export last --format csv-histogram -o histogram.csv",
        "Write a histogram as CSV.",
    ),
    (
        "punctual import histogram.txt --dry-run",
        "Check a file of another tool.",
    ),
    (
        "punctual store bundle last",
        "Pack a recording with the facts of the machine.",
    ),
    (
        "punctual export last --format trace-dat -o trace.dat",
        "Write the trace events for trace-cmd(1).",
    ),
    ("punctual store delete last", "Delete the newest recording."),
    (
        "punctual tune plan control --cpus 2-3",
        "Show which settings a profile would change.",
    ),
    ("punctual tune status", "Show which settings are in force."),
    ("punctual tune revert", "Restore all settings."),
    (
        "punctual measure --list timer",
        "Print the documentation of a probe.",
    ),
    (
        "punctual exec --policy fifo --priority 80 --cpus 3 -- sleep 1",
        "Run a command as a real-time process on CPU 3.",
    ),
    (
        "punctual machine threads --rt",
        "List the real-time threads.",
    ),
    (
        "punctual machine irqs",
        "List interrupts, their affinity and their threads.",
    ),
    (
        "punctual machine topology",
        "Show CPUs, caches and NUMA nodes.",
    ),
    (
        "punctual machine place beside --irq 24",
        "Find a CPU that shares a cache with the handler of an interrupt.",
    ),
    ("punctual machine clocks", "List the clock sources."),
    (
        "punctual measure socket --serve",
        "Answer the socket probe of another machine.",
    ),
    (
        "punctual compat cyclictest -D 10s",
        "Run as cyclictest does.",
    ),
    (
        "punctual schema recording",
        "Print the JSON Schema of a recording.",
    ),
    (
        "punctual completions bash",
        "Print the completions; save them as /etc/bash_completion.d/punctual.",
    ),
    (
        "punctual man /usr/local/share/man/man1",
        "Install the manual pages.",
    ),
    (
        "punctual push --to https://collector.example:8090 --token-file token",
        "Send the recordings of this machine to a collector.",
    ),
];
