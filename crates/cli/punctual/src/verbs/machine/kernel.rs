//! `machine kernel`: checks a configuration, prints a fragment to build from, and prints the steps to
//! install a real-time kernel.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Parser};
use punctual_checks::{install, kernel};
use punctual_host::Host;
use punctual_model::Fact;

use crate::audit::{AuditOutput, ForRole};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::verb::Run;

/// Check or write a kernel configuration for real time
#[derive(Parser)]
#[command(disable_help_subcommand = true)]
pub(super) enum Kernel {
    /// Check a kernel's configuration, before or after the build
    #[command(after_help = crate::exit::OF_AUDIT)]
    Check(Check),
    /// Print the options as a fragment for the kernel's merge_config.sh
    Fragment(ForRole),
    /// Print the steps to install a real-time kernel, without installing it
    InstallSteps {
        #[arg(long, value_name = "NAME", help = format!("{} [default: that of this \
            machine]", install::names()))]
        distribution: Option<String>,
        /// Build a kernel from the sources of kernel.org instead
        #[arg(long, conflicts_with = "distribution")]
        source: bool,
    },
}

#[derive(Args)]
pub(super) struct Check {
    /// A .config, plain or compressed with gzip, xz or zstd [default: that of the running kernel]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    role: ForRole,
    /// Also show checks that are ok or do not apply
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: AuditOutput,
}

impl Run for Kernel {
    fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Check(check) => check.run(context),
            Self::Fragment(role) => {
                output::print(&kernel::fragment(role.get()))?;
                Ok(Exit::Done)
            }
            Self::InstallSteps { source: true, .. } => {
                output::print(&install::steps_from_source())?;
                Ok(Exit::Done)
            }
            Self::InstallSteps { distribution, .. } => install_steps(distribution.as_ref()),
        }
    }
}

impl Check {
    fn run(self, context: &Context) -> Result<Exit> {
        let audit = match &self.config {
            Some(path) => {
                let absolute = std::path::absolute(path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                let text = Host::live()
                    .kernel_config(&absolute.to_string_lossy())
                    .map_err(|why| {
                        anyhow::anyhow!(
                            "cannot read the configuration in {}: {why}",
                            path.display()
                        )
                    })?;
                let name = path.display().to_string();
                kernel::audit(&Fact::known(text, &name), self.role.get(), None, &name)
            }
            None => {
                let facts = Host::live().capture(&punctual_checks::patterns());
                let release = facts.host.kernel.release.get();
                let name = release
                    .map_or("the running kernel", String::as_str)
                    .to_owned();
                kernel::audit(&facts.kernel_config, self.role.get(), Some(&facts), &name)
            }
        };
        self.output.show(&audit, context, self.all)
    }
}

fn install_steps(distribution: Option<&String>) -> Result<Exit> {
    let host = Host::live();
    let facts = host.facts();
    let found = facts.distribution.id.get();
    let name = distribution.or(found).ok_or_else(|| {
        UsageError(format!(
            "unknown distribution ({}): give --distribution {}",
            facts
                .distribution
                .id
                .unknown
                .as_deref()
                .unwrap_or("no os-release"),
            install::names()
        ))
    })?;
    let machine = facts.kernel.architecture.get();
    let machine = machine.map_or("x86_64", String::as_str);
    // A distribution that was given explicitly takes precedence.
    let like = match distribution {
        Some(_) => Vec::new(),
        None => host.distribution_like(),
    };
    let text =
        install::steps(name, &like, machine).map_err(|error| UsageError(error.to_string()))?;
    output::print(&text)?;
    Ok(Exit::Done)
}
