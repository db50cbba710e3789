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

/// A run of an hour has at most 64 readings, which cover all of it.
#[test]
fn temperature_and_frequency_are_read_during_the_run() {
    let tree = Tree(tempfile::tempdir().unwrap());
    let root = Root::new(tree.0.path().to_owned());
    tree.all([3_600_000, 40_000, 0]);
    let mut watch = PowerWatch::begin(&root, cpus());
    for tenth in 0..36_000 {
        if tenth == 18_000 {
            tree.all([1_200_000, 90_000, 0]);
        }
        watch.poll(Nanos::from_millis(tenth * 100), &cpus());
    }
    let mut interference = Interference::default();
    watch.finish(&mut interference);
    let points = interference.power.unwrap().points;
    assert!((32..=64).contains(&points.len()), "{}", points.len());
    assert_eq!(points[0].at_ns, Nanos::ZERO);
    assert!(points.last().unwrap().at_ns >= Nanos::from_secs(3_500));
    for point in &points {
        let is_hot = point.at_ns >= Nanos::from_secs(1_800);
        let (khz, heat) = if is_hot {
            (1_200_000, 91_000)
        } else {
            (3_600_000, 41_000)
        };
        assert_eq!(
            (point.mean_khz, point.max_milli_celsius),
            (Some(khz), Some(heat))
        );
    }
}

#[test]
fn machine_without_sensors_has_no_readings() {
    let tree = tempfile::tempdir().unwrap();
    let root = Root::new(tree.path().to_owned());
    let mut watch = PowerWatch::begin(&root, cpus());
    (0..9).for_each(|second| watch.poll(Nanos::from_secs(second), &cpus()));
    let mut interference = Interference::default();
    watch.finish(&mut interference);
    assert_eq!(interference.power.unwrap().points, []);
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
