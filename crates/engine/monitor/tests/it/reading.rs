//! Valid and invalid plans.

use punctual_model::{Limit, LoopRequirement, Nanos, WakeupAxis};
use punctual_monitor::{FlightPlan, Retention, SeriesPlan, SlotRequest, WatchPlan, read_plan};
use punctual_session::{Request, Subject};

const WHOLE: &str = r#"
[[series]]
name = "osadl"
probe = "timer"
parameters = { interval = "200us" }
phases = "idle:2h,cpu:3h33m"
at = ["19:10", "07:10"]
after = ["boot", "kernel-change"]
explain = "100us"

[[series]]
name = "second"
probe = "signal"
duration = "20s"
every = "6h"
max_latency = "1ms"
misses = "2/100"
budget = "100us"
wait = "1h"

[watch]
window = "5min"
listen = "127.0.0.1:9760"
by = ["cgroup", "cpu"]

[flight]
last = "90s"
memory = "16MB"

[keep]
samples = "14d"
traces = "90d"
rows = "2y"
size = "2GB"

[push]
to = "https://collector.example:8090"
token_file = "/etc/punctual/token"
"#;

fn of_probe(series: &SeriesPlan) -> Request {
    match series.request().unwrap() {
        SlotRequest::Probe(request) => *request,
        SlotRequest::Application(request) => panic!("{request:?}"),
    }
}

const APPLICATION: &str = r#"
[[series]]
name = "motion"
unit = "motion.service"
budget = "1ms"
every = "1h"
"#;

#[test]
fn application_series_has_its_requirement() {
    let read = |text: &str| read_plan("plan", text).map(|plan| plan.series[0].clone());
    let request = |series: &SeriesPlan| match series.request().unwrap() {
        SlotRequest::Application(request) => *request,
        SlotRequest::Probe(request) => panic!("{request:?}"),
    };
    let motion = read(APPLICATION).unwrap();
    let asked = request(&motion);
    assert_eq!(asked.subject, Subject::Unit("motion.service".to_owned()));
    assert_eq!(asked.duration, Nanos::from_secs(60));
    assert_eq!(
        asked.requirement,
        LoopRequirement {
            max_late_seconds_per_day: Some(10.0),
            ..LoopRequirement::of_jobs(Nanos::from_millis(1))
        }
    );
    let with = |old: &str, new: &str| read(&APPLICATION.replace(old, new));
    for (old, new) in [
        ("unit = \"motion.service\"", "comm = \"motion\""),
        ("motion.service", "other.service"),
        ("\"1ms\"", "\"2ms\""),
        ("every", "period = \"1ms\"\nevery"),
        ("every", "duration = \"5s\"\nevery"),
    ] {
        let changed = with(old, new).unwrap();
        assert_ne!(changed.definition(), motion.definition(), "{new}");
    }
    let week = with("every = \"1h\"", "sample = \"60 x 1min in 7d\"").unwrap();
    assert_eq!(week.length(), Nanos::from_secs(60));
    assert_eq!(request(&week).requirement.sample, week.sample());
    for (old, new, what) in [
        ("budget = \"1ms\"", "", "budget = \"1ms\""),
        ("unit", "comm = \"a\"\nunit", "measures one thing"),
        ("unit", "probe = \"timer\"\nunit", "measures one thing"),
        ("motion.service", "", "name is empty"),
        ("every", "cpus = \"1\"\nevery", "chooses its CPUs"),
        ("every", "phases = \"farm:1min\"\nevery", "use duration"),
        ("every", "samples = true\nevery", "one by one"),
        ("every = \"1h\"", "", "never due"),
        (
            "every",
            "sample = \"60 x 1min in 7d\"\nevery",
            "remove at and every",
        ),
        (
            "every",
            "max_late_seconds_per_day = -1\nevery",
            "from 0 to below",
        ),
    ] {
        let error = with(old, new).unwrap_err();
        assert!(error.message.contains(what), "{new}: {error}");
    }
}

