//! The options of `experiment`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use punctual_experiment::{least_rounds, shortest_time};
use punctual_model::{Arm, ArmAction, ExperimentPlan, LONGEST_LABEL, Nanos, Values, WashOut};
use punctual_tune::Wish;

use super::numbers::{Conditions, OfNumbers};
use super::report::OutputOptions;
use crate::exit::UsageError;
use crate::live::shortened;
use crate::options::blocks::{Measuring, OF_COMMAND};
use crate::options::measuring::length;
use crate::options::share_cpus::Sharing;

/// Exit codes of `experiment`, for its help.
const EXITS: &str = "\
Exit codes:
  0    each condition is shown to differ, or to be equivalent
  1    failed; settings are as before
  2    wrong usage
  3    with --fail-on-worse: a condition is shown to be worse
  4    not proven
  130  interrupted; `punctual experiment resume` continues

With --boot, 0 also means that the machine must be rebooted for the next block.";

/// Time to discard at the start of each boot, while services are still starting.
const OF_BOOT: Nanos = Nanos::from_secs(30);

/// Prove whether a change makes latency better or worse
///
/// Measures blocks with and without the change, pair by pair in random order, and compares how many
/// 10 ms slots contain a late wake-up. A pilot run chooses the threshold and reports the smallest
/// effect that the plan can find. Because of the random order, the result is also valid on a
/// machine that drifts. Settings are changed with a journal, as by `punctual tune`. They are
/// restored at the end, or by the next command if this one is killed. With --numbers, a command
/// measures instead: it prints one or several numbers, which are compared pair by pair. With
/// --boot, each boot is one block: `experiment resume` measures it and names the next boot. With
/// --write, the command writes one-time boot entries (GRUB, systemd-boot) and a unit that resumes
/// the experiment, and removes them at the end.
#[derive(Parser, Clone, Debug)]
#[command(mut_args(super::numbers::exclude))]
#[command(after_help = EXITS, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(super) struct Options {
    #[command(subcommand)]
    pub(super) stored: Option<Stored>,
    #[command(flatten)]
    pub(super) new: New,
}

