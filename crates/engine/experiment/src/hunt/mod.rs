//! Searches the mix of background loads that makes most periods of a loop late.

mod mix;
mod search;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_loads::{LoadError, LoadRequest};
use punctual_model::{
    CpuSet, HUNT_SCHEMA, Hunt, LoopRequirement, Nanos, Recording, WorstMix, grouped,
};
use punctual_session::{Session, SessionError, Snapshot, Watcher};

use self::mix::{Mix, Space};
use self::search::{LEAST, Machine, Seen, Worst, search};
use crate::check::{Around, Checked, check};
use crate::conditions::timer;
use crate::request::{CheckError, CheckRequest};
use crate::wording::command_line;

/// The request for a search.
#[derive(Clone, Debug)]
pub struct HuntRequest {
    /// The loop. The loads are those of the search.
    pub check: CheckRequest,
    /// Time for the search, without the check of its result.
    pub length: Nanos,
    /// CPUs that the loads may use.
    pub cpus: CpuSet,
    /// Seed of the random mixes.
    pub seed: u64,
    /// The program and its options that repeat the check, without the loads.
    pub repeat: Vec<String>,
}

/// Length of a block, if the time suffices.
const BLOCK: Nanos = Nanos::from_secs(2);

/// Shortest length of a block.
const SHORTEST: Nanos = Nanos::from_millis(500);

/// Free disk space that a search with the load `disk` needs, in bytes.
const DISK: u64 = 2 << 30;

/// Longest pause in which the machine cools down.
const COOLING: Duration = Duration::from_secs(300);

/// A hunt and the check of its result.
#[derive(Debug)]
pub struct Hunted {
    /// The hunt.
    pub hunt: Hunt,
    /// The check of the machine under the confirmed mix.
    pub checked: Option<Checked>,
    /// Whether the user stopped the search.
    pub stopped: bool,
}

/// Searches the mix of loads with the highest reproducible rate of late periods, and checks the
/// machine under it.
///
/// # Errors
/// As [`check`], and if the time is too short, or the machine does not cool down.
pub fn hunt(
    asked: &HuntRequest,
    isolate: &dyn Fn(LoadRequest) -> LoadRequest,
    around: Around<'_>,
) -> Result<Hunted, HuntError> {
    let begun = Instant::now();
    let mut notes = Vec::new();
    let without = left_out(&mut notes);
    let space = Space::new(&asked.cpus, asked.check.requirement.period_ns, &without);
    let mut bench = Bench {
        asked,
        space: &space,
        isolate,
        host: around.host,
        stop: around.stop,
        say: around.say,
        notes,
        block: BLOCK,
    };
    let found = bench
        .blocks(begun)
        .and_then(|blocks| search(&mut bench, &space, blocks, asked.seed));
    let (worst, stopped) = match found {
        Ok(worst) => (worst, false),
        Err(HuntError::Stopped) => (Worst::default(), true),
        Err(error) => return Err(error),
    };
    let (notes, block) = (bench.notes, bench.block);
    let took = Nanos::from(begun.elapsed());
    let loads = worst.mix.as_ref().map(|mix| space.texts(mix));
    let mix = loads.map(|loads| worst_mix(asked, &worst, loads));
    let checked = match &mix {
        Some(mix) => Some(check(
            &asked.under(&mix.loads, asked.check.loaded, isolate)?,
            around,
        )?),
        None => None,
    };
    Ok(Hunted {
        hunt: Hunt {
            schema: HUNT_SCHEMA,
            program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
            sentence: sentence(&asked.check.requirement, &worst, mix.as_ref(), stopped),
            worst: mix,
            tried: worst.tried,
            took_ns: took,
            block_ns: block,
            seed: asked.seed,
            notes,
            checkup: checked.as_ref().map(|checked| checked.checkup.clone()),
        },
        stopped,
        checked,
    })
}

/// The reason why a search ended.
#[derive(Debug, thiserror::Error)]
pub enum HuntError {
    /// An error of a measurement.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A load cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The time is too short.
    #[error("--hunt {given} is too short: pass at least {needed}")]
    Short {
        /// The time that was given.
        given: Nanos,
        /// The time that is needed.
        needed: Nanos,
    },
    /// The machine stays too hot.
    #[error("{0} did not cool down in 5 minutes: the search ended")]
    Hot(String),
    /// The user stopped the search.
    #[error("stopped")]
    Stopped,
}

impl From<SessionError> for HuntError {
    fn from(error: SessionError) -> Self {
        Self::Check(error.into())
    }
}

