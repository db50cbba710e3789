//! An experiment on the numbers that a command prints.

use punctual_model::{NumberEffect, NumberResult, NumbersExperiment, percent};

use crate::document::table::{Cell, Column, Row, Table};
use crate::document::{Block, Document, Field, Section, Tone};

/// Returns the answer, the results of each number, and how they were measured.
pub fn numbers(experiment: &NumbersExperiment) -> Document {
    let mut document = Document {
        title: "Experiment".to_owned(),
        ..Document::default()
    };
    let tones = experiment.results.iter().map(|result| tone(result.effect));
    let worst = tones.max_by_key(|tone| match tone {
        Tone::Bad => 2,
        Tone::Warning => 1,
        _ => 0,
    });
    let better = if experiment.higher_is_better {
        "higher"
    } else {
        "lower"
    };
    let order = format!(
        "{} rounds in random order (seed {}); {better} is better; intervals of {} for all results \
         together",
        experiment.complete_rounds(),
        experiment.seed,
        percent(experiment.confidence)
    );
    let mut fields = vec![
        Field::toned(
            "answer",
            worst.unwrap_or(Tone::Warning),
            experiment.sentence.as_str(),
        ),
        Field::new("command", experiment.command.as_str()),
        Field::new("method", order),
    ];
    if experiment.stopped {
        let text = format!(
            "after {} of {} rounds",
            experiment.complete_rounds(),
            experiment.rounds
        );
        fields.push(Field::toned("stopped", Tone::Warning, text));
    }
    document.push(Section::new(vec![Block::Fields(fields)]));
    if !experiment.results.is_empty() {
        document.push(Section::new(vec![Block::Table(table(experiment))]));
    }
    document
}

fn tone(effect: NumberEffect) -> Tone {
    match effect {
        NumberEffect::Better | NumberEffect::Equivalent => Tone::Good,
        NumberEffect::Worse => Tone::Bad,
        NumberEffect::NotProven => Tone::Warning,
    }
}

fn table(experiment: &NumbersExperiment) -> Table {
    let columns = vec![
        Column::left("condition").cut_to(24),
        Column::left("number").cut_to(24),
        Column::right(experiment.arm_name(0).to_owned()),
        Column::right("with it"),
        Column::left("unit").drop(2),
        Column::right("difference"),
        Column::right("interval"),
        Column::right("pairs").drop(1),
        Column::right("p").drop(1),
        Column::left("effect"),
    ];
    let rows = experiment.results.iter().map(|one| row(experiment, one));
    Table::new(columns, rows.collect())
}

fn row(experiment: &NumbersExperiment, result: &NumberResult) -> Row {
    let interval = match (result.low, result.high) {
        (Some(low), Some(high)) => format!("{} to {}", result.text(low), result.text(high)),
        _ => "-".to_owned(),
    };
    let unit = experiment.units.get(&result.name);
    let name = match result.name.as_str() {
        "" => "-",
        name => name,
    };
    let effect = Cell::from(result.effect.words()).tone(tone(result.effect));
    Row::new([
        Cell::from(experiment.arm_name(result.arm)),
        name.into(),
        figure(result.medians[0]).into(),
        figure(result.medians[1]).into(),
        unit.map(String::as_str).unwrap_or_default().into(),
        result.text(result.difference).into(),
        interval.into(),
        result.pairs.to_string().into(),
        format!("{:.4}", result.p).into(),
        effect,
    ])
}

/// Returns a number with four significant digits.
fn figure(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1_000.0 || size == 0.0 => format!("{value:.0}"),
        _ if size >= 1e-3 => {
            let digits = 3 - size.log10().floor() as i32;
            format!("{value:.*}", usize::try_from(digits).unwrap_or_default())
        }
        _ => format!("{value:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (123_456.7, "123457"),
            (12.345_6, "12.35"),
            (-0.012_345, "-0.01235"),
            (0.000_012_3, "1.230e-5"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