/// Subcommands for experiments in the store.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum Stored {
    /// Continue an experiment that was stopped or killed
    Resume {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        booting: Booting,
        #[command(flatten)]
        sharing: Sharing,
        #[command(flatten)]
        output: OutputOptions,
    },
    /// List the experiments, the newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show an experiment
    Show {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a report of an experiment: HTML, Markdown or text
    Report {
        #[command(flatten)]
        which: Which,
        /// File (.html, .md, .txt), - for stdout [default: experiment-ID.html]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Draw an experiment as SVG or PNG
    Plot {
        #[command(flatten)]
        which: Which,
        /// Latencies by condition, late slots by block, or late slots over power
        #[arg(short, long, value_name = "KIND", default_value = "strip")]
        #[arg(value_parser = ["latency", "strip", "power"])]
        kind: String,
        /// File: .svg, .png, or - for SVG on stdout [default: KIND-ID.svg]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Delete an experiment with the recordings of its blocks
    Delete {
        /// Experiment: an ID, the start or end of an ID, a label, `last` or `last~N`
        #[arg(value_name = "ID")]
        experiment: String,
    },
}

/// One experiment.
#[derive(Args, Clone, Debug)]
pub(super) struct Which {
    /// Experiment: an ID, the start or end of an ID, a label, `last` or `last~N`
    #[arg(value_name = "ID", default_value = "last")]
    pub(super) experiment: String,
}

/// A new experiment.
#[derive(Args, Clone, Debug)]
pub(super) struct New {
    /// Setting, and the values to compare with the current one
    #[arg(short, long, value_name = "SETTING=VALUE[,VALUE...]", conflicts_with_all = ["a", "b"], help_heading = "Conditions")]
    set: Vec<String>,
    /// Command that sets up the baseline [default: none]
    #[arg(long, value_name = "CMD", help_heading = "Conditions")]
    a: Option<String>,
    /// Command that sets up the condition to compare [default: none]
    #[arg(long, value_name = "CMD", help_heading = "Conditions")]
    b: Option<String>,
    /// Kernel parameters of a boot to compare; empty: the usual parameters
    #[arg(long, value_name = "PARAMS", conflicts_with_all = ["set", "a", "b"], help_heading = "Conditions")]
    boot: Vec<String>,
    #[command(flatten)]
    pub(super) booting: Booting,
    /// Latency above which a wake-up is late [default: from the pilot run]
    #[arg(long, value_name = "TIME", value_parser = length, help_heading = "Plan")]
    threshold: Option<Nanos>,
    /// How long the experiment may take [default: 20m, or as long as slow settings need]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = length, help_heading = "Plan")]
    duration: Option<Nanos>,
    /// Number of pairs of blocks [default: as many as fit --duration]
    #[arg(long, value_name = "N", help_heading = "Plan")]
    pairs: Option<u32>,
    /// Length of a block [default: from the pilot run, 10s or more]
    #[arg(long, value_name = "TIME", value_parser = length, help_heading = "Plan")]
    block: Option<Nanos>,
    /// Time to discard at the start of each block [default: 2s, or depending on the setting]
    #[arg(long, value_name = "TIME", value_parser = length, help_heading = "Plan")]
    wash_out: Option<Nanos>,
    /// Seed of the random order [default: random]
    #[arg(long, value_name = "N", help_heading = "Plan")]
    seed: Option<u64>,
    /// Measure all pairs, even if the answer is known earlier
    #[arg(long, help_heading = "Plan")]
    no_early_end: bool,
    #[command(flatten)]
    pub(super) numbers: OfNumbers,
    #[command(flatten)]
    measuring: Measuring,
    #[command(flatten, next_help_heading = "Measuring")]
    pub(super) sharing: Sharing,
    #[command(flatten)]
    pub(super) output: OutputOptions,
}

/// Number of characters of a command that a label contains.
const COMMAND_IN_LABEL: usize = 100;

/// Options that control how the machine boots.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct Booting {
    /// Write boot entries, and a unit that resumes the experiment
    #[arg(long, help_heading = "Boots")]
    pub(super) write: bool,
    /// Reboot at once for the next block
    #[arg(long, help_heading = "Boots")]
    pub(super) reboot: bool,
}

impl New {
    /// Returns the conditions, and the time that a change takes.
    fn arms(&self) -> Result<(Vec<Arm>, Nanos)> {
        Ok(match (self.boot.is_empty(), self.set.is_empty()) {
            (false, _) => (self.of_boots()?, OF_BOOT),
            (true, false) => of_settings(&self.set)?,
            (true, true) => (self.of_commands()?, OF_COMMAND),
        })
    }

    /// Returns the conditions of an experiment on numbers.
    pub(super) fn conditions(&self) -> Result<Conditions> {
        let (arms, wash_out) = self.arms()?;
        let plan = self.measuring.plan(Vec::new())?;
        self.check_deadline()?;
        Ok(Conditions {
            wash_out: self.wash_out.unwrap_or(wash_out),
            block: self.block,
            pairs: self.pairs,
            time: self.duration.unwrap_or(plan.time_ns),
            seed: self.seed.unwrap_or(plan.seed),
            label: self.label(&arms),
            arms,
        })
    }

    /// Returns the name of the experiment.
    pub(super) fn label(&self, arms: &[Arm]) -> String {
        let name = |arm: &Arm| match &arm.action {
            ArmAction::Command { command } => {
                format!("{}: {}", arm.name, shortened(command, COMMAND_IN_LABEL))
            }
            _ => arm.name.clone(),
        };
        let names = || arms.iter().map(name).collect::<Vec<String>>().join(" / ");
        let default = || shortened(&names(), LONGEST_LABEL);
        self.output.label.clone().unwrap_or_else(default)
    }

    fn check_deadline(&self) -> Result<(), UsageError> {
        let has_command = self.numbers.has_command() || self.a.is_some() || self.b.is_some();
        if self.numbers.deadline.is_some() && !has_command {
            let text = "--deadline applies only to the commands of --numbers, --a and --b";
            return Err(UsageError(text.to_owned()));
        }
        Ok(())
    }

    /// Returns the plan for these options.
    pub(super) fn plan(&self) -> Result<ExperimentPlan> {
        let (arms, wash_out) = self.arms()?;
        if self.boot.is_empty() && (self.booting.write || self.booting.reboot) {
            return Err(UsageError("--write and --reboot need --boot".to_owned()).into());
        }
        self.check_deadline()?;
        let mut plan = self.measuring.plan(arms)?;
        plan.deadline_ns = self.numbers.deadline;
        plan.threshold_ns = self.threshold;
        plan.rounds = if self.boot.is_empty() {
            self.pairs
        } else {
            // The number of boots does not depend on the duration.
            Some(self.pairs.unwrap_or_else(|| least_rounds(plan.arms.len())))
        };
        plan.block_ns = self.block;
        plan.wash_out_ns = self.wash_out.unwrap_or(wash_out);
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan.ends_early = !self.no_early_end;
        plan.time_ns = (self.duration).unwrap_or_else(|| plan.time_ns.max(shortest_time(&plan)));
        Ok(plan)
    }

    fn of_boots(&self) -> Result<Vec<Arm>> {
        if self.boot.len() < 2 {
            return Err(UsageError(
                "a single --boot leaves nothing to compare: pass --boot PARAMS at least twice \
                 (empty for the usual parameters)"
                    .to_owned(),
            )
            .into());
        }
        if let Some(text) = self
            .boot
            .iter()
            .find(|text| text.chars().any(char::is_control))
        {
            let text = format!("--boot {text:?} contains a control character: remove it");
            return Err(UsageError(text).into());
        }
        let arm = |text: &String| {
            let parameters = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Arm {
                name: if parameters.is_empty() {
                    "usual boot".to_owned()
                } else {
                    parameters.clone()
                },
                action: ArmAction::Boot { parameters },
            }
        };
        Ok(self.boot.iter().map(arm).collect())
    }

    fn of_commands(&self) -> Result<Vec<Arm>> {
        if self.a.is_none() && self.b.is_none() {
            return Err(UsageError(
                "nothing to compare: give --set SETTING=VALUE, --a CMD and --b CMD, or --boot PARAMS \
                 twice"
                    .to_owned(),
            )
            .into());
        }
        let arm = |name: &str, command: &Option<String>| match command {
            Some(command) => Arm {
                name: name.to_owned(),
                action: ArmAction::Command {
                    command: command.clone(),
                },
            },
            None => Arm {
                name: name.to_owned(),
                action: ArmAction::Unchanged,
            },
        };
        Ok(vec![arm("a", &self.a), arm("b", &self.b)])
    }
}

/// Returns the baseline and the other conditions. A single setting gives one condition for each of
/// its values. Several settings together give one condition. Also returns the longest wash-out of
/// the settings.
fn of_settings(sets: &[String]) -> Result<(Vec<Arm>, Nanos)> {
    let mut values = Vec::new();
    let mut wash_out = Nanos::ZERO;
    for text in sets {
        let wish = Wish::parse(text)?;
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        // The commas in a list of CPUs do not separate values of the setting.
        let single = matches!(wish.setting().values, Values::Mask | Values::List);
        let each: Vec<String> = if single {
            vec![text.clone()]
        } else {
            (value.split(','))
                .map(|value| format!("{}={}", name.trim(), value.trim()))
                .collect()
        };
        for one in &each {
            Wish::parse(one)?;
        }
        // A setting that takes effect only at the next boot is rejected by name later, when it is
        // examined.
        let duration = wish
            .setting()
            .wash_out
            .duration()
            .or(WashOut::Short.duration());
        wash_out = wash_out.max(duration.map_or(OF_COMMAND, Nanos::from));
        values.push(each);
    }
    let conditions: Vec<Vec<String>> = match values.as_slice() {
        [one] => one.iter().map(|value| vec![value.clone()]).collect(),
        several => {
            if several.iter().any(|values| values.len() > 1) {
                return Err(UsageError(
                    "pass several values of one setting, or one value each of several settings, \
                     but not both"
                        .to_owned(),
                )
                .into());
            }
            vec![several.concat()]
        }
    };
    for (place, condition) in conditions.iter().enumerate() {
        if conditions[..place].contains(condition) {
            return Err(UsageError(format!("{} is given twice", condition.join(" "))).into());
        }
    }
    let mut arms = vec![Arm {
        name: "current".to_owned(),
        action: ArmAction::Unchanged,
    }];
    arms.extend(conditions.into_iter().map(|assignments| Arm {
        name: assignments.join(" "),
        action: ArmAction::Settings { assignments },
    }));
    Ok((arms, wash_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_setting_are_conditions_each() {
        let arms = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|text| (*text).to_owned()).collect();
            of_settings(&sets).map(|(arms, wash_out)| {
                let names: Vec<String> = arms.into_iter().map(|arm| arm.name).collect();
                (names.join("|"), wash_out)
            })
        };
        let short = Nanos::from_secs(2);
        assert_eq!(
            arms(&["swappiness=10, 20"]).unwrap(),
            (
                "current|swappiness=10|swappiness=20".to_owned(),
                Nanos::from_secs(30)
            )
        );
        assert_eq!(
            arms(&["workqueue-cpus=0,1"]).unwrap(),
            ("current|workqueue-cpus=0,1".to_owned(), short)
        );
        assert_eq!(
            arms(&["swappiness=10", "thp=never"]).unwrap().0,
            "current|swappiness=10 thp=never"
        );
        for (wrong, why) in [
            (&["swapiness=1"][..], "did you mean 'swappiness'"),
            (&["swappiness=10,10"], "given twice"),
            (&["swappiness=10,20", "thp=never"], "not both"),
            (&["swappiness"], "setting=value"),
        ] {
            let error = arms(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong:?}: {error}");
        }
    }

    /// Finds the files whose examples must work.
    fn documents(folder: &std::path::Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                documents(&path, found);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }

    /// Commands in the documents must not be rejected because their time is too short.
    #[test]
    fn documented_experiments_fit_their_time() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut files = vec![root.join("README.md")];
        documents(&root.join("docs"), &mut files);
        let mut seen = 0;
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            for line in text.lines() {
                let command = line.split(" #").next().unwrap_or_default();
                let command = command.split(" && ").next().unwrap_or_default();
                let Some((_, rest)) = command.split_once("punctual experiment --") else {
                    continue;
                };
                if !command.starts_with("$ ") {
                    continue;
                }
                let rest = format!("--{rest}");
                let words = rest.split_whitespace().map(|word| word.trim_matches('\''));
                let words = std::iter::once("experiment").chain(words);
                let options = Options::try_parse_from(words);
                let options = options.unwrap_or_else(|error| panic!("{line}: {error}"));
                let plan = options.new.plan().unwrap();
                let fits = plan.rounds.is_some() || plan.time_ns >= shortest_time(&plan);
                assert!(
                    fits,
                    "{}: {line}: it takes {}",
                    file.display(),
                    shortest_time(&plan)
                );
                seen += 1;
            }
        }
        assert!(seen >= 8, "{seen}");
    }
}
