//! A complete recording with plausible figures, the same for every call, for tests of other crates.
//! Only for tests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use uuid::Uuid;

use crate::*;

/// Returns a finished run of the timer probe on `cpus` CPUs, with `seconds` rows of 1000 samples
/// each. CPU 0 is quiet, and the last CPU has a long tail.
pub fn recording(cpus: u32, seconds: u64) -> Recording {
    let started: Timestamp = "2026-11-03T08:15:30.25Z"
        .parse()
        .unwrap_or(Timestamp::UNIX_EPOCH);
    let mut rows = Vec::new();
    let mut largest = Vec::new();
    let threads: Vec<ThreadRecord> = (0..cpus)
        .map(|cpu| thread(cpu, cpus, seconds, started, &mut rows, &mut largest))
        .collect();
    rows.sort_by_key(|row: &IntervalRow| (row.start_ns, row.thread));
    largest.sort_by_key(|sample: &TopSample| std::cmp::Reverse(sample.latency_ns));
    largest.truncate(20);
    let requirement = Requirement {
        limits: vec![Limit {
            metric: Metric::Max,
            at_most: 200_000,
        }],
        ..Requirement::default()
    };
    let probe = ProbeRun {
        name: "timer".to_owned(),
        chart: Chart::Latency,
        alike: true,
        parameters: BTreeMap::from([
            ("interval_ns".to_owned(), 1_000_000.into()),
            ("wait".to_owned(), "nanosleep".into()),
        ]),
        program: "punctual 0.1.0".to_owned(),
        command_line: ["punctual", "measure", "timer", "-D", "60s"]
            .map(str::to_owned)
            .to_vec(),
    };
    let mut recording = Recording {
        id: RecordingId(Uuid::from_u128(0x019a_4d1c_7b3a_7000_8000_1234_5678_9abc)),
        label: Some("bench in the lab".to_owned()),
        completion: Completion::Finished,
        load: vec![LoadRecord {
            name: "command".to_owned(),
            parameters: BTreeMap::from([("command".to_owned(), "make -j8".into())]),
            cpu_time_ns: Some(Nanos::from_secs(seconds)),
            ..LoadRecord::default()
        }],
        started,
        duration_ns: Nanos::from_secs(seconds + 1),
        series: Series {
            interval_ns: Nanos::from_secs(1),
            dropped: 0,
            rows,
        },
        top_samples: largest,
        interference: interference(cpus, seconds),
        observer: Observer {
            clock_read_ns: Nanos(24),
            loop_ns: Nanos(38),
            peak_memory_bytes: 9_437_184,
            cpu_time_ns: Nanos(seconds * 4_200_000),
        },
        ..Recording::new(probe, host(cpus), requirement, threads)
    };
    recording.verdict = recording.judge();
    recording
}

fn thread(
    cpu: u32,
    cpus: u32,
    seconds: u64,
    started: Timestamp,
    rows: &mut Vec<IntervalRow>,
    top_samples: &mut Vec<TopSample>,
) -> ThreadRecord {
    // A small linear congruential generator, which produces the same figures on every machine.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ u64::from(cpu);
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(1u32 << 31)
    };
    let tail = if cpu + 1 == cpus { 2.2 } else { 1.1 };
    let mut histogram = Histogram::new();
    for second in 0..seconds {
        let mut one = Histogram::new();
        let mut largest = (0, 0);
        for sample in 0..1_000 {
            let latency = 2_800.0 - 700.0 * random().ln() + 40.0 * random().powf(-tail);
            let latency = latency.min(150_000.0) as i64;
            one.record(SignedNanos(latency));
            largest = largest.max((latency, sample));
        }
        // The first second is the warm-up.
        let since_start = (second + 1) * 1_000_000_000 + largest.1 * 1_000_000;
        top_samples.push(TopSample {
            time: started + jiff::SignedDuration::from_nanos(since_start as i64),
            monotonic_ns: Nanos(86_400_000_000_000 + since_start),
            cpu: Some(cpu),
            thread: cpu,
            latency_ns: Nanos(largest.0 as u64),
            blame: None,
        });
        rows.push(IntervalRow {
            thread: cpu,
            start_ns: Nanos::from_secs(second + 1),
            count: one.recorded(),
            early: 0,
            missed: u64::from(cpu == 0 && second == 2) * 3,
            min_ns: one.min(),
            max_ns: one.max(),
            sum_ns: one.sum(),
            histogram: one.buckets(),
        });
        histogram.merge(&one);
    }
    let missed = u64::from(cpu == 0 && seconds > 2) * 3;
    let recorded = histogram.recorded();
    ThreadRecord {
        label: None,
        cpu: Some(cpu),
        from_cpu: None,
        scheduling: Scheduling {
            policy: Policy::Fifo,
            priority: 95,
        },
        accounting: Accounting {
            expected: recorded + missed + 1_000,
            recorded,
            missed,
            early: 0,
            warm_up: 1_000,
            warm_up_missed: 0,
            overflow: 0,
        },
        histogram,
        // A missed period is always less late than the largest sample.
        missed_histogram: (missed > 0).then(|| {
            let mut late = Histogram::new();
            late.record_run(Nanos(60_000), Nanos(20_000), missed);
            Box::new(late)
        }),
        open: None,
        above: Vec::new(),
        windows: Vec::new(),
        usage: ThreadUsage {
            page_faults_minor: u64::from(cpu == 1),
            page_faults_major: 0,
            switches_voluntary: recorded,
            switches_involuntary: 2,
            cpu_time_ns: Nanos(recorded * 2_100),
        },
    }
}