#[test]
fn a_plan_is_read_whole() {
    let plan = read_plan("plan", WHOLE).unwrap();
    let [osadl, second] = plan.series.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(
        osadl.times(),
        "at 07:10, 19:10; after boot; after a change of the kernel"
    );
    assert_eq!(osadl.length(), Nanos::from_secs(5 * 3600 + 33 * 60));
    assert_eq!(osadl.explain, Some(Nanos::from_micros(100)));
    let request = of_probe(osadl);
    assert_eq!(
        request.arguments.duration("interval"),
        Some(Nanos::from_micros(200))
    );
    assert_eq!(request.phases.len(), 2);
    assert_eq!(
        (second.every, second.wait),
        (Some(Nanos::from_secs(6 * 3600)), Nanos::from_secs(3600))
    );
    let requirement = of_probe(second).limits.requirement;
    assert_eq!(requirement.limits.len(), 2);
    let windows: Vec<_> = requirement.windows().collect();
    assert_eq!(
        windows,
        [("2/100".parse().unwrap(), Nanos::from_micros(100))]
    );
    // A series without windows keeps the definition of older versions.
    assert!(!osadl.definition().contains("misses"));
    let watch = WatchPlan {
        window: Nanos::from_secs(300),
        listen: Some("127.0.0.1:9760".parse().unwrap()),
        by: vec![WakeupAxis::Group, WakeupAxis::Cpu],
    };
    assert_eq!(plan.watch, Some(watch));
    let flight = FlightPlan {
        last: Nanos::from_secs(90),
        memory: 16 << 20,
    };
    assert_eq!(plan.flight, Some(flight));
    let push = plan.push.unwrap();
    assert_eq!(push.to, "https://collector.example:8090");
    assert_eq!(
        push.token_file.unwrap(),
        std::path::Path::new("/etc/punctual/token")
    );
    assert_eq!((push.ca, push.every), (None, Nanos::from_secs(60)));
    let day = Nanos::from_secs(86_400).0;
    let keep = Retention {
        samples: Some(Nanos(14 * day)),
        traces: Some(Nanos(90 * day)),
        rows: Some(Nanos(730 * day)),
        size: Some(2 << 30),
    };
    assert_eq!(plan.keep, keep);
}

#[test]
fn definition_ignores_the_schedule() {
    let definition = |text: &str| read_plan("plan", text).unwrap().series[0].definition();
    let first = definition(WHOLE);
    assert_eq!(definition(&WHOLE.replace("07:10", "08:10")), first);
    assert_ne!(definition(&WHOLE.replace("200us", "250us")), first);
    assert_ne!(definition(&WHOLE.replace("cpu:3h", "cpu:2h")), first);
}

const SAMPLED: &str = r#"
[[series]]
name = "week"
probe = "timer"
parameters = { interval = "1ms" }
sample = "60 x 1min in 7d"
budget = "100us"
max_late_seconds_per_day = 72
"#;

#[test]
fn sampled_series_has_its_requirement_in_each_run() {
    let read = |text: &str| read_plan("plan", text).map(|plan| plan.series[0].clone());
    let week = read(SAMPLED).unwrap();
    assert_eq!(
        week.times(),
        "60 runs of 60 s at random times in each 7 days"
    );
    assert_eq!(
        (week.length(), week.wait),
        (Nanos::from_secs(60), Nanos::from_secs(600))
    );
    let asked = of_probe(&week).limits.requirement.periodic;
    let asked = asked.unwrap();
    assert_eq!(asked.budget_ns, Nanos::from_micros(100));
    assert_eq!(asked.max_late_seconds_per_day, Some(72.0));
    assert_eq!(asked.sample, week.sample());
    // The requirement is part of the definition, so a change starts a new epoch.
    let changed = read(&SAMPLED.replace("72", "72.5")).unwrap();
    assert_ne!(changed.definition(), week.definition());
    // Windows are counted in each run, and judged over all of them.
    let windows = read(&SAMPLED.replace("budget", "misses = \"2/100\"\nbudget")).unwrap();
    let asked = of_probe(&windows).limits.requirement;
    let limit = "2/100".parse().unwrap();
    assert_eq!(asked.periodic.unwrap().misses, Some(limit));
    assert_eq!(
        asked.limits,
        [Limit::of_misses(limit, Nanos::from_micros(100))]
    );
    assert_ne!(windows.definition(), week.definition());
    let loaded = SAMPLED.replace("budget", "phases = \"cpu:1min\"\nbudget");
    assert_eq!(read(&loaded).unwrap().length(), Nanos::from_secs(60));
    for (old, new, what) in [
        ("60 x 1min in 7d", "60 x 1min", "60 x 1min in 7d"),
        ("sample", "every = \"1h\"\nsample", "remove at and every"),
        ("budget = \"100us\"", "", "budget = \"100us\""),
        ("100us", "2ms", "longer than the interval"),
        ("1ms", "2s", "interval of at most 1 s"),
        ("budget", "duration = \"1min\"\nbudget", "remove duration"),
        (
            "budget",
            "phases = \"idle:1min,cpu:1min\"\nbudget",
            "one phase",
        ),
        (
            "= 72",
            "= 72\n[keep]\nrows = \"6d\"",
            "keep rows for at least twice",
        ),
        ("= 72", "= -1", "from 0 to below 86400"),
        (
            "sample = \"60 x 1min in 7d\"",
            "every = \"1h\"",
            "add sample",
        ),
    ] {
        let error = read(&SAMPLED.replace(old, new)).unwrap_err();
        assert!(error.message.contains(what), "{new}: {error}");
    }
}

