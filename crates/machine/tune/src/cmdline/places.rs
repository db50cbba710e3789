//! Positions of kernel parameters in the formats of GRUB's environment block, zipl, Limine and
//! kernelstub.

use std::ops::Range;

use super::spans::{Span, lines};
use super::unclear::Unclear;
use super::words::WordEdit;

/// Size in bytes of GRUB's environment block.
const BLOCK: usize = 1_024;

/// Returns the value of a variable of GRUB's environment block.
pub(super) fn environment(text: &str, name: &str) -> Vec<Span> {
    let value = |(start, line): (usize, &str)| {
        let value = line.strip_prefix(name)?.strip_prefix('=')?;
        let from = start + line.len() - value.len();
        Some(Span::plain(from..from + value.len()))
    };
    lines(text).filter_map(value).collect()
}

/// Returns an environment block with its former length in bytes: the rest of the block consists of
/// `#` (GRUB manual, "The GRUB environment block"). A text of another length is not a block.
pub(super) fn fitted(text: &str, length: usize) -> Result<String, Unclear> {
    if !length.is_multiple_of(BLOCK) {
        return Ok(text.to_owned());
    }
    let body = text.trim_end_matches('#');
    let rest = length.checked_sub(body.len()).ok_or(Unclear::Full)?;
    Ok(format!("{body}{}", "#".repeat(rest)))
}

/// Returns the trimmed text before and after the first `=` of a line, and the position of the
/// latter.
fn setting(start: usize, line: &str) -> Option<(&str, &str, Range<usize>)> {
    let (key, value) = line.split_once('=')?;
    let from = start + line.len() - value.trim_start().len();
    let value = value.trim();
    Some((key.trim(), value, from..from + value.len()))
}

/// Returns `parameters` of the section that zipl boots by default: that of `default` in
/// [defaultboot], or that of the menu that `defaultmenu` names (zipl.conf(5)).
pub(super) fn zipl(text: &str) -> Result<Vec<Span>, Unclear> {
    let none = || Unclear::NoDefault { key: "parameters=" };
    // The settings of a section such as `[debian]`, or of a menu such as `:menu`.
    let of = |header: &str| {
        let mut inside = false;
        let mut found = Vec::new();
        for (start, line) in lines(text) {
            let trimmed = line.trim();
            if trimmed.starts_with(['[', ':']) {
                inside = trimmed.eq_ignore_ascii_case(header);
            } else if inside && !trimmed.starts_with('#') {
                found.extend(setting(start, line));
            }
        }
        found
    };
    let get = |all: &[(&str, &str, Range<usize>)], key: &str| {
        let found = all.iter().rev().find(|(name, ..)| *name == key);
        found.map(|(_, value, _)| (*value).to_owned())
    };
    let boot = of("[defaultboot]");
    let section = match get(&boot, "defaultmenu") {
        Some(menu) => {
            let menu = of(&format!(":{menu}"));
            let number = get(&menu, "default").unwrap_or_else(|| "1".to_owned());
            get(&menu, &number)
        }
        None => get(&boot, "default"),
    };
    let settings = of(&format!("[{}]", section.ok_or_else(none)?));
    let last = settings.iter().rev().find(|(key, ..)| *key == "parameters");
    let (_, value, range) = last.ok_or_else(none)?;
    Ok(vec![Span::plain(unquoted(value, range.clone()))])
}

/// Returns the range within the quotation marks of a value.
fn unquoted(value: &str, range: Range<usize>) -> Range<usize> {
    let quoted = |mark| value.len() > 1 && value.starts_with(mark) && value.ends_with(mark);
    if quoted('"') || quoted('\'') {
        range.start + 1..range.end - 1
    } else {
        range
    }
}

/// An entry of limine.conf, with its depth and whether its entries below are visible.
struct Entry {
    depth: usize,
    open: bool,
    cmdline: Option<Range<usize>>,
}

