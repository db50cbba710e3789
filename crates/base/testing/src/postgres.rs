//! A private PostgreSQL server for the tests, on a socket in a temporary folder.

use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Folders where distributions install the PostgreSQL programs.
const FOLDERS: [&str; 3] = ["/usr/lib/postgresql", "/usr/pgsql", "/usr/bin"];
/// PostgreSQL refuses to run as root, so the user `nobody` runs it instead.
const NOBODY: u32 = 65_534;
const ABSENT: &str = "PostgreSQL is not installed";
/// How long to wait for the server to answer or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    settings: Vec<String>,
    server: Mutex<Option<Child>>,
}

static SHARED: Mutex<Option<Arc<Cluster>>> = Mutex::new(None);
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Returns the folder that contains `initdb` of the newest version.
fn programs() -> Option<PathBuf> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let inner = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let bins = inner.map(|entry| entry.path().join("bin"));
        found.extend(bins.chain([PathBuf::from(folder)]));
    }
    found.retain(|bin| bin.join("initdb").exists() && bin.join("postgres").exists());
    found.into_iter().max()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Cluster {
    /// Checks that PostgreSQL is installed.
    ///
    /// # Errors
    /// Returns the reason if PostgreSQL is not installed.
    pub fn installed() -> Result<(), String> {
        programs().map(drop).ok_or_else(|| ABSENT.to_owned())
    }

    /// Returns the server shared by the tests of this process.
    ///
    /// # Errors
    /// Returns the reason if PostgreSQL is not installed.
    ///
    /// # Panics
    /// Panics if PostgreSQL is installed but does not start.
    pub fn shared() -> Result<Arc<Self>, String> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*shared {
            return Ok(Arc::clone(running));
        }
        let new = Arc::new(Self::start()?);
        *shared = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Starts a server for a single test, which may restart it.
    ///
    /// # Errors
    /// See [`shared`](Self::shared).
    pub fn start() -> Result<Self, String> {
        Self::start_with(&[])
    }

    /// Like [`start`](Self::start), with additional settings such as `ssl=on`.
    ///
    /// # Errors
    /// See [`shared`](Self::shared).
    pub fn start_with(settings: &[String]) -> Result<Self, String> {
        Self::start_in(settings, |_| Ok(()))
    }

    /// Like [`start_with`](Self::start_with). Calls `prepare` with the empty folder, so that it can
    /// mount a disk there.
    ///
    /// # Errors
    /// See [`shared`](Self::shared).
    ///
    /// # Panics
    /// See [`shared`](Self::shared). Also panics on errors of `prepare`.
    pub fn start_in(
        settings: &[String],
        prepare: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, String> {
        let programs = programs().ok_or(ABSENT)?;
        let started = Self::start_of(programs, settings, prepare);
        Ok(started.unwrap_or_else(|why| panic!("PostgreSQL does not start: {why}")))
    }

    fn start_of(
        programs: PathBuf,
        settings: &[String],
        prepare: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, String> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual-pg-{}-{number}", std::process::id());
        // Do not use TMPDIR, which may be too long, because the path of a socket can have at most
        // 107 bytes.
        let folder = Path::new("/tmp").join(name);
        let on = |error: io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir(&folder).map_err(on)?;
        let cluster = Self {
            programs,
            folder: folder.clone(),
            settings: settings.to_vec(),
            server: Mutex::new(None),
        };
        prepare(&folder).map_err(on)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).map_err(on)?;
        if is_root() {
            chown(&folder, Some(NOBODY), Some(NOBODY)).map_err(on)?;
        }
        let made = cluster
            .command("initdb")
            .args([
                "--no-sync",
                "--auth=trust",
                "--username=punctual",
                "--encoding=UTF8",
            ])
            .args(["--locale=C", "-D"])
            .arg(cluster.data())
            .output()
            .map_err(on)?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
        }
        cluster.begin()?;
        Ok(cluster)
    }

    /// Returns the folder with its data and its socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).env("LC_ALL", "C");
        // The name of the socket contains the port number.
        let port = self
            .settings
            .iter()
            .find_map(|one| one.strip_prefix("port="));
        command.env("PGPORT", port.unwrap_or("5432"));
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Starts the server. It ends together with this process: its shell waits for a pipe to be
    /// closed, ends the server, and removes the folder unless it was told to keep it.
    ///
    /// # Errors
    /// Returns an error if the server cannot start or does not answer.
    pub fn begin(&self) -> Result<(), String> {
        let script = "\"$0\" \"$@\" <&- >log 2>&1 & read -r how; kill -INT $!; wait $!; \
            [ \"$how\" = keep ] || rm -rf \"$PUNCTUAL_PG\"";
        let mut command = Command::new("sh");
        command.current_dir(&self.folder).env("LC_ALL", "C");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command
            .env("PUNCTUAL_PG", &self.folder)
            .args(["-c", script])
            .arg(self.programs.join("postgres"))
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(&self.folder)
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .args(["-c", "shared_buffers=32MB"])
            .args(self.settings.iter().flat_map(|one| ["-c", one]))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start PostgreSQL: {error}"))?;
        *self.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        let end = Instant::now() + PATIENCE;
        while self.sql("postgres", "SELECT 1").is_err() {
            if Instant::now() > end {
                let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                return Err(format!("PostgreSQL does not answer: {log}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Kills the server as in a crash, so that connections break.
    pub fn crash(&self) {
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid"));
        let pid = pid.ok().and_then(|text| text.lines().next()?.parse().ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            // The server may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        self.end();
    }

    fn end(&self) {
        let child = self
            .server
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(mut child) = child {
            // The shell may have ended already.
            let _ = (child.stdin.take()).map(|mut pipe| pipe.write_all(b"keep\n"));
            let _ = child.wait();
        }
    }

    /// Gives a file to the user who runs the server, and makes it readable only by that user.
    ///
    /// # Errors
    /// Returns an error if the file cannot be changed.
    pub fn own(file: &Path) -> io::Result<()> {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?;
        if is_root() {
            chown(file, Some(NOBODY), Some(NOBODY))
        } else {
            Ok(())
        }
    }

    /// Runs SQL in a database and returns the output of `psql`.
    ///
    /// # Errors
    /// Returns the error output of `psql`.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let done = self
            .command("psql")
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "punctual",
                "-h",
            ])
            .arg(&self.folder)
            .args(["-d", database, "-c", sql])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        if done.status.success() {
            Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&done.stderr).into_owned())
        }
    }

    /// Creates an empty database and returns its name and its URL.
    ///
    /// # Errors
    /// Returns the error output of `psql`.
    pub fn database(&self) -> Result<(String, String), String> {
        let name = format!("test{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        let folder = self.folder.display().to_string().replace('/', "%2F");
        Ok((name.clone(), format!("postgres://punctual@{folder}/{name}")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end();
        // If the removal fails, the folder stays in /tmp.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
