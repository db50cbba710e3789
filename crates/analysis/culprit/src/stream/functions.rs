//! Long runs of kernel functions, as the tracer function_graph states them.

use std::collections::{HashMap, VecDeque};

use punctual_model::{FunctionRun, FunctionSum, Nanos, Text, Window};

use super::LateReactions;

/// Maximum number of runs that are held for reactions that have not ended yet.
const HELD: usize = 50_000;

/// Maximum number of runs in a window.
const IN_WINDOW: usize = 2_000;

/// Maximum number of functions with a sum. Kernels have fewer.
const FUNCTIONS: usize = 1 << 18;

/// Number of functions in the summary.
const LONGEST: usize = 20;

/// The latest runs, and sums over all.
#[derive(Debug, Default)]
pub(super) struct Functions {
    latest: VecDeque<FunctionRun>,
    sums: HashMap<Text, FunctionSum>,
}

impl Functions {
    fn note(&mut self, run: &FunctionRun) {
        if self.sums.len() >= FUNCTIONS && !self.sums.contains_key(&run.function) {
            return;
        }
        let sum = self
            .sums
            .entry(run.function.clone())
            .or_insert_with(|| FunctionSum {
                function: run.function.clone(),
                runs: 0,
                longest_ns: Nanos::ZERO,
            });
        sum.runs += 1;
        sum.longest_ns = sum.longest_ns.max(run.took);
    }

    /// Adds the runs that overlap a window.
    pub(super) fn add_to(&self, window: &mut Window) {
        for run in &self.latest {
            add(run, window);
        }
    }

    /// Returns the functions with the longest runs, the longest first.
    pub(super) fn longest(&self) -> Vec<FunctionSum> {
        let mut sums: Vec<FunctionSum> = self.sums.values().cloned().collect();
        sums.sort_by(|a, b| {
            (b.longest_ns.cmp(&a.longest_ns)).then_with(|| a.function.cmp(&b.function))
        });
        sums.truncate(LONGEST);
        sums
    }
}

/// Adds a run to a window if a long part of it lies within the latency.
fn add(run: &FunctionRun, window: &mut Window) {
    let Some((begin, end)) = run.span() else {
        return;
    };
    let within = end
        .min(window.actual)
        .saturating_sub(begin.max(window.expected));
    if within >= FunctionRun::LEAST && window.evidence.functions.len() < IN_WINDOW {
        window.evidence.functions.push(run.clone());
    }
}

impl LateReactions {
    /// Processes a run of a kernel function. A run ends at its return, so it can follow the events of
    /// the reaction that it delayed.
    pub fn function(&mut self, run: FunctionRun) {
        self.functions.note(&run);
        if let Some((begin, end)) = run.span() {
            self.found.note_span(run.cpu, begin, end);
        }
        let kept = [&mut self.real_time, &mut self.others];
        for reaction in kept.into_iter().flat_map(|list| list.iter_mut()) {
            if !reaction.is_over {
                add(&run, &mut reaction.window);
            }
        }
        if run.span().is_some() {
            self.functions.latest.push_back(run);
        }
        if self.functions.latest.len() > HELD {
            self.functions.latest.pop_front();
        }
    }

    /// Forgets the runs, because another trace begins.
    pub(super) fn forget_functions(&mut self) {
        self.functions.latest.clear();
        let kept = [&mut self.real_time, &mut self.others];
        for reaction in kept.into_iter().flat_map(|list| list.iter_mut()) {
            reaction.is_over = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    fn run(function: &str, begin: u64, end: u64) -> FunctionRun {
        FunctionRun {
            function: function.into(),
            cpu: 1,
            pid: None,
            end: Some(Nanos::from_micros(end)),
            took: Nanos::from_micros(end - begin),
        }
    }

    /// A run explains a latency only if at least 10 µs of it are within.
    #[test]
    fn run_belongs_to_the_latency_that_it_overlaps() {
        for (begin, end, expected) in [
            (120, 130, true),
            (120, 129, false),
            (0, 900, true),
            (50, 110, true),
            (50, 109, false),
            (190, 300, true),
            (191, 300, false),
            (10, 90, false),
            (210, 290, false),
        ] {
            let mut window = window(100, 200, Vec::new());
            add(&run("kfree", begin, end), &mut window);
            let is_added = !window.evidence.functions.is_empty();
            assert_eq!(is_added, expected, "{begin} to {end}");
        }
        let mut window = window(100, 200, Vec::new());
        let end = None;
        add(
            &FunctionRun {
                end,
                ..run("kfree", 120, 180)
            },
            &mut window,
        );
        assert!(window.evidence.functions.is_empty(), "it has no time");
    }

    #[test]
    fn number_of_runs_in_a_window_is_limited() {
        let functions = Functions {
            latest: (0..2_100).map(|_| run("kfree", 120, 180)).collect(),
            sums: HashMap::new(),
        };
        let mut window = window(100, 200, Vec::new());
        functions.add_to(&mut window);
        assert_eq!(window.evidence.functions.len(), 2_000);
    }

    #[test]
    fn functions_are_summed_with_the_longest_first() {
        let mut functions = Functions::default();
        for number in 0..30_u64 {
            functions.note(&run(&format!("function{number:02}"), 0, 100 + number / 2));
        }
        functions.note(&run("function00", 0, 500));
        functions.note(&run("function00", 0, 40));
        let longest = functions.longest();
        assert_eq!(longest.len(), 20);
        let first = &longest[0];
        assert_eq!((&*first.function.0, first.runs), ("function00", 3));
        assert_eq!(first.longest_ns, Nanos::from_micros(500));
        // Functions of equal length are in order of their names.
        let names = longest[1..3].iter().map(|sum| &*sum.function.0);
        assert_eq!(names.collect::<Vec<_>>(), ["function28", "function29"]);
    }
}
