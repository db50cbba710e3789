//! The prefix that a log adds to each line of a program's output: the time (GitHub, LAVA, ts(1)),
//! the time since boot (the kernel's log), or the time, host and program (the journal, syslog).

/// Returns the rest of a line after such a prefix and a space; `None` if it has no prefix.
pub(crate) fn without_prefix(line: &[u8]) -> Option<&[u8]> {
    kernel(line)
        .or_else(|| syslog(line))
        .or_else(|| date_and_time(line))
        .or_else(|| in_brackets(line))
        .or_else(|| blank(clock(line)?))
}

/// Removes `[   12.345678] `.
fn kernel(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"[")?.trim_ascii_start();
    let rest = digits(rest, 1..=12)?.strip_prefix(b".")?;
    blank(digits(rest, 1..=9)?.strip_prefix(b"]")?)
}

/// Removes `[2026-05-04 10:11:00] `.
fn in_brackets(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"[")?;
    let rest = date(rest).and_then(clock).or_else(|| clock(rest))?;
    blank(rest.strip_prefix(b"]")?)
}

/// Removes `2026-05-04T10:11:00.3456789Z ` or `2026-05-04 10:11:00,345 +0200 `.
fn date_and_time(line: &[u8]) -> Option<&[u8]> {
    let rest = clock(date(line)?)?;
    let zone = rest.strip_prefix(b" ").unwrap_or(rest);
    let zone = zone.strip_prefix(b"Z").or_else(|| {
        let sign = zone.strip_prefix(b"+").or(zone.strip_prefix(b"-"))?;
        let hours = digits(sign, 2..=2)?;
        digits(hours.strip_prefix(b":").unwrap_or(hours), 2..=2)
    });
    blank(zone.unwrap_or(rest))
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
    const MONTHS: [&[u8]; 12] = [
        b"Jan ", b"Feb ", b"Mar ", b"Apr ", b"May ", b"Jun ", b"Jul ", b"Aug ", b"Sep ", b"Oct ",
        b"Nov ", b"Dec ",
    ];
    let rest = MONTHS.iter().find_map(|month| line.strip_prefix(*month))?;
    let rest = digits(rest.trim_ascii_start(), 1..=2)?.strip_prefix(b" ")?;
    let rest = blank(clock(rest)?)?;
    Some(behind_program(rest).unwrap_or(rest))
}

/// Returns the rest after `bench cyclictest[123]: `.
fn behind_program(line: &[u8]) -> Option<&[u8]> {
    let host = line.iter().position(|byte| *byte == b' ')?;
    let program = &line[host + 1..];
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
        ] {
            let line = format!("{prefix}{rest}");
            let found = without_prefix(line.as_bytes());
            assert_eq!(found, Some(rest.as_bytes()), "{line}");
        }
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
            "T: 0 ( 1)",
            "10:11:00x",
            "",
        ] {
            assert_eq!(without_prefix(line.as_bytes()), None, "{line}");
        }
    }
}