/// Returns the loads that must not be used here.
fn left_out(notes: &mut Vec<String>) -> Vec<&'static str> {
    // The folder of the load.
    let folder = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
    let folder = std::path::PathBuf::from(folder);
    let free =
        rustix::fs::statvfs(&folder).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    match free {
        Ok(free) if free >= DISK => Vec::new(),
        _ => {
            let needed = DISK >> 30;
            notes.push(format!(
                "the load disk was not used, because {} has less than {needed} GiB of free space",
                folder.display()
            ));
            vec!["disk"]
        }
    }
}

impl HuntRequest {
    /// Returns the request for a check under these loads.
    fn under(
        &self,
        loads: &[String],
        length: Nanos,
        isolate: &dyn Fn(LoadRequest) -> LoadRequest,
    ) -> Result<CheckRequest, LoadError> {
        let loads = loads.iter().map(|text| text.parse().map(isolate));
        let loads: Vec<LoadRequest> = loads.collect::<Result<_, _>>()?;
        let is_idle = loads.is_empty();
        Ok(CheckRequest {
            idle: if is_idle { length } else { Nanos::ZERO },
            loaded: length,
            loads,
            hardware: Nanos::ZERO,
            until_proven: None,
            ..self.check.clone()
        })
    }
}

/// A watcher that shows nothing, because the blocks are short.
struct Nobody;

impl Watcher for Nobody {
    fn begin(&mut self, _: &Recording) {}
    fn progress(&mut self, _: &Snapshot) {}
    fn end(&mut self) {}
}

/// The machine that measures mixes.
struct Bench<'a> {
    asked: &'a HuntRequest,
    space: &'a Space,
    isolate: &'a dyn Fn(LoadRequest) -> LoadRequest,
    host: &'a Host,
    stop: &'a Arc<AtomicBool>,
    say: &'a dyn Fn(&str),
    notes: Vec<String>,
    /// Length of a block.
    block: Nanos,
}

impl Bench<'_> {
    /// Returns the number of blocks that fit into the time, and chooses their length. Measures one
    /// block with a mix to find out how long loads take to start and to end.
    fn blocks(&mut self, begun: Instant) -> Result<u32, HuntError> {
        let mut random = fastrand::Rng::with_seed(self.asked.seed);
        let mix = self.space.random(&mut random);
        self.measure(&mix, 1)?;
        let took = Nanos::from(begun.elapsed()).max(BLOCK);
        let left = self.asked.length.saturating_sub(took);
        self.block = block_length(left, took.saturating_sub(BLOCK));
        let each = took.saturating_sub(BLOCK) + self.block;
        let blocks = u32::try_from(left.0 / each.0).unwrap_or(u32::MAX);
        if blocks < LEAST {
            return Err(HuntError::Short {
                given: self.asked.length,
                needed: Nanos(each.0.saturating_mul(u64::from(LEAST) + 10)),
            });
        }
        Ok(blocks)
    }

    /// Waits until the kernel would no longer slow the machine down.
    fn cool_down(&mut self) -> Result<(), HuntError> {
        let begun = Instant::now();
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(HuntError::Stopped);
            }
            let zones = self.host.thermal_zones();
            let Some(hot) = zones
                .into_iter()
                .find(|zone| is_hot(zone.milli_celsius, zone.trip_milli_celsius))
            else {
                return Ok(());
            };
            if begun.elapsed() > COOLING {
                return Err(HuntError::Hot(hot.name));
            }
            let note = format!("the search paused, because {} was hot", hot.name);
            if !self.notes.contains(&note) {
                (self.say)(&note);
                self.notes.push(note);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Returns the length of a block: shorter than usual if fewer than [`LEAST`] would fit. `around` is the
/// time that loads take to start and to end.
fn block_length(left: Nanos, around: Nanos) -> Nanos {
    let fits = Nanos(left.0 / u64::from(LEAST)).saturating_sub(around);
    fits.clamp(SHORTEST, BLOCK)
}

/// Margin to the temperature at which the kernel slows the machine down, in 0.001 degrees Celsius.
const MARGIN: i64 = 5_000;

fn is_hot(now: i64, trip: Option<i64>) -> bool {
    trip.is_some_and(|trip| now >= trip - MARGIN)
}

impl Machine for Bench<'_> {
    type Error = HuntError;

    fn measure(&mut self, mix: &Mix, blocks: u32) -> Result<Seen, HuntError> {
        self.cool_down()?;
        let length = Nanos(self.block.0.saturating_mul(u64::from(blocks)));
        let loads = self.space.texts(mix);
        let asked = self.asked.under(&loads, length, self.isolate)?;
        let mut request = timer(&asked, false)?;
        request.machine.audit = None;
        let session = Session::prepare(request, self.host.clone())?;
        let recording = session.run(None, &mut Nobody, self.stop)?.recording;
        if self.stop.load(Ordering::Relaxed) {
            return Err(HuntError::Stopped);
        }
        let due = recording.all_due();
        let budget = asked.requirement.budget_ns;
        Ok(Seen {
            late: due.above_limit(budget).at_most,
            periods: due.periods(),
            max_ns: due.max().unwrap_or_default().0,
        })
    }

    fn say(&mut self, text: &str) {
        (self.say)(text);
    }
}

