//! Latencies that tracers and programs state, from their text to their shares. The texts are short
//! published examples.

use std::path::Path;

use super::*;
use punctual_tracefile::{Input, open};

/// Explains a text in the fixtures of the crate that reads it.
fn explained(name: &str) -> ExplainedTrace {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tracefile/tests/fixtures/stated");
    let path = folder.join(name).with_extension("txt");
    explain(Input::path(&path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn explain(input: Input) -> Result<ExplainedTrace, TraceFileError> {
    let request = TraceRequest {
        file: "trace".to_owned(),
        wanted: Wanted::longest(),
        command_line: Vec::new(),
    };
    explain_trace(open(input)?.as_mut(), request)
}

/// Returns the longest outlier.
fn longest(explained: &ExplainedTrace) -> &Outlier {
    let explanation = explained.recording.explanation.as_ref().unwrap();
    let outliers = explanation.outliers.iter();
    outliers.max_by_key(|one| one.latency_ns).unwrap()
}

/// Returns the shares in words, as `length label`.
fn shares(outlier: &Outlier) -> Vec<String> {
    let shares = outlier.blame.shares.iter();
    shares
        .map(|share| format!("{} {}", share.ns, share.cause.label()))
        .collect()
}

#[test]
fn stated_latencies_have_their_causes() {
    let mut wrong = Vec::new();
    for (name, latency, words) in [
        (
            "preemptirqsoff",
            6_921_000,
            &[
                "preemption off: init-1",
                "rwsem_optimistic_spin < rwsem_down_write_slowpath < copy_process",
            ][..],
        ),
        (
            "timerlat-irq-stop",
            210_400,
            &[
                "210 µs interrupts off: cat-4410",
                "_raw_spin_unlock_irqrestore < pl011_console_write",
            ],
        ),
        (
            "timerlat-user-ret",
            960_000,
            &["925 µs other thread: kworker/3:2-88"],
        ),
        (
            "wakeup_rt",
            184_000,
            &[
                "preemption off: kworker-77, 169 µs in mmc_hw_reset",
                "mmc_hw_reset < process_one_work until _raw_spin_unlock",
            ],
        ),
        (
            "wakeup_rt-driver",
            160_000,
            &[
                "interrupt: rtl8169_interrupt",
                "75.0 µs in rtl8169_interrupt",
                "39.0 µs in preempt_count_add < _raw_spin_lock_irqsave until _raw_spin_unlock_irqrestore",
            ],
        ),
        (
            "wakeup_rt-reclaim",
            55_060_000,
            &[
                "interrupts off: <...>-88",
                "isolate_lru_folios < shrink_inactive_list",
                "kswapd",
            ],
        ),
        (
            "irqsoff-in-a-mail",
            126_337_000,
            &[
                "interrupts off: CORSurv-352",
                "_get_random_bytes.part.0 < __inet_hash_connect",
            ],
        ),
        (
            "latency-trace-old",
            79_000,
            &[
                "74.0 µs preemption off: <...>-2",
                "ide_outsl < ata_output_data until preempt_schedule",
            ],
        ),
        (
            "rtla-irq-latency",
            709_250,
            &[
                "709 µs interrupts off: ip-3567",
                "in igb_update_stats < igb_get_stats64",
            ],
        ),
        (
            "timerlat-tracer",
            11_700,
            &[
                "932 ns timer late",
                "10.8 µs unexplained: what ran from the timer's interrupt to the thread",
            ],
        ),
        (
            "timerlat-ipi",
            25_960,
            &[
                "interrupt: call_function_single",
                "5 times",
                "blocking: cc1-87882",
            ],
        ),
        (
            "timerlat-stack",
            859_978,
            &[
                "blocking: insmod-1026",
                "preemption disabled at delay_tsc < dummy_load_1ms_pd_init < do_one_initcall",
            ],
        ),
        (
            "timerlat-irqs-off",
            30_328,
            &[
                "interrupts off: sh-109404",
                "in _raw_spin_unlock_irqrestore < try_to_wake_up",
                "blocking: sh-109404",
            ],
        ),
        (
            "timerlat-double-blanks",
            230_656,
            &["interrupt: timer (206)", "blocking: bash-224"],
        ),
        (
            "osnoise-stack",
            3_626,
            &[
                "other thread: kworker/7:1-410",
                "after a wake-up in __queue_work < queue_delayed_work_on < vmstat_shepherd",
            ],
        ),
        (
            "cyclictest-break",
            72_000,
            &[
                "63.0 µs scheduling",
                "inside the switch from stress-ng-2864907, until tlb_flush",
            ],
        ),
        (
            "hrtimer-cancel",
            25_551,
            &["9.55 µs timer late", "13.0 µs interrupt: local_timer"],
        ),
        ("woken-twice", 18_000, &[]),
        ("perf-call-chains", 463_000, &["higher priority: ctl-1400"]),
    ] {
        let explained = explained(name);
        let outlier = longest(&explained);
        let shares = shares(outlier);
        if outlier.latency_ns != Nanos(latency) {
            wrong.push(format!("{name}: {}", outlier.latency_ns));
        }
        assert_eq!(outlier.blame.latency(), outlier.latency_ns, "{name}");
        let text = shares.join("\n");
        let times: Vec<String> = (outlier.blame.shares.iter())
            .map(|share| format!("{} times", share.count))
            .collect();
        let all = format!("{text}\n{}", times.join("\n"));
        let missing = words.iter().filter(|word| !all.contains(**word));
        wrong.extend(missing.map(|word| format!("{name}: no '{word}' in\n{all}")));
        assert!(!text.contains("the trace begins later"), "{name}: {text}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tracer_samples_count_as_events() {
    let explained = explained("timerlat-tracer");
    let trace = explained.recording.explanation.unwrap().trace.unwrap();
    assert_eq!(trace.events, 8);
    assert_eq!(trace.cpus.to_string(), "0-1");
    assert!(trace.from_ns < trace.to_ns);
}

/// The line of the tracer after the noise names its thread.
#[test]
fn thread_of_osnoise_has_its_id() {
    let explained = explained("osnoise-stack");
    let window = explained.windows.values().next().unwrap();
    assert_eq!(
        (window.victim.comm.to_string().as_str(), window.victim.tid),
        ("osnoise/7", 1_000)
    );
}

#[test]
fn missing_switch_is_counted() {
    let explained = explained("woken-twice");
    let explanation = explained.recording.explanation.unwrap();
    assert_eq!(explanation.waits_without_end, 1);
    assert_eq!(explanation.outliers.len(), 1);
}

#[test]
fn trace_without_a_usable_line_is_an_error() {
    for text in [
        "# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:4\n#\n",
        "# tracer: osnoise\n <...>-859  [000] ....  81.6: 1000000  190  99.98100  9  18  0  7  18  1\n",
        "# tracer: function\n   bash-1  [000] d..1.  81.637220: do_fault <-handle_mm_fault\n",
    ] {
        let input = Input::stream(std::io::Cursor::new(text.as_bytes()));
        let error = explain(input).unwrap_err();
        assert!(
            matches!(error, TraceFileError::NothingUsed { .. }),
            "{error}"
        );
    }
}

/// The clock is unknown, and only one wake-up connects the CPUs. The events of the CPU on which the
/// thread waits bracket its wait.
#[test]
fn events_of_one_cpu_explain_a_wait_without_a_common_clock() {
    let switch = |prev: &str, state: &str, next: &str| {
        format!("sched_switch: prev_{prev} prev_state={state} ==> next_{next}")
    };
    let motion = "comm=motion next_pid=1300 next_prio=19";
    let ctl = "comm=ctl next_pid=1400 next_prio=9";
    let text = [
        "   ctl-1400 [001] d..2. 10.000010: ".to_owned()
            + &switch("comm=motion prev_pid=1300 prev_prio=19", "S", ctl),
        "  work-77   [000] d..3. 10.000100: sched_waking: comm=motion pid=1300 prio=19 target_cpu=001"
            .to_owned(),
        "   ctl-1400 [001] dNh4. 10.000102: sched_wakeup: comm=motion pid=1300 prio=19 target_cpu=001"
            .to_owned(),
        "   ctl-1400 [001] d..2. 10.000400: ".to_owned()
            + &switch("comm=ctl prev_pid=1400 prev_prio=9", "S", motion),
    ]
    .join("\n");
    let text = text.replacen(
        "   ctl-1400 [001] d..2. 10.000010",
        "motion-1300 [001] d..2. 10.000010",
        1,
    );
    let input = Input::stream(std::io::Cursor::new(text.into_bytes()));
    let explained = explain(input).unwrap();
    let outlier = longest(&explained);
    let shares = shares(outlier);
    assert_eq!(outlier.latency_ns, Nanos::from_micros(300));
    assert!(
        shares[0].contains("higher priority: ctl-1400"),
        "{shares:#?}"
    );
}

#[test]
fn refused_calls_are_named() {
    let head = "motion-1300 [001] d..2. 10.000000: sched_switch: prev_comm=ctl prev_pid=1400 \
                prev_prio=9 prev_state=S ==> next_comm=motion next_pid=1300 next_prio=120\n";
    let exit = "motion-1300 [001] ....  10.000100: sys_exit: NR 144 = -1\n";
    let vector = "motion-1300 [001] d.h.. 10.000200: local_timer_entry: vector=236\n";
    let named = "motion-1300 [001] ....  10.000300: sys_mlockall -> 0xfffffffffffffff4\n";
    let refused = |lines: &[&str]| {
        let text = format!("{head}{}", lines.concat());
        let explained = explain(Input::stream(std::io::Cursor::new(text))).unwrap();
        let calls = explained.recording.explanation.unwrap().refused_calls;
        calls.iter().map(|call| call.sentence()).collect::<Vec<_>>()
    };
    // The number alone has another meaning on other architectures.
    assert_eq!(refused(&[exit]), [""; 0]);
    let found = refused(&[exit, vector, named]);
    assert!(
        found[0].contains("motion-1300: the kernel refused mlockall (ENOMEM)"),
        "{found:?}"
    );
    assert!(
        found[1].contains("refused sched_setscheduler (EPERM)"),
        "{found:?}"
    );
}

#[test]
fn noise_before_the_first_line_is_named() {
    let text = "\
        # tracer: osnoise\n\
        <...>-8870 [003] d.h..  1120.100100: irq_noise: local_timer:236 start 1120.100090001 duration 8010 ns\n\
        <...>-8870 [003] d..2.  1120.107000: thread_noise: ksoftirqd/3:33 start 1120.101000001 duration 5900001 ns\n\
        osnoise/3-8870 [003] .....  1120.107003: sample_threshold: start 1120.100089000 duration 6913000 ns interference 2\n";
    let explained = explain(Input::stream(std::io::Cursor::new(text))).unwrap();
    let outlier = longest(&explained);
    assert_eq!(outlier.blame.victim.comm.to_string(), "osnoise/3");
    let shares = shares(outlier);
    let has = |words: &str| shares.iter().any(|share| share.contains(words));
    assert!(has("8.01 µs interrupt: local_timer"), "{shares:?}");
    assert!(has("5.90 ms other thread: ksoftirqd/3-33"), "{shares:?}");
}
