//! A machine's sockets, cores and caches as a drawing.
//!
//! Each socket is a row with a box for each core and its CPUs. Below are the caches, each as wide
//! as the cores that share it. Isolated CPUs are dark, offline CPUs pale.

use punctual_model::{Cache, CpuSet, Topology};

use super::canvas::{Anchor, Canvas, Colour, Point, Stroke, fit};
use super::svg;
use crate::figures;

const CORE: f64 = 92.0;
const GAP: f64 = 10.0;
const CPU: f64 = 24.0;
const CACHE: f64 = 22.0;
const MARGIN: f64 = 16.0;
const TEXT: u32 = 12;
/// Maximum number of cores per line of a socket.
const CORES_A_LINE: usize = 8;

const ISOLATED: Colour = Colour(0x1f, 0x4e, 0x79);
const HOUSEKEEPING: Colour = Colour(0xcf, 0xe2, 0xf3);
const OFFLINE: Colour = Colour(0xee, 0xee, 0xee);
const CACHE_FILL: Colour = Colour(0xfb, 0xe9, 0xc8);

/// A line of cores of one socket, and its position.
struct Line {
    package: Option<u32>,
    /// The CPUs of each core.
    cores: Vec<CpuSet>,
}

/// Returns the drawing as SVG.
pub fn topology(all: &Topology) -> String {
    let lines = lines_of(all);
    let most = lines.iter().map(|line| line.cores.len()).max().unwrap_or(1);
    let width = (2.0 * MARGIN + most as f64 * (CORE + GAP) - GAP).max(420.0);
    let mut canvas = Canvas {
        width: width as u32,
        height: 0,
        title: format!(
            "CPUs {} of this machine, their cores and caches",
            all.online()
        ),
        shapes: Vec::new(),
    };
    let mut y = MARGIN;
    for line in &lines {
        y = draw_line(&mut canvas, all, line, y) + 1.5 * GAP;
    }
    y = legend(&mut canvas, y);
    canvas.height = (y + MARGIN) as u32;
    svg::write(&canvas)
}

/// Returns the cores of each socket, in lines.
fn lines_of(all: &Topology) -> Vec<Line> {
    let mut lines = Vec::<Line>::new();
    for place in &all.cpus {
        // Each core is added once, at its first CPU.
        if place.siblings.iter().next() != Some(place.cpu) {
            continue;
        }
        match lines.last_mut() {
            Some(line) if line.package == place.package && line.cores.len() < CORES_A_LINE => {
                line.cores.push(place.siblings.clone());
            }
            _ => lines.push(Line {
                package: place.package,
                cores: vec![place.siblings.clone()],
            }),
        }
    }
    lines
}

/// Draws a line of cores and returns its lower end.
fn draw_line(canvas: &mut Canvas, all: &Topology, line: &Line, top: f64) -> f64 {
    let name = match line.package {
        Some(package) => format!("socket {package}"),
        None => "cores".to_owned(),
    };
    canvas.text(
        (MARGIN, top + 12.0),
        &name,
        TEXT,
        Anchor::Start,
        Colour::GREY,
    );
    let top = top + 20.0;
    let deepest = line.cores.iter().map(CpuSet::len).max().unwrap_or(1) as f64;
    for (number, core) in line.cores.iter().enumerate() {
        let x = left_of(number);
        for (place, cpu) in core.iter().enumerate() {
            draw_cpu(canvas, all, cpu, (x, top + place as f64 * (CPU + 2.0)));
        }
    }
    let mut y = top + deepest * (CPU + 2.0) + 4.0;
    for level in levels(&all.caches) {
        if draw_level(canvas, all, line, level, y) {
            y += CACHE + 4.0;
        }
    }
    y
}

fn left_of(core: usize) -> f64 {
    MARGIN + core as f64 * (CORE + GAP)
}

