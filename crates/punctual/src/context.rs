//! What all verbs share: the store, the journal of settings, colours, the width
//! of the terminal.

use std::io::ErrorKind::PermissionDenied;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ArgMatches;
use punctual_host::Host;
use punctual_model::Completion;
use punctual_report::text::TextStyle;
use punctual_store::{Filter, Store, StoreError, Summary};
use punctual_tune::{How, Places, Restored, TuneError};

use crate::output::{self, note};

/// What all verbs share.
pub(crate) struct Context {
    store: Option<PathBuf>,
    colour: Option<String>,
}

/// The width where there is no terminal to ask.
const USUAL_WIDTH: usize = 100;
/// Wider than any list.
const UNCUT_WIDTH: usize = 1_000;

impl Context {
    pub(crate) fn new(matches: &ArgMatches) -> Self {
        Self {
            // Read here: an argument with a variable stands in usage lines as required.
            store: (matches.get_one::<PathBuf>("store").cloned()).or_else(store_of_environment),
            colour: matches.get_one::<String>("color").cloned(),
        }
    }

    /// That of a program that was called by another name: what the environment
    /// says.
    pub(crate) fn of_environment() -> Self {
        Self {
            store: store_of_environment(),
            colour: None,
        }
    }

    /// Whether the store was named `none`: nothing is to be kept. A file of that
    /// name is `./none`.
    pub(crate) fn wants_no_store(&self) -> bool {
        self.store.as_deref() == Some(Path::new("none"))
    }

    /// Where the store is. What an earlier version left open to other users is closed,
    /// once. The usual store of root must be one that only root could have made:
    /// root may have inherited the environment of another user (`sudo -E`).
    fn store_path(&self) -> Result<PathBuf, StoreError> {
        let root = rustix::process::geteuid().is_root();
        let (path, usual) = match &self.store {
            Some(path) => (path.clone(), false),
            None => {
                let path = punctual_store::default_path(root, &|name| std::env::var_os(name))?;
                (path, true)
            }
        };
        let closed = punctual_store::close_to_others(&path, usual && root);
        if !closed.is_empty() {
            let names: Vec<String> = closed.iter().map(|one| one.display().to_string()).collect();
            note(&format!(
                "other users could read {}: now only the owner can; to share: chmod and chgrp, \
                 they stay",
                names.join(", ")
            ));
        }
        if usual && root {
            punctual_files::rights::check_trusted(&path).map_err(|error| {
                StoreError::CannotOpen {
                    path: path.clone(),
                    reason: format!("{}; if it is meant: --store PATH", error.reason()),
                }
            })?;
        }
        Ok(path)
    }

    /// As [`store`](Self::store); `None` where nothing is to be kept.
    pub(crate) fn store_if_wanted(&self) -> Result<Option<Store>, StoreError> {
        match self.wants_no_store() {
            true => Ok(None),
            false => self.store().map(Some),
        }
    }

    /// For verbs that are about what is kept.
    fn need_store(&self) -> Result<()> {
        anyhow::ensure!(
            !self.wants_no_store(),
            "the store is 'none' (--store or PUNCTUAL_STORE), which keeps nothing: name another one"
        );
        Ok(())
    }

    /// The store, for deleting recordings.
    pub(crate) fn store_to_change(&self) -> Result<Store> {
        self.need_store()?;
        Ok(self.store()?)
    }

    /// The store, to be written; made where there is none. Runs whose program
    /// is gone are marked as interrupted.
    pub(crate) fn store(&self) -> Result<Store, StoreError> {
        let store = Store::open(&self.store_path()?)?;
        sweep(&store)?;
        Ok(store)
    }

    /// The store, to be read. Where it can be written, runs whose program is
    /// gone are marked as interrupted first.
    pub(crate) fn store_to_read(&self) -> Result<Store> {
        self.need_store()?;
        let path = self.store_path()?;
        let store = Store::open_read_only(&path)?;
        let running = Filter {
            completion: Some(Completion::Running),
            ..Filter::default()
        };
        if !store.list_by(&running)?.is_empty()
            && let Ok(writable) = Store::open(&path)
        {
            sweep(&writable)?;
        }
        Ok(store)
    }

    /// The recordings of the store, the newest first; nothing is written, not
    /// even that a run has died.
    pub(crate) fn listed(&self) -> Result<Vec<Summary>, StoreError> {
        Store::open_read_only(&self.store_path()?)?.list()
    }

