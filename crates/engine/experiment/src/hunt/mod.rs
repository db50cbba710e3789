//! Searches the mix of background loads that makes most periods of a loop late.

mod mix;
mod search;
mod time;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punctual_host::Host;
use punctual_loads::{LoadError, LoadRequest};
use punctual_model::{
    CpuSet, HUNT_SCHEMA, Hunt, LoopRequirement, Nanos, Recording, WorstMix, counted, grouped,
};
use punctual_session::{Session, SessionError, Snapshot, Watcher};

use self::mix::{Mix, Space};
use self::search::{Confirmed, Cut, Machine, Seen, Worst, least, search};
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
    if asked.length < least() {
        return Err(HuntError::Short {
            given: asked.length,
            needed: least(),
        });
    }
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
        begun: Instant::now(),
    };
    let mut worst = Worst::default();
    let searched = search(&mut bench, &space, (asked.length, asked.seed), &mut worst);
    let took = bench.elapsed();
    let mut notes = bench.notes;
    let stopped = match searched {
        Ok(()) => false,
        Err(HuntError::Stopped) => true,
        Err(error) => return Err(error),
    };
    if worst.cut == Some(Cut::Reduction) {
        notes.push(NOT_REDUCED.to_owned());
    }
    let confirmed = worst.confirmed.as_ref();
    let mix = confirmed.map(|found| worst_mix(asked, found, space.texts(&found.mix)));
    let checked = match &mix {
        Some(mix) if !stopped => Some(check(
            &asked.under(&mix.loads, (asked.check.loaded, false), isolate)?,
            around,
        )?),
        _ => None,
    };
    let [block, block_took] = worst.means;
    Ok(Hunted {
        hunt: Hunt {
            schema: HUNT_SCHEMA,
            program: format!("punctual {}", env!("CARGO_PKG_VERSION")),
            sentence: sentence(&asked.check.requirement, &worst, mix.as_ref(), stopped),
            worst: mix,
            tried: worst.tried,
            load_pairs: worst.together,
            load_pairs_possible: space.pairs(),
            took_ns: took,
            blocks: worst.blocks,
            block_ns: block,
            block_took_ns: block_took,
            seed: asked.seed,
            notes,
            checkup: checked.as_ref().map(|checked| checked.checkup.clone()),
        },
        stopped,
        checked,
    })
}

