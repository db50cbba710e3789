//! The audit: finds the causes of latency in a machine's state.
//!
//! **For:** judging a set of facts ([`audit`]) with about a hundred checks. Each finding contains
//! its evidence, the reason why it matters, the source of that reason, and a remedy. Also judges a
//! kernel's configuration before it is built ([`kernel`]), and explains how to install a real-time
//! kernel ([`install`]).
//!
//! **Knows:** the effect of each setting on latency, in tables: one file per topic in `topics`, and
//! the kernel's options in `kernel/options.rs`. The generic code (`engine`, `fact_reader`) does not
//! know them. If guides disagree, the requirement of a check depends on the machine's [`Role`], and
//! the finding mentions the disagreement.
//!
//! **Must not know:** files, Linux system calls, terminals. The audit is a pure function from facts
//! to findings: a path in this crate is the name of a fact and is never opened. The crate `tune`
//! changes settings; a finding only names the command.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod boot;
mod engine;
mod fact_reader;
pub mod install;
pub mod kernel;
mod offered;
mod page;
mod placeholders;
mod remedy;
mod script;
mod topics;

pub use engine::{AuditError, Request, audit, measured_cpus, patterns};
pub use page::page;
pub use punctual_model::{ROLES, Role, RoleError};
pub use remedy::{Remedy, Set};
pub use script::fix_script;
pub use topics::{TOPICS, Topic};

use fact_reader::{FactReader, Judged};
use punctual_model::{Setting, Severity, boot_parameter, setting};

/// A check. The engine turns it into a [`Finding`](punctual_model::Finding).
#[derive(Debug)]
pub struct Check {
    /// Name within the topic, such as `rt-throttling`.
    pub name: &'static str,
    /// The subject as a noun. Together with the current state, it forms the title of a finding,
    /// such as "swappiness is 60".
    pub subject: &'static str,
    /// Severity, unless a stance for the role specifies another one.
    pub severity: Severity,
    /// Name of the setting that the check reads and judges, and whose recommended value is the
    /// remedy. Empty if the check or its remedy involves more than a single setting.
    pub setting: &'static str,
    /// Expected state, in words.
    pub expected: &'static str,
    /// Files that the check reads in addition to those of its setting: paths, with `#` for a number
    /// and `*` for any name, or a command such as `ethtool -c *` for a query to the kernel. This
    /// list does not include facts that every recording has, the kernel's options and the tasks.
    pub reads: &'static [&'static str],
    /// Judges the facts.
    pub(crate) judge: fn(&FactReader) -> Judged,
    /// The reason why another state costs latency.
    pub why: &'static str,
    /// Source of that reason; empty if it is the same as the source of the setting.
    pub source: &'static str,
    /// Differences for some roles.
    pub stances: &'static [Stance],
    /// Changes that take effect immediately, in addition to that of `setting`. In commands,
    /// `{cpus}` and `{others}` stand for the CPUs of the audit.
    pub remedies: &'static [Remedy],
    /// Kernel parameters that make the change permanent.
    pub boot: &'static [&'static str],
    /// Instructions for a permanent change, if neither the settings in `remedies` nor `boot`
    /// provide them. If `boot` is not empty, this text follows its parameters. Empty if no text is
    /// needed.
    pub reboot: &'static str,
    /// Function that derives a better text than `reboot` from the facts of this machine. It returns
    /// `None` if there is none.
    pub(crate) here: fn(&FactReader) -> Option<String>,
}

impl Check {
    /// Returns all files that the check reads.
    pub fn files(&self) -> Vec<&'static str> {
        let own = setting(self.setting).map_or_else(Vec::new, Setting::paths);
        own.into_iter().chain(self.reads.iter().copied()).collect()
    }

    /// Returns the source of the check's reason.
    pub fn documented(&self) -> &'static str {
        match (self.source, setting(self.setting)) {
            ("", Some(setting)) => setting.source,
            (source, _) => source,
        }
    }

    /// Returns instructions for a permanent change. The text is empty if the settings of the check
    /// already provide them. `{cpus}` and `{others}` stand for CPUs. Parameters that exist only on
    /// other architectures are left out.
    pub fn permanent(&self, architecture: Option<&str>) -> String {
        let rows = self.boot.iter().filter_map(|name| boot_parameter(name));
        let rows = rows.filter(|row| row.fits(architecture));
        let arguments: Vec<String> = rows.map(|row| row.argument("{cpus}", "{others}")).collect();
        match arguments.as_slice() {
            // If `boot` has parameters, the text of `reboot` is about them.
            [] if !self.boot.is_empty() => String::new(),
            [] => self.reboot.to_owned(),
            all => format!(
                "{} on the kernel's command line{}",
                all.join(" "),
                self.reboot
            ),
        }
    }

    /// Returns all changes that take effect immediately.
    pub fn all_remedies(&self) -> Vec<Remedy> {
        let own = (!self.setting.is_empty()).then(|| remedy::set(self.setting));
        own.into_iter()
            .chain(self.remedies.iter().copied())
            .collect()
    }
}

/// The differences of a check for some roles.
#[derive(Debug)]
pub struct Stance {
    /// The roles to which the differences apply.
    pub roles: &'static [Role],
    /// Severity for these roles.
    pub severity: Severity,
    /// Description of the difference, and of the guides that disagree.
    pub note: &'static str,
}

/// Defaults for the fields of a check.
pub(crate) const BASE: Check = Check {
    name: "",
    subject: "",
    severity: Severity::Medium,
    setting: "",
    expected: "",
    reads: &[],
    judge: |_| {
        Err(fact_reader::Missing::not_applicable(
            "this check examines nothing",
        ))
    },
    why: "",
    source: "",
    stances: &[],
    remedies: &[],
    boot: &[],
    reboot: "",
    here: |_| None,
};