#[test]
fn an_error_has_line_and_column() {
    let series = "[[series]]\nname = \"a\"\nprobe = \"timer\"\n";
    for (text, place, what) in [
        ("", "1:1", "the plan is empty"),
        ("[serie]\n", "1:2", "unknown name 'serie'"),
        ("series = 3\n", "1:1", "[[series]]"),
        ("[[series]]\nname = \"a\"\n", "1:1", "'probe' is missing"),
        (
            "[[series]]\nname = \"a b\"\nprobe = \"timer\"\n",
            "2:8",
            "a name can contain",
        ),
        (
            "[[series]]\nname = \"watch\"\nprobe = \"timer\"\n",
            "2:8",
            "use another name",
        ),
        (
            "[[series]]\nname = \"a\"\nprobe = \"tmer\"\n",
            "3:9",
            "tmer",
        ),
        (series, "1:1", "is never due"),
        (
            "[[series]]\nname = \"a\"\nprobe = \"work\"\n",
            "1:1",
            "needs the parameter iterations",
        ),
        (
            &format!("{series}at = [\"25:10\"]\n"),
            "4:7",
            "'25:10' is not a time of day",
        ),
        (&format!("{series}at = \"07:10\"\n"), "4:6", "a list"),
        (&format!("{series}every = \"1ms\"\n"), "4:9", "too short"),
        (&format!("{series}every = 6\n"), "4:9", "a text in quotes"),
        (
            &format!("{series}after = [\"lunch\"]\n"),
            "4:10",
            "unknown name 'lunch'",
        ),
        (
            &format!("{series}phases = \"idle\"\n"),
            "4:10",
            "is not a phase",
        ),
        (
            &format!("{series}phases = \"nap:1s\"\n"),
            "4:10",
            "unknown load 'nap'",
        ),
        (&format!("{series}cpus = \"x\"\n"), "4:8", "x"),
        (
            &format!("{series}parameters = {{ intervall = \"1ms\" }}\n"),
            "4:16",
            "unknown parameter 'intervall'",
        ),
        (
            &format!("{series}parameters = {{ interval = \"1ns\" }}\n"),
            "4:27",
            "outside",
        ),
        (
            &format!("{series}every = \"6h\"\nmisses = \"3/2\"\nbudget = \"1us\"\n"),
            "5:10",
            "2/100 allows",
        ),
        (
            &format!("{series}every = \"6h\"\nmisses = \"2/100\"\n"),
            "5:10",
            "misses and budget belong together",
        ),
        (
            &format!("{series}evry = \"6h\"\n"),
            "4:1",
            "unknown name 'evry'",
        ),
        (
            &format!("{series}every = \"6h\"\nphases = \"idle:1s\"\nduration = \"5s\"\n"),
            "6:12",
            "already specify a duration",
        ),
        (
            &format!("{series}every = \"6h\"\n{series}every = \"6h\"\n"),
            "6:8",
            "two series 'a'",
        ),
        ("[watch]\nwindow = \"2d\"\n", "1:2", "at most 24 h"),
        (
            "[watch]\nwindow = \"5min\"\nby = [\"cpu\"]\n",
            "3:6",
            "add listen, or remove by",
        ),
        (
            "[watch]\nwindow = \"5min\"\nlisten = \"localhost\"\n",
            "3:10",
            "an address with a port",
        ),
        (
            "[watch]\nwindow = \"5min\"\nlisten = \"[::1]:1\"\nby = [\"node\"]\n",
            "4:7",
            "one of cpu, priority, comm, cgroup",
        ),
        (
            "[watch]\n[keep]\nsize = \"2GB\"\n",
            "1:2",
            "'window' is missing",
        ),
        (
            "[watch]\nwindow = \"5min\"\n[keep]\nsize = \"2 G\"\n",
            "4:8",
            "not a size",
        ),
        (
            "[watch]\nwindow = \"5min\"\n[keep]\nhistograms = \"2y\"\n",
            "4:1",
            "unknown name 'histograms'",
        ),
        (
            "[watch]\nwindow = \"5min\"\n[push]\nca = \"x\"\n",
            "3:2",
            "'to' is missing",
        ),
        (
            "[watch]\nwindow = \"5min\"\n[push]\nto = \"x\"\nform = 1\n",
            "5:1",
            "unknown name 'form'",
        ),
        ("[flight]\nlast = \"1ms\"\n", "2:8", "1.00 ms is too short"),
        ("[flight]\nlast = 60\n", "2:8", "a text in quotes"),
        ("[flight]\nlast = \"soon\"\n", "2:8", "soon"),
        ("[flight]\nmemory = \"32\"\n", "2:10", "'32' is not a size"),
        ("[flight]\nmemory = \"500kB\"\n", "2:10", "at least 1MB"),
        ("[flight]\nmemory = \"8GB\"\n", "2:10", "at most"),
        ("[flight]\nfor = \"60s\"\n", "2:1", "unknown name 'for'"),
        ("flight = \"60s\"\n", "1:1", "[flight]"),
        ("[watch\n", "1:7", ""),
    ] {
        let error = read_plan("p.toml", text).unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.starts_with(&format!("p.toml:{place}: ")),
            "{text}\n{shown}"
        );
        assert!(shown.contains(what), "{text}\n{shown}");
    }
}
