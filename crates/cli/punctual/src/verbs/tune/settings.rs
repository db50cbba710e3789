//! `tune settings`: lists the available settings.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use punctual_model::{Role, SETTINGS, Setting};
use punctual_report::document::{Block, Document, Section, Tone};
use punctual_report::text::{self, TextStyle};
use punctual_tune::setting;

use crate::exit::Exit;
use crate::output;
use crate::settings::document::table;

// The settings to list.
#[derive(Args)]
pub(super) struct Which {
    /// Setting to describe
    #[arg(value_name = "SETTING")]
    setting: Option<String>,
    /// Print the page of all settings
    #[arg(long)]
    markdown: bool,
}

impl Which {
    pub(super) fn show(&self, style: &TextStyle) -> Result<Exit> {
        let text = match &self.setting {
            Some(name) => entry(setting(name)?),
            None if self.markdown => page(),
            None => text::render(&list(), style),
        };
        output::print(&text)?;
        Ok(Exit::Done)
    }
}

fn list() -> Document {
    let row = |setting: &Setting| vec![setting.name.to_owned(), setting.summary.to_owned()];
    let rows = SETTINGS.iter().map(row).collect();
    let rows = table(&["setting", "what it does"], rows);
    let more = "For the description of a setting, run punctual tune settings SETTING.".to_owned();
    let mut document = Document::default();
    document.push(Section::new(vec![rows]));
    document.push(Section::new(vec![Block::Text(Tone::Plain, more)]));
    document
}

fn entry(setting: &Setting) -> String {
    let mut text = format!("## {}\n\n{}.\n\n", setting.name, capital(setting.summary));
    let _ = writeln!(text, "- Values: {}", setting.values.takes());
    if let Some(form) = setting.instance_form() {
        let _ = writeln!(
            text,
            "- For a single instance: `{}@` and {form}",
            setting.name
        );
    }
    match (
        setting.wanted_for(Role::Control),
        setting.wanted_for(Role::Trading),
    ) {
        (None, None) => {}
        (periodic, spinning) if periodic == spinning => {
            let _ = writeln!(text, "- Recommended: `{}`", periodic.unwrap_or_default());
        }
        (periodic, spinning) => {
            for (value, threads) in [(periodic, "sleep"), (spinning, "spin")] {
                if let Some(value) = value {
                    let _ = writeln!(text, "- Recommended if threads {threads}: `{value}`");
                }
            }
        }
    }
    let effect = match setting.wash_out.duration() {
        Some(time) => format!("within {} s", time.as_secs()),
        None => "when its service starts".to_owned(),
    };
    let _ = writeln!(text, "- Full effect: {effect}");
    if let Some(reason) = setting.only_by_hand() {
        let _ = writeln!(text, "- Never tried automatically: {reason}");
    }
    let _ = writeln!(text, "- Risk: {}. {}", setting.risk, setting.caution);
    let paths: Vec<String> = setting
        .paths()
        .iter()
        .map(|path| format!("`{path}`"))
        .collect();
    let _ = writeln!(text, "- File: {}", paths.join(", "));
    if setting.outlives_reboot {
        text.push_str("- Survives a reboot, until reverted\n");
    }
    let _ = writeln!(text, "- See: {}", setting.source);
    text
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), chars.as_str())
}

/// Returns the page of all settings, the content of `docs/settings.md`.
fn page() -> String {
    let mut text = String::from(
        "# Settings that `punctual tune` can change\n\n\
         Set a value with `--set NAME=VALUE`, or with `NAME = VALUE` below `[settings]` of a\n\
         profile. If a setting exists several times (for each CPU, interrupt or queue),\n\
         `NAME@WHICH=VALUE` selects some instances; `*` matches anything. CPUs are a list\n\
         (`0-3,8`) or a word: `measured` (the CPUs of `--cpus`), `housekeeping` (all others)\n\
         or `all`. In a profile, `\"recommended\"` is the value recommended for the role of\n\
         the profile.\n\n\
         In a path, `#` stands for a number, and `*` for a name. If the machine lacks a setting,\n\
         or its kernel refuses it, the setting is left out of a profile; with `--set`, this is\n\
         an error.\n",
    );
    for setting in SETTINGS {
        let _ = write!(text, "\n{}", entry(setting));
    }
    text
}
