//! The context that all verbs share: the store, colours, and the width of the terminal.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use punctual_host::Host;
use punctual_model::Completion;
use punctual_report::document::{Block, Document, Field, Section};
use punctual_report::text::{self, TextStyle};
use punctual_store::{Filter, Store, StoreError};

use crate::exit::{Done, Exit};
use crate::output;

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
pub struct Context {
    store: Option<PathBuf>,
    /// Whether the store was named by an option.
    is_named: bool,
    colour: When,
    /// The result that holds even if the output cannot be written.
    done: RefCell<Option<Done>>,
}

/// Text width in columns if stdout is not a terminal.
const USUAL_WIDTH: usize = 100;
/// Text width in columns that is larger than any list.
const UNCUT_WIDTH: usize = 1_000;

impl Context {
    /// Reads the global options of a verb.
    ///
    /// # Errors
    /// Returns an error if the options are not those of a verb.
    pub fn new(matches: &ArgMatches) -> Result<Self> {
        let Global { store, color } = Global::from_arg_matches(matches)?;
        Ok(Self {
            is_named: store.is_some(),
            // The environment variable is read here and not by clap, because clap shows an argument
            // with a variable as required in usage lines.
            store: store.or_else(store_of_environment),
            colour: color.unwrap_or(When::Auto),
            done: RefCell::default(),
        })
    }

    /// Returns the context for a run under the name of an older tool. The options come from
    /// environment variables.
    pub fn of_environment() -> Self {
        Self {
            store: store_of_environment(),
            is_named: false,
            colour: When::Auto,
            done: RefCell::default(),
        }
    }

    /// Notes the exit code of a verb that changed nothing, before it prints. It holds even if the
    /// reader closes the pipe.
    pub fn ends_with(&self, exit: Exit) {
        self.done.replace(Some(Done { exit, what: None }));
    }

    /// Notes what the verb has done, as a sentence, and its exit code, before it prints. Both hold
    /// even if the output cannot be written.
    pub fn done(&self, exit: Exit, what: impl Into<String>) {
        let what = Some(what.into());
        self.done.replace(Some(Done { exit, what }));
    }

    /// Notes the exit code of a measurement, and whether its data are stored, before it prints.
    pub fn stored(&self, exit: Exit, is_stored: bool) {
        if is_stored {
            self.done(exit, "the recording is stored");
        } else {
            self.ends_with(exit);
        }
    }

    /// Returns what holds even if the output cannot be written.
    pub(crate) fn take_done(&self) -> Option<Done> {
        self.done.take()
    }

    /// Returns the store that was named with `--store`. Commands that the program prints must name
    /// the same store.
    pub fn named_store(&self) -> Option<&Path> {
        self.store.as_deref().filter(|_| self.is_named)
    }

    /// Returns whether the store is `none`, so that nothing is stored. A file with that name is
    /// `./none`.
    pub fn wants_no_store(&self) -> bool {
        self.store.as_deref() == Some(Path::new("none"))
    }

    /// Returns the URL of the store if it is a PostgreSQL database.
    pub fn database(&self) -> Option<&str> {
        let store = self.store.as_deref()?.to_str()?;
        punctual_store::is_database(store).then_some(store)
    }

    /// Returns the path of the store. Rejects root's default store unless only root could have
    /// created it, because root may have inherited the environment of another user (`sudo -E`).
    ///
    /// # Errors
    /// Returns an error if the store is a database, is not trusted, or has no default folder.
    pub fn store_path(&self) -> Result<PathBuf, StoreError> {
        if self.database().is_some() {
            return Err(StoreError::Database {
                // The URL may contain a password.
                name: "of --store".to_owned(),
                reason: "this command needs a store in a file; only punctual-server uses databases"
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
    ///
    /// # Errors
    /// Returns an error if the store is `none`; otherwise as [`store_path`](Self::store_path).
    pub fn place_of_store(&self) -> Result<PathBuf> {
        self.need_store()?;
        Ok(std::path::absolute(self.store_path()?)?)
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
    ///
    /// # Errors
    /// Returns an error if the store cannot be opened.
    pub fn store_to_delete(&self) -> Result<Store> {
        self.need_store()?;
        let store = Store::open_to_delete(&self.store_path()?)?;
        match sweep(&store) {
            // Runs whose program has ended are marked later, when the disk has space.
            Err(StoreError::DiskFull { .. }) => Ok(store),
            swept => Ok(swept.map(|_| store)?),
        }
    }

    /// Opens the store to change stored data, and creates it if it is missing. Marks runs whose
    /// program has ended as interrupted.
    ///
    /// # Errors
    /// Returns an error if the store is `none` or cannot be opened.
    pub fn store_to_change(&self) -> Result<Store> {
        self.need_store()?;
        Ok(self.open_to_write()?)
    }

    /// Opens the store to record a run, like [`store_to_change`](Self::store_to_change). Returns
    /// `None` if nothing is stored.
    ///
    /// # Errors
    /// Returns an error if the store cannot be opened.
    pub fn store_to_record(&self) -> Result<Option<Store>, StoreError> {
        if self.wants_no_store() {
            Ok(None)
        } else {
            self.open_to_write().map(Some)
        }
    }

    /// Opens the store, which is not `none`, like [`store_to_change`](Self::store_to_change).
    ///
    /// # Errors
    /// Returns an error if the store cannot be opened.
    pub fn open_to_write(&self) -> Result<Store, StoreError> {
        let store = Store::open(&self.store_path()?)?;
        sweep(&store)?;
        Ok(store)
    }

    /// Opens the store for reading. If it is writable, first marks runs whose program has ended as
    /// interrupted.
    ///
    /// # Errors
    /// Returns an error if the store is `none`, is missing, or cannot be opened.
    pub fn store_to_read(&self) -> Result<Store> {
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

    /// Prints fields, one per line.
    ///
    /// # Errors
    /// Returns an error if stdout cannot be written.
    pub fn show_fields(&self, fields: Vec<Field>) -> Result<()> {
        let mut document = Document::default();
        document.push(Section::new(vec![Block::Fields(fields)]));
        output::print(&text::render(&document, &self.style()))
    }

    /// Returns the format of text on stdout.
    pub fn style(&self) -> TextStyle {
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
    pub fn list_style(&self) -> TextStyle {
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

/// Marks runs whose program has ended as interrupted.
///
/// # Errors
/// Returns an error if the store cannot be written.
pub fn sweep(store: &Store) -> Result<usize, StoreError> {
    let host = Host::live();
    store.sweep(&|lease| host.may_live(lease))
}

/// Returns the width of the terminal in columns; `None` if stdout is not a terminal.
pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}
