//! `measure --list`: the list of probes and their documentation.

use std::fmt::Write;
use std::iter::{once, repeat};

use anyhow::Result;
use punctual_model::Delay;
use punctual_probes::{PROBES, ProbeEntry};
use punctual_report::wrap;

use super::options::help_of;
use crate::context::{Context, terminal_width};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Prints the documentation of the named probe; lists all probes if the name is empty.
pub(super) fn print(name: &str, context: &Context) -> Result<Exit> {
    let text = if name.is_empty() {
        list(context.style().width)
    } else {
        let probe = punctual_probes::probe(name);
        let page = page(probe.map_err(|error| UsageError(error.to_string()))?);
        // If stdout is not a terminal, do not wrap the lines of the documentation page.
        wrapped(&page, terminal_width().unwrap_or(usize::MAX))
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn list(columns: usize) -> String {
    let mut text = String::new();
    for probe in PROBES {
        let facts = [
            probe.summary.to_owned(),
            format!("in {}; needs {}", probe.unit, probe.privileges),
            format!("replaces {}", probe.replaces),
        ];
        let lines = facts
            .iter()
            .flat_map(|fact| wrap(fact, columns.saturating_sub(13)));
        for (line, head) in lines.zip(once(probe.name).chain(repeat(""))) {
            let _ = writeln!(text, "{head:<12} {line}");
        }
        text.push('\n');
    }
    text.push_str("Documentation of a probe: punctual measure --list PROBE.\n");
    text
}

/// Returns Markdown with its lines wrapped to `columns`. In lists and tables, continuation lines
/// are indented.
fn wrapped(page: &str, columns: usize) -> String {
    let mut text = String::new();
    for line in page.lines() {
        // An indented line is code.
        if line.chars().count() <= columns || line.starts_with(' ') {
            let _ = writeln!(text, "{line}");
            continue;
        }
        let indent = if line.starts_with(['-', '|']) {
            "  "
        } else {
            ""
        };
        let parts = wrap(line, columns.saturating_sub(indent.len()));
        for (part, indent) in parts.iter().zip(once("").chain(repeat(indent))) {
            let _ = writeln!(text, "{indent}{part}");
        }
    }
    text
}

/// Returns a text that states where a sample that is split into shares begins and ends.
fn spanned(delay: Delay) -> String {
    let span = match delay {
        Delay::Timer => "from the time at which the thread was due until it reads the clock",
        Delay::Call => {
            "from just before the waking call or edge until the woken thread reads the clock, \
             including delays of the calling thread"
        }
        Delay::Step => {
            "from the thread's clock reading before the operation to its clock reading after it"
        }
        Delay::Work => {
            "from the thread's clock reading before the work to its clock reading after it"
        }
        Delay::Section => "the section of code with interrupts or preemption disabled",
        Delay::Wakeup | Delay::Taken | Delay::Job => {
            "from the time at which the thread became runnable to the time at which it ran"
        }
    };
    format!("yes, {span}")
}

/// Returns the documentation page of a probe as Markdown. It is the content of its file in
/// `docs/probes`.
fn page(probe: &ProbeEntry) -> String {
    let mut text = format!(
        "# punctual measure {}\n\nMeasures {}, in {}.\n\n{}\n\n",
        probe.name, probe.summary, probe.unit, probe.documentation
    );
    let _ = writeln!(
        text,
        "- Needs: {}\n\
         - Replaces: {}\n\
         - Outliers explained (`--explain`): {}\n\n\
         ## Parameters\n\n\
         | | default | |\n\
         |---|---|---|",
        probe.privileges,
        probe.replaces,
        match probe.explained {
            Ok(delay) => spanned(delay),
            Err(why) => format!("no. {why}"),
        }
    );
    for parameter in probe.options() {
        let short = parameter
            .short
            .map_or(String::new(), |letter| format!("`-{letter}`, "));
        let default = parameter
            .default
            .map_or("none".to_owned(), |value| format!("`{value}`"));
        let _ = writeln!(
            text,
            "| {short}`--{}` | {default} | {} |",
            parameter.name,
            help_of(parameter).replace('|', "\\|")
        );
    }
    text.push_str("\nFor the options of all measurements, run `punctual measure ");
    let _ = writeln!(text, "{} --help`.", probe.name);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listing_fits_columns_without_word_loss() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let fits = |text: &str, code: &str, columns| {
            let is_code = |line: &str| line.starts_with(' ') && code.lines().any(|one| one == line);
            // Words are not broken.
            let is_long = |line: &&str| {
                line.chars().count() > columns && line.trim().contains(' ') && !is_code(line)
            };
            assert_eq!(text.lines().find(is_long), None);
        };
        for columns in [60, 80, 100] {
            fits(&list(columns), "", columns);
            assert_eq!(words(&list(columns)), words(&list(10_000)));
            for probe in PROBES {
                let page = page(probe);
                let text = wrapped(&page, columns);
                fits(&text, &page, columns);
                assert_eq!(words(&text), words(&page));
                assert_eq!(wrapped(&page, 1_000_000), page);
            }
        }
    }
}
