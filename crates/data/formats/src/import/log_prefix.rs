//! The prefix that a log adds to each line of a program's output: the time (GitHub, GitLab, LAVA,
//! container runtimes, ts(1)), the time since boot (the kernel's log), or the time, host and
//! program (the journal in all its text formats, syslog).

/// Returns the rest of a line after such a prefix and a space; `None` if it has no prefix.
pub(crate) fn without_prefix(line: &[u8]) -> Option<&[u8]> {
    kernel(line)
        .or_else(|| syslog(line))
        .or_else(|| date_and_time(line))
        .or_else(|| in_brackets(line))
        .or_else(|| kernel_date(line))
        .or_else(|| message(line))
        .or_else(|| step(line))
        .or_else(|| blank(clock(line)?))
}

/// Removes `[   12.345678] `, `<6>[   12.345678][  T123] ` or
/// `[   12.345678] bench cyclictest[123]: ` (journalctl -o short-monotonic).
fn kernel(line: &[u8]) -> Option<&[u8]> {
    let level = line.strip_prefix(b"<").and_then(|text| digits(text, 1..=3));
    let line = level
        .and_then(|text| text.strip_prefix(b">"))
        .unwrap_or(line);
    let rest = line.strip_prefix(b"[")?.trim_ascii_start();
    let rest = digits(rest, 1..=12)?.strip_prefix(b".")?;
    let rest = digits(rest, 1..=9)?.strip_prefix(b"]")?;
    let rest = blank(caller(rest).unwrap_or(rest))?;
    Some(behind_program(rest).unwrap_or(rest))
}

/// Removes `[  T123]` or `[   C1]`: the thread or CPU that wrote to the kernel's log.
fn caller(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"[")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"T").or(rest.strip_prefix(b"C"))?;
    digits(rest, 1..=10)?.strip_prefix(b"]")
}

/// Removes `[Mon May  4 10:11:00 2026] ` (dmesg -T).
fn kernel_date(line: &[u8]) -> Option<&[u8]> {
    const DAYS: [&[u8]; 7] = [
        b"Mon ", b"Tue ", b"Wed ", b"Thu ", b"Fri ", b"Sat ", b"Sun ",
    ];
    let rest = line.strip_prefix(b"[")?;
    let rest = DAYS.iter().find_map(|day| rest.strip_prefix(*day))?;
    let rest = clock(day_of_month(rest)?)?.strip_prefix(b" ")?;
    blank(digits(rest, 4..=4)?.strip_prefix(b"]")?)
}

/// Removes `- {"dt": "2026-05-04T10:11:00.345678", "lvl": "target", "msg": "` and `"}` (LAVA's log
/// file). A message with escaped characters is not restored.
fn message(line: &[u8]) -> Option<&[u8]> {
    const MESSAGE: &[u8] = b"\"msg\": \"";
    let rest = line.strip_prefix(b"- {\"dt\": \"")?;
    let start = memchr::memmem::find(rest, MESSAGE)?;
    rest[start + MESSAGE.len()..].strip_suffix(b"\"}")
}

/// Removes `job<TAB>step<TAB>2026-05-04T10:11:00.3456789Z ` (gh run view --log).
fn step(line: &[u8]) -> Option<&[u8]> {
    let mut tabs = memchr::memchr_iter(b'\t', line);
    let (_, second) = (tabs.next()?, tabs.next()?);
    date_and_time(&line[second + 1..])
}

/// Removes `[2026-05-04 10:11:00] `.
fn in_brackets(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"[")?;
    let rest = date(rest).and_then(clock).or_else(|| clock(rest))?;
    blank(rest.strip_prefix(b"]")?)
}

/// Removes `2026-05-04T10:11:00.3456789Z ` or `2026-05-04 10:11:00,345 +0200 `, and then
/// `bench cyclictest[123]: ` (journalctl -o short-iso), `00O ` (GitLab), or `stdout F ` (container
/// runtimes).
fn date_and_time(line: &[u8]) -> Option<&[u8]> {
    let rest = clock(date(line)?)?;
    let zone = rest.strip_prefix(b" ").unwrap_or(rest);
    let zone = zone.strip_prefix(b"Z").or_else(|| {
        let sign = zone.strip_prefix(b"+").or(zone.strip_prefix(b"-"))?;
        let with_colon = || digits(digits(sign, 2..=2)?.strip_prefix(b":")?, 2..=2);
        digits(sign, 4..=4).or_else(with_colon)
    });
    let rest = blank(zone.unwrap_or(rest))?;
    Some(
        behind_program(rest)
            .or_else(|| stream(rest))
            .unwrap_or(rest),
    )
}

/// Removes `00O ` or `stdout F `.
fn stream(line: &[u8]) -> Option<&[u8]> {
    const RUNTIME: [&[u8]; 2] = [b"stdout F", b"stderr F"];
    let gitlab =
        digits(line, 2..=2).and_then(|rest| rest.strip_prefix(b"O").or(rest.strip_prefix(b"E")));
    let runtime = || RUNTIME.iter().find_map(|name| line.strip_prefix(*name));
    blank(gitlab.or_else(runtime)?)
}

/// Removes `2026-05-04T`.
fn date(line: &[u8]) -> Option<&[u8]> {
    let rest = digits(line, 4..=4)?.strip_prefix(b"-")?;
    let rest = digits(rest, 2..=2)?.strip_prefix(b"-")?;
    let rest = digits(rest, 2..=2)?;
    rest.strip_prefix(b"T").or(rest.strip_prefix(b" "))
}

