//! Positions of kernel parameters in a boot loader's file.

use super::places;
use super::spans::{Span, lines};
use super::unclear::Unclear;
use super::words::{self, WordEdit};

/// The format of the parameters in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The whole file is one line of parameters (cmdline.txt, /etc/kernel/cmdline).
    Line,
    /// An assignment to a shell variable (/etc/default/grub). The number counts the assignments
    /// from the last one, which is 0.
    Variable(&'static str, usize),
    /// Lines that begin with this word (`options` of systemd-boot).
    Keyword(&'static str),
    /// The `append` lines below the label that is booted (extlinux.conf, syslinux.cfg).
    Append,
    /// The rest of the last line that begins with this name and `=` (armbianEnv.txt, uEnv.txt).
    Assignment(&'static str),
    /// A variable of GRUB's environment block (grubenv).
    Environment(&'static str),
    /// `parameters` of the section that is booted (zipl.conf).
    Zipl,
    /// `cmdline` of the entry that is booted (limine.conf).
    Limine,
    /// The list of options of the user (kernelstub).
    Kernelstub,
}

impl Form {
    /// Returns the name of the part of the file, if the file has several parts.
    pub(super) const fn part(&self) -> Option<&'static str> {
        match self {
            Self::Variable(name, _) | Self::Assignment(name) | Self::Environment(name) => {
                Some(name)
            }
            _ => None,
        }
    }

    /// Returns the parameters in a text.
    ///
    /// # Errors
    /// Returns the reason why the file cannot be parsed.
    pub(super) fn read(&self, text: &str) -> Result<Vec<String>, Unclear> {
        if *self == Self::Kernelstub {
            return places::options(text);
        }
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
    pub(super) fn edit(&self, text: &str, edits: &[WordEdit]) -> Result<String, Unclear> {
        if *self == Self::Kernelstub {
            return places::with_options(text, edits);
        }
        let mut text = text.to_owned();
        let length = text.len();
        let adds = edits.iter().any(|edit| matches!(edit, WordEdit::Add(_)));
        if self.spans(&text)?.is_empty() && adds {
            text = self.with_a_place(&text)?;
        }
        for edit in edits {
            text = self.with_edit(&text, edit)?;
        }
        match self {
            Self::Environment(_) => places::fitted(&text, length),
            _ => Ok(text),
        }
    }

    fn with_edit(&self, text: &str, edit: &WordEdit) -> Result<String, Unclear> {
        let mut text = text.to_owned();
        let spans = self.spans(&text)?;
        let before = text.clone();
        let in_span = |span: &Span| words::words(&before[span.range.clone()]);
        let all: Vec<&str> = spans
            .iter()
            .flat_map(|span| in_span(span).into_iter().map(|(_, word)| word))
            .collect();
        let mut place = all.len();
        // Edit the last range first, so that the positions of the earlier ranges stay valid.
        for (back, span) in spans.iter().rev().enumerate() {
            let old = &before[span.range.clone()];
            let mut new = old.to_owned();
            for (at, word) in in_span(span).into_iter().rev() {
                place -= 1;
                let becomes = edit.apply(&all, place);
                if becomes != Some(word) {
                    new = words::with_word(&new, at, word, becomes);
                }
            }
            if let WordEdit::Add(word) = edit
                && back == 0
                && !all.contains(&word.as_str())
            {
                new = words::with_missing(&new, &[word.as_str()]);
            }
            if new == old {
                continue;
            }
            if span.bare {
                new = format!("\"{new}\"");
            }
            text.replace_range(span.range.clone(), &new);
        }
        Ok(text)
    }

    /// Returns the text with an empty place for parameters appended to it.
    fn with_a_place(&self, text: &str) -> Result<String, Unclear> {
        let line = match self {
            Self::Line | Self::Environment(_) | Self::Kernelstub => return Ok(text.to_owned()),
            Self::Variable(name, _) => format!("{name}=\"\"\n"),
            Self::Assignment(name) => format!("{name}=\n"),
            Self::Keyword(word) => format!("{word} \n"),
            Self::Append => return Err(Unclear::NoAppend),
            Self::Zipl => return Err(Unclear::NoDefault { key: "parameters=" }),
            Self::Limine => return Err(Unclear::NoDefault { key: "cmdline:" }),
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
            Self::Variable(name, back) => variable(text, name, *back),
            Self::Keyword(word) => Ok(keyword_lines(text, word)),
            Self::Append => append_lines(text),
            Self::Assignment(name) => assignment(text, name),
            Self::Environment(name) => Ok(places::environment(text, name)),
            Self::Zipl => places::zipl(text),
            Self::Limine => places::limine(text),
            Self::Kernelstub => places::kernelstub(text),
        }
    }
}

fn whole_line(text: &str) -> Result<Vec<Span>, Unclear> {
    let used: Vec<(usize, &str)> = lines(text)
        .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
        .collect();
    match used.as_slice() {
        [] => Ok(vec![Span::plain(0..0)]),
        [(start, line)] => Ok(vec![Span::plain(*start..*start + line.len())]),
        _ => Err(Unclear::SeveralLines),
    }
}

/// Returns the assignments to a shell variable in their order: the offset of the value, the value,
/// and whether `+=` appends it.
fn assignments<'a>(text: &'a str, name: &str) -> Vec<(usize, &'a str, bool)> {
    let value = |(start, line): (usize, &'a str)| {
        let body = line.trim_start();
        let body = body.strip_prefix("export ").unwrap_or(body).trim_start();
        let rest = body.strip_prefix(name)?;
        let appends = rest.starts_with("+=");
        let value = rest.strip_prefix("+=").or_else(|| rest.strip_prefix('='))?;
        Some((start + line.len() - value.len(), value, appends))
    };
    lines(text).filter_map(value).collect()
}

/// Returns, for each assignment to a shell variable, whether it continues the value of the one
/// before.
pub(super) fn continued(text: &str, name: &str) -> Vec<bool> {
    let all = assignments(text, name).into_iter();
    all.map(|(_, value, appends)| appends || words::refers(value, name))
        .collect()
}

/// Returns the value of an assignment, counted from the last one.
fn variable(text: &str, name: &'static str, back: usize) -> Result<Vec<Span>, Unclear> {
    let found = assignments(text, name).into_iter().rev().nth(back);
    let Some((place, value, _)) = found else {
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

/// Returns the rest of the last line that begins with a name and `=`. U-Boot takes quotation marks
/// literally, so a value with them is not edited.
fn assignment(text: &str, name: &'static str) -> Result<Vec<Span>, Unclear> {
    let value = |(start, line): (usize, &str)| {
        let value = line.strip_prefix(name)?.strip_prefix('=')?;
        let from = start + line.len() - value.len();
        Some((from..from + value.len(), value.starts_with(['"', '\''])))
    };
    match lines(text).filter_map(value).last() {
        Some((_, true)) => Err(Unclear::Value { name }),
        Some((range, false)) => Ok(vec![Span::plain(range)]),
        None => Ok(Vec::new()),
    }
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
    Some(Span::plain(from..from + value.len()))
}

fn keyword_lines(text: &str, word: &str) -> Vec<Span> {
    let all = lines(text);
    all.filter_map(|(start, line)| after_keyword(start, line, word))
        .collect()
}

/// Returns the `append` line of the label that is booted: the one that the last `default` or
/// `ontimeout` names, otherwise the one with `menu default`, otherwise the first one (U-Boot,
/// boot/pxe_utils.c). The other labels stay unchanged, so that the machine can still boot from them
/// if this one fails.
fn append_lines(text: &str) -> Result<Vec<Span>, Unclear> {
    let value = |start, line, word| {
        after_keyword(start, line, word).map(|span| text[span.range].trim().to_owned())
    };
    let labels: Vec<(usize, String)> = lines(text)
        .filter_map(|(start, line)| Some((start, value(start, line, "label")?)))
        .collect();
    let default = lines(text).filter_map(|(start, line)| {
        value(start, line, "default").or_else(|| value(start, line, "ontimeout"))
    });
    // Syslinux starts its menu with `default menu.c32`.
    let default = default.filter(|name| !name.ends_with(".c32")).last();
    let in_menu = lines(text).find(|(start, line)| {
        let rest = value(*start, line, "menu");
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case("default"))
    });
    let chosen = match (&default, in_menu) {
        (Some(name), _) => labels.iter().position(|(_, label)| label == name),
        (None, Some((place, _))) => labels.iter().rposition(|(start, _)| *start < place),
        (None, None) => (!labels.is_empty()).then_some(0),
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
        let present = form.read(before)?;
        let has = present.iter().any(|word| word.starts_with("isolcpus="));
        let isolated = "isolcpus=2-3".to_owned();
        let edits = [
            WordEdit::Remove("splash".to_owned()),
            if has {
                WordEdit::Replace(isolated)
            } else {
                WordEdit::Add(isolated)
            },
            WordEdit::Add("nohz=on".to_owned()),
        ];
        form.edit(before, &edits)
    }

    #[test]
    fn only_the_parameters_of_a_variable_change() {
        let form = Form::Variable("GRUB_CMDLINE_LINUX_DEFAULT", 0);
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
        let menu = "label a\n append x\nlabel b\n menu default\n append y\n";
        let after = edited(&Form::Append, menu).unwrap();
        assert_eq!(after, menu.replace('y', "y isolcpus=2-3 nohz=on"));
        let both = format!("default a\n{menu}ontimeout a\n");
        assert!(
            edited(&Form::Append, &both)
                .unwrap()
                .contains("x isolcpus=2-3")
        );
        let syslinux = format!("DEFAULT vesamenu.c32\n{menu}");
        assert!(
            edited(&Form::Append, &syslinux)
                .unwrap()
                .contains("y isolcpus")
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
    fn words_are_replaced_where_they_are() {
        let replace = [WordEdit::Replace("isolcpus=2-3".to_owned())];
        let edit = |form: &Form, text: &str| form.edit(text, &replace).unwrap();
        let line = "a isolcpus=1 b isolcpus=4 -- isolcpus=5";
        let after = "a isolcpus=2-3 b -- isolcpus=5";
        assert_eq!(edit(&Form::Line, line), after);
        let form = Form::Variable("A", 1);
        let text = "A=\"isolcpus=1 x\"\nA=\"$A y\"\n";
        assert_eq!(edit(&form, text), text.replace("=1", "=2-3"));
        assert_eq!(continued(text, "A"), [false, true]);
        assert_eq!(continued("A=1\nA+=2\nA=$AB\n", "A"), [false, true, false]);
        let form = Form::Assignment("extraargs");
        let text = "extraargs=a\nextraargs=isolcpus=1\nb=c\n";
        assert_eq!(edit(&form, text), text.replace("=1", "=2-3"));
        assert_eq!(
            edited(&form, "x=1").unwrap(),
            "x=1\nextraargs=isolcpus=2-3 nohz=on\n"
        );
        assert!(edited(&form, "extraargs=\"a\"").is_err());
    }

    #[test]
    fn satisfied_configuration_stays_byte_exact() {
        let text = "A=1\r\nGRUB_CMDLINE_LINUX_DEFAULT=nohz=on\n";
        let edits = [
            WordEdit::Add("nohz=on".to_owned()),
            WordEdit::Replace("nohz=on".to_owned()),
        ];
        let form = Form::Variable("GRUB_CMDLINE_LINUX_DEFAULT", 0);
        assert_eq!(form.edit(text, &edits).unwrap(), text);
    }
}