fn draw_cpu(canvas: &mut Canvas, all: &Topology, cpu: u32, at: Point) {
    let online = all
        .cpus
        .iter()
        .any(|place| place.cpu == cpu && place.online);
    let isolated = all.isolated.get().is_some_and(|cpus| cpus.contains(cpu));
    let (fill, ink) = match (online, isolated) {
        (false, _) => (OFFLINE, Colour::GREY),
        (true, true) => (ISOLATED, Colour::WHITE),
        (true, false) => (HOUSEKEEPING, Colour::BLACK),
    };
    canvas.cells(vec![(at, (CORE, CPU))], fill);
    let middle = (at.0 + CORE / 2.0, at.1 + 16.0);
    canvas.text(middle, &format!("CPU {cpu}"), TEXT, Anchor::Middle, ink);
}

/// Returns the levels of data and unified caches, in ascending order. Instruction caches are left
/// out, because they do not indicate which cores share data.
fn levels(caches: &[Cache]) -> Vec<u32> {
    let mut levels: Vec<u32> = caches
        .iter()
        .filter(|cache| cache.kind != "Instruction")
        .map(|cache| cache.level)
        .collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// Draws the caches of a level below the cores that share them. Returns whether there are any.
fn draw_level(canvas: &mut Canvas, all: &Topology, line: &Line, level: u32, y: f64) -> bool {
    let of_level = all
        .caches
        .iter()
        .filter(|cache| cache.level == level && cache.kind != "Instruction");
    let mut drawn = false;
    for cache in of_level {
        let shares = |core: &CpuSet| !core.intersection(&cache.cpus).is_empty();
        let Some(first) = line.cores.iter().position(shares) else {
            continue;
        };
        let last = line.cores.iter().rposition(shares).unwrap_or(first);
        let (x, end) = (left_of(first), left_of(last) + CORE);
        canvas.cells(vec![((x, y), (end - x, CACHE))], CACHE_FILL);
        let size = cache.size_bytes.map(figures::size);
        let size = size.map_or(String::new(), |size| format!(" {size}"));
        let label = fit(&format!("L{level}{size}"), TEXT, end - x - 4.0);
        canvas.text(
            (x + (end - x) / 2.0, y + 15.0),
            &label,
            TEXT,
            Anchor::Middle,
            Colour::BLACK,
        );
        drawn = true;
    }
    drawn
}

fn legend(canvas: &mut Canvas, y: f64) -> f64 {
    canvas.line(
        (MARGIN, y),
        (f64::from(canvas.width) - MARGIN, y),
        Stroke::solid(Colour::GRID, 1.0),
    );
    let kinds = [
        (HOUSEKEEPING, "housekeeping"),
        (ISOLATED, "isolated"),
        (OFFLINE, "offline"),
    ];
    for (number, (fill, name)) in kinds.into_iter().enumerate() {
        let x = MARGIN + number as f64 * 120.0;
        canvas.cells(vec![((x, y + 10.0), (12.0, 12.0))], fill);
        canvas.text(
            (x + 18.0, y + 20.0),
            name,
            TEXT,
            Anchor::Start,
            Colour::BLACK,
        );
    }
    y + 24.0
}

#[cfg(test)]
mod tests {
    use punctual_model::{CpuLocation, Fact};

    use super::*;

    #[test]
    fn each_cpu_and_cache_is_drawn() {
        let place = |cpu: u32| CpuLocation {
            cpu,
            online: true,
            package: Some(cpu % 4 / 2),
            core: Some(cpu % 2),
            siblings: [cpu % 4, cpu % 4 + 4].into_iter().collect(),
            node: None,
        };
        let all = Topology {
            cpus: (0..8).map(place).collect(),
            caches: vec![Cache {
                level: 3,
                kind: "Unified".to_owned(),
                size_bytes: Some(16 << 20),
                cpus: "0-1,4-5".parse().unwrap(),
            }],
            nodes: vec![],
            core_types: vec![],
            isolated: Fact::known("3,7".parse().unwrap(), "f"),
            nohz_full: Fact::unknown("f", "absent"),
        };
        let drawn = topology(&all);
        for cpu in 0..8 {
            assert!(drawn.contains(&format!(">CPU {cpu}<")), "{cpu}: {drawn}");
        }
        assert!(drawn.contains("socket 1") && drawn.contains("L3 16 MiB"));
    }
}
