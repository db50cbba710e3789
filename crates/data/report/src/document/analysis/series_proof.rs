//! The verdict over the runs of a sampled series.

use jiff::tz::TimeZone;
use punctual_model::{SampledSlot, SeriesProof, grouped};

use super::checkup::measured_on;
use crate::document::recording::outcome_tone;
use crate::document::table::{Cell, Column, Row, Table};
use crate::document::{Answer, Block, Document, Field, Medium, Section, Tone};
use crate::figures;

/// Maximum number of runs that a terminal lists; a page lists all.
const SHOWN: usize = 12;

/// Returns the verdict, the requirement, the machine, and the runs. A terminal lists only runs that
/// are late or missing. Times are in `zone`.
pub fn series_proof(proof: &SeriesProof, zone: &TimeZone) -> Document {
    let mut document = Document {
        title: format!("Series {}", proof.series),
        ..Document::default()
    };
    let tone = outcome_tone(proof.outcome);
    let mut fields = vec![Field::new(
        if proof.asked.jobs {
            "application"
        } else {
            "loop"
        },
        figures::asked_text(&proof.asked),
    )];
    let sample = proof.asked.sample;
    fields.extend(sample.map(|sample| {
        let text = format!("{sample}, epoch {}, seed {}", proof.epoch, proof.seed);
        Field::new("runs", text)
    }));
    fields.extend(measured_on(proof.measured_on.as_ref()));
    let verdict = Answer {
        sign: figures::outcome_sign(proof.outcome),
        word: figures::outcome_word(proof.outcome),
        ..Answer::new(tone, proof.sentence.as_str())
    };
    let page = vec![Block::Answer(verdict), Block::Fields(fields.clone())];
    document.push(Section::new(page).only(Medium::Page));
    let mut screen = vec![Field::toned("verdict", tone, proof.sentence.as_str())];
    screen.extend(fields);
    document.push(Section::new(vec![Block::Fields(screen)]).only(Medium::Terminal));
    let all: Vec<&SampledSlot> = proof.runs.iter().collect();
    let page = vec![Block::Table(table(proof, &all, zone))];
    document.push(Section::titled("Runs", page).only(Medium::Page));
    let notable = |run: &&SampledSlot| run.lacking.is_some() || run.late_seconds_at_most > Some(0);
    let notable: Vec<&SampledSlot> = all.into_iter().filter(notable).collect();
    let shown = &notable[..notable.len().min(SHOWN)];
    if !shown.is_empty() {
        let mut screen = vec![Block::Table(table(proof, shown, zone))];
        let more = (notable.len() - shown.len()) as u64;
        if more > 0 {
            let more = punctual_model::counted(more, "late or missing run", "late or missing runs");
            screen.push(Block::faint(format!("{more} not shown")));
        }
        document.push(Section::new(screen).only(Medium::Terminal));
    }
    document
}

fn table(proof: &SeriesProof, runs: &[&SampledSlot], zone: &TimeZone) -> Table {
    let columns = vec![
        Column::right("run"),
        Column::left("due"),
        Column::left("recording").drop(1),
        Column::right(proof.asked.unit()),
        Column::right(format!("late {}", proof.units().1)).drop(2),
        Column::left("missing because").cut_to(16).first(),
    ];
    let rows = runs.iter().map(|run| {
        let due = run.due.to_zoned(zone.clone()).strftime("%F %H:%M:%S");
        let seconds = match (run.late_seconds, run.late_seconds_at_most) {
            (Some(least), Some(most)) if most > least => format!("{least} to {most}"),
            (seconds, _) => figures::text_or_dash(seconds.map(grouped)),
        };
        let why = match &run.lacking {
            None if run.pending => "not due yet",
            why => why.as_deref().unwrap_or_default(),
        };
        Row::new([
            Cell::from(grouped(run.number)),
            due.to_string().into(),
            figures::text_or_dash(run.recording.map(|id| id.short())).into(),
            seconds.into(),
            figures::text_or_dash(run.late.map(grouped)).into(),
            Cell::from(why).tone(Tone::Warning),
        ])
    });
    Table::new(columns, rows.collect())
}
