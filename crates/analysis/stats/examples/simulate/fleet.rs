//! Alarms of a collector: machines that do not change, judged each week for a year.

use punctual_stats::changes::{Values, courses_of};
use punctual_stats::discoveries;

use super::wandering::{Moves, Noise, figures_of_runs};

/// Number of machines.
const MACHINES: u64 = 200;
/// Number of weeks, with one run a day.
const WEEKS: usize = 52;
/// The accepted share of false alarms among the alarms of a look.
const FALSE: f64 = 0.05;

/// The noise of the machines, in turn.
const NOISE: [Noise; 4] = [
    Noise::Wanders(0.0),
    Noise::Wanders(0.5),
    Noise::Wanders(0.9),
    Noise::HiddenWander(0.9),
];

/// Prints the number of false alarms in a year, with and without a limit for all machines together.
pub(crate) fn print() {
    println!("\n## alarms of a collector: {MACHINES} machines that do not change, a year\n");
    let series: Vec<Vec<f64>> = (0..MACHINES)
        .map(|seed| {
            let noise = NOISE[seed as usize % NOISE.len()];
            figures_of_runs(7 * WEEKS, Moves::Nothing, noise, seed)
        })
        .collect();
    // Each alarm is one machine and one step. It stands until the step is not found any more.
    let (mut alone, mut together) = (Alarms::default(), Alarms::default());
    for week in 2..=WEEKS {
        let found: Vec<Option<f64>> = (series.iter().zip(0..))
            .map(|(figures, seed)| worse(&figures[..7 * week], seed))
            .collect();
        let limit = discoveries::limit(
            found.iter().flatten().copied().collect(),
            found.len(),
            FALSE,
        );
        for (machine, p) in found.iter().enumerate() {
            alone.see(machine, p.is_some());
            together.see(machine, p.is_some_and(|p| p <= limit));
        }
    }
    println!(
        "a year: {} if each machine is judged alone, {} if all are judged together",
        alone.all, together.all
    );
}

/// The alarms so far.
#[derive(Default)]
struct Alarms {
    all: u64,
    standing: Vec<usize>,
}

impl Alarms {
    fn see(&mut self, machine: usize, is_alarm: bool) {
        let stands = self.standing.contains(&machine);
        if is_alarm && !stands {
            self.all += 1;
            self.standing.push(machine);
        } else if !is_alarm {
            self.standing.retain(|known| *known != machine);
        }
    }
}

/// Returns the smallest probability of a step to a higher level.
fn worse(figures: &[f64], seed: u64) -> Option<f64> {
    let courses = courses_of(&[vec![Values::Figures(figures.to_vec())]], seed);
    let steps = courses.iter().flatten().flat_map(|course| &course.steps);
    let worse = steps.filter(|step| step.ratio > 1.0);
    worse.map(|step| step.p_wandering).min_by(f64::total_cmp)
}
