//! The verbs. Each verb has its own file and one line in [`PROGRAM`].

mod access;
mod copy;
mod export;
mod install;
mod rename;
mod retire;
mod run;
mod upgrade;

use punctual_command::{COMPLETE, COMPLETIONS, MAN, PageTexts, Program};
use punctual_history::HistoryError;

/// The program.
pub(crate) static PROGRAM: Program = Program {
    name: "punctual-server",
    version: env!("CARGO_PKG_VERSION"),
    about: "Collects recordings of punctual from many machines, and shows them",
    exit_codes: "\
Exit codes:
  0    done; the server ended after SIGTERM
  1    failed
  2    wrong usage",
    verbs: &[&[
        run::VERB,
        install::VERB,
        access::ENROL,
        access::REVOKE,
        access::MOVED,
        access::TOKENS,
        retire::VERB,
        rename::VERB,
        copy::VERB,
        export::VERB,
        upgrade::VERB,
        COMPLETIONS,
        MAN,
        COMPLETE,
    ]],
    groups: &[
        ("Server", &["run", "install"]),
        ("Access", &["enrol", "revoke", "moved", "tokens"]),
        (
            "Recordings",
            &["retire", "rename", "copy", "export", "upgrade"],
        ),
    ],
    examples: "\
Examples:
  punctual-server run                    Show the recordings of this machine
  punctual-server enrol board-17         Create the token that a machine needs",
    explained: |_, _, _| None,
    pages: PageTexts {
        examples: EXAMPLES,
        environment: &[
            (
                "PUNCTUAL_STORE",
                "File or PostgreSQL database with the recordings; --store takes precedence.",
            ),
            (
                "XDG_DATA_HOME",
                "Folder of the default store, if it is an absolute path.",
            ),
            (
                "NO_COLOR",
                "If not empty, disables colours; --color takes precedence.",
            ),
        ],
        files: &[
            ("/var/lib/punctual/punctual.db", "Recordings of root."),
            (
                "~/.local/share/punctual/punctual.db",
                "Recordings of other users.",
            ),
            (
                "/etc/systemd/system/punctual-server.service",
                "The unit that install --write writes.",
            ),
            (
                "/etc/punctual/server.env",
                "Sets PUNCTUAL_STORE for that unit, if the store is a database.",
            ),
        ],
        see_also: &["punctual", "punctual-push", "punctual-monitor"],
    },
    candidates: |_, _, _| None,
    is_usage: |error| matches!(error.downcast_ref(), Some(HistoryError::Choice(_))),
};

/// Command lines and their effects, for the manual pages.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "punctual-server run",
        "Show the recordings of this machine in a browser, at http://127.0.0.1:8090.",
    ),
    (
        "punctual-server run --listen 0.0.0.0:8090 --tls cert.pem key.pem",
        "Collect recordings of other machines; each machine needs a token.",
    ),
    (
        "punctual-server run --store postgres://punctual@db.example/fleet",
        "Keep the recordings in PostgreSQL; several servers may share it.",
    ),
    (
        "punctual-server install --listen 0.0.0.0:8090 --tls cert.pem key.pem --write",
        "Install the service of this server.",
    ),
    (
        "punctual-server enrol board-17",
        "Create the token that a machine needs to push.",
    ),
    (
        "punctual-server enrol --role viewer eve",
        "Create a token for a person who reads.",
    ),
    (
        "punctual-server tokens",
        "List the names and roles that have a token.",
    ),
    (
        "punctual-server revoke board-17",
        "Revoke the token of a machine.",
    ),
    (
        "punctual-server moved board-17",
        "Let another machine use the token of board-17.",
    ),
    (
        "punctual-server retire board-17",
        "Leave a machine out of the overview, metrics and alerts; its recordings stay.",
    ),
    (
        "punctual-server rename board-17 press-3",
        "Give a machine another name; its recordings and its token keep working.",
    ),
    (
        "punctual-server upgrade --dry-run --store postgres://punctual@db.example/fleet",
        "Try whether a database of an earlier version can be converted.",
    ),
    (
        "punctual-server copy collector.db postgres://punctual@db.example/fleet",
        "Copy the store of a collector to PostgreSQL.",
    ),
    (
        "punctual-server export --to file:///lake --by day",
        "Write all recordings as Parquet, one file per day and table.",
    ),
    (
        "punctual-server completions bash",
        "Print the completions; save them as /etc/bash_completion.d/punctual-server.",
    ),
    (
        "punctual-server man /usr/local/share/man/man1",
        "Install the manual pages.",
    ),
];

#[cfg(test)]
mod tests {
    use punctual_command::testing::{
        faults_of_helps, faults_of_letters, faults_of_overview, faults_of_pages,
    };

    use super::PROGRAM;

    /// Phrases that must not occur in any help.
    const FORBIDDEN: &str = include_str!("../../../punctual/tests/sources/language/everywhere.txt");

    #[test]
    fn command_line_keeps_the_rules() {
        assert_eq!(faults_of_helps(&PROGRAM, FORBIDDEN), [""; 0]);
        assert!(faults_of_letters(&PROGRAM).is_empty());
        let not_listed = ["completions", "man"];
        assert_eq!(faults_of_overview(&PROGRAM, &not_listed), [""; 0]);
        assert_eq!(faults_of_pages(&PROGRAM), [""; 0]);
    }
}
