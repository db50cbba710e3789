//! The structure of a machine (sockets, cores, caches, memory nodes, clocks), with advice on where
//! to run what.

use punctual_model::{Cache, CpuSet, Fact, MemoryNode, Placement, Topology};

use super::table::{Column, Fold, Row, Table};
use super::{Block, Document, Field, Section};
use crate::figures;

/// Returns sockets, cores, caches, memory nodes, and the isolated CPUs.
pub fn topology(all: &Topology) -> Document {
    let set = |fact: &Fact<CpuSet>| match fact.get() {
        Some(cpus) if cpus.is_empty() => "none".to_owned(),
        Some(cpus) => cpus.to_string(),
        None => unknown(fact),
    };
    // The file exists only if the kernel supports it.
    let tickless = match all.nohz_full.unknown.as_deref() {
        Some("not there") => "none (not supported by this kernel)".to_owned(),
        _ => set(&all.nohz_full),
    };
    let isolated = match all.isolated.get() {
        Some(cpus) if !cpus.is_empty() => format!("{cpus} ({})", all.isolated.source),
        _ => set(&all.isolated),
    };
    let fields = vec![
        Field::new("online", all.online().to_string()),
        Field::new("housekeeping", all.housekeeping().to_string()),
        Field::new("isolated", isolated),
        Field::new("nohz_full", tickless),
    ];
    let mut shown = Document::from_blocks(vec![Block::Fields(fields)]);
    shown.push(Section::new(vec![Block::Table(cores(all))]));
    let caches = if all.caches.is_empty() {
        Block::text("caches: unknown (virtual machines often hide them)")
    } else {
        Block::Table(caches(&all.caches))
    };
    shown.push(Section::new(vec![caches]));
    if all.nodes.len() > 1 {
        shown.push(Section::new(vec![Block::Table(nodes(&all.nodes))]));
    }
    shown
}

/// Returns why a fact is unknown.
fn unknown<T>(fact: &Fact<T>) -> String {
    let why = fact.unknown.as_deref().unwrap_or("no reason is given");
    format!("unknown ({why})")
}

/// Returns a line for each core with all its CPUs.
fn cores(all: &Topology) -> Table {
    let columns = vec![
        Column::left("core"),
        Column::left("CPUs"),
        Column::right("socket"),
        Column::right("node"),
        Column::left("type"),
        Column::left(""),
    ];
    let isolated = all.isolated.get().cloned().unwrap_or_default();
    let number = |known: Option<u32>| known.map_or("-".to_owned(), |number| number.to_string());
    let kind = |cpu: u32| {
        let own = all.core_types.iter().find(|kind| kind.cpus.contains(cpu));
        own.map_or("-".to_owned(), |kind| kind.name.clone())
    };
    let first =
        |place: &&punctual_model::CpuLocation| place.siblings.iter().next() == Some(place.cpu);
    let rows = all
        .cpus
        .iter()
        .filter(first)
        .map(|place| {
            let apart = place.siblings.intersection(&isolated);
            let note = match (place.online, apart.is_empty()) {
                (false, _) => "offline".to_owned(),
                (true, false) if apart == place.siblings => "isolated".to_owned(),
                (true, false) => format!(
                    "CPU {apart} isolated, but shares the core with a CPU \
                    that is not"
                ),
                (true, true) => String::new(),
            };
            Row::new([
                number(place.core),
                place.siblings.to_string(),
                number(place.package),
                number(place.node),
                kind(place.cpu),
                note,
            ])
        })
        .collect();
    Table::new(columns, rows)
}

fn caches(caches: &[Cache]) -> Table {
    let columns = vec![
        Column::left("cache"),
        Column::left("kind").drop(1),
        Column::right("size"),
        Column::left("shared by CPUs"),
    ];
    let rows = caches
        .iter()
        .map(|cache| {
            Row::new([
                format!("level {}", cache.level),
                cache.kind.to_lowercase(),
                cache.size_bytes.map_or("-".to_owned(), figures::size),
                cache.cpus.to_string(),
            ])
        })
        .collect();
    Table::new(columns, rows)
}

fn nodes(nodes: &[MemoryNode]) -> Table {
    let columns = vec![
        Column::left("node"),
        Column::left("CPUs"),
        Column::right("memory"),
        Column::left("distance to each"),
    ];
    let rows = nodes
        .iter()
        .map(|node| {
            let distances: Vec<String> = node.distances.iter().map(u32::to_string).collect();
            Row::new([
                node.node.to_string(),
                node.cpus.to_string(),
                node.memory_bytes.map_or("-".to_owned(), figures::size),
                distances.join(" "),
            ])
        })
        .collect();
    Table::new(columns, rows)
}

/// Returns advice on where to run what, with reasons.
pub fn placements(places: &[Placement]) -> Document {
    // The reason is wrapped instead of shortened, because it is what the user asked for.
    let columns = vec![
        Column::left(""),
        Column::left(""),
        Column::left("").fold(Fold::Wrap(24)),
    ];
    let row = |place: &Placement| {
        let cpus = format!("CPU {}", place.cpus);
        Row::new([place.role.clone(), cpus, place.reason.clone()])
    };
    let table = Table::new(columns, places.iter().map(row).collect());
    Document::from_blocks(vec![Block::Table(table)])
}

/// A POSIX clock with its resolution.
#[derive(Clone, Debug)]
pub struct ClockRow {
    /// Its name, such as CLOCK_MONOTONIC.
    pub name: String,
    /// The result of clock_getres(2); `None` if the call fails.
    pub resolution_ns: Option<u64>,
    /// A description of the clock.
    pub what: String,
}

/// Returns clock sources and POSIX clocks.
pub fn clocks(
    current: &Fact<String>,
    available: &Fact<Vec<String>>,
    rows: &[ClockRow],
) -> Document {
    let source = current.get().cloned().unwrap_or_else(|| unknown(current));
    let all = available.get().map(|all| all.join(" "));
    let fields = vec![
        Field::new("source", source),
        Field::new("available", all.unwrap_or_else(|| unknown(available))),
    ];
    let columns = vec![
        Column::left("clock"),
        Column::right("resolution"),
        Column::left("what").drop(1),
    ];
    let rows = rows.iter().map(|row| {
        let resolution = row.resolution_ns.map(punctual_model::Nanos);
        Row::new([
            row.name.clone(),
            figures::or_dash(resolution),
            row.what.clone(),
        ])
    });
    let mut shown = Document::from_blocks(vec![Block::Fields(fields)]);
    let table = Table::new(columns, rows.collect());
    shown.push(Section::new(vec![Block::Table(table)]));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{self, TextStyle};
    use punctual_model::CpuLocation;

    #[test]
    fn a_topology_is_read_at_a_glance() {
        let place = |cpu: u32| CpuLocation {
            cpu,
            online: cpu != 3,
            package: Some(0),
            core: Some(cpu % 2),
            siblings: [cpu % 2, cpu % 2 + 2].into_iter().collect(),
            node: None,
        };
        let all = Topology {
            cpus: (0..4).map(place).collect(),
            caches: vec![Cache {
                level: 3,
                kind: "Unified".to_owned(),
                size_bytes: Some(32 << 20),
                cpus: "0-3".parse().unwrap(),
            }],
            nodes: vec![],
            core_types: vec![],
            isolated: Fact::known("3".parse().unwrap(), "f"),
            nohz_full: Fact::unknown("f", "not there"),
        };
        insta::assert_snapshot!(text::render(&topology(&all), &TextStyle::default()));
    }
}
