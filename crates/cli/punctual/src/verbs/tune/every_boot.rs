//! `tune enable`, `tune disable`, `tune boot`: apply settings at every boot.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_host::Host;
use punctual_report::document::{Block, Document, Field, Section, Tone};
use punctual_tune::{
    AtBoot, Attempt, BootError, BootStatus, BootTune, Locations, UnitState, Verified,
    apply_at_boot, boot_reached, boot_status, disable, enable, verify_enabled,
};

use super::{Form, Wished};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::settings::{document, print};

/// Actions that the units start, and their results.
#[derive(Subcommand)]
pub(super) enum Boot {
    /// Show the settings applied at every boot, and the last result
    Status {
        #[command(flatten)]
        system: System,
        #[command(flatten)]
        form: Form,
    },
    /// Apply the enabled settings; the unit starts this at boot
    Apply,
    /// Record that this boot reached its target; started by the unit
    Reached,
    /// Verify the settings that were applied at boot, and reapply lost ones
    Verify,
}

// Which system's units.
#[derive(Args)]
pub(super) struct System {
    /// Root folder of the system, such as a mounted image
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

#[derive(Args)]
pub(super) struct Enable {
    #[command(flatten)]
    wished: Wished,
    /// Program that the units start [default: this one]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    #[command(flatten)]
    system: System,
}

impl System {
    fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the system, and the paths of its journals.
    fn places(&self) -> Result<(Host, Locations)> {
        if self.is_live() {
            return Ok((Host::live(), crate::context::tune_places()?));
        }
        if !self.root.is_dir() {
            return Err(
                UsageError(format!("--root: {} is not a folder", self.root.display())).into(),
            );
        }
        let root = std::path::absolute(&self.root)?;
        let journal = root.join("var/lib/punctual/tune.journal");
        Ok((Host::new(root), Locations::next_to(journal)))
    }
}

/// Converts an error, but keeps the kind of the error inside it.
fn usage(error: BootError) -> anyhow::Error {
    match error {
        BootError::Tune(error) => error.into(),
        other => other.into(),
    }
}

impl Enable {
    pub(super) fn run(&self, context: &Context) -> Result<Exit> {
        let (host, places) = self.system.places()?;
        if self.wished.from_doctor || self.wished.role.role.is_some() {
            let text = "--from-doctor cannot be enabled for every boot: write its settings to a \
                profile, and enable the profile";
            return Err(UsageError(text.to_owned()).into());
        }
        if self.wished.profile.is_none() && self.wished.set.is_empty() {
            let text = "nothing to enable: pass a profile or --set SETTING=VALUE";
            return Err(UsageError(text.to_owned()).into());
        }
        let tune = BootTune {
            program: self.program()?,
            profile: self.profile()?,
            cpus: self.wished.cpus.as_ref().map(ToString::to_string),
            set: self.wished.set.clone(),
        };
        if self.system.is_live() {
            // A setting that cannot be applied now cannot be applied at boot either. Check this
            // before anything is written.
            tune.plan(&host, &places).map_err(usage)?;
        }
        let written = enable(&host, &places, &tune).map_err(usage)?;
        context.done(Exit::Done, "the settings are enabled for every boot");
        self.wished.form.show(&written, context, || {
            enabled(&written, self.system.is_live())
        })?;
        Ok(Exit::Done)
    }

    /// Returns the program that the units start. It must be a file that no other user can replace.
    fn program(&self) -> Result<String> {
        let path = match &self.program {
            Some(path) => std::path::absolute(path)?,
            None => std::env::current_exe()?,
        };
        if self.system.is_live() {
            punctual_files::rights::check_trusted(&path).map_err(|error| BootError::Program {
                path: path.clone(),
                why: error.reason(),
            })?;
        }
        let text = path.to_string_lossy().into_owned();
        // These characters have a special meaning in ExecStart= of systemd.
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || "%$\"'\\;".contains(c)) {
            return Err(UsageError(format!(
                "--program: {text} contains a character that needs \
                quotation in a unit: use another path"
            ))
            .into());
        }
        Ok(text)
    }

    /// Returns the name of a built-in profile, or the absolute path of a file.
    fn profile(&self) -> Result<Option<String>> {
        let Some(name) = &self.wished.profile else {
            return Ok(None);
        };
        if punctual_tune::PROFILES
            .iter()
            .any(|known| known.name == name)
        {
            return Ok(Some(name.clone()));
        }
        let path = std::path::absolute(name)?;
        Ok(Some(path.to_string_lossy().into_owned()))
    }
}

pub(super) fn run_disable(system: &System, form: Form, context: &Context) -> Result<Exit> {
    let (host, places) = system.places()?;
    let removed = disable(&host, &places).map_err(usage)?;
    context.done(Exit::Done, "the settings are disabled");
    form.show(&removed, context, || {
        if removed.is_empty() {
            text("Nothing is enabled.")
        } else {
            let files = removed.iter().map(|path| Field::new("removed", path));
            let note = "Settings that are applied now stay until `punctual tune revert` or a \
                reboot.";
            document_from(vec![fields(files.collect()), paragraph(Tone::Plain, note)])
        }
    })?;
    Ok(Exit::Done)
}

