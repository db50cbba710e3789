//! Idle states, frequencies, temperatures and energy of a recording.

use punctual_model::{IdleUse, Nanos, Power, Recording, counted, grouped};

use super::Field;

/// Returns a line for each kind of data known for the measured CPUs.
pub(super) fn known(recording: &Recording) -> Vec<Field> {
    let Some(power) = &recording.interference.power else {
        return Vec::new();
    };
    let cpus = recording.interference.cpus.iter();
    let measured: Vec<u32> = cpus.filter(|cpu| cpu.measured).map(|cpu| cpu.cpu).collect();
    let kinds = [
        (
            "idle",
            idle(power, &measured, recording.interference.duration_ns),
        ),
        ("frequency", frequency(power, &measured)),
        ("temperature", temperature(power)),
        ("energy", energy(power)),
    ];
    let known = kinds.into_iter().filter(|(_, text)| !text.is_empty());
    known.map(|(name, text)| Field::new(name, text)).collect()
}

/// Returns what is unknown, with the reason.
pub(super) fn unknown(recording: &Recording) -> Vec<Field> {
    let power = recording.interference.power.as_ref();
    let unknown = power.map_or(&[][..], |power| &power.unknown);
    unknown
        .iter()
        .map(|reason| Field::new("unknown", reason.as_str()))
        .collect()
}

/// Returns the idle states of the measured CPUs:
/// `C1 12% (34 times), C6 71% (1,204 times, 30 too deep, 2 too shallow)`.
fn idle(power: &Power, measured: &[u32], duration: Nanos) -> String {
    let of = || power.idle.iter().filter(|one| measured.contains(&one.cpu));
    let mut names: Vec<&str> = Vec::new();
    for one in of() {
        if !names.contains(&one.name.as_str()) {
            names.push(&one.name);
        }
    }
    let all = duration.as_secs_f64() * measured.len() as f64;
    let text = |name: &&str| {
        let own = || of().filter(|one| one.name == **name);
        let sum = |count: fn(&IdleUse) -> u64| own().map(count).sum::<u64>();
        let share = 100.0 * sum(|one| one.time_ns.0) as f64 / 1e9 / all.max(1e-9);
        let entered = sum(|one| one.entered);
        if entered == 0 {
            return None;
        }
        let mut text = format!("{name} {share:.1}% ({}", counted(entered, "time", "times"));
        let deep = sum(|one| one.above.unwrap_or(0));
        let shallow = sum(|one| one.below.unwrap_or(0));
        for (count, what) in [(deep, "too deep"), (shallow, "too shallow")] {
            if count > 0 {
                text.push_str(&format!(", {} {what}", grouped(count)));
            }
        }
        Some(text + ")")
    };
    names.iter().filter_map(text).collect::<Vec<_>>().join(", ")
}

/// Returns the frequencies: `0.80 to 3.60 GHz at the start and the end`.
fn frequency(power: &Power, measured: &[u32]) -> String {
    let own = || {
        power
            .frequency
            .iter()
            .filter(|one| measured.contains(&one.cpu))
    };
    let each = || own().flat_map(|one| [one.start_khz, one.end_khz]);
    let (Some(low), Some(high)) = (each().min(), each().max()) else {
        return String::new();
    };
    let [low, high] = [low, high].map(|khz| format!("{:.2}", khz as f64 / 1e6));
    if low == high {
        format!("{low} GHz at the start and at the end")
    } else {
        format!("{low} to {high} GHz at the start and at the end")
    }
}

/// Returns the sensor with the highest temperature at the end.
fn temperature(power: &Power) -> String {
    let hottest = power
        .temperature
        .iter()
        .max_by_key(|one| one.end_milli_celsius);
    hottest.map_or_else(String::new, |one| {
        let [start, end] = [one.start_milli_celsius, one.end_milli_celsius]
            .map(|milli| format!("{:.1}", milli as f64 / 1e3));
        format!(
            "{}: {start} °C at the start, {end} °C at the end",
            one.sensor
        )
    })
}

/// Returns the energy: `package-0 (intel-rapl:0) 12.3 J`.
fn energy(power: &Power) -> String {
    let each = power.energy.iter();
    let text = each.map(|one| format!("{} {:.1} J", one.domain, one.micro_joules as f64 / 1e6));
    text.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use punctual_model::{EnergyUse, FrequencyUse, TemperatureUse, testing};

    use super::*;

    fn texts(fields: &[Field]) -> String {
        format!("{fields:?}")
    }

    #[test]
    fn power_facts_of_measured_cpus_are_shown() {
        let mut recording = testing::recording(2, 10);
        assert!(known(&recording).is_empty());
        recording.interference.duration_ns = Nanos::from_secs(10);
        for (place, cpu) in recording.interference.cpus.iter_mut().enumerate() {
            (cpu.cpu, cpu.measured) = (place as u32, place == 0);
        }
        let idle = |cpu, entered| IdleUse {
            cpu,
            state: 2,
            name: "C6".to_owned(),
            entered,
            time_ns: Nanos::from_secs(7),
            above: Some(30),
            below: Some(0),
        };
        recording.interference.power = Some(Power {
            idle: vec![idle(0, 1_204), idle(1, 5)],
            frequency: vec![FrequencyUse {
                cpu: 0,
                start_khz: 800_000,
                end_khz: 3_600_000,
            }],
            temperature: vec![TemperatureUse {
                sensor: "soc (0)".to_owned(),
                start_milli_celsius: 40_000,
                end_milli_celsius: 61_500,
            }],
            energy: vec![EnergyUse {
                domain: "package-0".to_owned(),
                micro_joules: 12_340_000,
            }],
            unknown: vec!["frequency: no file".to_owned()],
            ..Power::default()
        });
        let shown = texts(&known(&recording));
        for part in [
            "C6 70.0% (1,204 times, 30 too deep)",
            "0.80 to 3.60 GHz at the start and at the end",
            "soc (0): 40.0 °C at the start, 61.5 °C at the end",
            "package-0 12.3 J",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert!(texts(&unknown(&recording)).contains("frequency: no file"));
    }
}
