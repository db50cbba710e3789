//! The list of the tools and their documentation page.

use std::fmt::Write;

use crate::usage::{names, options};
use crate::{Difference, NOT_REPLACED, TOOLS, Tool};

/// Intended differences from the originals that all tools have.
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
        what: "`--version` prints the tool's name and `V 2.10`, and exits with status 0.",
        why: "Of the originals, only oslat has that option. The others print their usage, which \
            begins with the same line, and most of them exit with status 0. Scripts read the \
            version from that line.",
    },
    Difference {
        what: "With `-l`, when one thread has made all its cycles, the other threads with the same \
            interval also complete theirs. They have one interval plus 10 ms to do so.",
        why: "In the originals, the main thread checks the cycles every 10 or 50 ms. In punctual, \
            threads with the same interval start at different times within that interval.",
    },
    Difference {
        what: "If a latency exceeds the break value, a message on stderr reports it. `return_code` \
            and the exit status are 0, as in the original. With `PUNCTUAL_STRICT=1`, both are 3.",
        why: "In the originals, a run that was stopped by the break value looks like a complete \
            run.",
    },
    Difference {
        what: "JSON is valid for any command line.",
        why: "The originals do not escape quotes and backslashes, and write `-nan` if nothing \
            was measured.",
    },
    Difference {
        what: "In JSON, `cycles` (`samples`), `min`, `max`, `avg` and the rows exclude early \
            samples. `C:` and `Cycles` in the lines include them. With `PUNCTUAL_JSON_KEY=1`, JSON \
            has an additional key, `punctual`: expected, missed, early and overflow counts, \
            percentiles in ns, and the ID of the recording. With `PUNCTUAL_STORE=none`, JSON never \
            has that key.",
        why: "Strict readers refuse unknown keys.",
    },
    Difference {
        what: "A text histogram has all rows, then the line `# Total:`, as in rt-tests up to 2.4. \
            With `PUNCTUAL_SPARSE_HISTOGRAM=1`, it has only the rows with samples and no line `# \
            Total:`, as in rt-tests 2.10. Scripts that expect `# Min Latencies:` right after the \
            rows need this variable.",
        why: "Most scripts were written for the older form: they read until `# Total:`, and plot \
            steps from row to row. A script that reads one form may not be able to read the other.",
    },
    Difference {
        what: "SIGALRM ends a run with its results, as SIGINT and SIGTERM do.",
        why: "Most of the originals do the same; cyclictest blocks SIGALRM and continues.",
    },
    Difference {
        what: "Each run is stored as a recording, unless `PUNCTUAL_STORE=none` is set. `punctual \
            list`, `show`, `plot` and `report` therefore also work on the results of an old \
            script. If the store cannot be written, a message on stderr reports the error, and the \
            run continues.",
        why: "The results remain available after the terminal is closed.",
    },
];

/// Returns a text about all tools, how to call them, and their differences. Its lines have at most
/// `columns` columns.
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
            "behaves like the tool NAME of rt-tests 2.10, or like rtla",
        ),
        (
            "punctual compat --install DIR    ",
            "creates a link in DIR for each tool, so that NAME [OPTION]... is enough",
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
    let more = "are in docs/compat.md. For the options of a tool, run punctual compat NAME --help.";
    paragraph(&mut text, "The reasons", more, columns);
    text
}

/// Appends a paragraph that begins with `head`, in lines of at most `columns` columns. Later lines
/// are indented to the column of the first word after the head.
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
        "# Compatible commands\n\
         \n\
         punctual behaves like one of these tools of rt-tests 2.10, or like the kernel's rtla, if it \
         is called by the tool's name: through a link that `punctual compat --install DIR` creates, or as `punctual compat \
         NAME ...`. Options have the same meanings and defaults. The lines, the histogram text, \
         JSON and the exit status on success are the same.\n\
         \n\
         ## Intended differences\n\
         \n\
         The originals named here are those of rt-tests. The tools of rtla have their own lists \
         below.\n\
         \n",
    );
    differences(&mut text, COMMON);
    for tool in TOOLS {
        section(&mut text, tool);
    }
    text.push_str("\n## Not replaced\n\n");
    for tool in NOT_REPLACED {
        let _ = writeln!(text, "- {}: {}.", tool.name, tool.advice);
    }
    text
}

fn differences(text: &mut String, all: &[Difference]) {
    for difference in all {
        let _ = writeln!(text, "- {} *Why:* {}", difference.what, difference.why);
    }
}

fn section(text: &mut String, tool: &Tool) {
    let probe = tool.probe;
    let _ = writeln!(
        text,
        "\n## {}\n\nMeasures {}. It uses the probe [{probe}](probes/{probe}.md).\n\n| option | |\n|---|---|",
        tool.name, tool.summary
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
