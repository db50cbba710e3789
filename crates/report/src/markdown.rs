//! A recording as Markdown, for issues, wikis and commit messages (GitHub
//! flavour: it has tables).

use std::fmt::Write;

use punctual_model::{Recording, grouped};
use punctual_stats::Comparison;

use crate::clean::clean;
use crate::compared;
use crate::facts;
use crate::figures::{self, PERCENTILES};
use crate::hits;
use crate::tables;

/// A recording as one Markdown document: verdict, warnings, threads, worst
/// samples, the probe's own tables, interference, the observer's cost, the
/// machine. What a probe does not measure has no section.
///
/// A `-` stands for a percentile that the samples do not support (see the
/// crate's page).
pub fn render(recording: &Recording) -> String {
    let mut out = String::new();
    head(&mut out, recording);
    threads(&mut out, recording);
    worst(&mut out, recording);
    findings(&mut out, recording);
    interference(&mut out, recording);
    section(&mut out, "Cost of the measurement");
    let costs = figures::observer(recording).into_iter();
    table(
        &mut out,
        &["what", ">cost"],
        costs
            .map(|(what, cost)| vec![what.to_owned(), cost])
            .collect(),
    );
    section(&mut out, "Run");
    let run = facts::run(recording).into_iter();
    table(
        &mut out,
        &["what", "value"],
        run.map(|(what, value)| vec![escape(&what), escape(&value)])
            .collect(),
    );
    host(&mut out, recording);
    out
}

/// A comparison as Markdown: the answer, what differs, the figures.
pub fn comparison(one: &Comparison) -> String {
    let mut out = format!("# Comparison\n\n**{}**\n\n", escape(&one.summary));
    for short in &one.shortfalls {
        let _ = writeln!(out, "- {}", escape(&compared::shortfall(short)));
    }
    let _ = writeln!(
        out,
        "- Baseline: {}",
        escape(&compared::side(&one.baseline))
    );
    let _ = writeln!(
        out,
        "- Candidate: {}",
        escape(&compared::side(&one.candidate))
    );
    for (what, list) in [
        ("Measured differently", &one.measured_differently),
        ("Setting differs", &one.machine),
    ] {
        for difference in list {
            let _ = writeln!(
                out,
                "- {what}: {}",
                escape(&compared::difference(difference))
            );
        }
    }
    for caution in &one.cautions {
        let _ = writeln!(out, "- {}", escape(caution));
    }
    for lane in &one.lanes {
        out.push('\n');
        if let Some(title) = &lane.title {
            let _ = writeln!(out, "### {}\n", escape(title));
        }
        let headings = compared::HEADINGS.map(|heading| match heading {
            "" | "95% interval" | "change" => heading.to_owned(),
            _ => format!(">{heading}"),
        });
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let rows = compared::rows(lane).into_iter();
        let escaped = rows.map(|row| row.iter().map(|cell| escape(cell)).collect());
        table(&mut out, &headings, escaped.collect());
        if let Some(text) = compared::later(lane) {
            let _ = writeln!(out, "\n{text}.");
        }
    }
    let _ = writeln!(out, "\n{}.", compared::method(one));
    out
}

/// `text` with what Markdown and HTML would read as markup made literal.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

fn section(out: &mut String, heading: &str) {
    let _ = write!(out, "\n## {heading}\n\n");
}

/// Headings that begin with `>` are set to the right; cells are escaped
/// already.
fn table(out: &mut String, headings: &[&str], rows: Vec<Vec<String>>) {
    let names: Vec<&str> = headings.iter().map(|h| h.trim_start_matches('>')).collect();
    let rules: Vec<&str> = headings
        .iter()
        .map(|h| if h.starts_with('>') { "--:" } else { "---" })
        .collect();
    let _ = writeln!(out, "| {} |\n| {} |", names.join(" | "), rules.join(" | "));
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
}

fn head(out: &mut String, recording: &Recording) {
    let _ = writeln!(out, "# {}\n", escape(&recording.headline()));
    if let Some(label) = &recording.label {
        let _ = writeln!(out, "{}\n", escape(label));
    }
    let _ = writeln!(
        out,
        "{}, {}, {} on {}.\n",
        figures::started(recording, 0),
        figures::duration(recording),
        recording.completion,
        escape(&figures::host_line(recording)),
    );
    if let Some(source) = figures::source_text(recording) {
        let _ = writeln!(out, "Source: {}.\n", escape(&source));
    }
    let verdict = &recording.verdict;
    let sign = figures::outcome_sign(verdict.outcome);
    let sentence = format!("{sign} {}", escape(&verdict.sentence));
    let _ = writeln!(out, "**{}**", sentence.trim());
    if let Some(bound) = verdict.confidence() {
        let _ = writeln!(out, "\n{}.", escape(&bound));
    }
    let warnings = figures::warnings(recording);
    if !warnings.is_empty() {
        out.push_str("\nWarnings:\n\n");
        for warning in warnings {
            let _ = writeln!(out, "- {}", escape(&warning));
        }
    }
}

