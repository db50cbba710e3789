//! The audit: what in a machine's state costs latency.
//!
//! **For:** judging a set of facts ([`audit`]): about a hundred checks, each
//! with its evidence, why it matters and where that is said, and what to do.
//! Also a kernel's configuration before it is built ([`kernel`]), and how a
//! real-time kernel is installed ([`install`]).
//!
//! **Knows:** what each setting means for latency, in tables: one file per
//! topic in `topics`, the kernel's options in `kernel/options.rs`. The
//! machinery (`engine`, `fact_reader`) knows none of them. What a machine is for (its
//! [`Role`]) changes what is asked of it where guides disagree, and the finding
//! says so.
//!
//! **Must not know:** files, Linux calls, terminals. It is a pure function
//! from facts to findings: a path here is the name of a fact, and never
//! opened. How a setting is changed is `tune`'s; a finding only says
//! the command.

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

/// One thing that is looked at. The machinery makes a
/// [`Finding`](punctual_model::Finding) of it.
#[derive(Debug)]
pub struct Check {
    /// Its name within the topic: `rt-throttling`.
    pub name: &'static str,
    /// What is judged, as a noun: with what is found it makes the title of a finding,
    /// "swappiness is 60".
    pub subject: &'static str,
    /// How much it matters, where the role says nothing else.
    pub severity: Severity,
    /// The setting of the table that it judges: read, and set to what is recommended;
    /// empty where that is not all.
    pub setting: &'static str,
    /// What it should be, in words.
    pub expected: &'static str,
    /// The files it reads beside those of its setting: paths, `#` for a number, `*` for any name; or
    /// `ethtool -c *`, which is asked of the kernel. Facts
    /// every recording has, the kernel's options and the tasks need no entry.
    pub reads: &'static [&'static str],
    /// What to make of the facts.
    pub(crate) judge: fn(&FactReader) -> Judged,
    /// Why it costs latency.
    pub why: &'static str,
    /// Where that is documented; empty where its setting says it.
    pub source: &'static str,
    /// What a role changes.
    pub stances: &'static [Stance],
    /// What changes it now beside its setting. In commands `{cpus}` and `{others}` stand for the CPUs of the audit.
    pub remedies: &'static [Remedy],
    /// The parameters of the kernel's command line that change it permanently.
    pub boot: &'static [&'static str],
    /// What changes it permanently, where neither the settings of `remedies` nor `boot` say
    /// it; beside `boot` what follows that; else empty.
    pub reboot: &'static str,
    /// A better text than `reboot`, made from the facts of this machine; `None`: there is none.
    pub(crate) here: fn(&FactReader) -> Option<String>,
}

impl Check {
    /// All files it reads.
    pub fn files(&self) -> Vec<&'static str> {
        let own = setting(self.setting).map_or_else(Vec::new, Setting::paths);
        own.into_iter().chain(self.reads.iter().copied()).collect()
    }

    /// Where it is documented.
    pub fn documented(&self) -> &'static str {
        match (self.source, setting(self.setting)) {
            ("", Some(setting)) => setting.source,
            (source, _) => source,
        }
    }

    /// What changes it permanently where its settings do not say it, with `{cpus}` and
    /// `{others}` for CPUs; else empty. Parameters that other architectures alone have
    /// are left out.
    pub fn permanent(&self, architecture: Option<&str>) -> String {
        let rows = self.boot.iter().filter_map(|name| boot_parameter(name));
        let rows = rows.filter(|row| row.fits(architecture));
        let arguments: Vec<String> = rows.map(|row| row.argument("{cpus}", "{others}")).collect();
        match arguments.as_slice() {
            // What stands beside parameters is about them.
            [] if !self.boot.is_empty() => String::new(),
            [] => self.reboot.to_owned(),
            all => format!(
                "{} on the kernel's command line{}",
                all.join(" "),
                self.reboot
            ),
        }
    }

    /// All that changes it now.
    pub fn all_remedies(&self) -> Vec<Remedy> {
        let own = (!self.setting.is_empty()).then(|| remedy::set(self.setting));
        own.into_iter()
            .chain(self.remedies.iter().copied())
            .collect()
    }
}

/// How some roles see a check.
#[derive(Debug)]
pub struct Stance {
    /// Which roles.
    pub roles: &'static [Role],
    /// How much it matters to them.
    pub severity: Severity,
    /// What is different, and which guides say otherwise.
    pub note: &'static str,
}

/// What a check has unless it says otherwise.
pub(crate) const BASE: Check = Check {
    name: "",
    subject: "",
    severity: Severity::Medium,
    setting: "",
    expected: "",
    reads: &[],
    judge: |_| Err(fact_reader::Missing::not_applicable("nothing is asked")),
    why: "",
    source: "",
    stances: &[],
    remedies: &[],
    boot: &[],
    reboot: "",
    here: |_| None,
};
