//! `serve`: serves recordings of many machines over HTTP.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::{Parser, Subcommand};
use punctual_history::{HistoryError, Series, decide};
use punctual_model::{Nanos, Note, RecordingId};
use punctual_serve::trends::{Decided, Noted, SeriesOf, TrendSource, Trends};
use punctual_serve::{Config, SourceError};
use punctual_stats::trend::{Run as TrendRun, Trend, TrendQuery};
use punctual_store::{AuditLine, Collection, Role};

use super::serve_options::{Options, config};
use super::{collection, install};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verb::{Run, Verb, named};

pub(super) const VERB: Verb = Verb::new::<Serve>("serve");

const LONG: &str = "Serve a dashboard, an API and metrics of the recordings in the store, and \
    receive recordings that other machines push (punctual push).\n\n\
    On a loopback address every user of this machine may read and push, unless --login is given. \
    On any other address each request needs a token (punctual serve enrol), and TLS. SIGTERM ends \
    the server after the current requests.\n\n\
    --store also accepts a PostgreSQL database: postgres://USER@HOST/NAME, which several servers \
    may share. If the URL contains a password, pass it in PUNCTUAL_STORE, because other users can \
    see arguments.";

/// Serve a dashboard, an API and metrics over HTTP
#[derive(Parser)]
#[command(long_about = LONG, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Serve {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum What {
    #[command(flatten)]
    Access(Access),
    /// Print the systemd unit of a server with these options
    Install {
        #[command(flatten)]
        options: Options,
        /// Write the unit file instead of printing it
        #[arg(long)]
        write: bool,
    },
}

