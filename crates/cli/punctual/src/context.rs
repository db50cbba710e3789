//! The context that all verbs share: the store, the journal of settings, colours, and the width of
//! the terminal.

use std::io::ErrorKind::PermissionDenied;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use punctual_experiment::OwnExperiments;
use punctual_host::Host;
use punctual_model::Completion;
use punctual_report::document::{Block, Document, Field, Section};
use punctual_report::text::{self, TextStyle};
use punctual_store::{Filter, Store, StoreError, Summary};
use punctual_tune::{How, Locations, Restored, TuneError};

use crate::output::{self, note};

// The options that each verb takes.
#[derive(Args)]
pub(crate) struct Global {
    /// File for recordings, or `none` to keep none [env: PUNCTUAL_STORE] [default:
    /// $XDG_DATA_HOME/punctual/punctual.db, for root /var/lib/punctual/punctual.db]
    #[arg(long, global = true, value_name = "PATH", help_heading = GLOBAL)]
    store: Option<PathBuf>,
    /// Colours in text: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", help_heading = GLOBAL)]
    #[arg(hide_possible_values = true)]
    color: Option<When>,
}

/// Heading of these options in the help.
const GLOBAL: &str = "Global options";

#[derive(Clone, Copy, ValueEnum)]
enum When {
    Auto,
    Always,
    Never,
}

/// The context of all verbs.
pub(crate) struct Context {
    store: Option<PathBuf>,
    /// Whether the store was named by an option.
    is_named: bool,
    colour: When,
}

/// Text width in columns if stdout is not a terminal.
const USUAL_WIDTH: usize = 100;
/// Text width in columns that is larger than any list.
const UNCUT_WIDTH: usize = 1_000;

impl Context {
    pub(crate) fn new(matches: &ArgMatches) -> Result<Self> {
        let Global { store, color } = Global::from_arg_matches(matches)?;
        Ok(Self {
            is_named: store.is_some(),
            // The environment variable is read here and not by clap, because clap shows an argument
            // with a variable as required in usage lines.
            store: store.or_else(store_of_environment),
            colour: color.unwrap_or(When::Auto),
        })
    }

    /// Returns the context for a run under the name of an older tool. The options come from
    /// environment variables.
    pub(crate) fn of_environment() -> Self {
        Self {
            store: store_of_environment(),
            is_named: false,
            colour: When::Auto,
        }
    }

    /// Returns the store that was named with `--store`. Commands that the program prints must name
    /// the same store.
    pub(crate) fn named_store(&self) -> Option<&Path> {
        self.store.as_deref().filter(|_| self.is_named)
    }

    /// Returns whether the store is `none`, so that nothing is stored. A file with that name is
    /// `./none`.
    pub(crate) fn wants_no_store(&self) -> bool {
        self.store.as_deref() == Some(Path::new("none"))
    }

    /// Returns the URL of the store if it is a PostgreSQL database.
    pub(crate) fn database(&self) -> Option<&str> {
        let store = self.store.as_deref()?.to_str()?;
        punctual_store::is_database(store).then_some(store)
    }

    /// Returns the path of the store. Rejects root's default store unless only root could have
    /// created it, because root may have inherited the environment of another user (`sudo -E`).
    pub(crate) fn store_path(&self) -> Result<PathBuf, StoreError> {
        if self.database().is_some() {
            return Err(StoreError::Database {
                // The URL may contain a password.
                name: "of --store".to_owned(),
                reason: "this command needs a store in a file; only serve, store copy and \
                         export --to can use a database"
                    .to_owned(),
            });
        }
        let root = rustix::process::geteuid().is_root();
        let (path, usual) = match &self.store {
            Some(path) => (path.clone(), false),
            None => {
                let path = punctual_store::default_path(root, &|name| std::env::var_os(name))?;
                (path, true)
            }
        };
        if usual && root {
            punctual_files::rights::check_trusted(&path).map_err(|error| {
                StoreError::CannotOpen {
                    path: path.clone(),
                    reason: format!("{}; pass --store PATH to use it", error.reason()),
                }
            })?;
        }
        Ok(path)
    }

    /// Returns the absolute path of the store.
    pub(crate) fn place_of_store(&self) -> Result<PathBuf> {
        self.need_store()?;
        Ok(std::path::absolute(self.store_path()?)?)
    }

    /// Same as [`store`](Self::store), but returns `None` if nothing is stored.
    pub(crate) fn store_if_wanted(&self) -> Result<Option<Store>, StoreError> {
        if self.wants_no_store() {
            Ok(None)
        } else {
            self.store().map(Some)
        }
    }

    /// Returns an error if the store is `none`, because the verb needs a store.
    fn need_store(&self) -> Result<()> {
        anyhow::ensure!(
            !self.wants_no_store(),
            "the store is 'none' (--store or PUNCTUAL_STORE), but this command needs a store: pass \
             a file"
        );
        Ok(())
    }

    /// Opens the store to delete from it, even on a full disk.
    pub(crate) fn store_to_delete(&self) -> Result<Store> {
        self.need_store()?;
        let store = Store::open_to_delete(&self.store_path()?)?;
        match sweep(&store) {
            // Runs whose program has ended are marked later, when the disk has space.
            Err(StoreError::DiskFull { .. }) => Ok(store),
            swept => Ok(swept.map(|_| store)?),
        }
    }

    /// Opens the store to change stored data.
    pub(crate) fn store_to_change(&self) -> Result<Store> {
        self.need_store()?;
        Ok(self.store()?)
    }

