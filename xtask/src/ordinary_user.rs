//! Runs the tests as a user without any privileges.
//!
//! A gate that runs as root misses problems that newcomers have, such as an extra warning on
//! stderr, a file that cannot be opened, or a priority that is refused. Root therefore also runs
//! the test programs as `nobody`, with no capabilities and with a separate home.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::gate::{self, Gate};
use crate::paths::{program, repository};
use crate::programs::{self, TestProgram};
use crate::test::{Queues, Runnable};

/// Options of `cargo xtask ordinary-user`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run the tests of these crates only.
    crates: Vec<String>,
    #[command(flatten)]
    gate: gate::Options,
}

/// User and group `nobody`.
const NOBODY: u32 = 65_534;

/// Runs the tests and returns whether all passed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP ordinary-user: these tests run without privileges already");
        return Ok(true);
    }
    let gate = Gate::new(&options.gate)?.of_ordinary_user();
    let setpriv = program("setpriv", "util-linux")?;
    let programs = programs::build()?;
    let known = |name: &String| programs.tests.iter().any(|test| test.package() == name);
    if let Some(unknown) = options.crates.iter().find(|name| !known(name)) {
        bail!("no tests in a crate '{unknown}'");
    }
    let chosen: Vec<_> = (programs.tests.iter())
        .filter(|test| wanted(test, options))
        .collect();
    ensure!(
        !chosen.is_empty(),
        "no tests of {} depend on rights: cargo xtask test runs them",
        options.crates.join(", ")
    );
    let user = User {
        setpriv,
        home: home()?,
        hidden: unreachable_folder(&repository().canonicalize()?)?,
    };
    if !user
        .command(&["test", "-x"], &programs.binary)?
        .status()?
        .success()
    {
        println!(
            "SKIP ordinary-user: {} is not accessible to other users",
            programs.binary.display()
        );
        return Ok(true);
    }
    let mut queues = Queues::default();
    for test in chosen {
        let user = &user;
        let command = move || {
            let mut command = user.command(&[], &test.path)?;
            command.current_dir(&test.folder);
            Ok(command)
        };
        let program = Runnable::new(test.title(), command).of_user(" as an ordinary user");
        queues.add(test.queue_without_rights(), program);
    }
    let summary = queues.run()?;
    std::fs::remove_dir_all(&user.home)?;
    summary.show(&gate)
}

/// Returns whether privileges can affect the test, and whether its crate is requested.
fn wanted(test: &TestProgram, options: &Options) -> bool {
    let named = |name: &String| name == test.package();
    !test.needs_no_rights() && (options.crates.is_empty() || options.crates.iter().any(named))
}

/// The user that runs the tests.
struct User {
    setpriv: PathBuf,
    /// Home and scratch folder.
    home: PathBuf,
    /// Parent folder of the repository that other users may not enter, if there is one.
    hidden: Option<PathBuf>,
}

impl User {
    /// Returns a command that runs as this user. It consists of the words before the program and
    /// the program itself.
    fn command(&self, before: &[&str], path: &Path) -> Result<Command> {
        let mut command = match &self.hidden {
            None => Command::new(&self.setpriv),
            Some(hidden) => {
                let mut command = Command::new("unshare");
                let root = repository().canonicalize()?;
                command
                    .args([
                        "--mount",
                        "--propagation",
                        "private",
                        "sh",
                        "-c",
                        REVEAL,
                        "sh",
                    ])
                    .args([hidden, &root, &self.setpriv]);
                command
            }
        };
        command
            .args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")])
            .args(["--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
            .args(["--no-new-privs", "--"])
            .args(before)
            .arg(path)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", &self.home)
            .env("TMPDIR", &self.home)
            // With this path, insta finds the snapshots without cargo. It must not write any
            // snapshots.
            .env("INSTA_WORKSPACE_ROOT", repository().canonicalize()?)
            .env("INSTA_UPDATE", "no");
        // Passes on the number of cases of property tests, and their seed.
        for name in ["PROPTEST_CASES", "PROPTEST_RNG_SEED"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        Ok(command)
    }
}

/// Runs in a separate mount namespace. Makes the repository ($2) available at its path, below a
/// folder ($1) that other users may enter, and then runs the command in the remaining arguments.
const REVEAL: &str = "set -e
here=$(pwd); kept=$(mktemp -d)
mount --bind \"$2\" \"$kept\"
mount -t tmpfs -o mode=0755 tmpfs \"$1\"
mkdir -p \"$2\"
mount --move \"$kept\" \"$2\"
rmdir \"$kept\"
cd \"$here\"
shift 2
exec \"$@\"";

/// Returns the topmost parent folder that other users may not enter.
fn unreachable_folder(path: &Path) -> Result<Option<PathBuf>> {
    let mut above: Vec<_> = path.ancestors().collect();
    above.reverse();
    for folder in above {
        let mode = std::fs::metadata(folder)
            .with_context(|| folder.display().to_string())?
            .permissions()
            .mode();
        if mode & 0o001 == 0 {
            return Ok(Some(folder.to_owned()));
        }
    }
    Ok(None)
}

/// Creates a folder that this user owns.
fn home() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("punctual-ordinary-{}", std::process::id()));
    std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
    chown(&path, Some(NOBODY), Some(NOBODY))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
    Ok(path)
}