/// Removes `10:11:00.345`.
fn clock(line: &[u8]) -> Option<&[u8]> {
    let rest = digits(line, 2..=2)?.strip_prefix(b":")?;
    let rest = digits(rest, 2..=2)?.strip_prefix(b":")?;
    let rest = digits(rest, 2..=2)?;
    let fraction = rest.strip_prefix(b".").or(rest.strip_prefix(b","));
    Some(
        fraction
            .and_then(|text| digits(text, 1..=9))
            .unwrap_or(rest),
    )
}

/// Removes `May  4 10:11:00 ` (ts) or `May 04 10:11:00 bench cyclictest[123]: `.
fn syslog(line: &[u8]) -> Option<&[u8]> {
    let rest = blank(clock(day_of_month(line)?)?)?;
    Some(behind_program(rest).unwrap_or(rest))
}

/// Removes `May  4 `.
fn day_of_month(line: &[u8]) -> Option<&[u8]> {
    const MONTHS: [&[u8]; 12] = [
        b"Jan ", b"Feb ", b"Mar ", b"Apr ", b"May ", b"Jun ", b"Jul ", b"Aug ", b"Sep ", b"Oct ",
        b"Nov ", b"Dec ",
    ];
    let rest = MONTHS.iter().find_map(|month| line.strip_prefix(*month))?;
    digits(rest.trim_ascii_start(), 1..=2)?.strip_prefix(b" ")
}

/// Returns the rest after `bench cyclictest[123]: ` or `bench kernel: `.
fn behind_program(line: &[u8]) -> Option<&[u8]> {
    let host = line.iter().position(|byte| *byte == b' ')?;
    let program = &line[host + 1..];
    if let Some(rest) = program.strip_prefix(b"kernel:") {
        return blank(rest);
    }
    let end = memchr::memmem::find(program, b"]:")?;
    let (name, rest) = program.split_at(end);
    let open = name.iter().position(|byte| *byte == b'[')?;
    let plain = !name.contains(&b' ') && digits(&name[open + 1..], 1..=10)?.is_empty();
    blank(rest.strip_prefix(b"]:").filter(|_| plain)?)
}

/// Returns the rest after some digits.
fn digits(text: &[u8], many: std::ops::RangeInclusive<usize>) -> Option<&[u8]> {
    let found = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    many.contains(&found).then(|| &text[found..])
}

/// Returns the rest after a space, or an empty rest at the end.
fn blank(text: &[u8]) -> Option<&[u8]> {
    match text {
        [] => Some(text),
        [b' ' | b'\t', rest @ ..] => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_logs_go() {
        for (prefix, rest) in [
            ("2026-05-04T10:11:00.3456789Z ", "# Histogram"),
            ("2026-05-04T10:11:00Z ", "000004 000120"),
            ("2026-05-04 10:11:00,345 ", "T: 0 ( 1)"),
            ("2026-05-04T10:11:00+02:00 ", "T: 0 ( 1)"),
            ("[2026-05-04 10:11:00] ", " indented"),
            ("[10:11:00] ", "x"),
            ("10:11:00.5 ", "x"),
            ("May 04 10:11:00 ", "policy: fifo: loadavg: 0.1"),
            (
                "May  4 10:11:00 bench cyclictest[123]: ",
                "policy: fifo: loadavg",
            ),
            ("[   12.345678] ", "# Total: 5"),
            ("2026-05-04T10:11:00Z", ""),
            (
                "2026-05-04T10:11:00+0200 bench cyclictest[123]: ",
                "T: 0 ( 1)",
            ),
            ("May 04 10:11:00 bench kernel: ", "# Histogram"),
            ("[   12.345678] bench cyclictest[123]: ", "# Total: 5"),
            ("<6>[   12.345678][  T123] ", "hwlat"),
            ("[Mon May  4 10:11:00 2026] ", "# Total: 5"),
            (
                "measure\tRun tests\t2026-05-04T10:11:00.3456789Z ",
                "T: 0 ( 1)",
            ),
            ("2026-05-04T10:11:00.345678Z 00O ", "T: 0 ( 1)"),
            ("2026-05-04T10:11:00.345678901Z stdout F ", "T: 0 ( 1)"),
        ] {
            let line = format!("{prefix}{rest}");
            let found = without_prefix(line.as_bytes());
            assert_eq!(found, Some(rest.as_bytes()), "{line}");
        }
    }

    #[test]
    fn message_of_lava_is_the_line() {
        let line = br#"- {"dt": "2026-05-04T10:11:00.34", "lvl": "target", "msg": "T: 0 ( 1)"}"#;
        assert_eq!(without_prefix(line), Some(&b"T: 0 ( 1)"[..]));
    }

    #[test]
    fn figures_are_no_prefix() {
        for line in [
            "000004 000120",
            "       0:       1:      30",
            "0:1:30",
            "123:45:67 8",
            "2026-05-04",
            "[12] x",
            "May we?",
            "[Mon May we]",
            "a\tb\tc",
            "- {\"dt\": \"2026\"}",
            "T: 0 ( 1)",
            "10:11:00x",
            "",
        ] {
            assert_eq!(without_prefix(line.as_bytes()), None, "{line}");
        }
    }
}