    /// Opens the store for writing, and creates it if it is missing. Marks runs whose program has
    /// ended as interrupted.
    pub(crate) fn store(&self) -> Result<Store, StoreError> {
        let store = Store::open(&self.store_path()?)?;
        sweep(&store)?;
        Ok(store)
    }

    /// Opens the store for reading. If it is writable, first marks runs whose program has ended as
    /// interrupted.
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

    /// Returns the recordings of the store, newest first.
    pub(crate) fn listed(&self) -> Result<Vec<Summary>, StoreError> {
        Store::open_read_only(&self.store_path()?)?.list()
    }

    /// Returns the path of the journal of changed settings; `None` if no environment variable
    /// determines its folder.
    pub(crate) fn journal(&self) -> Option<PathBuf> {
        let root = rustix::process::geteuid().is_root();
        punctual_tune::default_path(root, &|name| std::env::var_os(name)).ok()
    }

    /// Returns the experiments that this user began on this machine.
    pub(crate) fn own_experiments(&self) -> Result<OwnExperiments> {
        Ok(OwnExperiments::next_to(&self.tune_places()?.runs))
    }

    /// Returns the folders for the lock files of measured CPUs. Users other than root get their own
    /// folder in addition to the machine's folder, because they cannot create files in that one.
    pub(crate) fn cpu_locks(&self) -> Vec<PathBuf> {
        let given = std::env::var_os("PUNCTUAL_LOCKS").filter(|value| !value.is_empty());
        if let Some(folder) = given {
            return vec![PathBuf::from(folder)];
        }
        let mut folders = vec![PathBuf::from("/run/punctual")];
        if !rustix::process::geteuid().is_root() {
            let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
            let own = own.filter(|path| path.is_absolute());
            folders.extend(own.map(|path| path.join("punctual")));
        }
        folders
    }

    /// Returns the paths of the settings journals: one for measurements, and one for settings that
    /// a user has applied.
    pub(crate) fn tune_places(&self) -> Result<Locations> {
        let root = rustix::process::geteuid().is_root();
        let runs = punctual_tune::default_path(root, &|name| std::env::var_os(name))?;
        Ok(Locations::next_to(runs))
    }

    /// Restores the settings that a killed run, or a killed `tune apply`, left
    /// changed. A failure is reported and does not stop the
    /// verb.
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
                // The journal belongs to another user, who must restore the settings. Root can read
                // any journal, so a message tells root that this one is ignored.
                Err(TuneError::Journal { source, .. }) if source.kind() == PermissionDenied => {
                    if root {
                        note(&format!(
                            "the settings that a killed {who} changed are not restored: {source}; \
                             unset XDG_STATE_HOME if it names another user's folder"
                        ));
                    }
                }
                Err(error) => note(&format!(
                    "cannot restore the settings that a killed {who} \
                    changed: {error}"
                )),
            }
        }
    }

    /// Stops tracers that a killed run left active: the hardware latency detector, timerlat or
    /// osnoise, or a flight recorder.
    pub(crate) fn recover_tracer(&self) {
        match punctual_session::recover_tracer(&Host::live()) {
            Ok(removed) => removed.iter().for_each(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let tracers = ["hwlat", "osnoise"];
                note(
                    &match tracers.iter().find(|tracer| name.contains(*tracer)) {
                        Some(tracer) => format!(
                            "the kernel's tracer {tracer} was stopped and its settings restored: a \
                         killed run had left it active in {}",
                            path.display()
                        ),
                        None => format!("the trace instance {name} of a killed run was removed"),
                    },
                );
            }),
            Err(error) => note(&format!(
                "cannot remove the trace instances of a killed run: \
                {error}"
            )),
        }
    }

    /// Prints fields, one per line.
    pub(crate) fn show_fields(&self, fields: Vec<Field>) -> Result<()> {
        let mut document = Document::default();
        document.push(Section::new(vec![Block::Fields(fields)]));
        output::print(&text::render(&document, &self.style()))
    }

    /// Returns the format of text on stdout.
    pub(crate) fn style(&self) -> TextStyle {
        let colour = match self.colour {
            When::Always => true,
            When::Never => false,
            When::Auto => output::wants_colours(&std::io::stdout()),
        };
        if colour {
            output::allow_colours();
        }
        TextStyle {
            colour,
            width: terminal_width().unwrap_or(USUAL_WIDTH),
        }
    }

    /// Same as [`style`](Self::style), but for a list. If stdout is not a terminal, no column is
    /// omitted and no text is cut, so that grep(1) and awk(1) find everything.
    pub(crate) fn list_style(&self) -> TextStyle {
        TextStyle {
            width: terminal_width().unwrap_or(UNCUT_WIDTH),
            ..self.style()
        }
    }
}

fn store_of_environment() -> Option<PathBuf> {
    // An empty variable counts as unset, as for clap and most programs.
    let value = std::env::var_os("PUNCTUAL_STORE").filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Returns a message about a setting that was restored after a killed run.
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
        How::WasThere => format!(
            "{setting} is already '{value}', the value before a killed {who} \
            changed it"
        ),
        How::Reboot => {
            format!("{setting} was changed by a killed {who}, and reset by a reboot")
        }
        How::Gone => format!("{setting} was changed by a killed {who}, but no longer exists"),
        How::Forgotten => format!("{setting} was changed by a killed {who}, and was not restored"),
    }
}

/// Marks runs whose program has ended as interrupted.
pub(crate) fn sweep(store: &Store) -> Result<usize, StoreError> {
    let host = Host::live();
    store.sweep(&|lease| host.may_live(lease))
}

pub(crate) fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}
