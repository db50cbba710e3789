//! Assembles command lines from the files of a boot loader, and decides which file to edit for
//! which parameter.

use punctual_model::{RepeatRule, is_parameter};

use super::tree::{Found, Line};
use super::words::{Changes, WordEdit, name_of, refers};
use super::{CmdlineError, Unclear};

/// A word of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed<'a> {
    /// The position of the source that contains the word.
    pub(super) source: usize,
    pub(super) word: &'a str,
}

/// The words of all sources, in the order of [`Found::sources`].
pub(super) type Words = Vec<Vec<String>>;

/// Returns the words of a line in the order in which the kernel gets them. Variables are replaced
/// by the words of their sources.
pub(super) fn assembled<'a>(found: &Found, line: &Line, words: &'a Words) -> Vec<Placed<'a>> {
    let mut all = Vec::new();
    for part in &line.parts {
        expand(found, *part, words, &mut all);
    }
    all
}

fn expand<'a>(found: &Found, source: usize, words: &'a Words, all: &mut Vec<Placed<'a>>) {
    for word in words.get(source).into_iter().flatten() {
        let mut variables = found.sources[source].variables.iter();
        match variables.find(|variable| refers(word, variable.name)) {
            Some(variable) => {
                for inner in &variable.sources {
                    // A source only refers to sources that were found before it.
                    expand(found, *inner, words, all);
                }
            }
            None if is_text(word) => all.push(Placed { source, word }),
            None => {}
        }
    }
}

/// Returns whether a word is a parameter rather than a part of a shell expression that spans
/// several words: `${A:+$A }\$B`.
fn is_text(word: &str) -> bool {
    !word.starts_with(['}', '\\'])
}

/// The edits of one source.
pub(super) type Edits = Vec<WordEdit>;

/// Decides which words of which source change, so that each line gets the changes exactly once.
///
/// # Errors
/// Returns an error if a program owns the file with the parameter to change.
pub(super) fn edits(
    found: &Found,
    words: &Words,
    changes: &Changes,
) -> Result<Vec<Edits>, CmdlineError> {
    let mut edits: Vec<Edits> = vec![Vec::new(); found.sources.len()];
    let mut put = |source: usize, edit: WordEdit| {
        let list = &mut edits[source];
        // Several lines can have a common source.
        if !list.contains(&edit) {
            list.push(edit);
        }
    };
    for line in &found.lines {
        let all = assembled(found, line, words);
        for word in changes.added() {
            add(found, line, &all, word, &mut put)?;
        }
        for name in changes.removed() {
            let same = all.iter().filter(|one| is_parameter(one.word, name));
            for one in same {
                owned(found, one)?;
                put(one.source, WordEdit::Remove(name.clone()));
            }
        }
    }
    for list in &mut edits {
        // A source in which one line keeps the parameter keeps it for all lines.
        let kept: Vec<String> = list
            .iter()
            .filter_map(|edit| match edit {
                WordEdit::Replace(word) => Some(word.clone()),
                _ => None,
            })
            .collect();
        list.retain(|edit| match edit {
            WordEdit::Remove(name) => !kept.iter().any(|word| is_parameter(word, name)),
            _ => true,
        });
    }
    Ok(edits)
}

