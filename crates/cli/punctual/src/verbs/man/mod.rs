//! `man`: writes the manual pages.

mod examples;
mod markup;
mod page;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Command, Parser};

use crate::context::Context;
use crate::exit::Exit;
use crate::output::{self, Output};
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Man>("man");

/// Write the manual pages to a folder
#[derive(Parser)]
struct Man {
    /// Folder for the pages; created if missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

impl Run for Man {
    fn run(self, _: &Context) -> Result<Exit> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let mut whole = super::command();
        whole.build();
        let mut pages = Vec::new();
        collect(&whole, &mut Vec::new(), &mut pages)?;
        for (name, page) in &pages {
            Output::open(&folder.join(format!("{name}.1")))?.put(page.as_bytes())?;
        }
        output::note(&format!(
            "{} pages written to {}",
            pages.len(),
            folder.display()
        ));
        Ok(Exit::Done)
    }
}

/// Adds the page of a command and those of its subcommands, such as `punctual-measure-timer`.
fn collect(
    command: &Command,
    path: &mut Vec<String>,
    pages: &mut Vec<(String, String)>,
) -> Result<()> {
    path.push(command.get_name().to_owned());
    pages.push((path.join("-"), page::manual_page(command, path)?));
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for subcommand in command.get_subcommands().filter(shown) {
        collect(subcommand, path, pages)?;
    }
    path.pop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Vec<(String, String)> {
        let mut whole = crate::verbs::command();
        whole.build();
        let mut pages = Vec::new();
        collect(&whole, &mut Vec::new(), &mut pages).unwrap();
        pages
    }

    #[test]
    fn man_pages_have_sections_without_marks() {
        let pages = pages();
        assert!(pages.len() > 50, "{}", pages.len());
        for (name, page) in &pages {
            for section in [
                "NAME",
                "SYNOPSIS",
                "OPTIONS",
                "ENVIRONMENT",
                "FILES",
                "SEE ALSO",
            ] {
                let heading = format!("\n.SH {section}\n");
                let quoted = format!("\n.SH \"{section}\"\n");
                assert!(
                    page.contains(&heading) || page.contains(&quoted),
                    "{name}: {section}"
                );
            }
            for mark in ["`", "**", "\n\\- "] {
                assert!(!page.contains(mark), "{name}: {mark}\n{page}");
            }
            assert!(!page.contains("serve\\-load"), "{name}");
        }
        let (_, first) = &pages[0];
        assert!(
            first.contains("punctual \\- Real\\-time latency"),
            "{first}"
        );
        assert!(!first.contains('?'), "a name is no question");
    }

    #[test]
    fn every_verb_has_an_example() {
        for (name, page) in pages() {
            if name.matches('-').count() == 1 {
                assert!(page.contains("\n.SH EXAMPLES\n"), "{name}");
            }
        }
    }

    #[test]
    fn options_have_their_values() {
        let pages = pages();
        let page = |name: &str| &pages.iter().find(|(found, _)| found == name).unwrap().1;
        let plot = page("punctual-plot");
        for value in [
            "latency",
            "percentiles",
            "timeline",
            "matrix",
            "bars",
            "log",
        ] {
            assert!(plot.contains(&format!("\n{value}\n")), "{value}: {plot}");
        }
        let doctor = page("punctual-doctor");
        assert!(
            doctor.contains(".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\n"),
            "{doctor}"
        );
    }
}