/// The note on a mix that may contain loads that are not needed.
const NOT_REDUCED: &str = "the time ended before all loads that are not needed were removed: a longer \
     --hunt can find a smaller mix";

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
    #[error(
        "--hunt {given} is too short: pass at least {needed}, which suffices only if loads start and \
         end in no time; 20m is usual"
    )]
    Short {
        /// The time that was given.
        given: Nanos,
        /// The time of the shortest search.
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
        (length, in_phase): (Nanos, bool),
        isolate: &dyn Fn(LoadRequest) -> LoadRequest,
    ) -> Result<CheckRequest, LoadError> {
        let loads = loads.iter().map(|text| text.parse().map(isolate));
        let loads: Vec<LoadRequest> = loads.collect::<Result<_, _>>()?;
        let is_idle = loads.is_empty();
        Ok(CheckRequest {
            idle: if is_idle { length } else { Nanos::ZERO },
            loaded: length,
            loads,
            in_phase,
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
    begun: Instant,
}

/// Margin to the temperature at which the kernel slows the machine down, in 0.001 degrees Celsius.
const MARGIN: i64 = 5_000;

fn is_hot(now: i64, trip: Option<i64>) -> bool {
    trip.is_some_and(|trip| now >= trip - MARGIN)
}

impl Machine for Bench<'_> {
    type Error = HuntError;

    fn elapsed(&self) -> Nanos {
        self.begun.elapsed().into()
    }

    /// Waits until the kernel would no longer slow the machine down.
    fn rest(&mut self) -> Result<(), HuntError> {
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

    fn measure(&mut self, mix: &Mix, length: Nanos) -> Result<Seen, HuntError> {
        let loads = self.space.texts(mix);
        // The loop has the same phase in all blocks, also in those whose loads have none.
        let asked = self.asked.under(&loads, (length, true), self.isolate)?;
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

fn worst_mix(asked: &HuntRequest, found: &Confirmed, loads: Vec<String>) -> WorstMix {
    let [with, without] = found.seen;
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
        pairs: found.pairs,
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
    let none = "no mix of loads is confirmed";
    let tried = counted(worst.tried.into(), "mix", "mixes");
    match (mix, &worst.best) {
        (None, _) if stopped => format!("stopped: {none}; {tried} tried"),
        (Some(mix), _) => format!(
            "{}with {}, {} periods are over {budget}, and {} without load; confirmed on fresh data in \
             {} pairs of blocks",
            if stopped { "stopped: " } else { "" },
            mix.loads.join(" + "),
            of(mix.late, mix.periods),
            of(mix.late_without, mix.periods_without),
            mix.pairs
        ),
        (None, Some((best, seen))) if seen.late > 0 => {
            let why = match worst.cut {
                Some(Cut::Confirmation { pairs }) if worst.refuted == 0 => format!(
                    "the time ended after {} on fresh data: pass a longer time to --hunt",
                    counted(pairs.into(), "pair of blocks", "pairs of blocks")
                ),
                _ => "it had not more than no load on fresh data".to_owned(),
            };
            format!(
                "{none}: of {tried}, {best} had the most late periods ({}), but {why}",
                of(seen.late, seen.periods)
            )
        }
        (None, _) => format!("{none}: none of {tried} had a period over {budget}"),
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

    fn seen(late: u64) -> Seen {
        Seen {
            late,
            periods: 16_000,
            max_ns: 0,
        }
    }

    /// Returns the sentence on a search of 70 mixes.
    fn told(worst: Worst, mix: Option<&WorstMix>, stopped: bool) -> String {
        let asked = LoopRequirement {
            budget_ns: Nanos::from_micros(100),
            ..LoopRequirement::of_jobs(Nanos(1))
        };
        sentence(&asked, &Worst { tried: 70, ..worst }, mix, stopped)
    }

    #[test]
    fn result_states_the_confirmed_mix() {
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
        let sentence = "with disk:threads=1 + cpu:share=50,cpus=1, 160 of 16,000 periods are over \
             100 µs, and 2 of 16,000 without load; confirmed on fresh data in 8 pairs of blocks";
        assert_eq!(told(Worst::default(), Some(&mix), false), sentence);
        // The confirmation is complete, so an end in the reduction does not take it back.
        assert_eq!(
            told(Worst::default(), Some(&mix), true),
            format!("stopped: {sentence}")
        );
    }

    /// A search that confirms nothing states why.
    #[test]
    fn result_without_a_mix_states_what_was_tried() {
        let none = "no mix of loads is confirmed";
        assert_eq!(
            told(Worst::default(), None, false),
            format!("{none}: none of 70 mixes had a period over 100 µs")
        );
        assert_eq!(
            told(Worst::default(), None, true),
            format!("stopped: {none}; 70 mixes tried")
        );
        let space = Space::new(&CpuSet::from_iter([0]), Nanos::from_millis(1), &[]);
        let best = Some((space.random(&mut fastrand::Rng::with_seed(1)), seen(9)));
        let cut = Worst {
            best: best.clone(),
            cut: Some(Cut::Confirmation { pairs: 5 }),
            ..Worst::default()
        };
        let text = told(cut.clone(), None, false);
        assert!(
            text.contains(
                "(9 of 16,000), but the time ended after 5 pairs of blocks on fresh data"
            ),
            "{text}"
        );
        let refuted = told(Worst { refuted: 1, ..cut }, None, false);
        assert!(
            refuted.ends_with("but it had not more than no load on fresh data"),
            "{refuted}"
        );
    }
}
