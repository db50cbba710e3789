//! Documents as Markdown for issues, wikis and commit messages (GitHub flavour, which has tables).

use std::fmt::Write;

use crate::document::{Block, Cell, Column, Document, Field, Fold, Section, Table, Tone};
use crate::sanitize::sanitize;

/// Returns a document as Markdown, with everything that an HTML page shows except the plots.
pub fn render(document: &Document) -> String {
    let mut out = String::new();
    if !document.title.is_empty() {
        let _ = writeln!(out, "# {}", escape(&document.title));
    }
    let shown = document.sections.iter();
    for section in shown.filter(|section| section.medium.is_on_page()) {
        push_section(&mut out, section);
    }
    out
}

/// Escapes everything in `text` that Markdown or HTML would read as markup.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in sanitize(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

fn push_section(out: &mut String, section: &Section) {
    let mark = (section.state.as_ref()).map_or_else(String::new, |(_, mark)| {
        format!("{}: ", escape(mark.trim()))
    });
    let heading = section.heading.as_ref();
    if let Some((_, heading)) = heading.filter(|(medium, _)| medium.is_on_page()) {
        let aside = (section.aside.as_ref())
            .map_or_else(String::new, |aside| format!(" ({})", escape(aside)));
        let _ = writeln!(out, "\n## {mark}{}{aside}", escape(heading));
    }
    for block in &section.blocks {
        match block {
            Block::Text(_, text) => {
                let _ = writeln!(out, "\n{}", escape(text));
            }
            Block::Answer(answer) => {
                let text = format!("{} {}", answer.sign, escape(&answer.text));
                let _ = writeln!(out, "\n**{}**", text.trim());
            }
            Block::Fields(fields) => push_fields(out, fields),
            Block::Warnings(list) => {
                out.push_str("\nWarnings:\n\n");
                for text in list {
                    let _ = writeln!(out, "- {}", escape(text));
                }
            }
            Block::Table(table) => push_table(out, table),
            Block::Figure(_) => {}
        }
    }
}

fn push_fields(out: &mut String, fields: &[Field]) {
    out.push('\n');
    let mut name = String::new();
    for field in fields {
        if !field.name.is_empty() {
            name = escape(&field.name);
        }
        let _ = writeln!(out, "- {name}: {}", escape(&field.text));
    }
}

fn push_table(out: &mut String, table: &Table) {
    let shown = |column: &&Column| column.medium.is_on_page();
    let columns: Vec<&Column> = table.columns.iter().filter(shown).collect();
    let titles: Vec<String> = columns.iter().map(|c| escape(&c.title)).collect();
    let rules: Vec<&str> = (columns.iter())
        .map(|column| if column.number { "--:" } else { "---" })
        .collect();
    let _ = writeln!(
        out,
        "\n| {} |\n| {} |",
        titles.join(" | "),
        rules.join(" | ")
    );
    for row in &table.rows {
        let cells = row.cells.iter().zip(&table.columns);
        let cells: Vec<String> = cells
            .filter(|(_, column)| shown(column))
            .map(|(cell, column)| cell_text(cell, column))
            .collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
}

fn cell_text(cell: &Cell, column: &Column) -> String {
    let mut text = escape(&cell.text);
    if text.is_empty() && column.fold == Fold::Below {
        text.push('-');
    }
    if !cell.items.is_empty() {
        let items: Vec<String> = cell.items.iter().map(|item| escape(item)).collect();
        text.push_str(&format!(" ({})", items.join(", ")));
    }
    match (cell.tone, text.is_empty()) {
        (Tone::Faint, false) => format!("*{text}*"),
        _ => text,
    }
}