fn host(cpus: u32) -> HostFacts {
    let text = |value: &str, source: &str| Fact::known(value.to_owned(), source);
    fn absent<T>(source: &str) -> Fact<T> {
        Fact::unknown(source, "not there")
    }
    let all: CpuSet = (0..cpus).collect();
    HostFacts {
        fingerprint: "5f2b8c1d9e3a7046".to_owned(),
        hostname: text("bench-7", "/proc/sys/kernel/hostname"),
        distribution: DistributionFacts {
            name: text("Debian GNU/Linux 12 (bookworm)", "/etc/os-release"),
            id: text("debian", "/etc/os-release"),
            version: text("12", "/etc/os-release"),
        },
        kernel: KernelFacts {
            release: text("6.12.38-rt-amd64", "/proc/sys/kernel/osrelease"),
            version: text("#1 SMP PREEMPT_RT Debian", "/proc/sys/kernel/version"),
            architecture: text("x86_64", "/proc/sys/kernel/arch"),
            preempt_rt: Fact::known(true, "/sys/kernel/realtime"),
            preempt_model: text("rt", "/sys/kernel/realtime"),
            command_line: text("quiet isolcpus=2-3 <&>", "/proc/cmdline"),
            hz: Fact::known(1000, "/boot/config"),
            high_resolution_timers: Fact::known(true, "/proc/timer_list"),
            lockdown: text("none", "/sys/kernel/security/lockdown"),
            rt_runtime_us: Fact::known(950_000, "/proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: Fact::known(1_000_000, "/proc/sys/kernel/sched_rt_period_us"),
            sched_ext: Fact::known("none".to_owned(), "/sys/kernel/sched_ext/state"),
            configuration: text("9c1f0a7be3d25846", "/boot/config"),
            options: [("HZ", "1000"), ("NO_HZ_FULL", "y"), ("PREEMPT_RT", "y")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        },
        processor: ProcessorFacts {
            model: text("Intel(R) Core(TM) i7-8700T CPU @ 2.40GHz", "/proc/cpuinfo"),
            vendor: text("GenuineIntel", "/proc/cpuinfo"),
            microcode: text("0xf6", "/proc/cpuinfo"),
            online: Fact::known(all.clone(), "/sys/devices/system/cpu/online"),
            present: Fact::known(all.clone(), "/sys/devices/system/cpu/present"),
            isolated: Fact::known(CpuSet::new(), "/sys/devices/system/cpu/isolated"),
            nohz_full: absent("/sys/devices/system/cpu/nohz_full"),
            smt: text("on", "/sys/devices/system/cpu/smt/control"),
            idle_driver: text(
                "intel_idle",
                "/sys/devices/system/cpu/cpuidle/current_driver",
            ),
            numa_nodes: Fact::known([0].into_iter().collect(), "/sys/devices/system/node/online"),
        },
        cpus: (0..cpus)
            .map(|cpu| CpuFacts {
                cpu,
                package: Fact::known(0, "topology/physical_package_id"),
                core: Fact::known(cpu / 2, "topology/core_id"),
                siblings: Fact::known([cpu].into_iter().collect(), "topology/thread_siblings_list"),
                shares_cache_with: Fact::known(all.clone(), "cache/index3/shared_cpu_list"),
                governor: text("performance", "cpufreq/scaling_governor"),
                frequency_min_khz: Fact::known(2_400_000, "cpufreq/scaling_min_freq"),
                frequency_max_khz: Fact::known(2_400_000, "cpufreq/scaling_max_freq"),
                idle_states: Fact::known(
                    vec![IdleState {
                        name: "C1".to_owned(),
                        exit_latency_ns: Nanos::from_micros(2),
                        disabled: false,
                    }],
                    "cpuidle",
                ),
            })
            .collect(),
        clock: ClockFacts {
            source: text(
                "tsc",
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            available: Fact::known(
                vec!["tsc".to_owned(), "hpet".to_owned()],
                "/sys/devices/system/clocksource/clocksource0/available_clocksource",
            ),
        },
        memory: MemoryFacts {
            total_bytes: Fact::known(16 << 30, "/proc/meminfo"),
            swap_bytes: Fact::known(0, "/proc/meminfo"),
            transparent_huge_pages: text("never", "/sys/kernel/mm/transparent_hugepage/enabled"),
        },
        virtualisation: VirtualisationFacts {
            virtual_machine: Fact::known(false, "/proc/cpuinfo"),
            hypervisor: absent("/sys/hypervisor/type"),
            machine: text("Example Maker Box 3", "/sys/class/dmi/id"),
            firmware: text("1.12", "/sys/class/dmi/id/bios_version"),
        },
    }
}

fn interference(cpus: u32, seconds: u64) -> Interference {
    let delta = |id: &str, name: &str, count: u64| CounterDelta {
        id: id.to_owned(),
        name: name.to_owned(),
        count,
    };
    Interference {
        duration_ns: Nanos(seconds * 1_000_000_000 + 1_002_000_000),
        cpus: (0..cpus)
            .map(|cpu| CpuInterference {
                cpu,
                measured: true,
                interrupts: vec![
                    delta("24", "PCI-MSI 0-edge eth0", 17 * u64::from(cpu + 1)),
                    delta("LOC", "Local timer interrupts", 1_004 * seconds),
                ],
                softirqs: vec![
                    delta("TIMER", "TIMER", 250 * seconds),
                    delta("NET_RX", "NET_RX", 17 * u64::from(cpu)),
                ],
                steal_ns: Some(Nanos::from_millis(10 * u64::from(cpu))),
                throttled: Some(0),
                smis: None,
            })
            .collect(),
        context_switches: Some(2_300 * seconds),
        groups: Vec::new(),
        power: None,
        unknown: vec!["SMI count: /dev/cpu/0/msr is not there".to_owned()],
    }
}

/// Returns the blame of a late timer of thread `victim` on CPU 1, with these shares.
pub fn blame(shares: Vec<Share>) -> Blame {
    Blame {
        victim: Victim {
            tid: 100,
            comm: Comm::new(b"victim"),
            scheduling: None,
            cpu: 1,
        },
        delay: Delay::Timer,
        moved: None,
        culprit_end_ns: None,
        events_lost: 0,
        clock_error_ns: Nanos(50),
        by_observer: false,
        shares,
        words: None,
    }
}

/// Creates a cause that names this interrupt.
pub fn interrupt(name: &str) -> cause::Cause {
    cause::Cause::new(cause::Source::Irq {
        irq: 24,
        name: name.into(),
    })
}

/// Returns the verdict over a week of 60 runs of a minute on the machine `lab`. Each run has this
/// number of late seconds, or is missing. `allowed` late seconds a day are tolerated.
pub fn week(allowed: f64, late: impl Fn(u64) -> Option<u64>) -> SeriesProof {
    let minute = Nanos::from_secs(60);
    let from: Timestamp = "2026-11-02T09:30:00Z"
        .parse()
        .unwrap_or(Timestamp::UNIX_EPOCH);
    let sample = Sampling::new(60, minute, Nanos::from_secs(604_800));
    let due = |number| sample.and_then(|sample| sample.due(7, from, number));
    let run = |number: u64| {
        let mut slot = SampledSlot::new(number + 1, due(number).unwrap_or(from));
        let measured = late(number).map(|late| LateRun {
            at_least: late,
            at_most: late,
            worst_window: None,
            late,
            periods: 60_000,
            measured_ns: minute,
        });
        slot.fill(measured.ok_or("missed: the machine was suspended".to_owned()));
        slot
    };
    let period = sample.and_then(|sample| sample.period(from, 0));
    let mut proof = SeriesProof {
        schema: SERIES_PROOF_SCHEMA,
        series: "week".to_owned(),
        host: Some("lab".to_owned()),
        outcome: Outcome::NotProven,
        sentence: String::new(),
        claims: Vec::new(),
        asked: LoopRequirement {
            period_ns: Nanos::from_millis(1),
            budget_ns: Nanos(100_000),
            jobs: false,
            max_late_seconds_per_day: Some(allowed),
            misses: None,
            max_misses_per_day: None,
            sample,
        },
        epoch: 1,
        seed: "7".to_owned(),
        from,
        until: period.map_or(from, |(_, until)| until),
        measured_on: None,
        loads: Vec::new(),
        refused: Vec::new(),
        runs: (0..60).map(run).collect(),
    };
    proof.judge();
    proof
}

/// Returns an experiment without blocks that compares `arms` conditions.
pub fn experiment(arms: usize, seed: u64) -> Experiment {
    let arm = |number| Arm {
        name: format!("arm {number}"),
        action: ArmAction::Unchanged,
    };
    Experiment {
        schema: EXPERIMENT_SCHEMA,
        id: RecordingId::new(),
        label: None,
        program: String::new(),
        command_line: Vec::new(),
        host: None,
        started: Timestamp::UNIX_EPOCH,
        measured_on: None,
        state: ExperimentState::Running,
        plan: ExperimentPlan {
            arms: (0..arms).map(arm).collect(),
            probe: "timer".to_owned(),
            parameters: Default::default(),
            cpus: None,
            policy: None,
            priority: None,
            loads: Vec::new(),
            threshold_ns: None,
            time_ns: Nanos::from_secs(1_200),
            rounds: None,
            block_ns: None,
            wash_out_ns: Nanos::from_secs(2),
            deadline_ns: None,
            seed,
            ends_early: true,
            ranks_only: false,
        },
        pilot: None,
        blocks: Vec::new(),
        results: Vec::new(),
        sentence: String::new(),
        warnings: Vec::new(),
        numbers: None,
        boots: None,
        improvement: None,
    }
}

/// Returns a block of 10 s with `late` late slots, `first` of them in its first half.
pub fn experiment_block(round: u32, arm: u32, late: u64, first: u64) -> ExperimentBlock {
    ExperimentBlock {
        round,
        arm,
        recording: None,
        measured_ns: Nanos::from_secs(10),
        late,
        halves: [first, late - first],
        very_late: late / 2,
        median_ns: Some(Nanos(5_000 + u64::from(arm) * 1_000)),
        max_ns: None,
        work: None,
        milli_celsius: None,
        milliwatts: None,
        khz: None,
        flawed: false,
        output: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_balances_and_reads_back() {
        let recording = recording(3, 5);
        for thread in &recording.threads {
            assert!(thread.accounting.balances());
            let mut from_rows = Histogram::new();
            for row in recording.series.rows.iter() {
                if Some(row.thread) == thread.cpu {
                    from_rows.add_interval(row);
                }
            }
            assert_eq!(from_rows, thread.histogram);
        }
        for sample in &recording.top_samples {
            let at = Nanos(sample.time.duration_since(recording.started).as_nanos() as u64);
            assert_eq!(sample.monotonic_ns, Nanos::from_secs(86_400) + at);
            let its_row = |row: &&IntervalRow| {
                let end = row.start_ns + recording.series.interval_ns;
                row.thread == sample.thread && row.start_ns <= at && at < end
            };
            let row = recording.series.rows.iter().find(its_row).unwrap();
            assert_eq!(row.max_ns, Some(sample.latency_ns));
        }
        let json = serde_json::to_string(&recording).unwrap();
        assert_eq!(Recording::from_json(&json).unwrap(), recording);
    }

    #[test]
    fn block_of_an_experiment_adds_up() {
        let block = experiment_block(3, 1, 7, 2);
        assert_eq!(
            (block.round, block.arm, block.late, block.halves),
            (3, 1, 7, [2, 5])
        );
        assert_eq!((block.very_late, block.median_ns), (3, Some(Nanos(6_000))));
        let plan = experiment(3, 5).plan;
        assert_eq!((plan.arms.len(), plan.seed), (3, 5));
    }
}
