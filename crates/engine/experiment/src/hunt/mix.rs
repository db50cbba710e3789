//! A mix of background loads.

use std::fmt;
use std::ops::RangeInclusive;

use punctual_model::{CpuSet, Nanos};

use crate::conditions::start_phase;

/// A load that can be part of a mix, with its three intensities.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    levels: [&'static str; 3],
    /// Whether the load has a period.
    is_periodic: bool,
}

const fn kind(name: &'static str, levels: [&'static str; 3]) -> Kind {
    Kind {
        name,
        levels,
        is_periodic: false,
    }
}

/// The loads of a mix. They use only a part of the memory and of the disk space, and only the
/// loopback interface. Loads that need other programs are not used.
pub(super) const KINDS: [Kind; 10] = [
    Kind {
        name: "cpu",
        levels: ["share=20", "share=50", "share=90"],
        is_periodic: true,
    },
    kind("cache", ["threads=1,size=16", "threads=1", ""]),
    kind("memory", ["threads=1,rate=500", "threads=1", ""]),
    kind("faults", ["threads=1,rate=20000", "threads=1", ""]),
    kind("fork", ["processes=1", "processes=2", "processes=4"]),
    kind("messages", ["groups=1", "groups=2", "groups=4"]),
    kind("disk", ["threads=1,rate=20", "threads=1", "threads=4"]),
    kind("network", ["pairs=1,rate=100", "pairs=1", "pairs=4"]),
    kind("timers", ["timers=10", "timers=50", "timers=200"]),
    kind("syscalls", ["threads=1,rate=20000", "threads=1", ""]),
];

/// Period of a periodic load, compared with that of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// About the same. The load pauses for a relative time, so it slowly passes through each phase
    /// against the loop.
    Near,
    /// Ten periods of the loop.
    Slow,
    /// The shortest multiple of the period of the loop that the load can have, always at this phase
    /// after the due times of the first thread, in eighths of the period of the loop.
    At(u64),
}

/// Number of phases.
const PHASES: u64 = 8;

/// Range of the period of a load, in ns.
const PERIODS: RangeInclusive<u64> = 1_000_000..=1_000_000_000;

impl Pace {
    /// Returns a random pace.
    fn random(of_loop: Nanos, random: &mut fastrand::Rng) -> Self {
        match random.u8(0..3) {
            0 => Self::Near,
            1 => Self::Slow,
            _ if Self::phased(of_loop).is_none() => Self::Near,
            _ => Self::At(random.u64(0..PHASES)),
        }
    }

    /// Returns the period of a load with a phase, and the phase of the loop; `None` if the loop has none.
    fn phased(of_loop: Nanos) -> Option<[Nanos; 2]> {
        let start = start_phase(of_loop)?;
        let each = of_loop.0.max(1);
        let period = PERIODS.start().div_ceil(each) * each;
        PERIODS.contains(&period).then_some([Nanos(period), start])
    }

    /// Returns the parameters of a load with this pace.
    fn text(self, of_loop: Nanos) -> String {
        let clamped = |ns: u64| ns.clamp(*PERIODS.start(), *PERIODS.end()) / 1_000;
        match (self, Self::phased(of_loop)) {
            (Self::Slow, _) => format!("period={}us", clamped(of_loop.0.saturating_mul(10))),
            (Self::At(eighths), Some([period, start])) => {
                let phase = (start.0 + of_loop.0 * eighths / PHASES) % period.0;
                format!("period={}ns,phase={phase}ns", period.0)
            }
            (Self::Near | Self::At(_), _) => format!("period={}us", clamped(of_loop.0)),
        }
    }
}

/// A load of a mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) kind: &'static Kind,
    /// Intensity, 0 to 2.
    pub(super) level: usize,
    pub(super) pace: Pace,
    /// The only CPU of the load; `None` for all CPUs that this process may use.
    pub(super) cpu: Option<u32>,
}

/// A mix of loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mix(pub(super) Vec<Part>);

/// The loads that a mix can consist of.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) kinds: Vec<&'static Kind>,
    pub(super) cpus: Vec<u32>,
    /// Period of the loop.
    pub(super) period: Nanos,
}

impl Space {
    /// Returns the space with all loads on these CPUs, except those in `without`.
    pub(super) fn new(cpus: &CpuSet, period: Nanos, without: &[&str]) -> Self {
        let kinds = KINDS.iter().filter(|kind| !without.contains(&kind.name));
        Self {
            kinds: kinds.collect(),
            cpus: cpus.iter().collect(),
            period,
        }
    }

    /// Returns the arguments of `--load` for a mix.
    pub(super) fn texts(&self, mix: &Mix) -> Vec<String> {
        mix.0.iter().map(|part| self.text(part)).collect()
    }

    /// Returns the number of pairs of different loads.
    pub(super) fn pairs(&self) -> u32 {
        let kinds = self.kinds.len() as u32;
        kinds * kinds.saturating_sub(1) / 2
    }

    fn text(&self, part: &Part) -> String {
        let mut words = Vec::new();
        let level = part.kind.levels[part.level.min(2)];
        if !level.is_empty() {
            words.push(level.to_owned());
        }
        if part.kind.is_periodic {
            words.push(part.pace.text(self.period));
        }
        words.extend(part.cpu.map(|cpu| format!("cpus={cpu}")));
        match words.as_slice() {
            [] => part.kind.name.to_owned(),
            words => format!("{}:{}", part.kind.name, words.join(",")),
        }
    }

