//! `install`: prints or writes the unit file of the collector.

use std::fs::File;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_command::exit::Exit;
use punctual_command::{Context, Run, Verb, output, unit};
use punctual_files::Output;

use crate::collection::file_of_store;
use crate::options::{Options, config};

pub(super) const VERB: Verb = Verb::new::<Install>("install");

/// Path of the unit file, in the folder for units of the administrator: systemd.unit(5).
const UNIT_PATH: &str = "/etc/systemd/system/punctual-server.service";
/// The file that sets PUNCTUAL_STORE to a database. Other users can read unit files, and the URL may
/// contain a password.
const VARIABLES: &str = "/etc/punctual/server.env";

/// Folder of the service's data. A store in it belongs to the service's own user: StateDirectory= in
/// systemd.exec(5).
const DATA: &str = "punctual-server";

/// Print the systemd unit of a server with these options
#[derive(Parser)]
struct Install {
    #[command(flatten)]
    options: Options,
    /// Write the unit file instead of printing it
    #[arg(long)]
    write: bool,
}

impl Run for Install {
    fn run(self, context: &Context) -> Result<Exit> {
        let store = file_of_store(context)?;
        install(self.options, store.as_deref(), self.write, context)
    }
}

/// `store`: the file of the recordings; `None` for a database.
fn install(options: Options, store: Option<&Path>, write: bool, context: &Context) -> Result<Exit> {
    let options = absolute(options)?;
    // A service that cannot start must not be installed.
    config(options.clone(), store)?.check()?;
    for file in options.tls.iter().flatten() {
        File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let program = std::env::current_exe().context("the path of this program is unknown")?;
    let user = User::of(store);
    let text = unit_file(&program, options, store, user)?;
    if user == User::Root {
        output::note(&format!(
            "the service runs as root, because its store is outside of /var/lib/{DATA}: with \
             --store /var/lib/{DATA}/store.db, it has a user of its own"
        ));
    }
    if !write {
        output::print(&text)?;
        return Ok(Exit::Done);
    }
    Output::open(Path::new(UNIT_PATH))?.put(text.as_bytes())?;
    context.done(Exit::Done, format!("{UNIT_PATH} is written"));
    let before = match store {
        Some(_) => String::new(),
        None => format!(
            "; before, write the URL of the database to {VARIABLES} (readable by root only): \
             PUNCTUAL_STORE=postgres://USER@HOST/NAME"
        ),
    };
    output::print(&format!(
        "{UNIT_PATH} was written; to start the server: systemctl daemon-reload && systemctl enable \
         --now punctual-server{before}\n"
    ))?;
    Ok(Exit::Done)
}

/// Makes the paths absolute, because the service runs in another folder.
fn absolute(options: Options) -> Result<Options> {
    let absolute = |path: PathBuf| std::path::absolute(path);
    let each = |files: Vec<PathBuf>| files.into_iter().map(absolute).collect::<Result<_, _>>();
    Ok(Options {
        tls: options.tls.map(each).transpose()?,
        proxy_secret: options.proxy_secret.map(absolute).transpose()?,
        config: options.config.map(absolute).transpose()?,
        ..options
    })
}

/// Returns the command-line arguments that set these options.
fn arguments(options: &Options) -> Result<Vec<String>> {
    let Options {
        listen,
        tls,
        login,
        behind_proxy,
        user_header,
        proxy_secret,
        proxy,
        admin,
        silent_after,
        config,
    } = options;
    let mut words = vec!["--listen".to_owned(), listen.to_string()];
    let mut add = |name: &str, values: Vec<String>| {
        words.push(name.to_owned());
        words.extend(values);
    };
    if let Some(files) = tls {
        let files = files
            .iter()
            .map(|file| unit::path_text(file).map(str::to_owned));
        add("--tls", files.collect::<Result<_>>()?);
    }
    for (name, is_set) in [("--login", login), ("--behind-proxy", behind_proxy)] {
        if *is_set {
            add(name, Vec::new());
        }
    }
    if let Some(header) = user_header {
        add("--user-header", vec![header.clone()]);
    }
    for (name, file) in [("--proxy-secret", proxy_secret), ("--config", config)] {
        if let Some(file) = file {
            add(name, vec![unit::path_text(file)?.to_owned()]);
        }
    }
    for address in proxy {
        add("--proxy", vec![address.to_string()]);
    }
    for name in admin {
        add("--admin", vec![name.clone()]);
    }
    add(
        "--silent-after",
        vec![format!("{}s", silent_after.as_secs_f64())],
    );
    Ok(words)
}

/// The user of the service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// A user that systemd creates for this service when it starts.
    Own,
    /// Root, because an existing store may belong to root.
    Root,
}

impl User {
    /// Returns the user for a store in this file, or for a database.
    fn of(store: Option<&Path>) -> Self {
        let data = Path::new("/var/lib").join(DATA);
        let is_inside = |store: &Path| {
            let leaves = store.components().any(|part| part == Component::ParentDir);
            store.starts_with(&data) && !leaves
        };
        let is_own = store.is_none_or(is_inside);
        if is_own { Self::Own } else { Self::Root }
    }
}

