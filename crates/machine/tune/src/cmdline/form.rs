//! Positions of kernel parameters in a boot loader's file.

use std::ops::Range;

use super::unclear::Unclear;
use super::words::{self, Changes};

/// The format of the parameters in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The whole file is one line of parameters (cmdline.txt, /etc/kernel/cmdline).
    Line,
    /// A shell variable (/etc/default/grub).
    Variable(&'static str),
    /// Lines that begin with this word (`options` of systemd-boot).
    Keyword(&'static str),
    /// The `append` lines below the label that is booted (extlinux.conf).
    Append,
}

/// A range of a text that contains parameters.
struct Span {
    range: Range<usize>,
    /// Whether the value has no quotation marks. Quotation marks must be added if the new value has
    /// more than one word.
    bare: bool,
}

impl Form {
    /// Returns the parameters in a text.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be parsed.
    pub(super) fn read(&self, text: &str) -> Result<Vec<String>, Unclear> {
        let spans = self.spans(text)?;
        let all = spans
            .iter()
            .flat_map(|span| words::words(&text[span.range.clone()]));
        Ok(all.map(|(_, word)| word.to_owned()).collect())
    }

    /// Returns the text with the changes. Everything else stays unchanged.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be parsed.
    pub(super) fn edit(&self, text: &str, changes: &Changes) -> Result<String, Unclear> {
        let mut text = text.to_owned();
        if self.spans(&text)?.is_empty() && !changes.added().is_empty() {
            text = self.with_a_place(&text)?;
        }
        let present = self.read(&text)?;
        let missing: Vec<&str> = changes
            .added()
            .iter()
            .filter(|word| !present.contains(word))
            .map(String::as_str)
            .collect();
        // Edit the last range first, so that the positions of the earlier ranges stay valid.
        for (back, span) in self.spans(&text)?.into_iter().rev().enumerate() {
            let old = &text[span.range.clone()];
            let mut new = words::without(old, changes);
            if back == 0 && !missing.is_empty() {
                new = words::with_missing(&new, &missing);
            }
            if new == old {
                continue;
            }
            if span.bare {
                new = format!("\"{new}\"");
            }
            text.replace_range(span.range, &new);
        }
        Ok(text)
    }

    /// Returns the text with an empty place for parameters appended to it.
    fn with_a_place(&self, text: &str) -> Result<String, Unclear> {
        let line = match self {
            Self::Line => return Ok(text.to_owned()),
            Self::Variable(name) => format!("{name}=\"\"\n"),
            Self::Keyword(word) => format!("{word} \n"),
            Self::Append => return Err(Unclear::NoAppend),
        };
        let end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        Ok(format!("{text}{end}{line}"))
    }

    fn spans(&self, text: &str) -> Result<Vec<Span>, Unclear> {
        match self {
            Self::Line => whole_line(text),
            Self::Variable(name) => variable(text, name),
            Self::Keyword(word) => Ok(keyword_lines(text, word)),
            Self::Append => append_lines(text),
        }
    }
}

/// Returns the lines without their newlines, each with its offset.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut place = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = place;
        place += line.len();
        (start, line.trim_end_matches(['\n', '\r']))
    })
}

fn whole_line(text: &str) -> Result<Vec<Span>, Unclear> {
    let used: Vec<(usize, &str)> = lines(text)
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .collect();
    match used.as_slice() {
        [] => Ok(vec![Span {
            range: 0..0,
            bare: false,
        }]),
        [(start, line)] => Ok(vec![Span {
            range: *start..*start + line.len(),
            bare: false,
        }]),
        _ => Err(Unclear::SeveralLines),
    }
}

/// Returns the value of the last assignment, because the last one is effective.
fn variable(text: &str, name: &'static str) -> Result<Vec<Span>, Unclear> {
    let mut last = None;
    for (start, line) in lines(text) {
        let body = line.trim_start();
        let body = body.strip_prefix("export ").unwrap_or(body).trim_start();
        let Some(value) = body
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('='))
        else {
            continue;
        };
        last = Some((start + line.len() - value.len(), value));
    }
    let Some((place, value)) = last else {
        return Ok(Vec::new());
    };
    let unclear = || Unclear::Value { name };
    let quote = value.chars().next().filter(|c| "\"'".contains(*c));
    let (from, length, bare) = match quote {
        Some(mark) => {
            let inner = &value[1..];
            (1, closing(inner, mark).ok_or_else(unclear)?, false)
        }
        None => {
            let end = value.find(char::is_whitespace).unwrap_or(value.len());
            if value[..end].contains(['"', '\'', '\\', '`']) {
                return Err(unclear());
            }
            (0, end, true)
        }
    };
    let after = value[from + length + from..].trim();
    if !(after.is_empty() || after.starts_with('#')) {
        return Err(unclear());
    }
    Ok(vec![Span {
        range: place + from..place + from + length,
        bare,
    }])
}

/// Returns the position of the closing quotation mark.
fn closing(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (place, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' && mark == '"' {
            escaped = true;
        } else if c == mark {
            return Some(place);
        }
    }
    None
}

/// Returns the text after a keyword on its line. The case of letters is ignored.
fn after_keyword(start: usize, line: &str, word: &str) -> Option<Span> {
    let body = line.trim_start();
    let head = body.get(..word.len())?;
    let rest = &body[word.len()..];
    if !head.eq_ignore_ascii_case(word) || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let value = rest.trim_start();
    let from = start + line.len() - value.len();
    Some(Span {
        range: from..from + value.len(),
        bare: false,
    })
}

