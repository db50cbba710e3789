//! The results of an experiment, as figures and plots.

use punctual_model::{
    Arm, ArmAction, ArmResult, BootOutcome, Boots, Effect, Experiment, ExperimentState, Guard,
    Recording, grouped,
};

use super::{checkup, numbers};
use crate::document::table::{Column, Fold, Row, Table};
use crate::document::{Answer, Block, Document, Field, Figure, Medium, Section, Tone};
use crate::plot::{Heading, PlotOptions, latency, power, strip};

/// Returns the result, a row for each condition, the guards, the blocks in order, and the plan.
/// `sides` has one recording per condition with the latencies of all its blocks.
pub fn experiment(experiment: &Experiment, sides: &[Recording]) -> Document {
    let title = experiment.label.as_deref().unwrap_or("Experiment");
    let mut document = Document {
        title: title.to_owned(),
        program: Some(experiment.program.clone()),
        ..Document::default()
    };
    if let Some(found) = &experiment.numbers {
        let label = experiment.label.as_deref();
        let label = label.map(|label| Field::new("label", label));
        let state = Field::toned("state", state_tone(experiment.state), state(experiment));
        document.sections = numbers(found).sections;
        document.push(Section::new(vec![Block::Fields(
            label.into_iter().chain([state]).collect(),
        )]));
        return document;
    }
    let answer = |result: &ArmResult| {
        Block::Answer(Answer {
            word: result.effect.words(),
            sign: sign(result.effect),
            ..Answer::new(tone(result), result.sentence.as_str())
        })
    };
    let verdict =
        |result: &ArmResult| Field::toned("verdict", tone(result), result.sentence.as_str());
    let results = &experiment.results;
    let on = checkup::measured_on(experiment.measured_on.as_ref());
    let answers = results.iter().map(answer);
    let top = answers.chain(Block::fields(on.clone())).collect();
    document.push(Section::new(top).only(Medium::Page));
    let mut fields: Vec<Field> = results.iter().map(verdict).collect();
    if results.is_empty() {
        fields.push(Field::toned(
            "verdict",
            Tone::Warning,
            "not proven: nothing was compared",
        ));
    }
    fields.extend(on);
    let screen = Block::Fields(fields);
    document.push(Section::new(vec![screen]).only(Medium::Terminal));
    if !results.is_empty() {
        let table = Block::Table(conditions(experiment));
        document.push(Section::new(vec![table]).heading(Medium::Page, "Conditions"));
    }
    if let Some(guards) = guards(experiment) {
        let heading = Section::new(vec![Block::Table(guards)]);
        document.push(heading.heading(Medium::Page, "Guards"));
    }
    document.push(pictures(experiment, sides));
    let mut plan = vec![Block::Fields(plan(experiment))];
    if !experiment.warnings.is_empty() {
        plan.push(Block::Warnings(experiment.warnings.clone()));
    }
    document.push(Section::new(plan).heading(Medium::Page, "Plan"));
    document
}

/// Returns the same document for a terminal, with the verdict as the first line.
pub fn experiment_text(one: &Experiment) -> Document {
    let verdicts: Vec<String> = one.results.iter().map(|result| line(one, result)).collect();
    let mut document = experiment(one, &[]);
    document.program = None;
    document.title = if let Some(numbers) = &one.numbers {
        numbers.sentence.clone()
    } else if verdicts.is_empty() {
        "not proven: nothing was compared".to_owned()
    } else {
        verdicts.join("; ")
    };
    document
}

/// Returns a line such as `thp=never: fewer, ×0.43 (95%: ×0.30 to ×0.61)`.
fn line(experiment: &Experiment, result: &ArmResult) -> String {
    let rate = match (result.ratio, result.low, result.high) {
        (Some(ratio), Some(low), Some(high)) => {
            format!(", ×{ratio:.2} (95%: ×{low:.2} to ×{high:.2})")
        }
        _ => String::new(),
    };
    let power = result
        .power
        .as_ref()
        .map_or_else(String::new, |power| format!("; {}", power_change(power)));
    format!(
        "{}: {}{rate}{power}",
        experiment.arm_name(result.arm),
        result.effect.words()
    )
}

