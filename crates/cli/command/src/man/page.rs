//! A manual page, which consists of parts that clap generates and of our own parts.

use std::fmt::Write;

use anyhow::Result;
use clap::Command;
use clap_mangen::Man;

use super::FIRST;
use super::markup::{self, escaped};
use crate::Program;

/// Returns the page of a command, which must already be built. `path` contains the words of the
/// command, such as `punctual measure timer`.
pub(super) fn manual_page(program: &Program, command: &Command, path: &[String]) -> Result<String> {
    let texts = &program.pages;
    let man = Man::new(command.clone());
    let mut page = String::new();
    type Part = fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>;
    let part = |render: Part| -> Result<String> {
        let mut bytes = Vec::new();
        render(&man, &mut bytes)?;
        Ok(String::from_utf8(bytes)?)
    };
    page.push_str(&title(&part(Man::render_title)?, program.version, path));
    let name = part(Man::render_name_section)?;
    page.push_str(
        &without_preamble(&name)
            .lines()
            .map(|line| markup::plain(line) + "\n")
            .collect::<String>(),
    );
    synopsis(&mut page, command);
    page.push_str(&text(&part(Man::render_description_section)?));
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        let commands = part(Man::render_subcommands_section)?;
        page.push_str(&text(&without_help(&commands)));
    }
    page.push_str(&text(&part(Man::render_options_section)?));
    let after = after_help(command);
    sections(&mut page, &after);
    page.push_str(&table("ENVIRONMENT", texts.environment));
    page.push_str(&table("FILES", texts.files));
    if !after.contains("Examples:\n") {
        page.push_str(&examples(texts.examples, path));
    }
    see_also(&mut page, texts.see_also, path);
    Ok(page)
}

/// Returns the beginning of the page from clap, but with our own title line. In clap's title line,
/// an empty date has no quotes, so that roff takes the next argument as the date.
fn title(part: &str, version: &str, path: &[String]) -> String {
    let lines = part.lines().filter(|line| !line.starts_with(".TH"));
    let before: String = lines.map(|line| format!("{line}\n")).collect();
    let name = escaped(&path.join("-").to_uppercase());
    format!("{before}.TH \"{name}\" \"1\" \"\" \"punctual {version}\" \"User Commands\"\n")
}

/// Removes the text before the first section, because it must occur only once per page.
fn without_preamble(part: &str) -> &str {
    part.find(".SH").map_or(part, |at| &part[at..])
}

/// Returns the list of commands without `help`, which has no page.
fn without_help(part: &str) -> String {
    let mut out = String::new();
    for entry in part.split_inclusive(".TP\n") {
        if entry.contains("\\-help(1)") {
            // Skip this entry, which ends with the start of the next one.
        } else {
            out.push_str(entry)
        }
    }
    out.strip_suffix(".TP\n").map(str::to_owned).unwrap_or(out)
}

/// Returns a part that clap generated. Marks become fonts, and lines that begin with a dash become
/// list items.
fn text(part: &str) -> String {
    let mut out = String::new();
    for line in without_preamble(part).lines() {
        let line = match line.strip_prefix("\\- ") {
            Some(item) => {
                out.push_str(".IP \\(bu 2\n");
                item
            }
            None => line,
        };
        if line.starts_with('.') {
            out.push_str(line)
        } else {
            out.push_str(&markup::fonts(line))
        }
        out.push('\n');
    }
    out
}

fn synopsis(page: &mut String, command: &Command) {
    page.push_str(".SH SYNOPSIS\n");
    let usage = command.clone().render_usage().to_string();
    let forms = usage.trim_start_matches("Usage:").lines();
    for (index, form) in forms
        .map(str::trim)
        .filter(|form| !form.is_empty())
        .enumerate()
    {
        if index > 0 {
            page.push_str(".br\n");
        }
        let words = form.find(['[', '<']).unwrap_or(form.len());
        let (name, rest) = form.split_at(words);
        let _ = writeln!(
            page,
            "\\fB{}\\fR {}",
            escaped(name.trim_end()),
            escaped(rest)
        );
    }
}