/// Replaces the files of these options by credentials, because the service's own user cannot read
/// files of root. Returns their names and files as well: LoadCredential= in systemd.exec(5).
fn with_credentials(mut options: Options) -> (Options, Vec<(&'static str, PathBuf)>) {
    let mut credentials = Vec::new();
    let tls = options.tls.iter_mut().flatten();
    let files = ["certificate", "key"].into_iter().zip(tls);
    let secret = options.proxy_secret.iter_mut().map(|file| ("secret", file));
    let config = options.config.iter_mut().map(|file| ("config", file));
    for (name, file) in files.chain(secret).chain(config) {
        let credential = Path::new(CREDENTIALS).join(name);
        credentials.push((name, std::mem::replace(file, credential)));
    }
    (options, credentials)
}

/// The folder of the credentials. systemd replaces this variable in the command line.
const CREDENTIALS: &str = "${CREDENTIALS_DIRECTORY}";

fn unit_file(program: &Path, options: Options, store: Option<&Path>, user: User) -> Result<String> {
    let (options, credentials) = match user {
        User::Own => with_credentials(options),
        User::Root => (options, Vec::new()),
    };
    let mut words = vec![unit::path_text(program)?.to_owned()];
    if let Some(store) = store {
        words.extend(["--store".to_owned(), unit::path_text(store)?.to_owned()]);
    }
    words.push("run".to_owned());
    words.extend(arguments(&options)?);
    let quoted = |word: &String| match word.strip_prefix(CREDENTIALS) {
        Some(file) if user == User::Own => Ok(format!("{CREDENTIALS}{file}")),
        _ => unit::quoted(word),
    };
    let command = words.iter().map(quoted).collect::<Result<Vec<String>>>()?;
    let mut data = match (store, user) {
        (Some(_), User::Own) => {
            format!("DynamicUser=yes\nStateDirectory={DATA}\nStateDirectoryMode=0700\n")
        }
        (Some(store), User::Root) => {
            let folder = unit::path_text(store.parent().unwrap_or(Path::new("/")))?;
            format!("ReadWritePaths={}\n", unit::quoted(folder)?)
        }
        (None, _) => format!(
            "DynamicUser=yes\n# PUNCTUAL_STORE=postgres://USER@HOST/NAME\n\
             EnvironmentFile={VARIABLES}\n"
        ),
    };
    for (name, file) in &credentials {
        let file = unit::path_text(file)?;
        // systemd takes the rest of this line as the path, with quotes. Other rules are the same.
        unit::quoted(file)?;
        let file = file.replace('%', "%%");
        data.push_str(&format!("LoadCredential={name}:{file}\n"));
    }
    Ok(format!(
        "\
[Unit]
Description=Collector of latency measurements
Documentation=man:punctual-server(1)
Wants=network-online.target
After=network-online.target local-fs.target

[Service]
Type=exec
ExecStart={command}
Restart=on-failure
RestartSec=10
# The server ends after the current requests.
KillSignal=SIGTERM
TimeoutStopSec=60

{data}AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=yes
UMask=0077
ProtectSystem=strict
ProtectHome=read-only
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
PrivateDevices=yes
PrivateTmp=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
",
        command = command.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(words: &[String]) -> Options {
        let program = std::iter::once("run".to_owned());
        Line::parse_from(program.chain(words.iter().cloned())).options
    }

    #[test]
    fn service_gets_all_options() {
        for line in [
            "",
            "--listen [::]:443 --tls /c.pem /k.pem --login --silent-after 90m",
            "--listen 0.0.0.0:80 --behind-proxy --user-header x-user --proxy-secret /s --proxy \
             10.0.0.1,10.0.0.2 --admin eve,bob --config /etc/a.toml",
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let options = parsed(&words);
            assert_eq!(parsed(&arguments(&options).unwrap()), options, "{line}");
        }
    }

    #[test]
    fn service_has_its_own_user_where_its_data_allow_it() {
        let line = "run --listen 0.0.0.0:80 --tls /c%.pem /k.pem --config /etc/a.toml";
        let options = Line::parse_from(line.split(' ')).options;
        let program = Path::new("/usr/bin/punctual-server");
        let unit = |store: Option<&str>| {
            let store = store.map(Path::new);
            unit_file(program, options.clone(), store, User::of(store)).unwrap()
        };
        let own = unit(Some("/var/lib/punctual-server/store.db"));
        let database = unit(None);
        for text in [&own, &database] {
            assert!(text.contains("DynamicUser=yes\n"), "{text}");
            assert!(text.contains("LoadCredential=key:/k.pem\n"), "{text}");
            assert!(
                text.contains("LoadCredential=certificate:/c%%.pem\n"),
                "{text}"
            );
            let key = "${CREDENTIALS_DIRECTORY}/certificate ${CREDENTIALS_DIRECTORY}/key";
            assert!(text.contains(key), "{text}");
        }
        assert!(own.contains("StateDirectory=punctual-server\n"));
        assert!(database.contains("EnvironmentFile="));
        for elsewhere in [
            "/var/lib/punctual-servers/a.db",
            "/var/lib/punctual-server/../a.db",
        ] {
            let root = unit(Some(elsewhere));
            assert!(!root.contains("DynamicUser"), "{root}");
            assert!(root.contains("--tls\" \"/c%%.pem\""), "{root}");
        }
    }
}
