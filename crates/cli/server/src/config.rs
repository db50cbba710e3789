//! The configuration file of `run --config`: alerts and pushed metrics.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_model::Nanos;
use punctual_serve::alerts::Alerts;
use punctual_serve::{Config, PushTo};
use serde::Deserialize;

use punctual_command::exit::UsageError;

/// Maximum size of a configuration, in bytes.
const LONGEST: u64 = 1 << 20;

/// The whole configuration file.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    alerts: Option<AlertsTable>,
    otlp: Option<OtlpTable>,
    metrics: MetricsTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AlertsTable {
    webhook: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    link: Option<String>,
    /// File that records which alerts have been sent.
    state: Option<PathBuf>,
    #[serde(default)]
    broken: Broken,
    /// In percent.
    #[serde(default = "ten")]
    disk_free: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Broken {
    runs: usize,
    of: usize,
}

impl Default for Broken {
    fn default() -> Self {
        Self { runs: 2, of: 3 }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OtlpTable {
    url: String,
    #[serde(default)]
    every: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MetricsTable {
    requirement: Option<String>,
}

const fn ten() -> f64 {
    10.0
}

const MINUTE: Nanos = Nanos::from_secs(60);

/// Adds the settings in the file to a configuration. If the store is a file, the state of the
/// alerts is kept next to it, and the disk with the store is watched.
pub(crate) fn add(config: &mut Config, path: &Path, store: Option<&Path>) -> Result<()> {
    // The file must be trusted, because it can name commands to run and hosts that receive
    // measurements.
    let text = punctual_files::trusted::text(path, LONGEST)?;
    let named = || format!("in {}", path.display());
    let file: File = toml::from_str(&text).with_context(named)?;
    let wrong = |UsageError(what)| UsageError(format!("{}: {what}", path.display()));
    let duration = |name: &str, text: &str| {
        let parsed = text.parse::<Nanos>();
        parsed.map_err(|error| wrong(UsageError(format!("{name}: {error}"))))
    };
    if let Some(text) = &file.metrics.requirement {
        config.requirement = Some(duration("metrics.requirement", text)?);
    }
    if let Some(otlp) = file.otlp {
        let every = match &otlp.every {
            Some(text) => duration("otlp.every", text)?,
            None => MINUTE,
        };
        config.push = Some(PushTo {
            url: url("otlp.url", otlp.url).map_err(wrong)?,
            every: Duration::from(every),
        });
    }
    if let Some(table) = file.alerts {
        config.alerts = Some(alerts(config, table, store).map_err(wrong)?);
    }
    Ok(())
}

fn url(name: &str, url: String) -> Result<String, UsageError> {
    if url.starts_with("http://") || url.starts_with("https://") {
        Ok(url)
    } else {
        Err(UsageError(format!(
            "{name}: '{url}' is not a URL: http://... or https://..."
        )))
    }
}

fn alerts(config: &Config, table: AlertsTable, store: Option<&Path>) -> Result<Alerts, UsageError> {
    let wrong = |what: &str| UsageError(what.to_owned());
    let AlertsTable {
        webhook,
        command,
        link,
        state,
        broken: Broken { runs, of },
        disk_free,
    } = table;
    if webhook.is_none() && command.is_empty() {
        return Err(wrong(
            "alerts: give webhook = URL or command = [PROGRAM, ...]",
        ));
    }
    if runs == 0 || runs > of || of > 100 {
        return Err(wrong(
            "alerts.broken: 'runs' must be between 1 and 'of', and 'of' must be at most 100",
        ));
    }
    if !(0.0..=100.0).contains(&disk_free) {
        return Err(wrong("alerts.disk_free: 0 to 100 percent"));
    }
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let link = link.unwrap_or_else(|| format!("{scheme}://{}", config.listen));
    let beside = |store: &Path| {
        let mut name = store.as_os_str().to_owned();
        name.push(".alerts.json");
        PathBuf::from(name)
    };
    let state = state.or_else(|| store.map(beside));
    let state =
        state.ok_or_else(|| wrong("alerts.state: give a file, because the store is a database"))?;
    let disk = state
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    Ok(Alerts {
        webhook: webhook
            .map(|text| url("alerts.webhook", text))
            .transpose()?,
        command,
        link: url("alerts.link", link)?.trim_end_matches('/').to_owned(),
        broken: runs,
        of,
        disk: Some(disk.unwrap_or(Path::new(".")).to_owned()),
        state,
        disk_free,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, text).unwrap();
        let mut config = Config::new("127.0.0.1:8090".parse().unwrap());
        let store = Path::new("/var/lib/x/store.db");
        add(&mut config, &path, Some(store)).map(|()| config)
    }

    #[test]
    fn a_file_is_read_whole() {
        let config = read(
            "[alerts]\nwebhook = 'http://a/b'\nbroken = { runs = 3, of = 5 }\n\
             [otlp]\nurl = 'https://c/v1/metrics'\nevery = '30s'\n\
             [metrics]\nrequirement = '100us'\n",
        )
        .unwrap();
        let alerts = config.alerts.unwrap();
        assert_eq!((alerts.broken, alerts.of), (3, 5));
        assert_eq!(alerts.link, "http://127.0.0.1:8090");
        assert_eq!(alerts.state, Path::new("/var/lib/x/store.db.alerts.json"));
        assert_eq!(alerts.disk.as_deref(), Some(Path::new("/var/lib/x")));
        assert_eq!(config.push.unwrap().every, Duration::from_secs(30));
        assert_eq!(config.requirement, Some(Nanos::from_micros(100)));
        assert!(read("").unwrap().alerts.is_none());
    }

    #[test]
    fn missing_store_file_names_the_state() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        let mut config = Config::new("127.0.0.1:8090".parse().unwrap());
        std::fs::write(&path, "[alerts]\ncommand = ['x']\n").unwrap();
        let error = add(&mut config, &path, None).unwrap_err();
        assert!(format!("{error:#}").contains("alerts.state"), "{error:#}");
        std::fs::write(&path, "[alerts]\ncommand = ['x']\nstate = '/a/b'\n").unwrap();
        add(&mut config, &path, None).unwrap();
        assert_eq!(
            config.alerts.unwrap().disk.as_deref(),
            Some(Path::new("/a"))
        );
    }

    /// The configuration names a command to run.
    #[test]
    fn configuration_writable_by_others_is_ignored() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        std::fs::write(&path, "[alerts]\ncommand = ['x']\nstate = '/a/b'\n").unwrap();
        for (mode, obeyed) in [(0o600, true), (0o644, true), (0o646, false), (0o664, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let mut config = Config::new("127.0.0.1:8090".parse().unwrap());
            let added = add(&mut config, &path, None);
            assert_eq!(added.is_ok(), obeyed, "{mode:o}: {added:?}");
            assert_eq!(config.alerts.is_some(), obeyed);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("[alert]", "alert"),
            ("[alerts]", "webhook"),
            ("[alerts]\nwebhook = 'a'", "not a URL"),
            (
                "[alerts]\ncommand = ['x']\nbroken = { runs = 4, of = 3 }",
                "broken",
            ),
            ("[alerts]\ncommand = ['x']\ndisk_free = 101", "disk_free"),
            ("[otlp]\nurl = 'http://a'\nevery = '30'", "otlp.every"),
            ("[metrics]\nrequirement = 'x'", "metrics.requirement"),
        ] {
            let error = format!("{:#}", read(text).unwrap_err());
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
