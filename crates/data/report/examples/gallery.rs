//! Writes every output for sample recordings into a folder for visual inspection:
//! `cargo run -p punctual-report --example gallery -- FOLDER`.

use std::error::Error;
use std::path::PathBuf;

#[path = "../tests/it/common/samples.rs"]
mod samples;

use punctual_model::{Nanos, Recording, SignedNanos, testing};
use punctual_report::document;
use punctual_report::html::HtmlOptions;
use punctual_report::plot::{self, Plot, PlotOptions};
use punctual_report::text::{self, TextStyle};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("name a folder")?);
    std::fs::create_dir_all(&folder)?;
    for cpus in [2, 8, 64] {
        let recording = testing::recording(cpus, 60);
        for width in [80, 120] {
            let style = TextStyle {
                colour: false,
                width,
            };
            let name = format!("{cpus}-{width}.txt");
            std::fs::write(folder.join(name), summary(&recording, &style))?;
        }
        let markdown = markdown_of(&recording);
        std::fs::write(folder.join(format!("{cpus}.md")), markdown)?;
        let junit =
            punctual_report::junit::render(&[&recording], punctual_report::junit::CiForm::Junit)?;
        std::fs::write(folder.join(format!("{cpus}.xml")), junit)?;
        let html = punctual_report::html::render(
            std::slice::from_ref(&recording),
            &HtmlOptions::default(),
        )?;
        std::fs::write(folder.join(format!("{cpus}.html")), html)?;
        for (name, plot) in plots(&recording)? {
            std::fs::write(folder.join(format!("{cpus}-{name}.svg")), plot.svg())?;
            std::fs::write(folder.join(format!("{cpus}-{name}.png")), plot.png(2.0)?)?;
        }
    }
    several(&folder)?;
    probes(&folder)
}

fn summary(recording: &Recording, style: &TextStyle) -> String {
    text::render(&document::recording(recording), style)
}

fn markdown_of(recording: &Recording) -> String {
    punctual_report::markdown::render(&document::recording(recording))
}

/// Writes the outputs for other probes.
fn probes(folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let mut faster = samples::inversion(0.6);
    faster.label = Some("after".to_owned());
    let list = [
        ("wakeup-4", samples::wakeup(4, 2_000)),
        ("wakeup-1", samples::wakeup(1, 2_000)),
        ("wakeup-2", samples::wakeup(2, 2_000)),
        ("wakeup-12", samples::wakeup(12, 200)),
        ("wakeup-64", samples::wakeup(64, 20)),
        ("clock", samples::clocks()),
        ("labels-64", samples::labels(64)),
        ("inversion", samples::inversion(1.0)),
    ];
    for (name, recording) in &list {
        let plot = plot::default_for(recording, &PlotOptions::default())?;
        save(folder, name, &plot)?;
        page(folder, name, std::slice::from_ref(recording))?;
    }
    for (name, recording) in [("irq-load-2", 2), ("irq-load-12", 12)] {
        page(folder, name, &[samples::tables_only(recording)])?;
    }
    for (name, plot) in crowded()? {
        save(folder, name, &plot)?;
    }
    let max = plot::matrix_of(&list[0].1, plot::CellFigure::Max, &PlotOptions::default())?;
    save(folder, "wakeup-4-max", &max)?;
    let small = PlotOptions {
        width: 420,
        height: 300,
        heading: plot::Heading::None,
        ..PlotOptions::default()
    };
    save(folder, "clock-small", &plot::bars(&[&list[5].1], &small)?)?;
    save(folder, "wakeup-small", &plot::matrix(&list[0].1, &small)?)?;
    let [.., (_, before)] = &list;
    let two = plot::bars(&[before, &faster], &PlotOptions::default())?;
    save(folder, "inversion-two", &two)?;
    page(folder, "inversion-two", &[before.clone(), faster])
}

