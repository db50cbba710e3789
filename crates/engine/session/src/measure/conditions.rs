//! Compares the settings of the machine at the end of a run with those at its start.

use punctual_model::{CpuFacts, CpuSet, Fact, HostFacts, SETTING_CHANGED};

/// Returns a warning for each setting that changed during the run. Settings that are not known at
/// both times are left out, and so are CPUs that were not measured.
pub(super) fn changed(start: &HostFacts, end: &HostFacts, cpus: &CpuSet) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, from: Option<String>, to: Option<String>| {
        if let Some((from, to)) = from.zip(to).filter(|(from, to)| from != to) {
            found.push(format!(
                "{what} {SETTING_CHANGED}, from {from} to {to}: the figures belong to both"
            ));
        }
    };
    fn text<T: ToString>(fact: &Fact<T>) -> Option<String> {
        fact.get().map(T::to_string)
    }
    let (from, to) = (&start.processor, &end.processor);
    compare(
        "the list of online CPUs",
        text(&from.online),
        text(&to.online),
    );
    compare("SMT", text(&from.smt), text(&to.smt));
    compare(
        "the list of isolated CPUs",
        text(&from.isolated),
        text(&to.isolated),
    );
    compare(
        "the clock source",
        text(&start.clock.source),
        text(&end.clock.source),
    );
    let (from, to) = (&start.kernel, &end.kernel);
    compare(
        "sched_rt_runtime_us",
        text(&from.rt_runtime_us),
        text(&to.rt_runtime_us),
    );
    for before in start.cpus.iter().filter(|one| cpus.contains(one.cpu)) {
        let same = |one: &&CpuFacts| one.cpu == before.cpu;
        let Some(after) = end.cpus.iter().find(same) else {
            continue;
        };
        let cpu = before.cpu;
        let of = |what: &str| format!("the {what} of CPU {cpu}");
        compare(
            &of("governor"),
            text(&before.governor),
            text(&after.governor),
        );
        let khz = |fact: &Fact<u64>| fact.get().map(|khz| format!("{khz} kHz"));
        for (what, from, to) in [
            (
                "lowest frequency",
                &before.frequency_min_khz,
                &after.frequency_min_khz,
            ),
            (
                "highest frequency",
                &before.frequency_max_khz,
                &after.frequency_max_khz,
            ),
        ] {
            compare(&of(what), khz(from), khz(to));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_settings_are_named() {
        let start = punctual_model::testing::recording(2, 1).host;
        let cpus: CpuSet = "1".parse().unwrap();
        assert_eq!(changed(&start, &start, &cpus), Vec::<String>::new());
        let mut end = start.clone();
        end.clock.source = Fact::known("hpet".to_owned(), "test");
        for cpu in &mut end.cpus {
            cpu.governor = Fact::known("powersave".to_owned(), "test");
        }
        end.processor.smt = Fact::unknown("test", "not there");
        let found = changed(&start, &end, &cpus);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("the clock source changed during the run"),
            "{found:?}"
        );
        assert!(
            found[1].starts_with("the governor of CPU 1 changed"),
            "{found:?}"
        );
    }
}
