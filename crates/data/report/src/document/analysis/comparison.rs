//! A comparison of two recordings, which is the output of `compare`.

use punctual_stats::{Change, Channel, Comparison, Difference};

use crate::compared::{self, HEADINGS};
use crate::document::table::{Column, Row, Table};
use crate::document::{Answer, Block, Document, Field, Medium, Section, Tone};

/// Maximum number of unknown differences to name.
const NOT_KNOWN: usize = 8;

/// Returns a comparison: the result in a sentence, both recordings, differences in how they were
/// measured, differences between the machines, and the figures.
///
/// A `-` means that there are too few samples for a figure. The interval of a difference contains
/// the true value with 95% confidence. Statements about changes hold for all rows together.
pub fn comparison(comparison: &Comparison) -> Document {
    let mut document = Document::default();
    let tone = match comparison.change {
        Change::Worse => Tone::Bad,
        Change::Better => Tone::Good,
        Change::NoneFound => Tone::Heading,
        Change::Unknown => Tone::Warning,
    };
    let (all, some): (Vec<_>, Vec<_>) =
        (comparison.shortfalls.iter()).partition(|one| one.figures.is_empty());
    let short = |tone: Tone| move |one| Block::Text(tone, compared::shortfall(one));
    let mut answer: Vec<Block> = all.into_iter().map(short(Tone::Warning)).collect();
    answer.push(Block::Answer(Answer::new(tone, &comparison.summary)));
    answer.extend(some.into_iter().map(short(Tone::Faint)));
    let section = Section::new(answer);
    document.push(section.heading(Medium::Page, "Comparison"));
    let mut sides = vec![
        Field::new("baseline", compared::side(&comparison.baseline)),
        Field::new("candidate", compared::side(&comparison.candidate)),
    ];
    differences(&mut sides, comparison);
    document.push(Section::new(vec![Block::Fields(sides)]));
    for channel in &comparison.channels {
        document.push(figures_of(channel));
    }
    document.push(Section::new(vec![Block::Fields(confidence(comparison))]));
    document
}

/// Adds the differences that the reader must know before the figures.
fn differences(fields: &mut Vec<Field>, comparison: &Comparison) {
    let mut add = |name: &str, tone: Tone, sign: &str, list: &[Difference]| {
        for (index, one) in list.iter().enumerate() {
            let name = if index == 0 { name } else { "" };
            let text = format!("{sign}{}", compared::difference(one));
            fields.push(Field::toned(name, tone, text));
        }
    };
    let measured = &comparison.measured_differently;
    add("measured", Tone::Warning, "! ", measured);
    for (index, caution) in comparison.cautions.iter().enumerate() {
        let name = if index == 0 && measured.is_empty() {
            "measured"
        } else {
            ""
        };
        fields.push(Field::toned(name, Tone::Warning, format!("! {caution}")));
    }
    let mut add = |name: &str, tone, text: String| fields.push(Field::toned(name, tone, text));
    for (index, one) in comparison.machine.iter().enumerate() {
        let name = if index == 0 { "machine" } else { "" };
        add(name, Tone::Plain, compared::difference(one));
    }
    let (a, b) = (
        &comparison.baseline.fingerprint,
        &comparison.candidate.fingerprint,
    );
    if comparison.machine.is_empty() && !a.is_empty() && a == b {
        add("machine", Tone::Plain, "no difference".to_owned());
    }
    let not_known = &comparison.not_known;
    if not_known.is_empty() {
        return;
    }
    let named = punctual_model::listed(not_known, NOT_KNOWN);
    let text = format!("{named} (known for only one of the two)");
    add("not known", Tone::Faint, text);
}

fn figures_of(channel: &Channel) -> Section {
    // The ratio and p are dropped before the table continues in a second block.
    let drops = [0, 0, 0, 0, 0, 2, 0, 3];
    let columns = HEADINGS.into_iter().zip(drops).map(|(heading, drop)| {
        match heading {
            "" | "95% interval" | "change" => Column::left(heading),
            _ => Column::right(heading),
        }
        .drop(drop)
    });
    let rows = compared::rows(channel).into_iter().map(Row::new);
    let table = Table::new(columns.collect(), rows.collect()).goes_on();
    let mut fields = Vec::new();
    for one in channel.rates.iter().filter(|one| compared::is_shown(one)) {
        fields.push(Field::new("counts", compared::counted(one)));
    }
    fields.extend(compared::later(channel).map(|text| Field::new("later", text)));
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(Block::fields(fields));
    match &channel.title {
        Some(title) => Section::titled(title, blocks),
        None => Section::new(blocks),
    }
}

/// Returns what the maxima show, and how the figures were computed.
fn confidence(comparison: &Comparison) -> Vec<Field> {
    let sides = [
        ("max", "baseline", &comparison.baseline),
        ("", "candidate", &comparison.candidate),
    ];
    let mut fields: Vec<Field> = sides
        .into_iter()
        .map(|(name, which, side)| {
            let text = match (side.max_ns, &side.bound) {
                (Some(max), Some(bound)) => format!("{which} {max}: {}", bound.sentence()),
                (Some(max), _) => format!("{which} {max}"),
                (None, _) => format!("{which} unknown"),
            };
            Field::new(name, text)
        })
        .collect();
    fields.push(Field::toned(
        "note",
        Tone::Faint,
        compared::method(comparison),
    ));
    fields
}
