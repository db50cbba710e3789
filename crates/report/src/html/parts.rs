//! The tables of a recording's section.

use maud::{Markup, html};
use punctual_model::{Recording, WorstSample, grouped};
use punctual_stats::{Comparison, Difference};

use crate::clean::clean;
use crate::compared;
use crate::facts;
use crate::figures::{self, PERCENTILES};
use crate::hits;
use crate::tables;

pub(super) fn limits(recording: &Recording) -> Markup {
    let limits = &recording.verdict.limits;
    html! {
        @if !limits.is_empty() {
            table .short {
                thead { tr { th { "limit on" } th .n { "at most" } th .n { "measured" } th { "where" } th { "" } } }
                tbody { @for result in limits {
                    tr {
                        td { (result.limit.metric) }
                        td .n { (result.limit.metric.show(result.limit.at_most)) }
                        td .n { (result.measured.map_or_else(|| "-".to_owned(), |v| result.limit.metric.show(v))) }
                        td {
                            @if let Some(thread) = result.thread.and_then(|t| recording.threads.get(t as usize)) {
                                (clean(&thread.title()))
                            }
                        }
                        td { @match result.held {
                            Some(true) => "✓ held",
                            Some(false) => b { "✗ broken" },
                            None => { "? not proven" @if let Some(why) = &result.lacking { ": " (clean(why)) } },
                        } }
                    }
                } }
            }
        }
    }
}

pub(super) fn threads(recording: &Recording) -> Markup {
    let rows = figures::thread_rows(recording);
    let early = rows.iter().any(|row| row.early > 0);
    html! {
        div .wide { table .short[rows.len() <= 16] {
            thead { tr {
                th { "thread" } th .n { "recorded" } th .n { "missed" }
                @if early { th .n { "early" } }
                th .n { "min" } th .n { "mean" }
                @for (name, _) in PERCENTILES { th .n { (name) } }
                th .n { "max" }
            } }
            tbody { @for row in &rows {
                tr .total[row.total] {
                    td { (row.title) }
                    td .n { (grouped(row.recorded)) }
                    td .n { (figures::count_or_dash(row.missed)) }
                    @if early { td .n { (grouped(row.early)) } }
                    td .n { (figures::or_dash(row.min)) }
                    td .n { (figures::or_dash(row.mean)) }
                    @for value in row.percentiles { td .n { (figures::or_dash(value)) } }
                    td .n { (figures::or_dash(row.max)) }
                }
            } }
        } }
        (due(recording))
        p {
            @if let Some(fault) = figures::account_fault(recording) { b { (fault) ": " } }
            (figures::account_of(recording)) "."
        }
    }
}

/// What the samples alone show, beside what is judged.
fn due(recording: &Recording) -> Markup {
    let rows = figures::due_rows(recording);
    html! {
        @if !rows.is_empty() {
            div .wide { table .short {
                thead { tr {
                    th { "percentiles" } th { "" }
                    @for (name, _) in PERCENTILES { th .n { (name) } }
                } }
                tbody { @for row in &rows { tr {
                    td { (row.title) }
                    td { (row.of) }
                    @for value in row.percentiles { td .n { (figures::or_dash(value)) } }
                } } }
            } }
        }
    }
}

pub(super) fn worst(recording: &Recording) -> Markup {
    let explained = recording.worst.iter().any(|sample| sample.blame.is_some());
    html! {
        @if !recording.worst.is_empty() {
            h2 { "Worst samples" }
            div .wide { table {
                thead { tr {
                    th { "time" } th .n { "monotonic" } th { "where" } th .n { "latency" }
                    @if explained { th { "who took it" } }
                } }
                tbody { @for sample in &recording.worst { tr {
                    td { (figures::wall(sample.time, 6)) }
                    td .n { (format!("{:.6} s", sample.monotonic_ns.as_secs_f64())) }
                    td { (figures::worst_place(recording, sample)) }
                    td .n { (sample.latency_ns) }
                    @if explained { td { (blame(sample)) } }
                } } }
            } }
        }
    }
}

fn blame(sample: &WorstSample) -> Markup {
    html! {
        @if let Some(blame) = &sample.blame {
            (clean(&blame.sentence))
            @if blame.events_lost > 0 {
                " (" (figures::counted(blame.events_lost, "trace event", "trace events")) " lost)"
            }
            @if !blame.shares.is_empty() {
                ul .shares { @for share in &blame.shares {
                    li { (share.ns) " " (share.kind.name()) " " (clean(&share.who)) }
                } }
            }
        } @else { "-" }
    }
}