/// Decides where a line gets a parameter.
fn add(
    found: &Found,
    line: &Line,
    all: &[Placed<'_>],
    word: &str,
    put: &mut impl FnMut(usize, WordEdit),
) -> Result<(), CmdlineError> {
    let name = name_of(word);
    let same: Vec<Placed<'_>> = (all.iter().copied())
        .filter(|one| is_parameter(one.word, name))
        .collect();
    let rule = RepeatRule::of(name);
    if rule == RepeatRule::All {
        if !same.iter().any(|one| one.word == word) {
            put(line.add_to, WordEdit::Add(word.to_owned()));
        }
        return Ok(());
    }
    let is_owned = |one: &&Placed<'_>| found.sources[one.source].owner.is_some();
    if let Some(other) = same.iter().filter(is_owned).find(|one| one.word != word) {
        return owned(found, other);
    }
    let satisfied = same.iter().any(|one| is_owned(&one));
    let editable: Vec<Placed<'_>> = same.into_iter().filter(|one| !is_owned(&one)).collect();
    let winner = (!satisfied).then(|| rule.select(editable.clone()).first().copied());
    for one in &editable {
        if winner
            .flatten()
            .is_none_or(|winner| winner.source != one.source)
        {
            put(one.source, WordEdit::Remove(name.to_owned()));
        }
    }
    match winner {
        Some(Some(winner)) => put(winner.source, WordEdit::Replace(word.to_owned())),
        Some(None) => put(line.add_to, WordEdit::Add(word.to_owned())),
        None => {}
    }
    Ok(())
}

/// Returns an error if a program owns the source of this word.
fn owned(found: &Found, one: &Placed<'_>) -> Result<(), CmdlineError> {
    let source = &found.sources[one.source];
    let Some(owner) = source.owner else {
        return Ok(());
    };
    Err(CmdlineError::Unclear {
        path: source.path.clone(),
        why: Unclear::Owned {
            variable: source.form.part().unwrap_or_default(),
            word: one.word.to_owned(),
            owner,
        },
    })
}

/// Returns notes about parameters that have no effect, or that may not fit the added ones.
pub(super) fn remarks(lines: &[Vec<&str>], changes: &Changes) -> Vec<String> {
    let mut notes = Vec::new();
    let pairs = [("isolcpus", "nohz_full"), ("nohz_full", "isolcpus")];
    for (added, other) in pairs {
        let is = |name: &'static str| move |word: &&String| is_parameter(word, name);
        let Some(word) = changes.added().iter().find(is(added)) else {
            continue;
        };
        if changes.added().iter().any(|word| is(other)(&word)) {
            continue;
        }
        let stays = lines
            .iter()
            .flatten()
            .find(|word| is_parameter(word, other));
        if let Some(stays) = stays {
            let note = format!("{stays} stays on the command line: check that it fits {word}");
            notes.push(note);
        }
    }
    notes
}

/// Returns the words of a line that have no effect, because another occurrence of the same
/// parameter wins.
pub(super) fn ineffective(words: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    for (place, word) in words.iter().enumerate() {
        let name = name_of(word);
        let same = |other: &(usize, &&str)| is_parameter(other.1, name);
        let all: Vec<(usize, &&str)> = words.iter().enumerate().filter(same).collect();
        let obeyed = RepeatRule::of(name).select(all);
        if let [(winner, wins)] = obeyed.as_slice()
            && *winner != place
            && *wins != word
        {
            let which = if *winner < place { "first" } else { "last" };
            notes.push(format!(
                "{word} has no effect: the kernel obeys the {which} {name}, which is {wins}"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_parameter_that_stays_is_named() {
        let notes = |line: &str, added: &[&str]| {
            let added: Vec<String> = added.iter().map(|word| (*word).to_owned()).collect();
            let changes = Changes::new(&added, &[]).unwrap();
            remarks(&[vec!["quiet"], line.split(' ').collect()], &changes)
        };
        let stays = |other: &str, added: &str| {
            format!("{other} stays on the command line: check that it fits {added}")
        };
        assert_eq!(
            notes("ro nohz_full=1", &["audit=0", "isolcpus=2"]),
            [stays("nohz_full=1", "isolcpus=2")]
        );
        assert_eq!(
            notes("isolcpus=1 ro", &["nohz_full=2"]),
            [stays("isolcpus=1", "nohz_full=2")]
        );
        for (line, added) in [
            ("ro", &["isolcpus=2"][..]),
            ("isolcpus=1", &["isolcpus=2"]),
            ("isolcpus=1 nohz_full=1", &["audit=0"]),
            ("isolcpus=1 nohz_full=1", &[]),
            ("isolcpus=1 nohz_full=1", &["nohz_full=2", "isolcpus=2"]),
        ] {
            assert_eq!(notes(line, added), [""; 0], "{line} {added:?}");
        }
    }

    #[test]
    fn parts_of_shell_expressions_are_no_parameters() {
        assert!(is_text("a=1") && is_text("a\\b") && is_text(""));
        assert!(!is_text("}\\$B") && !is_text("\\$B"));
    }

    #[test]
    fn losing_occurrences_are_named() {
        let line = [
            "isolcpus=1",
            "audit=0",
            "isolcpus=2",
            "audit=1",
            "console=a",
            "console=b",
        ];
        assert_eq!(
            ineffective(&line),
            [
                "audit=0 has no effect: the kernel obeys the last audit, which is audit=1",
                "isolcpus=2 has no effect: the kernel obeys the first isolcpus, which is isolcpus=1",
            ]
        );
    }
}
