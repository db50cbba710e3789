//! Rows of text with columns below each other, and many instances of a setting in
//! one of them.

use std::fmt::Write;

/// Names of one line, before it says how many more there are.
const NAMES_SHOWN: usize = 6;

/// Below this many characters words come one under the other.
const READABLE: usize = 40;

/// Rows with their columns below each other; the last column is wrapped. Where
/// that has no room it stands below its row.
pub(super) fn columns(rows: &[Vec<String>], indent: &str, width: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count.saturating_sub(1)).map(wide).collect();
    let before: usize = indent.len() + widths.iter().map(|width| width + 2).sum::<usize>();
    let last = |row: &Vec<String>| {
        row.get(count.saturating_sub(1))
            .cloned()
            .unwrap_or_default()
    };
    let longest = rows.iter().map(|row| last(row).chars().count()).max();
    // A path cannot be wrapped.
    let word = |row: &Vec<String>| {
        let words = last(row);
        let words = words.split_whitespace();
        words.map(|word| word.chars().count()).max().unwrap_or(0)
    };
    let word = rows.iter().map(word).max().unwrap_or(0);
    let least = READABLE.min(longest.unwrap_or(0)).max(word);
    let beside = width.saturating_sub(before) >= least;
    let (start, room) = match beside {
        true => (before, width.saturating_sub(before)),
        false => (indent.len() + 4, width.saturating_sub(indent.len() + 4)),
    };
    let mut text = String::new();
    for row in rows {
        let mut line = indent.to_owned();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        // A narrow terminal still gets words, not letters.
        let parts = wrapped(&last(row), room.max(24));
        for (place, part) in parts.iter().enumerate() {
            match (place, beside) {
                (0, true) => line.push_str(part),
                (0, false) if part.is_empty() => {}
                _ => {
                    line.truncate(line.trim_end().len());
                    let _ = write!(line, "\n{:start$}{part}", "");
                }
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = |line: &String| line.chars().count() + 1 + word.chars().count() <= room;
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if fits(line) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `24, 25, 26 and 9 more`.
pub(super) fn some_of(names: &[&str]) -> String {
    if names.len() <= NAMES_SHOWN + 1 {
        return names.join(", ");
    }
    let shown = names[..NAMES_SHOWN].join(", ");
    format!("{shown} and {} more", names.len() - NAMES_SHOWN)
}

/// A name, and which of several: `irq-affinity@24`, or with the names of many
/// on a line of their own.
pub(super) fn name_of(settings: &[&str]) -> String {
    if let [one] = settings {
        return (*one).to_owned();
    }
    let first = settings.first().copied().unwrap_or_default();
    let name = first.split_once('@').map_or(first, |(name, _)| name);
    format!("{name} ({})", settings.len())
}

pub(super) fn instances(settings: &[&str]) -> Vec<String> {
    settings
        .iter()
        .filter_map(|setting| setting.split_once('@'))
        .map(|(_, instance)| instance.to_owned())
        .collect()
}

/// Steps that say the same of several instances, together.
pub(super) fn groups<'a, T>(items: &[&'a T], same: impl Fn(&T, &T) -> bool) -> Vec<Vec<&'a T>> {
    let mut groups: Vec<Vec<&'a T>> = Vec::new();
    for item in items {
        let found = groups
            .iter_mut()
            .find(|group| group.first().is_some_and(|first| same(first, item)));
        match found {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// So many instances of a setting are told in one row.
const MANY: usize = 4;

/// Rows whose first cell is a setting: those of many instances that say the same
/// otherwise become one, with the names in a cell of their own (`--json` has all).
pub(super) fn merged(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let kind = |row: &[String]| {
        let setting = row.first().map(String::as_str).unwrap_or_default();
        setting.split_once('@').map(|(name, _)| name.to_owned())
    };
    let all: Vec<&Vec<String>> = rows.iter().collect();
    let same = |a: &Vec<String>, b: &Vec<String>| {
        kind(a).is_some() && kind(a) == kind(b) && a.get(1..) == b.get(1..)
    };
    let mut short = Vec::new();
    for group in groups(&all, same) {
        let settings: Vec<&str> = group
            .iter()
            .filter_map(|row| Some(&**row.first()?))
            .collect();
        match group.first() {
            Some(first) if group.len() >= MANY => {
                let names = instances(&settings);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let rest = first.iter().skip(1).cloned();
                let name = std::iter::once(name_of(&settings));
                let mut row: Vec<String> = name.chain(rest).collect();
                row.push(some_of(&names));
                short.push(row);
            }
            _ => short.extend(group.iter().map(|row| (*row).clone())),
        }
    }
    let widest = short.iter().map(Vec::len).max().unwrap_or(0);
    for row in &mut short {
        row.resize(widest, String::new());
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_instances_that_say_the_same_are_one_row() {
        let row = |setting: &str, value: &str| vec![setting.to_owned(), value.to_owned()];
        let mut rows = vec![row("thp", "never")];
        rows.extend((24..29).map(|irq| row(&format!("irq-affinity@{irq}"), "CPU 0")));
        rows.push(row("irq-affinity@30", "CPU 1"));
        let shown = columns(&merged(rows.clone()), "", 80);
        assert_eq!(
            shown.lines().collect::<Vec<_>>(),
            [
                "thp               never",
                "irq-affinity (5)  CPU 0  24, 25, 26, 27, 28",
                "irq-affinity@30   CPU 1",
            ]
        );
        // Few are told one by one.
        rows.drain(1..4);
        assert_eq!(merged(rows.clone()), rows);
        assert_eq!(merged(Vec::new()), Vec::<Vec<String>>::new());
    }
}
