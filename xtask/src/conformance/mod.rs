//! `cargo xtask conformance`: runs the tests with programs and libraries of others, and writes those
//! that passed into `docs/conformance.md`.

mod rows;
mod version;

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::paths::{self, repository};
use rows::{ROWS, Row};

#[derive(Args)]
pub(crate) struct Options {
    /// Clients to test; the rows of others stay [default: all]
    #[arg(value_name = "CLIENT")]
    clients: Vec<String>,
}

const PAGE: &str = "docs/conformance.md";

const HEAD: &str = "\
# Conformance

Results of these programs and libraries of others were compared with those of punctual. `cargo xtask
conformance` runs the command of each row, and writes the rows whose test passed. A client whose test failed, was skipped or did not run has no row.

| client | version | compared | passed on | command |
|---|---|---|---|---|
";

impl Row {
    /// Returns the cargo command of the test, without `cargo`.
    fn arguments(&self) -> Vec<&'static str> {
        let [package, file, test] = self.test();
        let mut words = vec!["test", "-p", package];
        match file {
            rows::UNIT => words.push("--lib"),
            _ => words.extend(["--test", file]),
        }
        words.extend(["--", "--exact", test]);
        words
    }

    fn test(&self) -> [&'static str; 3] {
        let mut words = self.test.split(' ');
        std::array::from_fn(|_| words.next().unwrap_or_default())
    }

    /// Returns the beginning of the line on the page, up to the version.
    fn begin(&self) -> String {
        format!("| {} | ", self.client)
    }

    fn line(&self, version: &str, date: &str) -> String {
        let (compared, command) = (self.compared, self.arguments().join(" "));
        let begin = self.begin();
        format!("{begin}{version} | {compared} | {date} | `cargo {command}` |")
    }

    /// Returns the first line that the client prints about its version. `None` if it is not installed.
    fn version(&self) -> Option<String> {
        let output = self.version.command()?.output().ok()?;
        if !output.status.success() {
            return None;
        }
        // ssh prints its version to stderr.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).replace('|', " ");
        let line = text.lines().find(|line| !line.trim().is_empty())?;
        Some(line.trim().to_owned())
    }

    /// Runs the test. Returns why it did not pass.
    fn run(&self) -> Result<Option<String>> {
        let output = paths::cargo()
            .args(self.arguments())
            .arg("--nocapture")
            .current_dir(repository())
            .output()
            .context("cargo test")?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let skipped = text.lines().find(|line| line.starts_with("SKIP"));
        Ok(match skipped {
            Some(line) => Some(line.to_owned()),
            None if !output.status.success() => Some("the test failed".to_owned()),
            None if !text.contains("test result: ok. 1 passed") => Some("no such test".to_owned()),
            None => None,
        })
    }
}

/// Runs the tests of the clients, and writes the page.
///
/// # Errors
/// Fails if cargo cannot be run or the page cannot be written.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let unknown = |name: &&String| ROWS.iter().all(|row| row.client != **name);
    if let Some(name) = options.clients.iter().find(unknown) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.client).collect();
        anyhow::bail!("no client {name}: the clients are {}", known.join(", "));
    }
    let path = repository().join(PAGE);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = BTreeMap::new();
    let date = Command::new("date").arg("+%F").output()?;
    let date = String::from_utf8(date.stdout)?;
    for row in ROWS {
        let (begin, wanted) = (row.begin(), &options.clients);
        if !wanted.is_empty() && !wanted.iter().any(|name| name == row.client) {
            let kept = before.lines().find(|line| line.starts_with(&begin));
            lines.extend(kept.map(|line| (row.client, line.to_owned())));
            continue;
        }
        let Some(version) = row.version() else {
            println!("{}: not installed", row.client);
            continue;
        };
        match row.run()? {
            None => {
                println!("{}: passed", row.client);
                lines.insert(row.client, row.line(&version, date.trim()));
            }
            Some(why) => println!("{}: {why}", row.client),
        }
    }
    let table: String = lines.values().map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, format!("{HEAD}{table}")).with_context(|| PAGE)?;
    println!("{PAGE}: {} of {} clients", lines.len(), ROWS.len());
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody may add a client to the page by hand.
    #[test]
    fn page_lists_only_rows_of_the_table() {
        let page = std::fs::read_to_string(repository().join(PAGE)).unwrap();
        let rest = page.strip_prefix(HEAD).expect("the page begins with HEAD");
        assert!(!rest.is_empty());
        for line in rest.lines() {
            let row = ROWS.iter().find(|row| line.starts_with(&row.begin()));
            let row = row.unwrap_or_else(|| panic!("no row of the table: {line}"));
            let fields: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            let [_, version, _, date, _] = fields.as_slice() else {
                panic!("{line}");
            };
            assert_eq!(line, row.line(version, date));
        }
    }

    #[test]
    fn test_of_each_row_exists() {
        for row in ROWS {
            let [package, file, test] = row.test();
            let name = package.strip_prefix("punctual-").unwrap_or(package);
            let folder = if file == rows::UNIT { "src" } else { "tests" };
            let folder = paths::crate_folder(name).unwrap().join(folder);
            let listed = Command::new("grep")
                .args([
                    "-rlF",
                    &format!("fn {}()", test.rsplit(':').next().unwrap()),
                ])
                .arg(folder)
                .output()
                .unwrap();
            assert!(listed.status.success(), "{package} {file} {test}");
        }
    }
}