#[derive(Subcommand)]
enum Access {
    /// Create a token for a machine or a user, and print it
    Enrol {
        /// Name of the machine or user
        #[arg(value_name = "NAME", required_unless_present = "file")]
        name: Option<String>,
        /// File with a name in each line; prints each name with its token
        #[arg(long, value_name = "FILE", conflicts_with = "name")]
        file: Option<PathBuf>,
        /// Role: machine (pushes), viewer (reads) or admin
        #[arg(long, value_name = "ROLE", default_value = "machine", value_parser = roles())]
        role: Role,
    },
    /// Revoke the token of a machine or a user
    Revoke {
        /// Name of the machine or user
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Let another machine use the token of this name from now on
    Moved {
        /// Name of the machine
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// List the names and roles that have a token
    Tokens,
}

fn roles() -> impl clap::builder::TypedValueParser<Value = Role> {
    named(Role::ALL.iter().map(|role| (role.name(), *role)).collect())
}

impl Run for Serve {
    fn run(self, context: &Context) -> Result<Exit> {
        // If the store is a file, a server also keeps data next to it.
        let store = || match context.database() {
            Some(_) => Ok(None),
            None => context.place_of_store().map(Some),
        };
        let collection = || collection::of_store(context);
        match self.what {
            None => serve(self.options, collection()?, store()?.as_deref()),
            Some(What::Access(access)) => manage(access, collection()?.as_ref()),
            Some(What::Install { options, write }) => {
                install::install(options, store()?.as_deref(), write)
            }
        }
    }
}

fn serve(options: Options, collection: Arc<dyn Collection>, store: Option<&Path>) -> Result<Exit> {
    let config = Config {
        trends: TrendSource(Some(Arc::new(StoredTrends {
            collection: Arc::clone(&collection),
        }))),
        ..config(options, store)?
    };
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let open = !config.login && config.sign_on.is_none() && config.listen.ip().is_loopback();
    let name = collection.name();
    punctual_serve::run(config, collection, |address| {
        output::note(&format!("serving {name} on {scheme}://{address}"));
        if open {
            output::note(
                "every user of this machine can read the recordings; --login requires a \
                token",
            );
        }
    })?;
    output::note("ended");
    Ok(Exit::Done)
}

fn manage(access: Access, collection: &dyn Collection) -> Result<Exit> {
    match access {
        Access::Enrol {
            file: Some(file),
            role,
            ..
        } => enrol_file(&file, role, collection)?,
        Access::Enrol { name, role, .. } => {
            let name = name.unwrap_or_default();
            let token = punctual_serve::enrol(collection, &name, role)?;
            output::print(&format!("{token}\n"))?;
            output::note("this token is shown once; only its SHA-256 is stored");
        }
        Access::Revoke { name } => {
            if !collection.remove_token(&name)? {
                return Err(UsageError(format!("'{name}' has no token")).into());
            }
            collection.log(&AuditLine {
                at: jiff::Timestamp::now(),
                who: "command line".to_owned(),
                action: "revoke".to_owned(),
                what: name,
            })?;
        }
        Access::Moved { name } => {
            let known = collection
                .tokens()?
                .into_iter()
                .find(|one| one.name == name);
            let Some(token) = known else {
                return Err(UsageError(format!("'{name}' has no token")).into());
            };
            collection.set_machine(&name, token.machine.as_deref(), None)?;
            collection.log(&AuditLine {
                at: jiff::Timestamp::now(),
                who: "command line".to_owned(),
                action: "moved".to_owned(),
                what: name,
            })?;
            output::note("the token now belongs to the next machine that pushes with it");
        }
        Access::Tokens => {
            for token in collection.tokens()? {
                let created = token.created.strftime("%Y-%m-%d %H:%M");
                let (name, role) = (&token.name, token.role.name());
                output::print(&format!("{created} UTC  {role:<8} {name}\n"))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Maximum size of a file of names, in bytes.
const NAMES_FILE: u64 = 1 << 20;

/// Creates a token for each name in a file, or for none of them.
fn enrol_file(file: &Path, role: Role, collection: &dyn Collection) -> Result<()> {
    let text = punctual_files::bounded::text(file, NAMES_FILE)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let is_name = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    let (numbers, names): (Vec<usize>, Vec<&str>) = lines.filter(is_name).unzip();
    let tokens =
        punctual_serve::enrol_all(collection, &names, role).map_err(|(place, error)| {
            let (file, line) = (file.display(), numbers.get(place).unwrap_or(&0));
            UsageError(format!("{file}:{line}: {error}; no token was created"))
        })?;
    let lines = names.iter().zip(tokens);
    let lines = lines.map(|(name, token)| format!("{name} {token}\n"));
    output::print(&lines.collect::<String>())?;
    output::note("these tokens are shown once; only their SHA-256 is stored");
    Ok(())
}

/// The series of the store.
struct StoredTrends {
    collection: Arc<dyn Collection>,
}

impl StoredTrends {
    fn judged(
        &self,
        of: &SeriesOf,
        threshold_ns: Option<Nanos>,
    ) -> Result<(Trend, Vec<TrendRun>), HistoryError> {
        let query = TrendQuery {
            threshold_ns,
            ..query_of(of)
        };
        let series = Series::load(self.collection.as_ref(), Some(&of.series), &query)?;
        Ok((series.trend(&query), series.runs))
    }
}

fn query_of(of: &SeriesOf) -> TrendQuery {
    TrendQuery {
        host: of.machine.clone(),
        ..TrendQuery::default()
    }
}

impl Trends for StoredTrends {
    fn series(&self) -> Result<Vec<SeriesOf>, SourceError> {
        let epochs = self.collection.series()?.into_iter();
        let all: BTreeSet<SeriesOf> = epochs
            .map(|epoch| SeriesOf {
                series: epoch.name,
                machine: epoch.host,
            })
            .collect();
        Ok(all.into_iter().collect())
    }

    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<TrendRun>), SourceError> {
        self.judged(of, None).map_err(SourceError::new)
    }

    fn runs(&self, of: &SeriesOf) -> Result<Vec<TrendRun>, SourceError> {
        let store = self.collection.as_ref();
        let series = Series::load(store, Some(&of.series), &query_of(of));
        Ok(series.map_err(SourceError::new)?.runs)
    }

    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), SourceError> {
        let Decided {
            change,
            threshold,
            decision,
            who,
            why,
        } = decided;
        let decide = || -> Result<String, HistoryError> {
            let (trend, _) = self.judged(of, *threshold)?;
            let store = self.collection.as_ref();
            decide(store, &trend, change, *decision, who.clone(), why.clone())
        };
        decide().map(drop).map_err(SourceError::new)
    }

    fn note(&self, of: &SeriesOf, noted: &Noted) -> Result<(), SourceError> {
        let note = Note {
            id: RecordingId::new(),
            recording: None,
            series: Some(of.series.clone()),
            machine: of.machine.clone(),
            at: noted.at,
            text: noted.text.clone(),
            author: noted.who.clone(),
            written: jiff::Timestamp::now(),
        };
        Ok(self.collection.put_note(&note)?)
    }
}