fn threads(out: &mut String, recording: &Recording) {
    let rows = figures::thread_rows(recording);
    if rows.is_empty() {
        return;
    }
    section(out, "Latency");
    let early = rows.iter().any(|row| row.early > 0);
    let mut headings = vec!["thread", ">recorded", ">missed"];
    if early {
        headings.push(">early");
    }
    let percentiles: Vec<String> = PERCENTILES
        .iter()
        .map(|(name, _)| format!(">{name}"))
        .collect();
    headings.extend([">min", ">mean"]);
    headings.extend(percentiles.iter().map(String::as_str));
    headings.push(">max");
    let cells = rows
        .into_iter()
        .map(|row| row.cells(escape(&row.title), early))
        .collect();
    table(out, &headings, cells);
    due(out, recording);
    let fault = figures::account_fault(recording).map_or_else(String::new, |f| format!("{f}: "));
    let _ = writeln!(out, "\n{fault}{}.", figures::account_of(recording));
}

/// What the samples alone show, beside what is judged.
fn due(out: &mut String, recording: &Recording) {
    let rows = figures::due_rows(recording);
    if rows.is_empty() {
        return;
    }
    let names = PERCENTILES.map(|(name, _)| format!(">{name}"));
    let mut headings = vec!["percentiles", ""];
    headings.extend(names.iter().map(String::as_str));
    let cells = rows.into_iter().map(|row| {
        let mut cells = vec![escape(&row.title), row.of.to_owned()];
        cells.extend(row.percentiles.map(figures::or_dash));
        cells
    });
    out.push('\n');
    table(out, &headings, cells.collect());
}

fn worst(out: &mut String, recording: &Recording) {
    if recording.worst.is_empty() {
        return;
    }
    section(out, "Worst samples");
    let explained = recording.worst.iter().any(|sample| sample.blame.is_some());
    let mut headings = vec!["time", "where", ">latency"];
    if explained {
        headings.push("who took it");
    }
    let rows = recording
        .worst
        .iter()
        .map(|sample| {
            let mut cells = vec![
                figures::wall(sample.time, 6),
                escape(&figures::worst_place(recording, sample)),
                sample.latency_ns.to_string(),
            ];
            if explained {
                let sentence = sample.blame.as_ref().map(|blame| escape(&blame.sentence));
                cells.push(sentence.unwrap_or_else(|| "-".to_owned()));
            }
            cells
        })
        .collect();
    table(out, &headings, rows);
}

fn findings(out: &mut String, recording: &Recording) {
    for shown in tables::of(recording) {
        section(out, &escape(&shown.title));
        if shown.rows.is_empty() {
            let _ = writeln!(out, "{}", tables::EMPTY);
            continue;
        }
        let headings: Vec<String> = shown
            .columns
            .iter()
            .map(|column| {
                let right = if column.number { ">" } else { "" };
                format!("{right}{}", escape(&column.title))
            })
            .collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let escaped = |row: Vec<String>| row.iter().map(|cell| escape(cell)).collect();
        table(
            out,
            &headings,
            shown.rows.into_iter().map(escaped).collect(),
        );
    }
}

fn interference(out: &mut String, recording: &Recording) {
    let hits = hits::of(recording);
    if hits.cpus.is_empty() && recording.interference.unknown.is_empty() {
        return;
    }
    section(out, "Interference on the measured CPUs");
    let mut rows = Vec::new();
    let kinds = [
        ("interrupt", &hits.interrupts),
        ("softirq", &hits.softirqs),
        ("throttled", &hits.quotas),
    ];
    for (what, list) in kinds {
        rows.extend(list.iter().map(|source| {
            vec![
                what.to_owned(),
                escape(&source.id),
                escape(&source.name),
                grouped(source.count),
                hits::rate(source.rate),
            ]
        }));
    }
    if !rows.is_empty() {
        table(out, &["kind", "id", "source", ">count", ">rate"], rows);
        out.push('\n');
    }
    for line in hits::others(&hits) {
        let _ = writeln!(out, "- {line}");
    }
    for reason in &recording.interference.unknown {
        let _ = writeln!(out, "- unknown: {}", escape(reason));
    }
}

fn host(out: &mut String, recording: &Recording) {
    section(out, "Host");
    let mut rows = Vec::new();
    for (topic, facts) in facts::topics(&recording.host) {
        rows.extend(facts.into_iter().map(|fact| {
            let value = match &fact.value {
                Ok(value) => escape(value),
                Err(why) => format!("*unknown: {}*", escape(why)),
            };
            vec![
                escape(&topic),
                escape(&fact.name),
                value,
                escape(&fact.source),
            ]
        }));
    }
    table(out, &["of", "fact", "value", "read from"], rows);
}
