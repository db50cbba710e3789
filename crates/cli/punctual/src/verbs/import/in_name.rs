//! Dates and machines in the names of files.

use std::path::Path;

use jiff::Timestamp;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;

/// Prefix of values that are read from the name of a file.
pub(super) const PREFIX: &str = "name:";

/// Maximum number of wildcards in a pattern. Each of them multiplies the number of attempts.
const WILDCARDS: usize = 4;

/// Finds the date in a file name, with a pattern of strptime(3) for a part of the name. Without a
/// time zone in the pattern, the time is UTC.
pub(super) fn date(pattern: &str, path: &Path) -> Option<Timestamp> {
    let name = path.file_name()?.to_string_lossy();
    // A hyphen before a date does not make the year negative.
    let starts = name.char_indices().filter(|(_, c)| !"+-".contains(*c));
    starts.into_iter().find_map(|(at, _)| {
        let (time, _) = BrokenDownTime::parse_prefix(pattern, &name[at..]).ok()?;
        if time.offset().is_some() {
            return time.to_timestamp().ok();
        }
        let date = time.to_date().ok()?;
        let clock = time.to_time().unwrap_or_default();
        let zoned = date.to_datetime(clock).to_zoned(TimeZone::UTC);
        zoned.ok().map(|zoned| zoned.timestamp())
    })
}

/// Checks a pattern of [`date`].
pub(super) fn check_date(pattern: &str) -> Result<(), String> {
    let example = jiff::civil::date(2026, 11, 3).at(8, 15, 0, 0);
    let example = example.to_zoned(TimeZone::UTC).map_err(|e| e.to_string())?;
    let name = jiff::fmt::strtime::format(pattern, &example).map_err(|e| e.to_string())?;
    match date(pattern, Path::new(&name)) {
        Some(read) if read.to_zoned(TimeZone::UTC).date() == example.date() => Ok(()),
        _ => Err("the pattern does not contain a whole date, such as %Y-%m-%d".to_owned()),
    }
}

/// Finds the machine in the path of a file. `%h` in the pattern is its name, and `*` any text
/// without a slash. The pattern is compared with as many parts of the path as it has.
pub(super) fn host(pattern: &str, path: &Path) -> Option<String> {
    let parts: Vec<String> = (path.components())
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    let count = pattern.split('/').count();
    let name = parts.get(parts.len().checked_sub(count)?..)?.join("/");
    let mut found = None;
    matches(pattern, &name, &mut found).then_some(found)?
}

/// Checks a pattern of [`host`].
pub(super) fn check_host(pattern: &str) -> Result<(), String> {
    if pattern.matches("%h").count() != 1 {
        return Err("write %h once, in place of the name of the machine".to_owned());
    }
    if pattern.matches('*').count() > WILDCARDS {
        return Err(format!("a pattern has at most {WILDCARDS} times *"));
    }
    Ok(())
}

/// Returns whether the whole text matches. A wildcard takes as little as possible.
fn matches(pattern: &str, text: &str, host: &mut Option<String>) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if let Some(rest) = pattern.strip_prefix("%h") {
        let ends = text.char_indices().map(|(at, c)| (at + c.len_utf8(), c));
        for (end, _) in ends.take_while(|(_, c)| is_name(*c)) {
            if matches(rest, &text[end..], host) {
                *host = Some(text[..end].to_owned());
                return true;
            }
        }
        return false;
    }
    let mut chars = pattern.chars();
    match chars.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = chars.as_str();
            let ends = text.char_indices().map(|(at, c)| (at + c.len_utf8(), c));
            matches(rest, text, host)
                || ends
                    .take_while(|(_, c)| *c != '/')
                    .any(|(end, _)| matches(rest, &text[end..], host))
        }
        Some(c) => text
            .strip_prefix(c)
            .is_some_and(|text| matches(chars.as_str(), text, host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_found_in_names() {
        let read =
            |pattern: &str, name: &str| date(pattern, Path::new(name)).map(|t| t.to_string());
        let day = Some("2026-11-03T00:00:00Z".to_owned());
        assert_eq!(read("%Y-%m-%d", "logs/board-17_2026-11-03.txt"), day);
        assert_eq!(read("%Y%m%d", "board-17.20261103.json"), day);
        let minute = Some("2026-11-03T08:15:00Z".to_owned());
        assert_eq!(read("%Y-%m-%dT%H:%M", "a-2026-11-03T08:15-x"), minute);
        assert_eq!(read("%Y-%m-%dT%H%M%z", "2026-11-03T0915+0100"), minute);
        assert_eq!(
            read("%Y-%m-%d", "2026-11-03/board.txt"),
            None,
            "only the name"
        );
        assert_eq!(read("%Y-%m-%d", "2026-13-03"), None);
        assert!(check_date("%Y-%m-%d").is_ok() && check_date("%y%m%d").is_ok());
        for wrong in ["", "%Y", "%m-%d", "%Q", "day"] {
            assert!(check_date(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn machines_are_found_in_paths() {
        let read = |pattern: &str, path: &str| host(pattern, Path::new(path));
        let board = Some("board-17".to_owned());
        assert_eq!(read("%h_*", "logs/board-17_2026-11-03.txt"), board);
        assert_eq!(read("%h-20*.txt", "board-17-2026-11-03.txt"), board);
        assert_eq!(read("%h/*", "/logs/board-17/2026-11-03.txt"), board);
        assert_eq!(read("%h/*/*.txt", "logs/board-17/2026/11.txt"), board);
        assert_eq!(read("%h/*", "2026-11-03.txt"), None, "too short a path");
        assert_eq!(read("%h_*", "2026-11-03.txt"), None);
        assert_eq!(read("x%h", "ä"), None);
        assert!(check_host("%h_*").is_ok());
        for wrong in ["", "*", "%h%h", "%h*****"] {
            assert!(check_host(wrong).is_err(), "{wrong}");
        }
    }
}
