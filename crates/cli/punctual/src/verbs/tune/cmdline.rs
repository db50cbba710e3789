//! `tune cmdline`: edits the kernel's command line in the files of the boot loader.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use punctual_host::Host;
use punctual_model::CpuSet;
use punctual_report::document::{Block, Document, Field, Section, Tone};
use punctual_tune::{
    Changes, CmdlineEdit, CmdlineError, CmdlineRevert, CmdlineState, LeftOut, Plan, Profile,
    Request, cmdline_state, revert_cmdline,
};

use super::Form;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::settings::print;

/// Actions on the kernel's command line.
#[derive(Subcommand)]
pub(super) enum Cmdline {
    /// Show the parameters of this boot and of the next
    Show {
        #[command(flatten)]
        system: System,
        #[command(flatten)]
        form: Form,
    },
    /// Show the changes to the boot loader's files, then write them
    Write(Edit),
    /// Restore the boot loader's files byte for byte
    Revert {
        #[command(flatten)]
        system: System,
        #[command(flatten)]
        form: Form,
        /// Skip files that were edited after the write
        #[arg(long)]
        forget: bool,
    },
}

// Which system's files.
#[derive(Args)]
pub(super) struct System {
    /// Root folder of the system to edit, such as a mounted image
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

#[derive(Args)]
pub(super) struct Edit {
    /// Profile whose boot parameters to write
    #[arg(value_name = "PROFILE")]
    profile: Option<String>,
    /// CPUs that are measured or run the application, such as 2-3
    #[arg(short = 'a', long, value_name = "LIST", requires = "profile")]
    cpus: Option<CpuSet>,
    /// Parameter to add or replace, such as isolcpus=2-3
    #[arg(long, value_name = "NAME[=VALUE]")]
    add: Vec<String>,
    /// Parameter to remove, with any value
    #[arg(long, value_name = "NAME")]
    remove: Vec<String>,
    /// Boot loader, if files of several boot loaders are found
    #[arg(long, value_name = "NAME")]
    loader: Option<String>,
    /// Show the difference and write nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Write without asking
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    form: Form,
}

impl System {
    fn host(&self) -> Result<Host> {
        if !self.root.is_dir() {
            return Err(
                UsageError(format!("--root: {} is not a folder", self.root.display())).into(),
            );
        }
        Ok(Host::new(std::path::absolute(&self.root)?))
    }

    /// Returns the folder in which the edited files are copied: next to the journals, or on the
    /// other system.
    fn state(&self) -> Result<PathBuf> {
        if self.root == Path::new("/") {
            Ok(crate::context::tune_places()?
                .runs
                .with_file_name("cmdline"))
        } else {
            Ok(std::path::absolute(&self.root)?.join("var/lib/punctual/cmdline"))
        }
    }
}

impl Cmdline {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Show { system, form } => {
                let state = cmdline_state(&system.host()?, &system.state()?);
                let state = state.map_err(usage)?;
                form.show(&state, context, || shown(&state))?;
                Ok(Exit::Done)
            }
            Self::Write(write) => write.run(context),
            Self::Revert {
                system,
                form,
                forget,
            } => {
                let done = revert_cmdline(&system.host()?, &system.state()?, forget);
                let done = done.map_err(usage)?;
                context.done(Exit::Done, "the boot files are restored");
                form.show(&done, context, || reverted(done.as_ref()))?;
                Ok(Exit::Done)
            }
        }
    }
}

/// Converts an error to a usage error if it was caused by what the user requested.
fn usage(error: CmdlineError) -> anyhow::Error {
    if error.is_usage() {
        UsageError(error.to_string()).into()
    } else {
        error.into()
    }
}

impl Edit {
    fn run(self, context: &Context) -> Result<Exit> {
        let host = self.system.host()?;
        let live = self.system.root == Path::new("/");
        let (mut add, notes) = self.of_profile()?;
        add.extend(self.add.iter().cloned());
        let changes = Changes::new(&add, &self.remove).map_err(usage)?;
        if changes.is_empty() {
            let text = "nothing to write: pass a profile with boot parameters, --add or --remove";
            return Err(UsageError(text.to_owned()).into());
        }
        let mut edit = CmdlineEdit::plan(&host, &changes, self.loader.as_deref()).map_err(usage)?;
        edit.notes.splice(0..0, notes);
        if self.dry_run || edit.files.is_empty() {
            self.form.show(&edit, context, || {
                planned(&edit, live, "Nothing was written.")
            })?;
            return Ok(Exit::Done);
        }
        if !self.yes {
            print(&planned(&edit, live, "Nothing is written yet."), context)?;
            if !confirmed()? {
                let text = "nothing was written: --yes writes the files without asking";
                return Err(UsageError(text.to_owned()).into());
            }
        }
        edit.write(&host, &self.system.state()?).map_err(usage)?;
        context.done(Exit::Done, "the boot files are written");
        let then = if live {
            "The files were written. The change takes effect at the next boot; `punctual tune \
             cmdline revert` restores the files."
        } else {
            "The files were written."
        };
        self.form
            .show(&edit, context, || planned(&edit, live, then))?;
        Ok(Exit::Done)
    }

    /// Returns the boot parameters of the profile, and notes about the parameters that are left
    /// out.
    fn of_profile(&self) -> Result<(Vec<String>, Vec<String>)> {
        let Some(name) = &self.profile else {
            return Ok((Vec::new(), Vec::new()));
        };
        let request = Request {
            profile: Some(Profile::find(name)?),
            sets: Vec::new(),
            cpus: self.cpus.clone(),
        };
        let plan = Plan::make(
            &request,
            &Host::live(),
            &crate::context::tune_places()?.applied,
        )?;
        let of_boot = |one: &&LeftOut| one.setting.starts_with("boot argument ");
        let left_out = plan.left_out.iter().filter(of_boot);
        let notes = left_out.map(|one| format!("{} is skipped: {}", one.setting, one.reason));
        let add = plan.boot.iter().map(|one| one.argument.clone());
        Ok((add.collect(), notes.collect()))
    }
}

