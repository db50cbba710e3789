//! Documents as HTML markup.

use maud::{Markup, PreEscaped, html};

use crate::document::{Block, Cell, Column, Document, Field, Fold, Row, Section, Table, Tone};
use crate::sanitize::sanitize;

/// Cells with at most this many characters are not broken into lines.
const WHOLE: usize = 40;
/// On a phone, a row that contains a longer cell than this is shown as a paragraph.
const LONG: usize = 80;
/// A style that a standalone image needs. For a page, it is in the style sheet.
const INLINE: &str = r#" style="white-space:pre""#;
/// Tables with at most this many rows are kept on one printed page.
const SHORT: usize = 16;

/// Returns a document as part of a page, with its title as `h1`.
pub(super) fn document(document: &Document, titled: bool) -> Markup {
    let shown = document.sections.iter();
    html! {
        section id=[document.anchor.as_deref().map(sanitize)] {
            @if titled && !document.title.is_empty() { h1 { (sanitize(&document.title)) } }
            @for section in shown.filter(|section| section.medium.is_on_page()) { (part(section)) }
        }
    }
}

fn part(section: &Section) -> Markup {
    html! {
        @if let Some((medium, heading)) = &section.heading { @if medium.is_on_page() {
            h2 {
                @if let Some((tone, mark)) = &section.state {
                    span class={ "badge " (class(*tone)) } { (sanitize(mark.trim())) } " "
                }
                (sanitize(heading))
                @if let Some(aside) = &section.aside { " " small .faint { (sanitize(aside)) } }
            }
        } }
        @for one in &section.blocks { (block(one)) }
    }
}

fn block(block: &Block) -> Markup {
    html! { @match block {
        Block::Text(tone, text) => p class=[name(*tone)] { (sanitize(text)) },
        Block::Answer(answer) => p .verdict {
            @if !answer.word.is_empty() {
                span class={ "badge " (class(answer.tone)) } {
                    @if !answer.sign.is_empty() { (answer.sign) " " }
                    (answer.word)
                }
                " "
            }
            (sanitize(&answer.text))
        },
        Block::Fields(fields) => (list(fields)),
        Block::Warnings(texts) => ul .warnings { @for text in texts { li { (sanitize(text)) } } },
        Block::Table(one) => (table(one)),
        // `Plot::svg` returns our own markup, in which all texts are escaped.
        Block::Figure(figure) => figure {
            (PreEscaped(figure.plot.svg().replacen(INLINE, "", 1)))
            figcaption { (sanitize(&figure.caption)) }
        },
    } }
}

fn list(fields: &[Field]) -> Markup {
    html! {
        dl { @for field in fields {
            dt { (sanitize(&field.name)) }
            dd class=[name(field.tone)] {
                @if field.is_command { code { (sanitize(&field.text)) } }
                @else { (sanitize(&field.text)) }
            }
        } }
    }
}

fn table(table: &Table) -> Markup {
    let shown = |column: &Column| column.medium.is_on_page() && !column.topic;
    let columns: Vec<&Column> = table.columns.iter().filter(|c| shown(c)).collect();
    let topic = table.columns.iter().position(|column| column.topic);
    let topic_of = |row: usize| Some(&table.rows.get(row)?.cells.get(topic?)?.text);
    let headed = columns.iter().any(|column| !column.title.is_empty());
    html! {
        div .wide { table class=[look(table, &shown)] {
            @if headed { thead { tr { @for column in &columns {
                th class=[column.number.then_some("n")] { (sanitize(&column.title)) }
            } } } }
            tbody { @for (index, row) in table.rows.iter().enumerate() {
                @if let Some(topic) = topic_of(index) {
                    @if index == 0 || topic_of(index - 1) != Some(topic) {
                        tr .topic { th colspan=(columns.len()) scope="colgroup" { (sanitize(topic)) } }
                    }
                }
                tr class=[row.total.then_some("total")] {
                    @for (one, column) in row.cells.iter().zip(&table.columns) {
                        @if shown(column) { (cell(one, column)) }
                    }
                }
            } }
        } }
    }
}

/// Returns the CSS classes of a table.
fn look(table: &Table, shown: &dyn Fn(&Column) -> bool) -> Option<&'static str> {
    let is_long = |(cell, column): (&Cell, &Column)| {
        let items = cell.items.iter().map(|item| item.chars().count());
        shown(column) && cell.text.chars().count() + items.sum::<usize>() > LONG
    };
    let of_row = |row: &Row| row.cells.iter().zip(&table.columns).any(is_long);
    let is_long = table.rows.iter().any(of_row);
    match (table.rows.len() <= SHORT, is_long) {
        (true, true) => Some("short stacked"),
        (true, false) => Some("short"),
        (false, true) => Some("stacked"),
        (false, false) => None,
    }
}

fn cell(cell: &Cell, column: &Column) -> Markup {
    let text = match (cell.text.as_str(), column.fold) {
        ("", Fold::Below) => "-".into(),
        (text, _) => sanitize(text),
    };
    let class_of_cell = if column.number {
        Some("n")
    } else {
        (text.chars().count() <= WHOLE).then_some("whole")
    };
    html! {
        td class=[class_of_cell] data-title=[title_of(cell, column)] {
            @if let Some(value) = &cell.choice {
                input type="checkbox" name="id" value=(sanitize(value)) aria-label={ "Choose " (text) }; " "
            }
            @if let Some(path) = &cell.path { a href=(sanitize(path)) { (text) } }
            @else if let Some(link) = &cell.link { a href={ "#" (sanitize(link)) } { (text) } }
            @else if cell.badge { span class={ "badge " (class(cell.tone)) } { (text) } }
            @else if let Some(name) = name(cell.tone) { span class=(name) { (text) } }
            @else { (text) }
            @if !cell.items.is_empty() {
                ul .shares { @for item in &cell.items { li { (sanitize(item)) } } }
            }
        }
    }
}

/// Returns the column title for a cell that is shown without the heading row.
fn title_of<'a>(cell: &Cell, column: &'a Column) -> Option<std::borrow::Cow<'a, str>> {
    let says = !cell.text.is_empty() && !column.title.is_empty();
    says.then(|| sanitize(&column.title))
}

/// Returns the CSS class of a badge.
const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "held",
        Tone::Bad => "broken",
        Tone::Warning => "not-proven",
        Tone::Plain | Tone::Heading | Tone::Faint => "none",
    }
}

/// Returns the CSS class of a text.
const fn name(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Plain | Tone::Heading => None,
        Tone::Faint => Some("faint"),
        Tone::Good => Some("good"),
        Tone::Warning => Some("warn"),
        Tone::Bad => Some("bad"),
    }
}
