//! `tune import` and `tune export`: profiles of `TuneD`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use punctual_model::{CpuSet, counted};
use punctual_report::document::{Block, Document, Field, Section, Tone};
use punctual_tune::{LeftOut, Profile, Request, TunedExport, TunedImport, Wish};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::extension;
use crate::output::{self, Output};
use crate::settings::document::table;
use crate::settings::print;

pub(super) const IMPORT: &str = "\
Convert a profile of TuneD to a profile for `punctual tune apply`, and print it.

The profile is read with the profiles that it includes and with its variables. \
Nothing on this machine changes. No script and no command of the profile is run: of \
TuneD's functions, only those of CPU lists and texts are computed. Each option without a counterpart is listed with its reason. The variable \
isolated_cores becomes the words `measured` and `housekeeping`: pass the CPUs with \
--cpus to `punctual tune apply`.";

pub(super) const IMPORT_EXAMPLES: &str = "\
Examples:
  punctual tune import realtime
  punctual tune import ./my-profile/tuned.conf
  sudo punctual tune import cpu-partitioning -o /etc/mine.toml
  sudo punctual tune apply /etc/mine.toml --cpus 2-3";

pub(super) const EXPORT: &str = "\
Write a profile and single settings as a profile of TuneD (tuned.conf).

Nothing on this machine changes, and the machine is not read. Settings that TuneD \
cannot express are listed on stderr and in comments of the file.";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  punctual tune export control --cpus 2-3
  sudo punctual tune export control --cpus 2-3 -o /etc/tuned/control
  sudo tuned-adm profile control";

// The profile to read.
#[derive(Args)]
pub(super) struct Import {
    /// Name of a profile of TuneD, its folder, or its tuned.conf
    #[arg(value_name = "PROFILE")]
    profile: String,
    /// Write the profile to a file (.toml), and list the rest
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Root folder of the system that has the profiles
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Formats for the profiles of other programs.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Tuned,
}

// The settings to write.
#[derive(Args)]
pub(super) struct Export {
    /// A built-in profile (see `punctual tune profiles`) or a TOML file
    #[arg(value_name = "PROFILE", required_unless_present = "set")]
    profile: Option<String>,
    /// CPUs that are measured or run the application, such as 2-3
    #[arg(short = 'a', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Set one setting, or SETTING@INSTANCE=VALUE; overrides the profile
    #[arg(short, long, value_name = "SETTING=VALUE")]
    set: Vec<String>,
    /// Format of the profile
    #[arg(short, long, value_name = "FORMAT", default_value = "tuned")]
    format: Format,
    /// Folder of the profile, or a file (.conf)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Import {
    pub(super) fn run(&self, context: &Context) -> Result<Exit> {
        if !self.root.is_dir() {
            let text = format!("--root: {} is not a folder", self.root.display());
            return Err(UsageError(text).into());
        }
        let import = TunedImport::read(&self.root, &self.profile)?;
        match &self.output {
            None => output::print(&import.toml())?,
            Some(path) => {
                extension::check(path, &["toml"])?;
                Output::open(path)?.put(import.toml().as_bytes())?;
                if path != Path::new("-") {
                    print(&imported(&import, path), context)?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn imported(import: &TunedImport, path: &Path) -> Document {
    let path = path.display();
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let settings = counted(number(import.settings()), "setting", "settings");
    let parameters = number(import.boot_parameters());
    let parameters = counted(parameters, "kernel parameter", "kernel parameters");
    let mut fields = vec![Field::new(
        "written",
        format!("{path}: {settings}, {parameters}"),
    )];
    let cpus = match &import.cpus {
        Some(cpus) => cpus.to_string(),
        None => "LIST".to_owned(),
    };
    let cpus = if import.needs_cpus() {
        format!(" --cpus {cpus}")
    } else {
        String::new()
    };
    fields.push(Field {
        is_command: true,
        ..Field::new("plan", format!("punctual tune plan {path}{cpus}"))
    });
    let mut document = Document::default();
    document.push(Section::new(vec![Block::Fields(fields)]));
    let rows: Vec<Vec<String>> = (import.left_out.iter())
        .map(|one| vec![one.option(), one.reason.clone()])
        .collect();
    if rows.is_empty() {
        let text = "All options of the profile are imported.".to_owned();
        document.push(Section::new(vec![Block::Text(Tone::Plain, text)]));
    } else {
        let rows = table(&["not imported", "reason"], rows);
        document.push(Section::new(vec![rows]));
    }
    document
}

impl Export {
    pub(super) fn run(&self) -> Result<Exit> {
        let sets = self.set.iter().map(|text| Wish::parse(text));
        let request = Request {
            profile: self.profile.as_deref().map(Profile::find).transpose()?,
            sets: sets.collect::<Result<_, _>>()?,
            cpus: self.cpus.clone(),
        };
        let Format::Tuned = self.format;
        let export = TunedExport::new(&request)?;
        match &self.output {
            None => output::print(&export.text)?,
            Some(path) => {
                let is_folder = path.is_dir();
                if !is_folder {
                    extension::check(path, &["conf"])?;
                }
                let is_named = extension::extension_of(path) == "conf";
                let file = if path == Path::new("-") || is_named && !is_folder {
                    path.clone()
                } else {
                    std::fs::create_dir_all(path)
                        .with_context(|| format!("cannot create the folder {}", path.display()))?;
                    path.join("tuned.conf")
                };
                Output::open(&file)?.put(export.text.as_bytes())?;
            }
        }
        for LeftOut { setting, reason } in &export.left_out {
            output::note(&format!("not exported: {setting}: {reason}"));
        }
        Ok(Exit::Done)
    }
}
