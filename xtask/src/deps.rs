//! `cargo xtask deps`: checks the rules for dependencies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::paths::{self, program, repository};

#[derive(Args)]
pub(crate) struct Options {
    /// Clone of github.com/RustSec/advisory-db, bare or not, instead of fetching it
    #[arg(long, value_name = "DIR")]
    database: Option<PathBuf>,
    /// Also try to publish the crate rt, without uploading it
    #[arg(long)]
    publish: bool,
}

/// Runs cargo deny and cargo audit, if they are installed.
///
/// # Errors
/// Fails if a program cannot be started, or the database is not usable.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut good = true;
    match program("cargo-deny", "cargo-deny (cargo install)") {
        Ok(path) => {
            // Licences, bans and sources need no network. Advisories are checked separately.
            good &= succeeds(
                Command::new(&path)
                    .args(["check", "--hide-inclusion-graph"])
                    .args(["licenses", "bans", "sources"]),
            )?;
            good &= match &options.database {
                Some(database) => known_advisories(&path, database)?,
                None => advisories(&path)?,
            };
        }
        Err(error) => println!("SKIP cargo deny: {error}"),
    }
    match program("cargo-audit", "cargo-audit (cargo install)") {
        Ok(path) => {
            let mut audit = Command::new(path);
            audit.arg("audit");
            if options.database.is_some() {
                audit.args(["--no-fetch", "--stale", "--db"]).arg(clone());
            }
            good &= succeeds(&mut audit)?;
        }
        Err(error) => println!("SKIP cargo audit: {error}"),
    }
    if options.publish {
        let mut publish = paths::cargo();
        publish.args(["publish", "--dry-run", "--package", "punctual-rt"]);
        good &= succeeds(&mut publish)?;
    }
    Ok(good)
}

/// Checks for known vulnerabilities with the newest available database.
fn advisories(deny: &Path) -> Result<bool> {
    let output = Command::new(deny)
        .args(["check", "advisories"])
        .current_dir(repository())
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !text.contains("failed to fetch") {
        print!("{text}");
        return Ok(output.status.success());
    }
    println!("advisories: the database was not fetched; checking with the copy kept here, if any");
    let output = Command::new(deny)
        .args(["--offline", "check", "advisories"])
        .current_dir(repository())
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    print!("{text}");
    // A finding has a code in brackets. If there is no such code, cargo deny has no copy of the
    // database.
    let found = text.contains("error[");
    if !output.status.success() && !found {
        println!("SKIP advisories: no database is to be had: give one by --database");
    }
    Ok(!found)
}

/// Checks for known vulnerabilities with a clone of the database.
fn known_advisories(deny: &Path, database: &Path) -> Result<bool> {
    let clone = clone();
    let _ = fs::remove_dir_all(&clone);
    let folder = clone.parent().context("a folder")?;
    fs::create_dir_all(folder)?;
    let mut git = Command::new("git");
    git.args(["clone", "--quiet"]).arg(database).arg(&clone);
    ensure!(git.status()?.success(), "{git:?} failed");
    // cargo deny determines the age of the database from the time of FETCH_HEAD.
    let mut git = Command::new("git");
    git.args(["fetch", "--quiet"]).current_dir(&clone);
    ensure!(git.status()?.success(), "{git:?} failed");
    let last = Command::new("git")
        .args(["log", "-1", "--format=%cs"])
        .current_dir(&clone)
        .output()?;
    let day = String::from_utf8_lossy(&last.stdout).into_owned();
    println!("advisories: database of {}", day.trim());
    let configuration = fs::read_to_string(repository().join("deny.toml"))?;
    let path = folder.join("deny.toml");
    fs::write(&path, with_database(&configuration, folder)?)?;
    succeeds(
        Command::new(deny)
            .args(["--offline", "--config"])
            .arg(path)
            .args(["check", "advisories"]),
    )
}

/// Returns the folder of the default database's clone, as cargo deny expects it. Its name contains
/// a hash of the database's URL.
fn clone() -> PathBuf {
    paths::target().join("advisories/advisory-db-3157b0e258782691")
}

/// Returns the configuration, with the folder of the databases added.
fn with_database(configuration: &str, folder: &Path) -> Result<String> {
    let title = "[advisories]\n";
    let (before, after) = configuration
        .split_once(title)
        .context("deny.toml has no [advisories]")?;
    let folder = fs::canonicalize(folder)?;
    Ok(format!(
        "{before}{title}db-path = {:?}\n{after}",
        folder.display().to_string()
    ))
}

fn succeeds(command: &mut Command) -> Result<bool> {
    Ok(command.current_dir(repository()).status()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_named_in_the_configuration() {
        let named = with_database(
            "[graph]\n\n[advisories]\nyanked = \"deny\"\n",
            Path::new("/"),
        );
        assert_eq!(
            named.unwrap(),
            "[graph]\n\n[advisories]\ndb-path = \"/\"\nyanked = \"deny\"\n"
        );
        assert!(with_database("[bans]\n", Path::new("/")).is_err());
    }
}