pub(super) fn findings(recording: &Recording) -> Markup {
    html! {
        @for shown in tables::of(recording) {
            h2 { (shown.title) }
            @if shown.rows.is_empty() { p { (tables::EMPTY) } }
            @else {
                div .wide { table .short[shown.rows.len() <= 16] {
                    thead { tr { @for column in &shown.columns {
                        th .n[column.number] { (column.title) }
                    } } }
                    tbody { @for row in &shown.rows { tr {
                        @for (cell, column) in row.iter().zip(&shown.columns) {
                            td .n[column.number] .whole[cell.chars().count() <= 40] { (cell) }
                        }
                    } } }
                } }
            }
        }
    }
}

pub(super) fn interference(recording: &Recording) -> Markup {
    let hits = hits::of(recording);
    let counts = [
        ("interrupt", &hits.interrupts),
        ("softirq", &hits.softirqs),
        ("throttled", &hits.quotas),
    ];
    let any = counts.iter().any(|(_, list)| !list.is_empty());
    let found = &recording.interference;
    if hits.cpus.is_empty() && found.unknown.is_empty() && found.context_switches.is_none() {
        return html! {};
    }
    html! {
        h2 { "Interference on the measured CPUs" }
        @if any {
            div .wide { table {
                thead { tr { th { "kind" } th { "id" } th { "source" } th .n { "count" } th .n { "rate" } } }
                tbody { @for (what, list) in counts { @for source in list { tr {
                    td { (what) }
                    td { (source.id) }
                    td { (source.name) }
                    td .n { (grouped(source.count)) }
                    td .n { (hits::rate(source.rate)) }
                } } } }
            } }
        }
        ul {
            @for line in hits::others(&hits) { li { (line) } }
            @if let Some(switches) = recording.interference.context_switches {
                li { (grouped(switches)) " context switches of the whole machine" }
            }
            @for reason in &recording.interference.unknown {
                li .faint { "unknown: " (clean(reason)) }
            }
        }
    }
}

pub(super) fn observer(recording: &Recording) -> Markup {
    html! {
        h2 { "Cost of the measurement" }
        table .short { tbody { @for (what, cost) in figures::observer(recording) {
            tr { th { (what) } td .n { (cost) } }
        } } }
    }
}

pub(super) fn run(recording: &Recording) -> Markup {
    html! {
        h2 { "Run" }
        table .short { tbody { @for (what, value) in facts::run(recording) {
            tr { th { (what) } td { (value) } }
        } } }
    }
}

pub(super) fn host(recording: &Recording) -> Markup {
    html! {
        h2 { "Host" }
        div .wide { table .facts {
            thead { tr { th { "fact" } th { "value" } th { "read from" } } }
            @for (topic, rows) in facts::topics(&recording.host) {
                tbody {
                    tr .topic { th colspan="3" scope="rowgroup" { (topic) } }
                    @for row in &rows { tr {
                        th { (row.name) }
                        td { @match &row.value {
                            Ok(value) => (value),
                            Err(why) => span .faint { "unknown: " (why) },
                        } }
                        td .source { (row.source) }
                    } }
                }
            }
        } }
    }
}

/// Two recordings set against each other.
pub(super) fn comparison(one: &Comparison) -> Markup {
    html! {
        section {
            h2 { "Comparison" }
            p .verdict { (clean(&one.summary)) }
            @if !one.shortfalls.is_empty() {
                ul .warnings { @for short in &one.shortfalls { li { (compared::shortfall(short)) } } }
            }
            p { b { "Baseline: " } (compared::side(&one.baseline)) }
            p { b { "Candidate: " } (compared::side(&one.candidate)) }
            (differences("Measured differently", &one.measured_differently))
            @if !one.cautions.is_empty() {
                ul .warnings { @for caution in &one.cautions { li { (clean(caution)) } } }
            }
            (differences("Settings that differ", &one.machine))
            @if !one.not_known.is_empty() {
                p .faint { "Not known of both: " (clean(&one.not_known.join(", "))) "." }
            }
            @for lane in &one.lanes {
                @if let Some(title) = &lane.title { h3 { (clean(title)) } }
                div class="wide" { table {
                    thead { tr { @for name in compared::HEADINGS { th { (name) } } } }
                    tbody { @for row in compared::rows(lane) { tr {
                        @for cell in row { td { (clean(&cell)) } }
                    } } }
                } }
                @if let Some(text) = compared::later(lane) { p .faint { (text) "." } }
            }
            p .faint { (compared::method(one)) "." }
        }
    }
}

fn differences(heading: &str, differences: &[Difference]) -> Markup {
    html! {
        @if !differences.is_empty() {
            h3 { (heading) }
            ul { @for one in differences { li { (compared::difference(one)) } } }
        }
    }
}