/// Returns plots with many labels.
fn crowded() -> Result<Vec<(&'static str, Plot)>, Box<dyn Error>> {
    let options = PlotOptions::default();
    let cut = PlotOptions {
        x_max: Some(Nanos(120_000)),
        ..options.clone()
    };
    let limits = samples::close_limits();
    let phases = samples::phases();
    let cpus = testing::recording(32, 20);
    let many = testing::recording(300, 2);
    Ok(vec![
        ("limits", plot::latency(&[&limits], &options)?),
        ("limits-over-time", plot::timeline(&limits, &options)?),
        (
            "limits-percentiles",
            plot::percentiles(&[&limits], &options)?,
        ),
        ("x-max", plot::latency(&[&limits], &cut)?),
        ("phases", plot::timeline(&phases, &options)?),
        ("stalled", plot::latency(&[&samples::stalled()], &options)?),
        ("cpus-32", plot::latency(&[&cpus], &options)?),
        ("cpus-300", plot::latency(&[&many], &options)?),
    ])
}

fn save(folder: &std::path::Path, name: &str, plot: &Plot) -> Result<(), Box<dyn Error>> {
    std::fs::write(folder.join(format!("{name}.svg")), plot.svg())?;
    std::fs::write(folder.join(format!("{name}.png")), plot.png(2.0)?)?;
    Ok(())
}

fn page(
    folder: &std::path::Path,
    name: &str,
    recordings: &[Recording],
) -> Result<(), Box<dyn Error>> {
    let html = punctual_report::html::render(recordings, &HtmlOptions::default())?;
    std::fs::write(folder.join(format!("{name}.html")), html)?;
    for recording in recordings {
        let markdown = markdown_of(recording);
        std::fs::write(folder.join(format!("{name}.md")), markdown)?;
        let summary = summary(recording, &TextStyle::default());
        std::fs::write(folder.join(format!("{name}.txt")), summary)?;
    }
    Ok(())
}

/// Writes several recordings in one output, one of them with a long tail.
fn several(folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let mut tail = testing::recording(1, 300);
    tail.label = Some("one late sample".to_owned());
    if let Some(thread) = tail.threads.first_mut() {
        thread.histogram.clear();
        let mut state = 1u64;
        for _ in 0..300_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let share = ((state >> 33) as f64 + 1.0) / f64::from(1u32 << 31);
            thread
                .histogram
                .record(SignedNanos(3_000 + (-900.0 * share.ln()) as i64));
        }
        thread.histogram.record(SignedNanos(7_300_000));
    }
    let mut quiet = testing::recording(2, 60);
    quiet.label = Some("after tuning".to_owned());
    let mut before = testing::recording(4, 60);
    before.label = Some("before tuning".to_owned());
    let options = PlotOptions::default();
    let list = [before, quiet, tail];
    let three: Vec<&Recording> = list.iter().collect();
    for (name, plot) in [
        ("three-latency", plot::latency(&three, &options)?),
        ("three-percentiles", plot::percentiles(&three, &options)?),
        ("tail-latency", plot::latency(&[&list[2]], &options)?),
        (
            "tail-percentiles",
            plot::percentiles(&[&list[2]], &options)?,
        ),
    ] {
        std::fs::write(folder.join(format!("{name}.svg")), plot.svg())?;
        std::fs::write(folder.join(format!("{name}.png")), plot.png(2.0)?)?;
    }
    let html = punctual_report::html::render(&list, &HtmlOptions::default())?;
    std::fs::write(folder.join("three.html"), html)?;
    Ok(())
}

fn plots(recording: &Recording) -> Result<Vec<(&'static str, Plot)>, Box<dyn Error>> {
    let options = PlotOptions::default();
    Ok(vec![
        ("latency", plot::latency(&[recording], &options)?),
        ("percentiles", plot::percentiles(&[recording], &options)?),
        ("timeline", plot::timeline(recording, &options)?),
    ])
}