    /// Returns a random mix of three or four different loads, or of all if there are fewer. Mixes of
    /// many loads find effects that need two loads at once; the search removes the others at the end.
    pub(super) fn random(&self, random: &mut fastrand::Rng) -> Mix {
        let mut kinds = self.kinds.clone();
        random.shuffle(&mut kinds);
        kinds.truncate(random.usize(3..=4));
        Mix(kinds
            .into_iter()
            .map(|kind| self.part(kind, random))
            .collect())
    }

    fn part(&self, kind: &'static Kind, random: &mut fastrand::Rng) -> Part {
        let cpu = match self.cpus.len() {
            0 | 1 => None,
            number => random.bool().then(|| self.cpus[random.usize(0..number)]),
        };
        Part {
            kind,
            level: random.usize(0..3),
            pace: Pace::random(self.period, random),
            cpu,
        }
    }

    /// Returns a mix of the loads of two others, with one of them changed.
    pub(super) fn crossed(&self, one: &Mix, other: &Mix, random: &mut fastrand::Rng) -> Mix {
        let mut parts: Vec<Part> = one.0.clone();
        for part in &other.0 {
            match parts.iter_mut().find(|own| own.kind == part.kind) {
                Some(own) if random.bool() => *own = part.clone(),
                Some(_) => {}
                None => parts.push(part.clone()),
            }
        }
        random.shuffle(&mut parts);
        parts.truncate(5);
        if let Some(last) = parts.last_mut() {
            *last = self.part(last.kind, random);
        }
        Mix(parts)
    }
}

impl Mix {
    /// Returns the mix without one of its loads.
    pub(super) fn without(&self, place: usize) -> Self {
        let mut parts = self.0.clone();
        parts.remove(place);
        Self(parts)
    }

    /// Returns all pairs of its loads, by name.
    pub(super) fn pairs(&self) -> Vec<[&'static str; 2]> {
        let mut names: Vec<&str> = self.0.iter().map(|part| part.kind.name).collect();
        names.sort_unstable();
        let each = names.iter().enumerate();
        each.flat_map(|(place, one)| names[place + 1..].iter().map(move |other| [*one, *other]))
            .collect()
    }

    /// Returns the mix with one of its loads at a lower intensity; `None` if it is the lowest.
    pub(super) fn weaker(&self, place: usize) -> Option<Self> {
        let mut parts = self.0.clone();
        let part = parts.get_mut(place)?;
        part.level = part.level.checked_sub(1)?;
        Some(Self(parts))
    }
}

/// Formats as `disk + cpu on CPU 1`.
impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in self.0.iter().enumerate() {
            let plus = if place > 0 { " + " } else { "" };
            write!(f, "{plus}{}", part.kind.name)?;
            if let Some(cpu) = part.cpu {
                write!(f, " on CPU {cpu}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use punctual_loads::LoadRequest;

    use super::*;

    /// Each load of each mix is one that the command line accepts.
    #[test]
    fn mixes_are_valid_loads() {
        let space = Space::new(&(0..4).collect(), Nanos::from_micros(500), &[]);
        let random = &mut fastrand::Rng::with_seed(3);
        let mut seen = std::collections::BTreeSet::new();
        let mut mix = space.random(random);
        for _ in 0..2_000 {
            let other = space.random(random);
            assert!((3..=4).contains(&other.0.len()));
            mix = space.crossed(&mix, &other, random);
            assert!(mix.0.len() <= 5);
            for text in space.texts(&mix).into_iter().chain(space.texts(&other)) {
                let read: Result<LoadRequest, _> = text.parse();
                assert!(read.is_ok(), "{text}: {:?}", read.err());
                seen.insert(text);
            }
        }
        // Each load has each intensity.
        assert!(seen.len() > 30, "{seen:?}");
        assert!(seen.contains("cpu:share=50,period=1000us"), "{seen:?}");
        // The loop starts at 250 us, and the load at each eighth of its period of 500 us after that.
        let phases = (0..8).map(|eighths| 250_000 + eighths * 62_500);
        for phase in phases {
            let text = format!("cpu:share=50,period=1000000ns,phase={phase}ns");
            assert!(seen.contains(&text), "{text}: {seen:?}");
        }
    }

    /// A load has a phase only if its period is a multiple of that of the loop.
    #[test]
    fn phases_are_those_of_the_loop() {
        let text = |of_loop: u64| Pace::At(6).text(Nanos(of_loop));
        assert_eq!(text(1_000_000), "period=1000000ns,phase=250000ns");
        assert_eq!(text(300_000), "period=1200000ns,phase=375000ns");
        assert_eq!(text(10_000_000), "period=10000000ns,phase=2500000ns");
        assert_eq!(text(2_000_000_000), "period=1000000us");
    }

    #[test]
    fn loads_can_be_left_out() {
        let space = Space::new(&CpuSet::from_iter([0]), Nanos::from_millis(1), &["disk"]);
        let random = &mut fastrand::Rng::with_seed(3);
        for _ in 0..100 {
            let texts = space.texts(&space.random(random));
            assert!(
                texts
                    .iter()
                    .all(|text| !text.starts_with("disk") && !text.contains("cpus"))
            );
        }
    }
}
