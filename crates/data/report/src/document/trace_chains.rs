//! End-to-end chains of a trace: latencies, shares of each edge, and the longest chains.

use punctual_model::{Chain, ChainSpan, Nanos, TraceChains, counted, is_supported};

use super::table::{Column, Row, Table};
use super::{Block, Document, Section};
use crate::figures;

/// Maximum number of edges on a terminal.
const EDGES: usize = 40;

/// Maximum number of parts of a long chain on a terminal.
const PARTS: usize = 40;

/// Returns the chains with their latencies.
pub fn trace_chains(found: &TraceChains) -> Document {
    let (from, to) = found.span.unwrap_or_default();
    let mut blocks = vec![Block::text(format!(
        "{}: {}, {} in {}, {} to {}",
        found.file,
        found.format,
        counted(found.begun, "chain", "chains"),
        to.saturating_sub(from),
        figures::trace_time(from),
        figures::trace_time(to),
    ))];
    if !found.warnings.is_empty() {
        blocks.push(Block::Warnings(found.warnings.clone()));
    }
    blocks.push(Block::text(reached(found)));
    let mut document = Document::from_blocks(blocks);
    if found.latencies.recorded() > 0 {
        for table in [latencies(found), edges(found)] {
            document.push(Section::new(vec![Block::Table(table)]));
        }
    }
    for (chain, place) in found.longest.iter().zip(1..) {
        let heading = Block::text(format!(
            "chain {place} of the longest: {} from {}",
            chain.latency(),
            figures::trace_time(chain.begin)
        ));
        let parts = Block::Table(parts(chain));
        document.push(Section::new(vec![heading, parts]));
    }
    document
}

fn reached(found: &TraceChains) -> String {
    let reached = found.latencies.recorded();
    let mut text = format!(
        "{reached} of {} from {} reached {}",
        counted(found.begun, "chain", "chains"),
        found.from,
        found.to
    );
    let early: u64 = found.ended_in.iter().map(|(_, times)| times).sum();
    if early > 0 {
        let named = found.ended_in.iter().take(5);
        let named: Vec<String> = named
            .map(|(who, times)| format!("{who}: {times}"))
            .collect();
        let after = named.join(", ");
        text += &format!("; {early} ended before, after {after}");
    }
    if found.unknown > 0 {
        text += &format!(
            "; the end of {} is unknown, because events are missing or the trace ends",
            counted(found.unknown, "chain", "chains")
        );
    }
    text
}

fn latencies(found: &TraceChains) -> Table {
    let all = &found.latencies;
    let quantiles = [
        ("median", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99.9", 0.999),
    ];
    let mut columns = vec![Column::right("chains"), Column::right("minimum")];
    columns.extend(quantiles.iter().map(|(name, _)| Column::right(*name)));
    columns.push(Column::right("maximum"));
    let shown = |time: Option<Nanos>| time.map_or("-".to_owned(), |time| time.to_string());
    let mut cells = vec![all.recorded().to_string(), shown(all.min())];
    cells.extend(quantiles.iter().map(|(_, quantile)| {
        let supported = is_supported(*quantile, all.recorded());
        shown(all.quantile(*quantile).filter(|_| supported))
    }));
    cells.push(shown(all.max()));
    Table::new(columns, vec![Row::new(cells)])
}

fn edges(found: &TraceChains) -> Table {
    let total: u64 = found.edges.iter().map(|edge| edge.total.0).sum();
    let columns = vec![
        Column::left("thread or interrupt"),
        Column::left("part"),
        Column::right("share"),
        Column::right("chains"),
        Column::right("average"),
        Column::right("maximum"),
    ];
    let rows = found.edges.iter().map(|edge| {
        let average = Nanos(edge.total.0.checked_div(edge.chains).unwrap_or_default());
        Row::new([
            edge.who.clone(),
            edge.part.to_string(),
            percent(edge.total, Nanos(total)),
            edge.chains.to_string(),
            average.to_string(),
            edge.max.to_string(),
        ])
    });
    let table = Table::new(columns, rows.collect()).at_most(EDGES);
    table.further("further part", "further parts")
}

fn parts(chain: &Chain) -> Table {
    let columns = vec![
        Column::right("after"),
        Column::right("CPU"),
        Column::left("thread or interrupt"),
        Column::left("part"),
        Column::right("time"),
        Column::right("share"),
        Column::left("behind"),
    ];
    let rows = chain.spans.iter().map(|span| {
        let who = span
            .tid
            .map_or(span.who.clone(), |tid| format!("{}-{tid}", span.who));
        Row::new([
            span.from.saturating_sub(chain.begin).to_string(),
            span.cpu.to_string(),
            who,
            span.part.to_string(),
            span.length().to_string(),
            percent(span.length(), chain.latency()),
            behind(span),
        ])
    });
    let table = Table::new(columns, rows.collect()).at_most(PARTS);
    table.further("further part", "further parts")
}

/// Names the thread that ran while another one waited.
fn behind(span: &ChainSpan) -> String {
    span.behind
        .as_ref()
        .map_or_else(String::new, |(task, time)| {
            format!("{} ({}) ran for {time}", task.label(), task.prio)
        })
}

fn percent(part: Nanos, whole: Nanos) -> String {
    match whole {
        Nanos::ZERO => "-".to_owned(),
        whole => format!("{:.1}%", 100.0 * part.0 as f64 / whole.0 as f64),
    }
}