fn keyword_lines(text: &str, word: &str) -> Vec<Span> {
    let all = lines(text);
    all.filter_map(|(start, line)| after_keyword(start, line, word))
        .collect()
}

/// Returns the `append` line of the label that `default` names, or of the first label. The other
/// labels stay unchanged, so that the machine can still boot from them if this one fails.
fn append_lines(text: &str) -> Result<Vec<Span>, Unclear> {
    let value = |start, line, word| {
        after_keyword(start, line, word).map(|span| text[span.range].trim().to_owned())
    };
    let labels: Vec<(usize, String)> = lines(text)
        .filter_map(|(start, line)| Some((start, value(start, line, "label")?)))
        .collect();
    let default = lines(text).find_map(|(start, line)| value(start, line, "default"));
    let chosen = match &default {
        Some(name) => labels.iter().position(|(_, label)| label == name),
        None => (!labels.is_empty()).then_some(0),
    };
    let Some(chosen) = chosen else {
        return Err(Unclear::NoLabel);
    };
    let from = labels[chosen].0;
    let to = labels
        .get(chosen + 1)
        .map_or(text.len(), |(start, _)| *start);
    let mut spans = keyword_lines(text, "append");
    spans.retain(|span| (from..=to).contains(&span.range.start));
    Ok(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(form: &Form, before: &str) -> Result<String, Unclear> {
        let add = ["isolcpus=2-3".to_owned(), "nohz=on".to_owned()];
        let changes = Changes::new(&add, &["splash".to_owned()]).unwrap();
        form.edit(before, &changes)
    }

    #[test]
    fn only_the_parameters_of_a_variable_change() {
        let form = Form::Variable("GRUB_CMDLINE_LINUX_DEFAULT");
        let name = "GRUB_CMDLINE_LINUX_DEFAULT";
        for (before, after) in [
            ("\"quiet splash\"", "\"quiet isolcpus=2-3 nohz=on\""),
            (
                "'quiet isolcpus=1' # mine",
                "'quiet isolcpus=2-3 nohz=on' # mine",
            ),
            ("quiet", "\"quiet isolcpus=2-3 nohz=on\""),
            ("", "\"isolcpus=2-3 nohz=on\""),
            ("\"$OTHER\"", "\"$OTHER isolcpus=2-3 nohz=on\""),
            (
                "\"a=\\\"b c\\\"\"",
                "\"a=\\\"b c\\\" isolcpus=2-3 nohz=on\"",
            ),
        ] {
            let text = |value: &str| format!("A=1\n# {name}=no\n{name}={value}\nB=2\n");
            assert_eq!(edited(&form, &text(before)).unwrap(), text(after));
        }
        let missing = edited(&form, "A=1").unwrap();
        assert_eq!(missing, format!("A=1\n{name}=\"isolcpus=2-3 nohz=on\"\n"));
        let twice = edited(&form, &format!("{name}=\"a\"\n{name}=\"b\"\n")).unwrap();
        assert!(twice.starts_with(&format!("{name}=\"a\"\n")), "{twice}");
        for unclear in ["\"a", "\"a\"b", "a\\ b", "\"a\" 'b'"] {
            let why = edited(&form, &format!("{name}={unclear}\n")).unwrap_err();
            assert_eq!(
                why.to_string(),
                format!("the value of {name} is not a single quoted text on one line"),
                "{unclear}"
            );
        }
    }

    #[test]
    fn entries_and_single_lines_keep_their_form() {
        let entry = "title Arch\noptions root=/dev/sda1 splash\noptions\trw\n";
        assert_eq!(
            edited(&Form::Keyword("options"), entry).unwrap(),
            "title Arch\noptions root=/dev/sda1\noptions\trw isolcpus=2-3 nohz=on\n"
        );
        assert_eq!(
            edited(&Form::Keyword("options"), "title x").unwrap(),
            "title x\noptions isolcpus=2-3 nohz=on\n"
        );
        assert_eq!(
            edited(&Form::Line, "console=tty1 splash\n").unwrap(),
            "console=tty1 isolcpus=2-3 nohz=on\n"
        );
        assert_eq!(edited(&Form::Line, "").unwrap(), "isolcpus=2-3 nohz=on");
        let two = edited(&Form::Line, "a\nb\n").unwrap_err();
        assert_eq!(two.to_string(), "it has more than one line of parameters");
    }

    #[test]
    fn only_the_booted_label_changes() {
        let text =
            "DEFAULT b\nLABEL a\n\tAPPEND one splash\nLABEL b\n      append ${cbootargs} two\n";
        let after = edited(&Form::Append, text).unwrap();
        assert_eq!(after, text.replace("two", "two isolcpus=2-3 nohz=on"));
        let first = "label a\n append x";
        assert!(
            edited(&Form::Append, first)
                .unwrap()
                .ends_with("x isolcpus=2-3 nohz=on")
        );
        let why = |text: &str| edited(&Form::Append, text).unwrap_err().to_string();
        assert_eq!(
            why("label a\n kernel /k\n"),
            "the default label has no line `append`"
        );
        assert_eq!(
            why("default z\nlabel a\n append x\n"),
            "it has no label with the name in `default`"
        );
    }

    #[test]
    fn satisfied_configuration_stays_byte_exact() {
        let text = "A=1\r\nGRUB_CMDLINE_LINUX_DEFAULT=nohz=on\n";
        let changes = Changes::new(&["nohz=on".to_owned()], &[]).unwrap();
        let form = Form::Variable("GRUB_CMDLINE_LINUX_DEFAULT");
        assert_eq!(form.edit(text, &changes).unwrap(), text);
    }
}
