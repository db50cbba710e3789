//! Tests with invented trees of files.

use super::*;

struct Tree(tempfile::TempDir);

impl Tree {
    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{text}\n")).unwrap();
    }

    fn idle(&self, state: u32, [usage, time, above, below]: [u64; 4]) {
        let folder = format!("sys/devices/system/cpu/cpu1/cpuidle/state{state}");
        self.write(
            &format!("{folder}/name"),
            ["POLL", "C1", "C6"][state as usize],
        );
        for (name, value) in [
            ("usage", usage),
            ("time", time),
            ("above", above),
            ("below", below),
        ] {
            self.write(&format!("{folder}/{name}"), &value.to_string());
        }
    }

    fn all(&self, [khz, heat, energy]: [u64; 3]) {
        self.write(
            "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq",
            &khz.to_string(),
        );
        self.write("sys/class/thermal/thermal_zone0/type", "soc");
        self.write("sys/class/thermal/thermal_zone0/temp", &heat.to_string());
        self.write("sys/class/hwmon/hwmon3/name", "coretemp");
        self.write("sys/class/hwmon/hwmon3/temp1_label", "Package id 0");
        self.write(
            "sys/class/hwmon/hwmon3/temp1_input",
            &(heat + 1_000).to_string(),
        );
        self.write(
            "sys/class/hwmon/hwmon3/energy2_input",
            &(energy * 2).to_string(),
        );
        self.write("sys/class/powercap/intel-rapl:0/name", "package-0");
        self.write(
            "sys/class/powercap/intel-rapl:0/energy_uj",
            &energy.to_string(),
        );
        self.write(
            "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
            "1000000",
        );
    }
}

fn cpus() -> CpuSet {
    "1".parse().unwrap()
}

#[test]
fn counter_changes_are_in_the_recording() {
    let tree = Tree(tempfile::tempdir().unwrap());
    tree.idle(0, [5, 50, 0, 1]);
    tree.idle(2, [100, 1_000, 7, 0]);
    tree.all([800_000, 40_000, 999_000]);
    let root = Root::new(tree.0.path().to_owned());
    let mut watch = PowerWatch::begin(&root, cpus());
    tree.idle(2, [130, 51_000, 9, 0]);
    // The energy counter wraps.
    tree.all([3_600_000, 61_000, 4_000]);
    let mut interference = Interference::default();
    watch.finish(&mut interference);
    let power = interference.power.unwrap();
    assert_eq!(power.idle.len(), 2);
    let deep = &power.idle[1];
    assert_eq!(
        (
            deep.cpu,
            deep.name.as_str(),
            deep.entered,
            deep.time_ns,
            deep.above,
            deep.below
        ),
        (1, "C6", 30, Nanos::from_millis(50), Some(2), Some(0))
    );
    assert_eq!(
        (power.frequency[0].start_khz, power.frequency[0].end_khz),
        (800_000, 3_600_000)
    );
    let heat: Vec<_> = (power.temperature.iter())
        .map(|one| {
            (
                one.sensor.as_str(),
                one.start_milli_celsius,
                one.end_milli_celsius,
            )
        })
        .collect();
    assert_eq!(
        heat,
        [
            ("coretemp Package id 0", 41_000, 62_000),
            ("soc (0)", 40_000, 61_000)
        ]
    );
    // The counter of hwmon has no range, so a decrease of its value cannot be evaluated.
    assert_eq!(power.energy.len(), 1);
    assert_eq!(power.energy[0].domain, "package-0 (intel-rapl:0)");
    assert_eq!(power.energy[0].micro_joules, 5_000);
    assert!(power.unknown.is_empty(), "{:?}", power.unknown);
}

#[test]
fn absent_power_counters_are_unknown_with_reason() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::new(tree.path().to_owned());
    let mut watch = PowerWatch::begin(&root, cpus());
    let mut interference = Interference::default();
    watch.finish(&mut interference);
    let power = interference.power.unwrap();
    assert!(power.idle.is_empty() && power.energy.is_empty());
    let text = power.unknown.join("\n");
    for what in ["idle states", "frequency", "temperature", "energy"] {
        assert!(text.contains(&format!("{what}: n")), "{text}");
    }
}