fn worst_mix(asked: &HuntRequest, worst: &Worst, loads: Vec<String>) -> WorstMix {
    let [with, without] = worst.confirmed;
    let options = loads.iter().flat_map(|load| ["--load", load.as_str()]);
    let words = asked.repeat.iter().map(String::as_str).chain(options);
    let words: Vec<String> = words.map(str::to_owned).collect();
    WorstMix {
        command: command_line(&words),
        loads,
        late: with.late,
        periods: with.periods,
        late_without: without.late,
        periods_without: without.periods,
        pairs: worst.pairs,
    }
}

/// Returns the result in one sentence.
fn sentence(
    asked: &LoopRequirement,
    worst: &Worst,
    mix: Option<&WorstMix>,
    stopped: bool,
) -> String {
    let budget = asked.budget_ns;
    let of = |late: u64, periods: u64| format!("{} of {}", grouped(late), grouped(periods));
    match (mix, &worst.best) {
        _ if stopped => "stopped: no mix of loads is confirmed".to_owned(),
        (Some(mix), _) => format!(
            "with {}, {} periods are over {budget}, and {} without load; confirmed on fresh data in {} \
             pairs of blocks",
            mix.loads.join(" + "),
            of(mix.late, mix.periods),
            of(mix.late_without, mix.periods_without),
            mix.pairs
        ),
        (None, Some((best, seen))) if seen.late > 0 => format!(
            "no mix of loads is confirmed: of {} mixes, {best} had the most late periods ({}), but not \
             more than no load on fresh data",
            worst.tried,
            of(seen.late, seen.periods)
        ),
        (None, _) => format!(
            "no mix of loads is confirmed: none of {} mixes had a period over {budget}",
            worst.tried
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_machine_is_known_in_time() {
        assert!(is_hot(95_000, Some(100_000)) && !is_hot(94_999, Some(100_000)));
        assert!(!is_hot(200_000, None));
    }

    #[test]
    fn short_searches_have_short_blocks() {
        let around = Nanos::from_millis(300);
        let of = |seconds: u64| block_length(Nanos::from_secs(seconds), around);
        assert_eq!(
            [1_800, 460, 240, 60].map(of),
            [BLOCK, BLOCK, Nanos::from_millis(900), SHORTEST]
        );
    }

    /// The command has the loads in a form that a shell takes as they are.
    #[test]
    fn result_states_the_command_that_repeats_it() {
        let seen = |late| Seen {
            late,
            periods: 16_000,
            max_ns: 0,
        };
        let worst = Worst {
            confirmed: [seen(160), seen(2)],
            pairs: 8,
            tried: 70,
            ..Worst::default()
        };
        let asked = LoopRequirement {
            budget_ns: Nanos::from_micros(100),
            ..LoopRequirement::of_jobs(Nanos(1))
        };
        let mix = WorstMix {
            loads: vec![
                "disk:threads=1".to_owned(),
                "cpu:share=50,cpus=1".to_owned(),
            ],
            command: String::new(),
            late: 160,
            periods: 16_000,
            late_without: 2,
            periods_without: 16_000,
            pairs: 8,
        };
        assert_eq!(
            sentence(&asked, &worst, Some(&mix), false),
            "with disk:threads=1 + cpu:share=50,cpus=1, 160 of 16,000 periods are over 100 µs, and 2 \
             of 16,000 without load; confirmed on fresh data in 8 pairs of blocks"
        );
        let none = sentence(&asked, &worst, None, false);
        assert_eq!(
            none,
            "no mix of loads is confirmed: none of 70 mixes had a period over 100 µs"
        );
    }
}