/// Returns `cmdline` of the entry that Limine boots by default. `default_entry` counts the visible
/// entries from 1 on; without it, the first one is booted (Limine, CONFIG.md).
pub(super) fn limine(text: &str) -> Result<Vec<Span>, Unclear> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut default = "1".to_owned();
    for (start, line) in lines(text) {
        let trimmed = line.trim();
        let name = trimmed.trim_start_matches('/');
        let depth = trimmed.len() - name.len();
        if depth > 0 {
            entries.push(Entry {
                depth,
                open: name.starts_with('+'),
                cmdline: None,
            });
            continue;
        }
        let Some((key, value)) = trimmed.split_once(':') else {
            continue;
        };
        match (key.trim().to_lowercase().as_str(), entries.last_mut()) {
            ("default_entry", None) => default = value.trim().to_owned(),
            ("cmdline" | "kernel_cmdline", Some(entry)) => {
                let value = value.trim_start();
                let from = start + line.trim_end().len() - value.len();
                entry.cmdline = Some(from..from + value.len());
            }
            _ => {}
        }
    }
    let none = || Unclear::NoDefault { key: "cmdline:" };
    let with_line = entries.iter().filter(|entry| entry.cmdline.is_some());
    if let [only] = with_line.collect::<Vec<_>>().as_slice() {
        return Ok(only.cmdline.clone().map(Span::plain).into_iter().collect());
    }
    let number: usize = default.parse().map_err(|_| none())?;
    let mut open = vec![true];
    let mut visible = Vec::new();
    for entry in &entries {
        open.truncate(entry.depth);
        let shown = open.iter().all(|open| *open);
        open.resize(entry.depth, true);
        open.push(entry.open);
        if shown {
            visible.push(entry);
        }
    }
    let chosen = number.checked_sub(1).and_then(|place| visible.get(place));
    let range = chosen.and_then(|entry| entry.cmdline.clone());
    Ok(vec![Span::plain(range.ok_or_else(none)?)])
}

/// Returns the list `kernel_options` of the object `user` in the configuration of kernelstub.
pub(super) fn kernelstub(text: &str) -> Result<Vec<Span>, Unclear> {
    let none = || Unclear::NoDefault {
        key: "kernel_options",
    };
    let user = text.find("\"user\"").ok_or_else(none)?;
    let key = text[user..].find("\"kernel_options\"").ok_or_else(none)? + user;
    let from = text[key..].find('[').ok_or_else(none)? + key + 1;
    let to = text[from..].find(']').ok_or_else(none)? + from;
    // kernelstub writes plain words; anything else is not edited.
    let list = &text[from..to];
    if list.contains(['\\', '{', '[']) || !list.matches('"').count().is_multiple_of(2) {
        return Err(none());
    }
    Ok(vec![Span::plain(from..to)])
}

/// Returns the options in the list of kernelstub.
pub(super) fn options(text: &str) -> Result<Vec<String>, Unclear> {
    let all = kernelstub(text)?.into_iter().flat_map(|span| {
        let parts = text[span.range].split('"').map(str::to_owned);
        parts.skip(1).step_by(2).collect::<Vec<String>>()
    });
    Ok(all.collect())
}

/// Returns the text with the edits to the list of kernelstub, in the layout of its first option.
pub(super) fn with_options(text: &str, edits: &[WordEdit]) -> Result<String, Unclear> {
    let present = options(text)?;
    let mut options = present.clone();
    for edit in edits {
        let words: Vec<&str> = options.iter().map(String::as_str).collect();
        let kept = (0..words.len()).filter_map(|place| edit.apply(&words, place));
        let mut new: Vec<String> = kept.map(str::to_owned).collect();
        if let WordEdit::Add(word) = edit
            && !new.contains(word)
        {
            new.push(word.clone());
        }
        options = new;
    }
    let spans = kernelstub(text)?;
    if options == present {
        return Ok(text.to_owned());
    }
    let mut text = text.to_owned();
    for Span { range, .. } in spans {
        let list = &text[range.clone()];
        let space = &list[..list.find('"').unwrap_or(0)];
        let end = &list[list.rfind('"').map_or(0, |place| place + 1)..];
        let quoted: Vec<String> = options.iter().map(|one| format!("\"{one}\"")).collect();
        let separator = if space.is_empty() {
            ", "
        } else {
            &format!(",{space}")
        };
        let new = format!("{space}{}{end}", quoted.join(separator));
        text.replace_range(range, &new);
    }
    Ok(text)
}