    /// Where changes of the machine's settings are journalled; `None` where no
    /// variable says.
    pub(crate) fn journal(&self) -> Option<PathBuf> {
        let root = rustix::process::geteuid().is_root();
        punctual_tune::default_path(root, &|name| std::env::var_os(name)).ok()
    }

    /// Where settings are journalled: those of measurements, and those that a
    /// user has applied.
    pub(crate) fn tune_places(&self) -> Result<Places> {
        let root = rustix::process::geteuid().is_root();
        let runs = punctual_tune::default_path(root, &|name| std::env::var_os(name))?;
        Ok(Places::beside(runs))
    }

    /// Puts back the settings that a killed run, or a killed `tune apply`, has
    /// left changed. What cannot be put back is told and keeps no verb from its
    /// work.
    pub(crate) fn recover_settings(&self) {
        let Ok(places) = self.tune_places() else {
            return;
        };
        let root = rustix::process::geteuid().is_root();
        for (path, who) in [(&places.applied, "tune"), (&places.runs, "run")] {
            match punctual_tune::recover(path, &Host::live()) {
                Ok(restored) => restored
                    .iter()
                    .map(|one| put_back(one, who))
                    .for_each(|text| note(&text)),
                // Somebody else's journal: what it says is theirs to undo. Root can read
                // any, so a note says that this one is not obeyed.
                Err(TuneError::Journal { source, .. }) if source.kind() == PermissionDenied => {
                    if root {
                        note(&format!(
                            "settings of a killed {who} are not restored: {source}; unset \
                             XDG_STATE_HOME if it is another user's"
                        ));
                    }
                }
                Err(error) => note(&format!(
                    "settings that a killed {who} has changed: {error}"
                )),
            }
        }
    }

    /// Ends what a killed run has left on in the kernel's tracers: the detector
    /// of hardware latency, timerlat or osnoise, a flight recorder.
    pub(crate) fn recover_tracer(&self) {
        match punctual_session::recover_tracer(&Host::live()) {
            Ok(removed) => removed.iter().for_each(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let tracers = ["hwlat", "osnoise"];
                note(&match tracers.iter().find(|tracer| name.contains(*tracer)) {
                    Some(tracer) => format!(
                        "the kernel's tracer {tracer} is stopped and set as before: a killed run \
                         had left it in {}",
                        path.display()
                    ),
                    None => format!(
                        "the trace instance {name} of a killed run is removed, its events are off"
                    ),
                });
            }),
            Err(error) => note(&format!("what a killed run has left in tracefs: {error}")),
        }
    }

    /// How text is laid out on stdout.
    pub(crate) fn style(&self) -> TextStyle {
        let terminal = std::io::stdout().is_terminal();
        let colour = match self.colour.as_deref() {
            Some("always") => true,
            Some("never") => false,
            // https://no-color.org
            _ => terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        };
        if colour {
            output::allow_colours();
        }
        TextStyle {
            colour,
            width: terminal_width().unwrap_or(USUAL_WIDTH),
        }
    }

    /// As [`style`](Self::style), for a list of things: where no terminal's edge is
    /// in the way, no column is left out and nothing is cut, for grep(1) and awk(1).
    pub(crate) fn list_style(&self) -> TextStyle {
        TextStyle {
            width: terminal_width().unwrap_or(UNCUT_WIDTH),
            ..self.style()
        }
    }
}

fn store_of_environment() -> Option<PathBuf> {
    // An empty variable is none, as for clap and most programs.
    let value = std::env::var_os("PUNCTUAL_STORE").filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// A sentence about a setting that is as it was before a run that was killed.
fn put_back(restored: &Restored, who: &str) -> String {
    let Restored {
        setting,
        value,
        how,
    } = restored;
    match how {
        How::Written { found, .. } => {
            format!("{setting} restored to '{value}': a killed {who} had left it at '{found}'")
        }
        How::WasThere => {
            format!("{setting} is '{value}', as before a {who} that was killed")
        }
        How::Reboot => {
            format!("{setting} was changed by a killed {who}, and reset by the reboot since")
        }
        How::Gone => format!("{setting}, changed by a killed {who}, has ended"),
        How::Forgotten => format!("{setting}, changed by a killed {who}, is given up"),
    }
}

fn sweep(store: &Store) -> Result<usize, StoreError> {
    let host = Host::live();
    store.sweep(&|lease| punctual_session::may_live(&host, lease))
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}