fn after_help(command: &Command) -> String {
    let help = command.get_after_long_help().or(command.get_after_help());
    help.map(ToString::to_string).unwrap_or_default()
}

/// Adds the texts that follow the help. A paragraph with a heading such as `Exit codes:` becomes a
/// section. The other paragraphs become notes.
fn sections(page: &mut String, after: &str) {
    let mut notes = String::new();
    for paragraph in after.split("\n\n") {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let heading = first
            .split_once(':')
            .filter(|(name, _)| name.len() < 24 && name.starts_with(char::is_uppercase));
        match heading {
            Some((name, more)) => {
                let name = match name {
                    "Exit codes" => "EXIT STATUS".to_owned(),
                    name => name.to_uppercase(),
                };
                let _ = writeln!(page, ".SH {}", quoted(&name));
                if !more.trim().is_empty() {
                    let _ = writeln!(page, "{}", shown(more.trim()));
                }
                if name == "EXAMPLES" {
                    verbatim(page, rest)
                } else {
                    rows(page, rest)
                }
            }
            None if paragraph.trim().is_empty() => {}
            None => {
                notes.push_str(".PP\n");
                rows(&mut notes, paragraph);
            }
        }
    }
    if !notes.is_empty() {
        page.push_str(".SH NOTES\n");
        page.push_str(&notes);
    }
}

/// Adds indented lines such as `  name   meaning` as a list of terms, and other lines as text.
/// Lines with a deeper indentation continue the meaning of the term above.
fn rows(page: &mut String, lines: &str) {
    for line in lines.lines() {
        let indent = line.len() - line.trim_start().len();
        let row = line.trim_start().split_once("  ");
        match (indent, row) {
            (1..=4, Some((name, meaning))) => {
                let _ = writeln!(
                    page,
                    ".TP\n\\fB{}\\fR\n{}",
                    escaped(name),
                    shown(meaning.trim_start())
                );
            }
            _ if line.trim().is_empty() => {}
            _ => {
                let _ = writeln!(page, "{}", shown(line.trim()));
            }
        }
    }
}

fn verbatim(page: &mut String, lines: &str) {
    page.push_str(".nf\n");
    for line in lines.lines() {
        let _ = writeln!(page, "{}", escaped(line.trim()));
    }
    page.push_str(".fi\n");
}

fn table(heading: &str, rows: &[(&str, &str)]) -> String {
    let mut out = format!(".SH {}\n", quoted(heading));
    for (name, meaning) in rows {
        let _ = writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(name), shown(meaning));
    }
    out
}

/// Returns the section of a page with its examples; empty if it has none.
fn examples(all: &[(&str, &str)], path: &[String]) -> String {
    let begins = |line: &str| {
        let mut words = line.split_whitespace();
        path.iter().all(|word| words.next() == Some(word))
    };
    let most = if path.len() == 1 { FIRST } else { usize::MAX };
    let rows = all.iter().filter(|(line, _)| begins(line)).take(most);
    let rows: Vec<_> = rows.copied().collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut out = ".SH EXAMPLES\n".to_owned();
    for (line, what) in rows {
        let _ = writeln!(out, ".TP\n\\fB{}\\fR\n{}", escaped(line), escaped(what));
    }
    out
}

fn see_also(page: &mut String, of_program: &[&str], path: &[String]) {
    page.push_str(".SH \"SEE ALSO\"\n");
    let pages: Vec<String> = match path.len() {
        1 => of_program.iter().map(|page| (*page).to_owned()).collect(),
        depth => (1..depth).map(|words| path[..words].join("-")).collect(),
    };
    let pages: Vec<String> = pages
        .iter()
        .map(|page| format!("\\fB{}\\fR(1)", escaped(page)))
        .collect();
    let _ = writeln!(page, "{}", pages.join(", "));
}

/// Escapes our own text for roff and converts its marks to fonts.
fn shown(text: &str) -> String {
    markup::fonts(&escaped(text))
}

fn quoted(heading: &str) -> String {
    if heading.contains(' ') {
        format!("\"{heading}\"")
    } else {
        heading.to_owned()
    }
}