impl Boot {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Status { system, form } => {
                let (host, places) = system.places()?;
                let status = boot_status(&host, &places).map_err(usage)?;
                form.show(&status, context, || shown(&status))?;
                Ok(Exit::Done)
            }
            Self::Apply => apply(context),
            Self::Reached => {
                let places = crate::context::tune_places()?;
                boot_reached(&Host::live(), &places).map_err(usage)?;
                Ok(Exit::Done)
            }
            Self::Verify => verify(context),
        }
    }
}

fn apply(context: &Context) -> Result<Exit> {
    let (host, places) = (Host::live(), crate::context::tune_places()?);
    let plan = || BootTune::read(Path::new("/"))?.plan(&host, &places);
    match apply_at_boot(&host, &places, plan).map_err(usage)? {
        AtBoot::Applied(plan, applied) => {
            context.done(Exit::Done, "the settings are applied");
            print(&document::applied(&plan, &applied), context)?;
            Ok(Exit::Done)
        }
        AtBoot::LeftOff(attempt) => {
            output::note(&left_off(&attempt));
            Ok(Exit::Broken)
        }
    }
}

fn verify(context: &Context) -> Result<Exit> {
    let (host, places) = (Host::live(), crate::context::tune_places()?);
    match verify_enabled(&host, &places).map_err(usage)? {
        Verified::NotApplied => print(&text("No settings were applied at this boot."), context)?,
        Verified::Holds => print(&text("All settings are in force."), context)?,
        Verified::Again(lost, plan, applied) => {
            output::note(&format!("not in force, applied again: {}", lost.join(", ")));
            context.done(Exit::Done, "the settings are applied");
            print(&document::applied(&plan, &applied), context)?;
        }
    }
    Ok(Exit::Done)
}

fn left_off(attempt: &Attempt) -> String {
    format!(
        "settings not applied: the boot of {} did not reach its target with them. `punctual tune \
         enable` tries them again",
        local(attempt.time)
    )
}

fn local(time: jiff::Timestamp) -> String {
    let local = time.to_zoned(jiff::tz::TimeZone::system());
    local.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn document_from(sections: Vec<Section>) -> Document {
    let mut document = Document::default();
    sections
        .into_iter()
        .for_each(|section| document.push(section));
    document
}

fn paragraph(tone: Tone, text: impl Into<String>) -> Section {
    Section::new(vec![Block::Text(tone, text.into())])
}

fn fields(fields: Vec<Field>) -> Section {
    Section::new(Block::fields(fields).into_iter().collect())
}

fn text(text: &str) -> Document {
    document_from(vec![paragraph(Tone::Plain, text)])
}

fn enabled(written: &[String], live: bool) -> Document {
    let files = written.iter().map(|path| Field::new("written", path));
    let mut sections = vec![fields(files.collect())];
    let note = if live {
        "The settings are applied from the next boot on. To apply them now, run `systemctl start \
         punctual-tune.service`."
    } else {
        "The settings are applied at each boot of that system."
    };
    sections.push(paragraph(Tone::Plain, note));
    let off = "punctual.tune=off on the kernel's command line skips the settings for one boot.";
    sections.push(paragraph(Tone::Plain, off));
    document_from(sections)
}

fn shown(status: &BootStatus) -> Document {
    let Some(tune) = &status.enabled else {
        return text("Nothing is applied at boot.");
    };
    let mut rows = Vec::new();
    rows.extend(
        tune.profile
            .as_ref()
            .map(|name| Field::new("profile", name)),
    );
    rows.extend(tune.cpus.as_ref().map(|cpus| Field::new("CPUs", cpus)));
    rows.extend(tune.set.iter().map(|set| Field::new("setting", set)));
    rows.push(Field::new("program", &tune.program));
    if let Some(last) = &status.last {
        let result = if last.reached {
            "reached its target"
        } else {
            "target not reached yet"
        };
        rows.push(Field::new(
            "last boot",
            format!("{}, {result}", local(last.time)),
        ));
    }
    let mut sections = vec![
        paragraph(Tone::Plain, "Applied at each boot:"),
        fields(rows),
    ];
    for (path, state) in &status.damaged {
        let state = match state {
            UnitState::Missing => "missing",
            _ => "edited since",
        };
        sections.push(paragraph(Tone::Warning, format!("{path} is {state}")));
    }
    match (&status.last, status.left_off) {
        (Some(last), Some(true)) => sections.push(paragraph(Tone::Warning, left_off(last))),
        (_, None) => sections.push(paragraph(
            Tone::Warning,
            "It is unknown whether the next boot applies the settings, because this boot has no \
             boot ID.",
        )),
        _ => {}
    }
    document_from(sections)
}
