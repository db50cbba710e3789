//! Rules for the whole command line: a word or a letter has the same meaning everywhere.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};
use punctual_command::testing::each_command;
use punctual_probes::PROBES;

use super::PROGRAM;

/// Options that take a different value in some verb, each with the reason.
const SEVERAL_VALUES: &[(&str, &str)] = &[
    ("comm", "machine threads: a part of the name"),
    (
        "dma-latency",
        "exec: a number of µs, as the kernel takes it",
    ),
    (
        "explain",
        "app record: a flag, as its events cannot be chosen",
    ),
    ("json", "measure: the recording may go to a file"),
    ("list", "measure: of one probe"),
    ("pid", "machine threads: several with commas"),
    ("set", "experiment: several values of one setting"),
    ("to", "explain: the thread at the end of chains"),
];

/// Verbs without `--json`, each with the reason.
const NO_JSON: &[(&str, &str)] = &[
    ("app", "has subcommands"),
    ("compat", "prints what the older tool prints"),
    ("completions", "prints a script"),
    ("exec", "becomes the command"),
    ("experiment delete", "confirms a change"),
    ("experiment plot", "writes a file"),
    ("experiment report", "writes a file"),
    ("export", "writes a file; --format json"),
    ("machine", "has subcommands"),
    ("machine clocks set", "confirms a change"),
    ("machine facts", "has subcommands"),
    ("machine facts capture", "prints JSON anyway"),
    ("machine irqs move", "confirms a change"),
    ("machine kernel", "has subcommands"),
    ("machine kernel fragment", "prints a configuration"),
    ("machine kernel install-steps", "prints instructions"),
    ("man", "writes files"),
    ("mcp", "speaks JSON-RPC"),
    ("measure", "has subcommands"),
    ("monitor", "has subcommands"),
    ("monitor install", "prints a unit file"),
    (
        "monitor once",
        "the recording is in the store: show last --json",
    ),
    ("monitor run", "the service"),
    ("monitor snapshot", "confirms that a file was written"),
    ("plot", "writes a file"),
    ("push", "confirms what was sent"),
    ("report", "writes a file"),
    ("schema", "prints JSON anyway"),
    ("sign", "writes a file"),
    ("store", "has subcommands"),
    ("store backup", "confirms a copy"),
    ("store bundle", "writes a file"),
    ("store compact", "confirms a change"),
    ("store delete", "confirms a change"),
    ("store upgrade", "confirms a change"),
    ("trend ack", "confirms a change"),
    ("trend note", "has subcommands"),
    ("trend note add", "confirms a change"),
    ("trend note delete", "confirms a change"),
    ("trend reopen", "confirms a change"),
    ("tune", "has subcommands"),
    ("tune cmdline", "has subcommands"),
    ("tune export", "prints or writes a profile"),
    ("tune import", "prints or writes a profile"),
    ("tune profiles", "prints TOML"),
    ("tune settings", "prints Markdown"),
];

/// Words that mean to remove something, and the verbs that use them (see CONTRIBUTING.md).
const TAKING_AWAY: &[(&str, &[&str])] = &[
    (
        "delete",
        &["store delete", "experiment delete", "trend note delete"],
    ),
    ("disable", &["tune disable"]),
    ("revert", &["tune revert", "tune cmdline revert"]),
    ("remove", &[]),
    ("clear", &[]),
    ("drop", &[]),
    ("erase", &[]),
    ("reset", &[]),
    ("restore", &[]),
    ("undo", &[]),
    ("uninstall", &[]),
];

/// Calls `check` with each visible command and its words.
fn all(check: &mut dyn FnMut(&str, &Command)) {
    each_command(&PROGRAM, &mut |path, command| {
        if !path.is_empty() {
            check(path, command);
        }
    });
}

/// Returns the options of a command except the parameters of a probe.
fn options<'a>(path: &str, command: &'a Command) -> impl Iterator<Item = (&'a str, &'a Arg)> {
    let probe = path.strip_prefix("measure ");
    let probe = probe.and_then(|name| PROBES.iter().find(|probe| probe.name == name));
    let is_own = move |long: &str| {
        let mut own = probe.into_iter().flat_map(|probe| probe.parameters);
        own.any(|parameter| parameter.name == long)
    };
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(move |arg| {
        let long = arg.get_long()?;
        (!is_own(long)).then_some((long, arg))
    })
}

#[test]
fn options_take_equal_values_across_verbs() {
    let mut values: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    all(&mut |path, command| {
        for (long, arg) in options(path, command) {
            let value = if arg.get_action().takes_values() {
                arg.get_value_names()
                    .unwrap_or_default()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            } else {
                "flag".to_owned()
            };
            let known = values.entry(long.to_owned()).or_default();
            known.entry(value).or_insert_with(|| path.to_owned());
        }
    });
    let several = values.iter().filter(|(_, values)| values.len() > 1);
    let (known, unknown): (Vec<_>, Vec<_>) =
        several.partition(|(long, _)| SEVERAL_VALUES.iter().any(|(known, _)| known == long));
    assert!(unknown.is_empty(), "{unknown:#?}");
    let unused = SEVERAL_VALUES
        .iter()
        .filter(|(long, _)| known.iter().all(|(known, _)| known != long));
    assert_eq!(unused.collect::<Vec<_>>(), [] as [&(&str, &str); 0]);
}

#[test]
fn verbs_with_results_offer_json() {
    let (mut lacking, mut excused) = (Vec::new(), BTreeSet::new());
    all(&mut |path, command| {
        let has = command
            .get_arguments()
            .any(|arg| arg.get_long() == Some("json"));
        let known = NO_JSON.iter().find(|(known, _)| *known == path);
        match (has, known) {
            (false, None) => lacking.push(path.to_owned()),
            (false, Some((known, _))) => drop(excused.insert(*known)),
            (true, _) => {}
        }
    });
    assert!(lacking.is_empty(), "{lacking:#?}");
    let unused = NO_JSON.iter().filter(|(known, _)| !excused.contains(known));
    let unused: Vec<_> = unused.collect();
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn removal_verbs_use_consistent_words() {
    all(&mut |path, command| {
        let name = command.get_name();
        if let Some((word, verbs)) = TAKING_AWAY.iter().find(|(word, _)| *word == name) {
            assert!(verbs.contains(&path), "{path}: '{word}' is for {verbs:?}");
        }
    });
}