/// Asks the user for confirmation. Returns `false` if stdin is not a terminal.
#[expect(clippy::disallowed_methods, reason = "a user at a terminal is awaited")]
fn confirmed() -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut stderr = std::io::stderr();
    write!(stderr, "Write these files? [y/N] ")?;
    stderr.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn document(sections: Vec<Section>) -> Document {
    let mut document = Document::default();
    sections
        .into_iter()
        .for_each(|section| document.push(section));
    document
}

fn paragraph(text: impl Into<String>) -> Section {
    Section::new(vec![Block::Text(Tone::Plain, text.into())])
}

/// Returns a field with text that users can copy. It is never broken into lines.
fn verbatim(name: &str, text: &str) -> Field {
    Field {
        is_command: true,
        ..Field::new(name, text)
    }
}

fn notes(notes: &[String]) -> Section {
    let fields: Vec<Field> = notes.iter().map(|note| Field::new("note", note)).collect();
    Section::new(Block::fields(fields).into_iter().collect())
}

fn planned(edit: &CmdlineEdit, live: bool, then: &str) -> Document {
    if edit.files.is_empty() {
        let text = format!("{}: all files already have these parameters.", edit.loader);
        return document(vec![paragraph(text), notes(&edit.notes)]);
    }
    let mut sections = vec![paragraph(format!("Boot loader: {}", edit.loader))];
    for file in &edit.files {
        let mut fields = Vec::new();
        for (old, new) in file.changed_lines() {
            fields.extend(old.map(|line| verbatim("-", line)));
            fields.extend(new.map(|line| verbatim("+", line)));
        }
        sections.push(Section::titled(&file.path, vec![Block::Fields(fields)]));
    }
    if !edit.command.is_empty() {
        let name = if live {
            "command run then"
        } else {
            "command to run there"
        };
        let field = verbatim(name, &edit.command.join(" "));
        sections.push(Section::new(vec![Block::Fields(vec![field])]));
    }
    sections.push(notes(&edit.notes));
    sections.push(paragraph(then));
    document(sections)
}

fn shown(state: &CmdlineState) -> Document {
    let mut fields = Vec::new();
    fields.extend(
        state
            .current
            .as_deref()
            .map(|text| verbatim("this boot", text)),
    );
    fields.push(Field::new("boot loader", state.loader.unwrap_or("unknown")));
    for file in &state.files {
        let name = match file.part {
            Some(part) => format!("{} {part}", file.path),
            None => file.path.clone(),
        };
        match (&file.parameters, &file.problem) {
            (Some(words), _) => fields.push(verbatim(&name, &words.join(" "))),
            (None, problem) => {
                let why = problem.as_deref().unwrap_or("not readable");
                fields.push(Field::new(&name, format!("unknown: {why}")));
            }
        }
    }
    // If one file contains the whole line, the line is already shown.
    if state.files.len() > state.next.len() {
        for line in &state.next {
            let name = format!("assembled for {}", line.entry);
            fields.push(verbatim(&name, &line.parameters.join(" ")));
        }
    }
    let ineffective = state.next.iter().flat_map(|line| &line.ineffective);
    fields.extend(ineffective.map(|note| Field::new("note", note)));
    fields.extend(
        state
            .problem
            .as_deref()
            .map(|text| Field::new("note", text)),
    );
    let mut sections = vec![Section::new(vec![Block::Fields(fields)])];
    match &state.written {
        None => sections.push(paragraph("Nothing was written by punctual.")),
        Some(written) => {
            let boot = match (written.booted_since, written.missing_now.is_empty()) {
                (Some(false), _) => "not booted since".to_owned(),
                (Some(true), true) if written.instead_now.is_empty() => "in force".to_owned(),
                (Some(true), _) => {
                    let lists = [
                        ("without", &written.missing_now),
                        ("with", &written.instead_now),
                    ];
                    let parts = lists.iter().filter(|(_, words)| !words.is_empty());
                    let parts = parts.map(|(how, words)| format!(", {how} {}", words.join(" ")));
                    format!("booted since{}", parts.collect::<String>())
                }
                (None, _) => "unknown whether booted since".to_owned(),
            };
            let mut fields = vec![verbatim("added", &written.add.join(" "))];
            if !written.remove.is_empty() {
                fields.push(verbatim("removed", &written.remove.join(" ")));
            }
            fields.push(Field::new("state", boot));
            let block = vec![Block::Fields(fields)];
            sections.push(Section::titled("Written by punctual", block));
        }
    }
    document(sections)
}

fn reverted(done: Option<&CmdlineRevert>) -> Document {
    let Some(done) = done else {
        return document(vec![paragraph(
            "punctual has written no files, so there is nothing to \
            restore.",
        )]);
    };
    let named = [
        ("restored", &done.restored),
        ("gone", &done.gone),
        ("edited, not restored", &done.left),
        ("still has the parameters", &done.still_there),
    ];
    let fields = named
        .iter()
        .flat_map(|(name, paths)| paths.iter().map(|path| Field::new(*name, path)));
    let mut fields: Vec<Field> = fields.collect();
    fields.extend(
        done.to_run
            .as_deref()
            .map(|text| verbatim("command to run there", text)),
    );
    document(vec![
        Section::new(Block::fields(fields).into_iter().collect()),
        paragraph("The change takes effect at the next boot."),
    ])
}
