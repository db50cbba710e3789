//! Writes every output for sample recordings into a folder, to be looked at:
//! `cargo run -p punctual-report --example gallery -- FOLDER`.

use std::error::Error;
use std::path::PathBuf;

use punctual_model::{Recording, testing};
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
            std::fs::write(folder.join(name), text::summary(&recording, &style))?;
        }
        for (name, plot) in plots(&recording)? {
            std::fs::write(folder.join(format!("{cpus}-{name}.svg")), plot.svg())?;
            std::fs::write(folder.join(format!("{cpus}-{name}.png")), plot.png(2.0)?)?;
        }
    }
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
