//! The options of the server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use punctual_model::Nanos;
use punctual_serve::{Config, SignOn, TlsFiles};

use punctual_command::Invalid;
use punctual_command::exit::UsageError;

use crate::config as file;

/// The options of a server.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// Address and port to listen on; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    pub(crate) listen: SocketAddr,
    /// Certificate and private key (PEM files)
    #[arg(long, value_names = ["CERT", "KEY"], num_args = 2)]
    pub(crate) tls: Option<Vec<PathBuf>>,
    /// Require a token on a loopback address as well
    #[arg(long)]
    pub(crate) login: bool,
    /// Allow plain HTTP on any address: a proxy provides TLS
    #[arg(long, conflicts_with = "tls")]
    pub(crate) behind_proxy: bool,
    /// Header with the name of the logged-in user, set by a proxy
    #[arg(long, value_name = "NAME", value_parser = header, requires = "proxy_secret")]
    pub(crate) user_header: Option<String>,
    /// File with the secret that the proxy sends in Punctual-Proxy-Secret
    #[arg(long, value_name = "FILE", requires = "user_header")]
    pub(crate) proxy_secret: Option<PathBuf>,
    /// Address of a proxy that sends X-Forwarded-For; separate several with commas; default:
    /// loopback with --behind-proxy or --user-header, otherwise none
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) proxy: Vec<IpAddr>,
    /// Users of that proxy with the role admin; all others are viewers
    #[arg(
        long,
        value_name = "NAME",
        requires = "user_header",
        value_delimiter = ','
    )]
    pub(crate) admin: Vec<String>,
    /// Time without a push after which a machine counts as silent
    #[arg(long, value_name = "TIME", default_value = "36h")]
    pub(crate) silent_after: Nanos,
    /// TOML file with alerts and pushed metrics
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
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

/// Minimum length of a proxy's secret, in characters.
const SECRET: usize = 16;
/// Maximum size of a file with a proxy's secret, in bytes.
const SECRET_FILE: u64 = 4_096;

/// Reads the secret from a file. Returns an error if every user can access the file.
fn secret(file: &Path) -> Result<String> {
    let text = punctual_files::Budget::bytes(SECRET_FILE).read_text(file)?;
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
pub(crate) fn config(options: Options, store: Option<&Path>) -> Result<Config> {
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
        file::add(&mut config, file, store)?;
    }
    Ok(config)
}