/// Returns the difference in power, such as `+2.1 W (12.3 W to 14.4 W)`.
pub(super) fn power_change(power: &Guard) -> String {
    let watts = (power.arm - power.baseline) / 1e3;
    let [before, after] = [power.baseline, power.arm].map(|value| figure(&power.name, value));
    format!("{watts:+.1} W ({before} to {after})")
}

/// More late periods are bad, fewer are good. Equivalent conditions are neither.
fn tone(result: &ArmResult) -> Tone {
    match result.effect {
        Effect::Fewer if result.guards.iter().any(|guard| guard.worse) => Tone::Warning,
        Effect::Fewer => Tone::Good,
        Effect::More => Tone::Bad,
        Effect::Equivalent => Tone::Plain,
        Effect::NotProven => Tone::Warning,
    }
}

const fn sign(effect: Effect) -> &'static str {
    match effect {
        Effect::Fewer => "✓",
        Effect::More => "✗",
        Effect::Equivalent => "=",
        Effect::NotProven => "?",
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// Returns a row for each condition, the baseline first.
fn conditions(experiment: &Experiment) -> Table {
    let columns = vec![
        Column::left("condition").fold(Fold::Cut(12)),
        Column::right("pairs"),
        Column::right("late slots"),
        Column::right("rate"),
        Column::left("95%"),
        Column::right("p"),
        Column::left("result"),
    ];
    let rows = experiment.results.iter().map(|result| {
        let interval = match (result.low, result.high) {
            (Some(low), Some(high)) => format!("{low:.2} to {high:.2}"),
            _ => "-".to_owned(),
        };
        Row {
            tone: tone(result),
            ..Row::new([
                experiment.arm_name(result.arm).to_owned(),
                result.pairs.to_string(),
                format!("{} : {}", grouped(result.late[1]), grouped(result.late[0])),
                number(result.ratio),
                interval,
                format!("{:.3}", result.p),
                result.effect.words().to_owned(),
            ])
        }
    });
    Table {
        columns,
        rows: rows.collect(),
        ..Table::default()
    }
}

/// Returns the guards of all conditions, or `None` if there are none.
fn guards(experiment: &Experiment) -> Option<Table> {
    let row = |result: &ArmResult, guard: &Guard, worse: &str| Row {
        tone: if guard.worse { Tone::Bad } else { Tone::Plain },
        ..Row::new([
            experiment.arm_name(result.arm).to_owned(),
            guard.name.clone(),
            figure(&guard.name, guard.baseline),
            figure(&guard.name, guard.arm),
            format!("{:.3}", guard.p),
            if guard.worse {
                worse.to_owned()
            } else {
                format!("not shown to be {worse}")
            },
        ])
    };
    let rows_of = |result: &ArmResult| {
        let guards = result
            .guards
            .iter()
            .map(|guard| row(result, guard, "worse"));
        let power = result.power.as_ref().map(|power| Row {
            tone: Tone::Plain,
            ..row(result, power, "more")
        });
        guards.chain(power).collect::<Vec<Row>>()
    };
    let rows: Vec<Row> = experiment.results.iter().flat_map(rows_of).collect();
    (!rows.is_empty()).then(|| Table {
        columns: vec![
            Column::left("condition").fold(Fold::Cut(12)),
            Column::left("guard"),
            Column::right("baseline"),
            Column::right("condition"),
            Column::right("p"),
            Column::left("result"),
        ],
        rows,
        ..Table::default()
    })
}

/// Formats a mean over blocks: a latency, a temperature, a frequency, a power, or a count.
fn figure(name: &str, value: f64) -> String {
    match name {
        "median" => punctual_model::Nanos(value.max(0.0) as u64).to_string(),
        "temperature" => format!("{:.1} °C", value / 1e3),
        "frequency" => format!("{:.2} GHz", value / 1e6),
        "power" => format!("{:.1} W", value / 1e3),
        _ if value >= 100.0 => grouped(value as u64),
        _ => format!("{value:.1}"),
    }
}

fn pictures(experiment: &Experiment, sides: &[Recording]) -> Section {
    let mut blocks = Vec::new();
    let sides: Vec<&Recording> = sides.iter().collect();
    if let Ok(plot) = latency(&sides, &overlaid()) {
        blocks.push(Block::Figure(Box::new(Figure {
            plot,
            caption: "Latencies of all blocks of each condition.".to_owned(),
        })));
    }
    if let Ok(plot) = strip(experiment, &PlotOptions::default()) {
        blocks.push(Block::Figure(Box::new(Figure {
            plot,
            caption: "Late slots of each block, in the order in which they were measured."
                .to_owned(),
        })));
    }
    if let Ok(plot) = power(experiment, &PlotOptions::default()) {
        blocks.push(Block::Figure(Box::new(Figure {
            plot,
            caption: "Late slots of each block over the power of the machine.".to_owned(),
        })));
    }
    Section::new(blocks).only(Medium::Page)
}

/// Returns the plot options that show the latencies of all conditions in one plot.
pub fn overlaid() -> PlotOptions {
    PlotOptions {
        heading: Heading::Text("Latency by condition".to_owned()),
        ..PlotOptions::default()
    }
}

fn plan(experiment: &Experiment) -> Vec<Field> {
    let plan = &experiment.plan;
    let arm = |(place, arm): (usize, &Arm)| {
        let name = if place == 0 { "compared" } else { "" };
        let made = match &arm.action {
            ArmAction::Unchanged => "nothing is changed".to_owned(),
            ArmAction::Command { command } => command.clone(),
            ArmAction::Settings { assignments } => assignments.join(" "),
            ArmAction::Boot { parameters } if parameters.is_empty() => "boots as usual".to_owned(),
            ArmAction::Boot { parameters } => format!("boots with {parameters}"),
        };
        let text = if made == arm.name {
            made
        } else {
            format!("{}: {made}", arm.name)
        };
        Field::new(name, text)
    };
    let mut fields: Vec<Field> = plan.arms.iter().enumerate().map(arm).collect();
    fields.extend(
        experiment
            .label
            .iter()
            .map(|label| Field::new("label", label.as_str())),
    );
    fields.push(Field::toned(
        "state",
        state_tone(experiment.state),
        state(experiment),
    ));
    if let Some(pilot) = &experiment.pilot {
        let power = match pilot.detects {
            Some(ratio) => format!("a rate of ×{ratio} is detected in 80% of the cases"),
            None => "even a rate of ×10 is detected in less than 80% of the cases".to_owned(),
        };
        fields.push(Field::new(
            "plan",
            format!(
                "{} rounds of blocks of {}, wash-out {}; a slot of 10 ms with a latency above {} \
                 is late; {power}",
                pilot.rounds, pilot.block_ns, plan.wash_out_ns, pilot.threshold_ns
            ),
        ));
    }
    fields.extend(experiment.boots.iter().flat_map(boots));
    let loads = if plan.loads.is_empty() {
        "none".to_owned()
    } else {
        plan.loads.join(", ")
    };
    fields.push(Field::new("load", loads));
    fields.push(Field::new("order", format!("random, seed {}", plan.seed)));
    fields
}

/// Returns how boot entries are chosen, and lists each boot that does not count.
fn boots(boots: &Boots) -> Vec<Field> {
    let how = match &boots.by_hand {
        Some(reason) => format!("chosen by hand ({reason})"),
        None => format!("chosen by {}", boots.loader.name()),
    };
    let lost = |outcome| matches!(outcome, BootOutcome::OtherParameters | BootOutcome::Lost);
    let lost = boots
        .attempts
        .iter()
        .enumerate()
        .filter(|(_, one)| lost(one.outcome));
    let lost = lost.map(|(place, one)| {
        let line = one.command_line.as_deref().unwrap_or("unknown");
        let text = format!(
            "start {}, round {}: {}; command line: {line}",
            place + 1,
            one.round + 1,
            one.outcome.words()
        );
        Field::toned("not counted", Tone::Warning, text)
    });
    std::iter::once(Field::new("boots", how))
        .chain(lost)
        .collect()
}

/// Returns the state, with the time left until the result, which may be known earlier than planned.
fn state(experiment: &Experiment) -> String {
    let wash_out = experiment.plan.wash_out_ns;
    let blocks = experiment.blocks.iter().map(|block| block.measured_ns);
    let numbers = experiment.numbers.iter().flat_map(|one| &one.blocks);
    let times = blocks.chain(numbers.map(|block| block.took_ns));
    let times: Vec<f64> = times.map(|time| (time + wash_out).as_secs_f64()).collect();
    // The sum of no numbers is -0.
    let took = times.iter().fold(0.0, |sum, time| sum + time);
    let rounds = rounds(experiment).map_or_else(String::new, |[done, all]| {
        format!(" ({done} of {all} rounds)")
    });
    format!(
        "{}, {} blocks measured in {:.1} min{rounds}, ID {}",
        experiment.state,
        times.len(),
        took / 60.0,
        experiment.id.short()
    )
}

/// Returns the number of complete rounds, and of all.
fn rounds(experiment: &Experiment) -> Option<[u32; 2]> {
    if let Some(numbers) = &experiment.numbers {
        return Some([numbers.complete_rounds(), numbers.rounds]);
    }
    let pilot = experiment.pilot.as_ref()?;
    Some([experiment.complete_rounds(), pilot.rounds])
}

const fn state_tone(state: ExperimentState) -> Tone {
    match state {
        ExperimentState::Finished | ExperimentState::Running | ExperimentState::AwaitsBoot => {
            Tone::Plain
        }
        ExperimentState::Stopped | ExperimentState::Interrupted => Tone::Warning,
        ExperimentState::Failed => Tone::Bad,
    }
}

/// Returns many experiments, one line each.
pub fn experiments(all: &[Experiment]) -> Document {
    let rows = all.iter().map(|one| {
        Row::new([
            one.id.short(),
            one.started.strftime("%F %H:%M").to_string(),
            one.state.to_string(),
            rounds(one).map_or_else(|| "-".to_owned(), |[done, all]| format!("{done}/{all}")),
            one.label.clone().unwrap_or_default(),
            if one.sentence.is_empty() {
                "nothing compared yet".to_owned()
            } else {
                one.sentence.clone()
            },
        ])
    });
    Document::from_blocks(vec![Block::Table(Table {
        columns: vec![
            Column::left("ID"),
            Column::left("started (UTC)"),
            Column::left("state"),
            Column::right("rounds"),
            Column::left("label").drop(2).cut_to(8),
            Column::left("result").cut_to(20),
        ],
        rows: rows.collect(),
        ..Table::default()
    })])
}

#[cfg(test)]
mod tests {
    use punctual_model::testing;

    use super::*;
    use crate::text::{TextStyle, render};

    #[test]
    fn latency_is_shown_with_its_power() {
        let mut one = testing::experiment(2, 1);
        one.results.push(ArmResult {
            arm: 1,
            effect: Effect::Fewer,
            pairs: 8,
            late: [80, 34],
            ratio: Some(0.43),
            low: Some(0.3),
            high: Some(0.61),
            p: 0.01,
            wealth: 30.0,
            guards: Vec::new(),
            power: Some(Guard {
                name: "power".to_owned(),
                baseline: 12_300.0,
                arm: 14_400.0,
                p: 0.01,
                worse: true,
            }),
            refused: Vec::new(),
            sentence: "arm 1: fewer".to_owned(),
        });
        let line = experiment_text(&one).title;
        assert!(
            line.ends_with("×0.61); +2.1 W (12.3 W to 14.4 W)"),
            "{line}"
        );
        let text = render(&experiment_text(&one), &TextStyle::default());
        let row = text.lines().find(|line| line.contains(" power "));
        assert!(row.is_some_and(|row| row.ends_with("more")), "{text}");
    }
}
