//! The possible values of an argument that its parser does not know: from a table, or from the store.

use punctual_command::Candidate;
use punctual_host::Host;
use punctual_loads::LOADS;
use punctual_model::{ParameterKind, Policy};
use punctual_probes::PROBES;
use punctual_store::Store;
use punctual_tune::PROFILES;

use crate::context::Context;

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

/// Returns the candidate values of the argument with this ID in the command with these words.
pub(super) fn candidates(path: &[&str], id: &str, context: &Context) -> Option<Vec<Candidate>> {
    choices(path, id).or_else(|| {
        let source = SOURCES.iter().find(|(known, _)| *known == id);
        source.map(|(_, values)| values(context))
    })
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
    // The completion of a word must not write to the store.
    let list = (context.store_path())
        .and_then(|path| Store::open_read_only(&path)?.list())
        .unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;
    use crate::verbs::PROGRAM;

    fn context() -> Context {
        let matches = PROGRAM
            .command()
            .try_get_matches_from(["punctual", "--store", "/nowhere/store.db", "list"])
            .unwrap();
        Context::new(matches.subcommand().unwrap().1).unwrap()
    }

    /// Returns the candidates at the end of this line.
    fn values(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let text = punctual_command::answer(&PROGRAM, &words, &context());
        text.lines()
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn completion_fits_verb_and_option_positions() {
        let verbs = values("punctual ");
        for verb in ["measure", "help", "man"] {
            assert!(verbs.contains(&verb.to_owned()), "{verbs:?}");
        }
        for hidden in [
            "serve-load",
            "serve-partner",
            "serve-symbols",
            "serve-slot",
            "hold-latency",
            "complete",
        ] {
            assert!(!verbs.contains(&hidden.to_owned()), "{hidden}");
            assert!(!values("punctual help ").contains(&hidden.to_owned()));
        }
        assert_eq!(values("punctual com"), ["compare", "compat", "completions"]);
        assert_eq!(values("punctual help mea"), ["measure"]);
        assert_eq!(values("punctual measure ti"), ["timer"]);
        assert_eq!(values("punctual tune ap"), ["apply"]);
        assert_eq!(values("punctual --color never plo"), ["plot"]);
        assert!(values("punctual measure timer --lo").contains(&"--load".to_owned()));
        assert!(values("punctual nosuch ").is_empty());
    }

    #[test]
    fn values_come_from_the_tables() {
        for (line, value) in [
            ("punctual measure timer --load ", "cpu"),
            ("punctual measure timer --policy ", "fifo"),
            ("punctual measure timer --source ", "timerlat"),
            ("punctual measure timer --wait nano", "nanosleep"),
            ("punctual exec --policy dead", "deadline"),
            ("punctual doctor --role ", "audio"),
            ("punctual tune apply low", "low-latency"),
            ("punctual tune profiles --show ", "control"),
            ("punctual tune settings swapp", "swappiness"),
            ("punctual tune plan control --set swapp", "swappiness="),
            ("punctual measure --list wake", "wakeup"),
            ("punctual plot last --kind per", "percentiles"),
            ("punctual export last --format csv-h", "csv-histogram"),
            ("punctual show ", "last"),
            ("punctual compare last ", "last"),
            ("punctual store delete last~1 ", "last"),
            ("punctual completions z", "zsh"),
        ] {
            let values = values(line);
            assert!(values.contains(&value.to_owned()), "{line}: {values:?}");
        }
        // Bash splits words at `=`; other shells do not.
        assert_eq!(values("punctual plot last --kind = per"), ["percentiles"]);
        assert_eq!(
            values("punctual plot last --kind=per"),
            ["--kind=percentiles"]
        );
        assert_eq!(values("punctual plot last -o "), [":files"]);
        assert_eq!(values("punctual measure timer -D "), Vec::<String>::new());
    }

    #[test]
    fn value_sources_belong_to_arguments() {
        fn ids(command: &Command, all: &mut Vec<String>) {
            let arguments = command.get_arguments();
            all.extend(arguments.map(|arg| arg.get_id().to_string()));
            command.get_subcommands().for_each(|sub| ids(sub, all));
        }
        let mut all = Vec::new();
        ids(&PROGRAM.command(), &mut all);
        for (id, _) in SOURCES {
            assert!(all.iter().any(|known| known == id), "{id}");
        }
    }
}
