//! `serve`: recordings of many machines over HTTP.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use punctual_model::{Nanos, Note, RecordingId};
use punctual_serve::trends::{Decided, Noted, SeriesOf, TrendSource, Trends};
use punctual_serve::{Config, TlsFiles};
use punctual_stats::trend::{Run as TrendRun, Trend};
use punctual_store::{AuditLine, Collection, Role, SqliteCollection, Store};

use super::changes::decide;
use super::looking_back::{Series, Span};
use super::{Run, Verb, named, serve_config};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;

pub(super) const VERB: Verb = Verb::of::<Serve>("serve");

const LONG: &str = "Serve a dashboard, an API and metrics of the recordings in the store, and take \
             recordings that other machines deliver (punctual deliver).\n\n\
             On a loopback address everybody on this machine may read and deliver, unless --login \
             is given. On any other address each request needs a token (punctual serve enrol), and \
             TLS. SIGTERM ends the server after the requests that are under way.";

/// Serve a dashboard, an API and metrics over HTTP
#[derive(Parser)]
#[command(long_about = LONG, args_conflicts_with_subcommands = true)]
struct Serve {
    #[command(subcommand)]
    tokens: Option<Access>,
    #[command(flatten)]
    options: Options,
}

#[derive(Args)]
struct Options {
    /// Address and port to listen on; port 0 for a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Certificate and private key (PEM files)
    #[arg(long, value_names = ["CERT", "KEY"], num_args = 2)]
    tls: Option<Vec<PathBuf>>,
    /// Require a token on a loopback address, too
    #[arg(long)]
    login: bool,
    /// Allow plain HTTP on any address: a proxy provides TLS
    #[arg(long, conflicts_with = "tls")]
    behind_proxy: bool,
    /// Time without a delivery after which a machine is silent
    #[arg(long, value_name = "DURATION", default_value = "36h")]
    silent_after: Nanos,
    /// TOML file with alerts and pushed metrics
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Access {
    /// Create a token for a machine or a user, and print it
    Enrol {
        /// Name of the machine or user
        #[arg(value_name = "NAME")]
        name: String,
        /// Role: machine (delivers), viewer (reads) or admin
        #[arg(long, value_name = "ROLE", default_value = "machine", value_parser = roles())]
        role: Role,
    },
    /// Revoke the token of a machine or a user
    Revoke {
        /// Name of the machine or user
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
        // Marks runs whose program has ended, and closes the file to other users.
        let path = context.store_to_change()?.path().to_owned();
        let collection = Arc::new(SqliteCollection::open(&path)?);
        match self.tokens {
            None => serve(self.options, collection, path),
            Some(tokens) => manage(tokens, collection.as_ref()),
        }
    }
}

fn serve(options: Options, collection: Arc<dyn Collection>, path: PathBuf) -> Result<Exit> {
    let tls = options.tls.and_then(|files| {
        let [certificate, key] = <[PathBuf; 2]>::try_from(files).ok()?;
        Some(TlsFiles { certificate, key })
    });
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut config = Config {
        tls,
        trends: TrendSource(Some(Arc::new(StoredTrends { path: path.clone() }))),
        login: options.login,
        behind_proxy: options.behind_proxy,
        silent_after: Duration::from(options.silent_after),
        ..Config::new(options.listen)
    };
    if let Some(file) = &options.config {
        serve_config::add(&mut config, file, &path)?;
    }
    let open = !config.login && config.listen.ip().is_loopback();
    let name = collection.name();
    punctual_serve::run(config, collection, |address| {
        output::note(&format!("serving {name} on {scheme}://{address}"));
        if open {
            output::note("every user of this machine can read it: --login requires a token");
        }
    })?;
    output::note("ended");
    Ok(Exit::Done)
}

fn manage(tokens: Access, collection: &dyn Collection) -> Result<Exit> {
    match tokens {
        Access::Enrol { name, role } => {
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

/// The series of the store.
struct StoredTrends {
    path: PathBuf,
}

impl StoredTrends {
    fn judged(&self, store: &Store, of: &SeriesOf) -> Result<(Trend, Vec<TrendRun>)> {
        let span = span_of(of);
        let series = Series::load(store, Some(&of.series), &span)?;
        Ok((series.trend(&span), series.runs))
    }
}

fn span_of(of: &SeriesOf) -> Span {
    Span {
        host: of.machine.clone(),
        ..Span::default()
    }
}

/// An error as a sentence.
fn sentence(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}

impl Trends for StoredTrends {
    fn series(&self) -> Result<Vec<SeriesOf>, String> {
        let store = Store::open_read_only(&self.path).map_err(sentence)?;
        let epochs = store.series().map_err(sentence)?.into_iter();
        let all: BTreeSet<SeriesOf> = epochs
            .map(|epoch| SeriesOf {
                series: epoch.name,
                machine: epoch.host,
            })
            .collect();
        Ok(all.into_iter().collect())
    }

    fn trend(&self, of: &SeriesOf) -> Result<(Trend, Vec<TrendRun>), String> {
        let store = Store::open_read_only(&self.path).map_err(sentence)?;
        self.judged(&store, of).map_err(sentence)
    }

    fn runs(&self, of: &SeriesOf) -> Result<Vec<TrendRun>, String> {
        let store = Store::open_read_only(&self.path).map_err(sentence)?;
        let span = span_of(of);
        let series = Series::load(&store, Some(&of.series), &span).map_err(sentence)?;
        Ok(series.runs)
    }

    fn decide(&self, of: &SeriesOf, decided: &Decided) -> Result<(), String> {
        let Decided {
            change,
            decision,
            who,
            why,
        } = decided;
        let decide = || -> Result<String> {
            let store = Store::open(&self.path)?;
            let (trend, _) = self.judged(&store, of)?;
            decide(&store, &trend, change, *decision, who.clone(), why.clone())
        };
        decide().map(drop).map_err(sentence)
    }

    fn note(&self, of: &SeriesOf, noted: &Noted) -> Result<(), String> {
        let note = Note {
            id: RecordingId::new(),
            recording: None,
            series: Some(of.series.clone()),
            at: noted.at,
            text: noted.text.clone(),
            author: noted.who.clone(),
            written: jiff::Timestamp::now(),
        };
        let store = Store::open(&self.path).map_err(sentence)?;
        store.put_note(&note).map_err(sentence)
    }
}
