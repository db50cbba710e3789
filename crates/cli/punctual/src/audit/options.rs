//! Options of the verbs that audit: the role of the machine, and the output formats.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use punctual_checks::Role;
use punctual_model::Audit;
use punctual_report::document::{self, AuditDetail};
use punctual_report::text;

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output::{self, Output};

// What the machine is for.
#[derive(Args)]
pub(crate) struct ForRole {
    #[arg(long, value_name = "ROLE", help = role_help())]
    pub(crate) role: Option<Role>,
}

impl ForRole {
    pub(crate) fn get(&self) -> Role {
        self.role.unwrap_or_default()
    }
}

fn role_help() -> String {
    let roles: Vec<String> = punctual_checks::ROLES
        .iter()
        .map(|(_, name, meaning)| format!("{name} ({meaning})"))
        .collect();
    format!(
        "Role of the machine: {} [default: control]",
        roles.join(", ")
    )
}

// Output formats of an audit other than text, and the choice of its exit code.
#[derive(Args)]
pub(crate) struct AuditOutput {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: AuditFiles,
    /// Exit with 0, regardless of the findings
    #[arg(long)]
    report_only: bool,
}

/// A function that formats an audit as a file.
type Form = fn(&Audit) -> String;

// Files for other programs.
#[derive(Args)]
struct AuditFiles {
    /// Write SARIF 2.1.0 for code scanning; - for stdout
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write JUnit XML for continuous integration; - for stdout
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write TAP for continuous integration; - for stdout
    #[arg(long, value_name = "FILE")]
    tap: Option<PathBuf>,
}

impl AuditFiles {
    fn asked_for(&self) -> Vec<(Form, &PathBuf)> {
        let sarif: Form = |audit| output::json(&punctual_report::audit::sarif(audit));
        let junit: Form = punctual_report::audit::junit;
        let tap: Form = punctual_report::audit::tap;
        let files = [(sarif, &self.sarif), (junit, &self.junit), (tap, &self.tap)];
        (files.into_iter())
            .filter_map(|(form, path)| Some((form, path.as_ref()?)))
            .collect()
    }
}

impl AuditOutput {
    /// Writes an audit in the requested formats, or as text if none was requested.
    pub(crate) fn show(&self, audit: &Audit, context: &Context, all: bool) -> Result<Exit> {
        let json = self.json;
        let files = self.files.asked_for();
        let dashes = files.iter().filter(|(_, path)| path.as_os_str() == "-");
        // Check the number of formats for stdout before anything is written.
        let on_stdout = usize::from(json) + dashes.count();
        if on_stdout > 1 {
            let wrong = "only one format can go to stdout: pass a file for the others".to_owned();
            return Err(UsageError(wrong).into());
        }
        let exit = self.exit(audit);
        context.ends_with(exit);
        for (form, path) in files {
            Output::open(path)?.put(form(audit).as_bytes())?;
        }
        if json {
            output::print(&output::json(audit))?;
        } else if on_stdout == 0 {
            let shown = document::audit(audit, AuditDetail { all });
            output::print(&text::render(&shown, &context.style()))?;
        }
        Ok(exit)
    }

    pub(crate) fn exit(&self, audit: &Audit) -> Exit {
        match self.report_only {
            false if audit.is_grave() => Exit::Broken,
            false if audit.knows_nothing() => Exit::NotProven,
            _ => Exit::Done,
        }
    }
}
