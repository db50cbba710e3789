//! Settings that were tried to improve a machine, and which of them helped.

use punctual_model::{Improvement, Stage, TriedSetting};

use super::checkup;
use super::experiment::power_change;
use crate::document::table::{Column, Fold, Row, Table};
use crate::document::{Block, Document, Field, Medium, Section, Tone};

/// Returns the result, the stages with their power, a row for each setting, and the settings that
/// were not tried. `next` is the command that applies the settings that help.
pub fn improvement(improvement: &Improvement, next: Option<&str>) -> Document {
    let mut document = Document {
        title: "Improve".to_owned(),
        ..Document::default()
    };
    let kept = improvement.tried.iter().any(|one| one.accepted);
    let tone = if kept { Tone::Good } else { Tone::Warning };
    let mut fields = vec![Field::toned("result", tone, improvement.sentence.as_str())];
    fields.extend(checkup::measured_on(improvement.measured_on.as_ref()));
    if let Some(threshold) = improvement.threshold_ns {
        fields.push(Field::new(
            "late",
            match &improvement.application {
                Some(application) => format!("job of {application} longer than {threshold}"),
                None => format!("slot of 10 ms with a latency above {threshold}"),
            },
        ));
    }
    if let Some(proof) = &improvement.proof {
        let what = match improvement.application {
            Some(_) => "share of late jobs",
            None => "rate",
        };
        let number =
            |one: Option<f64>| one.map_or_else(|| "?".to_owned(), |one| format!("×{one:.2}"));
        fields.push(Field::new(
            "together",
            format!(
                "{what} {} (95% interval: {} to {}), from new data in {} pairs of blocks",
                number(proof.ratio),
                number(proof.low),
                number(proof.high),
                proof.pairs
            ),
        ));
        let power = proof.power.as_ref().map(power_change);
        fields.extend(power.map(|text| Field::new("power", text)));
    }
    fields.extend(next.map(|command| Field {
        is_command: true,
        ..Field::toned("next", Tone::Heading, command)
    }));
    document.push(Section::new(vec![Block::Fields(fields)]));
    let parts = [
        ("Settings", settings(&improvement.tried)),
        ("Stages", stages(&improvement.stages)),
        ("Not tried", not_tried(improvement)),
    ];
    for (heading, table) in parts
        .into_iter()
        .filter(|(_, table)| !table.rows.is_empty())
    {
        let section = Section::new(vec![Block::Table(table)]);
        document.push(section.heading(Medium::Both, heading));
    }
    document
}

fn settings(tried: &[TriedSetting]) -> Table {
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |one| format!("{one:.2}"));
    let rows = tried.iter().map(|one| {
        let interval = match (one.low, one.high) {
            (Some(low), Some(high)) => format!("{low:.2} to {high:.2}"),
            _ => "-".to_owned(),
        };
        Row {
            tone: if one.accepted {
                Tone::Good
            } else {
                Tone::Plain
            },
            ..Row::new([
                one.assignment.clone(),
                number(one.ratio),
                interval,
                match (one.accepted, one.ratio) {
                    (true, _) => "kept",
                    (false, Some(_)) => "undone",
                    (false, None) if one.why.is_empty() => "-",
                    (false, None) => "undone",
                }
                .to_owned(),
                one.why.clone(),
            ])
        }
    });
    Table::new(
        vec![
            Column::left("setting").fold(Fold::Cut(16)),
            Column::right("rate"),
            Column::left("95%"),
            Column::left("result"),
            Column::left("why").fold(Fold::Wrap(16)),
        ],
        rows.collect(),
    )
}

fn stages(stages: &[Stage]) -> Table {
    let rows = stages.iter().map(|stage| {
        Row::new([
            stage.name.clone(),
            stage.arms.to_string(),
            stage.rounds.to_string(),
            (stage.detects).map_or_else(|| "-".to_owned(), |ratio| format!("×{ratio}")),
            (stage.experiment).map_or_else(|| "-".to_owned(), |id| id.short()),
        ])
    });
    Table::new(
        vec![
            Column::left("stage"),
            Column::right("conditions"),
            Column::right("rounds"),
            Column::right("finds in 80%"),
            Column::left("experiment"),
        ],
        rows.collect(),
    )
}

fn not_tried(improvement: &Improvement) -> Table {
    let rows = improvement.left_out.iter().map(|one| {
        Row::new([
            one.finding.clone(),
            one.reason.clone(),
            one.command.clone().unwrap_or_default(),
        ])
    });
    Table::new(
        vec![
            Column::left("finding").fold(Fold::Cut(20)),
            Column::left("why").fold(Fold::Wrap(32)),
            Column::left("by hand").fold(Fold::Below),
        ],
        rows.collect(),
    )
}

#[cfg(test)]
mod tests {
    use punctual_model::{IMPROVEMENT_SCHEMA, NotTried};

    use super::*;
    use crate::text::{self, TextStyle};

    #[test]
    fn helpful_and_untried_settings_are_shown() {
        let one = Improvement {
            schema: IMPROVEMENT_SCHEMA,
            sentence: "1 setting is proven to help".to_owned(),
            stopped: false,
            application: None,
            measured_on: None,
            threshold_ns: None,
            stages: vec![Stage {
                name: "A/A".to_owned(),
                arms: 2,
                rounds: 10,
                detects: Some(2.0),
                experiment: None,
            }],
            tried: vec![TriedSetting {
                assignment: "governor=performance".to_owned(),
                finding: "governor is powersave".to_owned(),
                ratio: Some(0.42),
                low: Some(0.3),
                high: Some(0.61),
                accepted: true,
                why: "proven to help".to_owned(),
            }],
            left_out: vec![NotTried {
                finding: "SMT is on".to_owned(),
                reason: "high risk".to_owned(),
                command: Some("punctual tune apply --set smt=off".to_owned()),
            }],
            proof: None,
        };
        let style = TextStyle {
            colour: false,
            width: 100,
        };
        let text = text::render(
            &improvement(&one, Some("punctual tune apply x.toml")),
            &style,
        );
        for part in [
            "0.42",
            "0.30 to 0.61",
            "kept",
            "A/A",
            "×2",
            "smt=off",
            "tune apply x.toml",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
