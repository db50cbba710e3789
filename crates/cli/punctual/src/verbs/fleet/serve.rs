//! `serve`: serves recordings of many machines over HTTP.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use punctual_model::{Nanos, Note, RecordingId};
use punctual_serve::trends::{Decided, Noted, SeriesOf, TrendSource, Trends};
use punctual_serve::{Config, SignOn, SourceError, TlsFiles};
use punctual_stats::trend::{Run as TrendRun, Trend};
use punctual_store::{AuditLine, Collection, Role};

use super::{collection, install, serve_config};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verbs::looking_back::{Series, Span};
use crate::verbs::trend::changes::decide;
use crate::verbs::{Invalid, Run, Verb, named};

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
    tokens: Option<Access>,
    #[command(flatten)]
    options: Options,
}

#[derive(Args, Clone, Debug, PartialEq)]
pub(super) struct Options {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    pub(super) listen: SocketAddr,
    /// Certificate and private key (PEM files)
    #[arg(long, value_names = ["CERT", "KEY"], num_args = 2)]
    pub(super) tls: Option<Vec<PathBuf>>,
    /// Require a token on a loopback address as well
    #[arg(long)]
    pub(super) login: bool,
    /// Allow plain HTTP on any address: a proxy provides TLS
    #[arg(long, conflicts_with = "tls")]
    pub(super) behind_proxy: bool,
    /// Header in which a proxy names the logged-in user
    #[arg(long, value_name = "NAME", value_parser = header, requires = "proxy_secret")]
    pub(super) user_header: Option<String>,
    /// File with the secret that the proxy sends in Punctual-Proxy-Secret
    #[arg(long, value_name = "FILE", requires = "user_header")]
    pub(super) proxy_secret: Option<PathBuf>,
    /// Address of a proxy that sends X-Forwarded-For; separate several with commas; default:
    /// loopback with --behind-proxy or --user-header, otherwise none
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(super) proxy: Vec<IpAddr>,
    /// Users of that proxy with the role admin; all others are viewers
    #[arg(
        long,
        value_name = "NAME",
        requires = "user_header",
        value_delimiter = ','
    )]
    pub(super) admin: Vec<String>,
    /// Time without a push after which a machine counts as silent
    #[arg(long, value_name = "TIME", default_value = "36h")]
    pub(super) silent_after: Nanos,
    /// TOML file with alerts and pushed metrics
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// Parses the name of a header.
fn header(text: &str) -> Result<String, Invalid> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !text.is_empty() && text.chars().all(fits) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(
            "the name of a header consists of letters, digits and '-', such as \
            X-Forwarded-User"
                .into(),
        )
    }
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
    /// Print the systemd unit of a server with these options
    Install {
        #[command(flatten)]
        options: Options,
        /// Write the unit file instead of printing it
        #[arg(long)]
        write: bool,
    },
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
        if let Some(Access::Install { options, write }) = self.tokens {
            return install::install(options, store()?.as_deref(), write);
        }
        let collection = collection::of_store(context)?;
        match self.tokens {
            None => serve(self.options, collection, store()?.as_deref()),
            Some(tokens) => manage(tokens, collection.as_ref()),
        }
    }
}

/// Minimum length of a proxy's secret, in characters.
const SECRET: usize = 16;
/// Maximum size of a file with a proxy's secret, in bytes.
const SECRET_FILE: u64 = 4_096;

/// Reads the secret from a file. Returns an error if every user can access the file.
fn secret(file: &Path) -> Result<String> {
    let text = punctual_files::bounded::text(file, SECRET_FILE)?;
    let wrong = |what: String| UsageError(format!("{}: {what}", file.display()));
    let mode = std::fs::metadata(file)?.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(wrong(format!(
            "every user can access this file (mode {mode:03o}): run chmod o= on it"
        ))
        .into());
    }
    let secret = text.trim();
    if secret.len() < SECRET || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!(
            "the secret must have at least {SECRET} printable ASCII characters \
            without blanks"
        );
        return Err(wrong(what).into());
    }
    Ok(secret.to_owned())
}

/// Returns the configuration of a server, without its collection.
///
/// # Errors
/// Returns an error if a file of the options cannot be read, or if its content is wrong.
pub(super) fn config(options: Options, store: Option<&Path>) -> Result<Config> {
    let tls = options.tls.and_then(|files| {
        let [certificate, key] = <[PathBuf; 2]>::try_from(files).ok()?;
        Some(TlsFiles { certificate, key })
    });
    let has_proxy = options.behind_proxy || options.user_header.is_some();
    let proxies = if options.proxy.is_empty() && has_proxy {
        vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
    } else {
        options.proxy
    };
    let mut config = Config {
        tls,
        store: store.map(Path::to_owned),
        login: options.login,
        proxies,
        sign_on: match (options.user_header, options.proxy_secret) {
            (Some(header), Some(file)) => Some(SignOn {
                header,
                secret: secret(&file)?,
                admins: options.admin,
            }),
            _ => None,
        },
        behind_proxy: options.behind_proxy,
        silent_after: Duration::from(options.silent_after),
        ..Config::new(options.listen)
    };
    if let Some(file) = &options.config {
        serve_config::add(&mut config, file, store)?;
    }
    Ok(config)
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

fn manage(tokens: Access, collection: &dyn Collection) -> Result<Exit> {
    match tokens {
        Access::Enrol {
            file: Some(file),
            role,
            ..
        } => enrol_file(&file, role, collection)?,
        Access::Install { .. } => {}
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
    fn judged(&self, of: &SeriesOf, threshold: Option<Nanos>) -> Result<(Trend, Vec<TrendRun>)> {
        let span = Span {
            threshold,
            ..span_of(of)
        };
        let series = Series::load(self.collection.as_ref(), Some(&of.series), &span)?;
        Ok((series.trend(&span), series.runs))
    }
}

fn span_of(of: &SeriesOf) -> Span {
    Span {
        host: of.machine.clone(),
        ..Span::default()
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
        let series = Series::load(store, Some(&of.series), &span_of(of));
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
        let decide = || -> Result<String> {
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
