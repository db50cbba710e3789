//! The list of the tools, and their documentation page.

use std::fmt::Write;

use crate::usage::{names, options};
use crate::{Difference, TOOLS, Tool};

/// Intended differences of all tools from the originals.
pub const COMMON: &[Difference] = &[
    Difference {
        what: "An unknown option or an invalid value (`-l 1k`, `-p 100`) ends the tool with \
            status 1 and prints the usage on stderr. Words that do not belong to an option are \
            named on stderr.",
        why: "The originals print their usage to stdout and report success, or read `1k` as 1. A \
            script then parses the help text, or measures with a wrong value.",
    },
    Difference {
        what: "A time can have a unit: `ns`, `us`, `ms` or `s`. Durations can also have `m`, \
            `h`, `d` or `w`, and several units (`1m30s`). Without a unit, the unit of the option \
            applies. The value must be a whole number of that unit: `-i 1500ns` is refused. So is \
            `-i 5m`, which can be a mistake for 5 ms.",
        why: "The originals read `1ms` as 1 in the unit of the option, and `-D 500ms` as 500 \
            minutes.",
    },
    Difference {
        what: "`--version` prints the name and `V 2.10`, with status 0.",
        why: "Only oslat has that option. The other originals print their usage, which begins with \
              that line, most of them with status 0; scripts read the version from it.",
    },
    Difference {
        what: "With `-l` the threads whose interval is that of the first that is done make all their \
               cycles as well: they have an interval and 10 ms more.",
        why: "In the originals the main thread looks every 10 or 50 ms. Our threads of the same \
              interval start at different times in it.",
    },
    Difference {
        what: "A break is reported on stderr. `return_code` and the exit status are \
               the original's, 0; with `PUNCTUAL_STRICT=1` both are 3.",
        why: "In the originals a run with a break looks like one without.",
    },
    Difference {
        what: "JSON is valid for any command line.",
        why: "The originals do not escape quotes and backslashes, and write `-nan` if nothing \
            was measured.",
    },
    Difference {
        what: "Early samples are not in `cycles` (`samples`), `min`, `max`, `avg` and the rows of JSON; \
               `C:` and `Cycles` in the lines count them. With `PUNCTUAL_JSON_KEY=1` JSON has one \
               more key, `punctual`: expected, missed, early and overflow counts, percentiles in \
               ns, and the ID of the recording. With `PUNCTUAL_STORE=none` it never has that key.",
        why: "Strict readers refuse unknown keys.",
    },
    Difference {
        what: "Histogram text has all rows, then the line `# Total:`, as rt-tests up to 2.4 prints it. \
               With `PUNCTUAL_SPARSE_HISTOGRAM=1` it has filled rows only and no such line, as \
               rt-tests 2.10 prints it: what expects `# Min Latencies:` right after the rows needs \
               that.",
        why: "Most scripts were written for the older form: they read until `# Total:`, and plot steps \
              from row to row. A reader of the one form need not read the other.",
    },
    Difference {
        what: "SIGALRM ends a run with its results, as SIGINT and SIGTERM do.",
        why: "Most of the originals do; cyclictest blocks it and goes on.",
    },
    Difference {
        what: "Each run is a recording in the store, unless `PUNCTUAL_STORE=none`: `punctual list`, \
               `show`, `plot` and `report` work on the results of an old script. A store that cannot \
               be written is reported on stderr and changes nothing else.",
        why: "Results outlive the terminal.",
    },
];

/// Returns all tools, how to call them and their differences, as text of at most `columns` columns.
pub fn list(columns: usize) -> String {
    let mut text = String::new();
    for tool in TOOLS {
        paragraph(
            &mut text,
            &format!("{:<16}", tool.name),
            tool.summary,
            columns,
        );
    }
    text.push('\n');
    for (call, does) in [
        (
            "punctual compat NAME [OPTION]... ",
            "behaves as that tool of rt-tests 2.10",
        ),
        (
            "punctual compat --install DIR    ",
            "makes links, so that its name alone will do",
        ),
    ] {
        paragraph(&mut text, call, does, columns);
    }
    text.push_str("\nIntended differences from the originals:\n");
    for difference in COMMON {
        paragraph(&mut text, "-", difference.what, columns);
    }
    for tool in TOOLS.iter().filter(|tool| !tool.differences.is_empty()) {
        let _ = writeln!(text, "\n{} also:", tool.name);
        for difference in tool.differences {
            paragraph(&mut text, "-", difference.what, columns);
        }
    }
    text.push('\n');
    let more = "all options: docs/compat.md, or punctual compat NAME --help.";
    paragraph(&mut text, "Why, and", more, columns);
    text
}

/// Appends a paragraph of at most `columns` columns after its head. Its lines are indented below
/// its first word.
fn paragraph(text: &mut String, head: &str, sentence: &str, columns: usize) {
    let indent = head.chars().count();
    let mut line = head.to_owned();
    for word in sentence.replace('`', "").split_whitespace() {
        let used = line.chars().count();
        if used > indent && used + 1 + word.chars().count() > columns {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(indent);
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(text, "{line}");
}

/// Returns the documentation page as Markdown: the content of `docs/compat.md`.
pub fn page() -> String {
    let mut text = String::from(
        "# Compatible commands\n\n\
         Called by the name of one of these tools (through a link that `punctual compat --install \
         DIR` makes, or as `punctual compat NAME ...`), punctual behaves as that tool of rt-tests \
         2.10: the same options with the same meanings and defaults, the same lines, histogram text \
         and JSON, the same exit status on success.\n\n\
         ## What differs on purpose\n\n",
    );
    differences(&mut text, COMMON);
    for tool in TOOLS {
        section(&mut text, tool);
    }
    text
}

fn differences(text: &mut String, all: &[Difference]) {
    for difference in all {
        let _ = writeln!(text, "- {} *Why:* {}", difference.what, difference.why);
    }
}

fn section(text: &mut String, tool: &Tool) {
    let _ = writeln!(
        text,
        "\n## {}\n\nMeasures {}; the probe is [{}](probes/{}.md).\n\n| option | |\n|---|---|",
        tool.name, tool.summary, tool.probe, tool.probe
    );
    for option in options(tool) {
        let names = names(option)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let help = option.help.replace('|', "\\|");
        let _ = writeln!(text, "| `{names}` | {help} |");
    }
    if !tool.removed.is_empty() {
        text.push_str("\nRefused, with the reason:\n\n");
        for removed in tool.removed {
            let letters: Vec<String> = (removed.letters.iter())
                .map(|letter| format!("`-{letter}`"))
                .collect();
            let _ = writeln!(text, "- {}: {}", letters.join(" "), removed.advice);
        }
    }
    if !tool.differences.is_empty() {
        text.push_str("\nDifferences:\n\n");
        differences(text, tool.differences);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_list_fits_columns_without_loss() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let widest = list(usize::MAX);
        for columns in [60, 80, 100, 200] {
            let text = list(columns);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(columns), "{longest:?}: {text}");
            assert_eq!(words(&text), words(&widest));
        }
    }
}
