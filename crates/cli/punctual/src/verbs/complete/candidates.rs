//! The possible values of an argument: from its parser, from a table, or from the store.

use clap::Arg;
use clap::builder::PossibleValue;
use punctual_host::Host;
use punctual_loads::LOADS;
use punctual_model::{ParameterKind, Policy};
use punctual_probes::PROBES;
use punctual_tune::PROFILES;

use crate::context::Context;

/// A value and its meaning.
pub(super) struct Candidate {
    pub(super) value: String,
    pub(super) meaning: String,
}

impl Candidate {
    pub(super) fn new(value: &str, meaning: impl Into<String>) -> Self {
        Self {
            value: value.to_owned(),
            meaning: meaning.into(),
        }
    }
}

/// Maximum number of recordings to offer, newest first.
const RECORDINGS: usize = 50;

type Source = fn(&Context) -> Vec<Candidate>;

/// Functions that return values for arguments that accept any text, by the ID of the argument.
pub(super) const SOURCES: &[(&str, Source)] = &[
    ("recording", recordings),
    ("recordings", recordings),
    ("with", recordings),
    ("load", loads),
    ("policy", policies),
    ("role", roles),
    ("source", clock_sources),
    ("profile", profiles),
    ("show", profiles),
    ("setting", settings),
    ("set", assignments),
    ("probe", probes),
];

/// Returns the candidate values of the argument `arg` in the command with these words.
pub(super) fn for_argument(arg: &Arg, path: &[&str], context: &Context) -> Vec<Candidate> {
    let possible = arg.get_possible_values();
    let shown: Vec<&PossibleValue> = possible.iter().filter(|v| !v.is_hide_set()).collect();
    if !shown.is_empty() {
        let meaning = |value: &PossibleValue| value.get_help().map(ToString::to_string);
        return shown
            .into_iter()
            .map(|value| Candidate::new(value.get_name(), meaning(value).unwrap_or_default()))
            .collect();
    }
    let id = arg.get_id().as_str();
    if let Some(choices) = choices(path, id) {
        return choices;
    }
    let source = SOURCES.iter().find(|(known, _)| *known == id);
    source.map_or_else(Vec::new, |(_, values)| values(context))
}

/// Returns the choices of a parameter that only this probe has.
fn choices(path: &[&str], id: &str) -> Option<Vec<Candidate>> {
    let ["measure", probe] = path else {
        return None;
    };
    let probe = PROBES.iter().find(|entry| entry.name == *probe)?;
    let parameter = probe.parameters.iter().find(|known| known.name == id)?;
    let ParameterKind::Choice(choices) = parameter.kind else {
        return None;
    };
    let all = choices.iter();
    Some(
        all.map(|(word, meaning)| Candidate::new(word, *meaning))
            .collect(),
    )
}

/// Returns the newest recordings of the store, which is opened read-only.
fn recordings(context: &Context) -> Vec<Candidate> {
    let mut found = vec![Candidate::new("last", "the newest recording")];
    let list = context.listed().unwrap_or_default();
    found.extend(list.into_iter().take(RECORDINGS).map(|summary| {
        let label = summary
            .label
            .map_or_else(String::new, |label| format!(" '{label}'"));
        let started = summary.started.strftime("%F %H:%M");
        Candidate::new(
            &summary.id.short(),
            format!("{started} {}{label}", summary.headline),
        )
    }));
    found
}

fn loads(_: &Context) -> Vec<Candidate> {
    let all = LOADS.iter();
    all.map(|load| Candidate::new(load.name, load.summary))
        .collect()
}

fn policies(_: &Context) -> Vec<Candidate> {
    let all = Policy::ALL.iter();
    all.map(|(_, name)| Candidate::new(name, "")).collect()
}

fn roles(_: &Context) -> Vec<Candidate> {
    let all = punctual_checks::ROLES.iter();
    all.map(|(_, name, meaning)| Candidate::new(name, *meaning))
        .collect()
}

fn clock_sources(_: &Context) -> Vec<Candidate> {
    let available = Host::live().facts().clock.available;
    let names = available.get().into_iter().flatten();
    names.map(|name| Candidate::new(name, "")).collect()
}

fn profiles(_: &Context) -> Vec<Candidate> {
    let all = PROFILES.iter();
    all.map(|profile| Candidate::new(profile.name, ""))
        .collect()
}

fn settings(_: &Context) -> Vec<Candidate> {
    let all = punctual_model::SETTINGS.iter();
    all.map(|row| Candidate::new(row.name, row.summary))
        .collect()
}

/// Returns the possible beginnings of `SETTING=VALUE`.
fn assignments(_: &Context) -> Vec<Candidate> {
    let all = punctual_model::SETTINGS.iter();
    all.map(|row| Candidate::new(&format!("{}=", row.name), row.summary))
        .collect()
}

fn probes(_: &Context) -> Vec<Candidate> {
    let all = PROBES.iter();
    all.map(|probe| Candidate::new(probe.name, probe.summary))
        .collect()
}
