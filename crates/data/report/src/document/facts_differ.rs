//! Differences between two recordings other than their figures: facts, kernel configuration
//! options, and audit findings.

use punctual_stats::trend::{FINDING, FactDifference, FactsDiffer, OPTION};

use super::table::{Column, Fold, Row, Table};
use super::{Block, Document, Field, Medium, Section};
use crate::figures;
use punctual_model::counted;

/// Returns the differences between two recordings other than their figures.
pub fn facts_differ(differ: &FactsDiffer) -> Document {
    let (a, b) = (differ.a.short(), differ.b.short());
    let mut document = Document {
        title: format!("Facts of {a} and {b}"),
        ..Document::default()
    };
    let equal = counted(differ.equal as u64, "fact is equal", "facts are equal");
    let text = match differ.differences.len() as u64 {
        0 => format!("no known difference; {equal}"),
        number => format!("{}; {equal}", counted(number, "difference", "differences")),
    };
    document.push(Section::new(vec![Block::text(text)]));
    let (lists, plain): (Vec<&FactDifference>, Vec<&FactDifference>) = (differ.differences.iter())
        .partition(|one| !(one.added.is_empty() && one.removed.is_empty()));
    let table = |wanted: Kind| {
        let columns = vec![
            Column::left(wanted.column()),
            Column::left(&a).fold(Fold::Wrap(16)),
            Column::left(&b).fold(Fold::Wrap(16)),
        ];
        let own = plain
            .iter()
            .filter(|one| Kind::from_difference(one) == wanted);
        Table::new(columns, own.map(|one| row(one)).collect())
    };
    document.push(section("Different", table(Kind::Fact)));
    lists.into_iter().for_each(|one| document.push(list(one)));
    document.push(configuration(differ, table(Kind::Option)));
    document.push(section("Audit", table(Kind::Finding)));
    if !differ.not_known.is_empty() {
        let names = differ.not_known.iter();
        let names: Vec<String> = names.map(|name| name.replace('_', " ")).collect();
        let text = format!("unknown for both: {}", names.join(", "));
        document.push(Section::new(vec![Block::faint(text)]));
    }
    document
}

/// The table that a difference belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fact,
    Option,
    Finding,
}

impl Kind {
    fn from_difference(one: &FactDifference) -> Self {
        match one.fact.as_str() {
            name if name.starts_with(OPTION) => Self::Option,
            name if name.starts_with(FINDING) => Self::Finding,
            _ => Self::Fact,
        }
    }

    const fn column(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Option => "option",
            Self::Finding => "finding",
        }
    }
}

fn section(heading: &str, table: Table) -> Section {
    if table.rows.is_empty() {
        Section::default()
    } else {
        Section::new(vec![Block::Table(table)]).heading(Medium::Both, heading)
    }
}

fn row(one: &FactDifference) -> Row {
    let cell = |value: &Option<String>| figures::text_or_dash(value.clone());
    let name = match Kind::from_difference(one) {
        Kind::Fact => one.fact.replace('_', " "),
        Kind::Option => one.fact.clone(),
        Kind::Finding => one.fact.trim_start_matches(FINDING).to_owned(),
    };
    Row::new([name, cell(&one.before), cell(&one.after)])
}

/// Returns the difference of a fact that is a list of words.
fn list(one: &FactDifference) -> Section {
    let words = |words: &[String]| {
        let text = Some(words.join(" ")).filter(|text| !text.is_empty());
        figures::text_or_dash(text)
    };
    let fields = vec![
        Field::new("added", words(&one.added)),
        Field::new("removed", words(&one.removed)),
    ];
    Section::titled(one.fact.replace('_', " "), vec![Block::Fields(fields)])
}

/// Returns the options that differ. If the configurations differ only in options that recordings do
/// not keep, the section explains this.
fn configuration(differ: &FactsDiffer, options: Table) -> Section {
    let mut differences = differ.differences.iter();
    let differs = differences.any(|one| one.fact == "kernel.configuration");
    if options.rows.is_empty() && differs {
        let text = "The configurations differ in options that recordings do not store.";
        return Section::titled("Kernel configuration", vec![Block::text(text)]);
    }
    section("Kernel configuration", options)
}
