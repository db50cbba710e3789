//! `tune`: plans, applies, watches and restores settings of the machine.

mod cmdline;
mod every_boot;
mod from_doctor;
mod settings;
mod tuned;

use anyhow::Result;
use clap::{Args, Parser};
use punctual_host::Host;
use punctual_model::{CpuSet, ToJson};
use punctual_report::document::Document;
use punctual_tune::{Options, PROFILES, Plan, Profile, Refusals, Request, Status, Wish};

use crate::audit::{self, ForRole};
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::settings::{APPLIED, document, print};
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Tune>("tune");

const LONG: &str = "\
Plan, apply, verify and restore settings of this machine.

`plan` shows what would change and writes nothing. `apply` writes the old value \
of each setting to a journal, changes the setting, and reads it back. If the \
kernel refuses a setting of a profile, the setting is left out, with the reason. \
If the kernel refuses a setting of --set, or any setting with --strict, \
everything is undone. Applied settings stay until `revert`, which restores the \
old values exactly, even after a kill or a reboot.";

const EXAMPLES: &str = "\
Examples:
  punctual tune plan control --cpus 2-3
  sudo punctual tune apply control --cpus 2-3 --set swappiness=1
  punctual tune plan --from-doctor --cpus 2-3
  sudo punctual tune apply --set 'irq-affinity@eth0*=0' --set dma-latency-us=0
  punctual tune status
  sudo punctual tune revert
  sudo punctual tune enable control --cpus 2-3
  punctual tune cmdline write control --cpus 2-3 --dry-run
  punctual tune profiles --show control | sudo tee /etc/mine.toml
  sudo punctual tune apply /etc/mine.toml

For root, punctual accepts only profiles that root owns and that no other user may
write to or replace: keep them in a folder that root owns.

Exit codes: 0 done, 1 failed (apply: nothing stays changed, unless the message says
that only the output is incomplete), 2 wrong usage,
3 verify: a setting does not have the value that was set.";

/// Change settings of this machine, and restore them exactly
#[derive(Parser)]
#[command(long_about = LONG, after_help = EXAMPLES)]
#[command(disable_help_subcommand = true)]
enum Tune {
    /// Show the planned changes and their risks, without writing anything
    Plan(Wished),
    /// Change settings until `punctual tune revert`
    Apply(Apply),
    /// Show the applied settings, and which of them have changed since
    Status(Form),
    /// Exit with 3 if applied settings (or those of a profile) are not in force
    Verify(Wished),
    /// Restore the applied settings, the last change first
    #[command(visible_alias = "undo")]
    Revert {
        #[command(flatten)]
        form: Form,
        /// Skip settings that cannot be restored, such as those of removed devices
        #[arg(long)]
        forget: bool,
    },
    /// Apply and verify a profile at every boot, until a boot fails
    Enable(every_boot::Enable),
    /// Stop applying settings at boot
    Disable {
        #[command(flatten)]
        system: every_boot::System,
        #[command(flatten)]
        form: Form,
    },
    /// Apply, verify and show the settings of `enable`; used by its units
    #[command(subcommand, hide = true)]
    Boot(every_boot::Boot),
    /// Edit the kernel's command line in the boot loader's files
    #[command(subcommand)]
    Cmdline(cmdline::Cmdline),
    /// List the built-in profiles
    Profiles {
        /// Print a profile, which you can copy and edit
        #[arg(long, value_name = "NAME")]
        show: Option<String>,
    },
    /// Convert a profile of TuneD to a profile for `apply`
    #[command(long_about = tuned::IMPORT, after_help = tuned::IMPORT_EXAMPLES)]
    Import(tuned::Import),
    /// Write a profile as a profile of TuneD
    #[command(long_about = tuned::EXPORT, after_help = tuned::EXPORT_EXAMPLES)]
    Export(tuned::Export),
    /// List the settings that can be changed, or describe one setting
    Settings(settings::Which),
}

// The format of the results.
#[derive(Clone, Copy, Args)]
struct Form {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

// What is wanted.
#[derive(Args)]
struct Wished {
    /// A built-in profile (see `punctual tune profiles`) or a TOML file
    #[arg(value_name = "PROFILE")]
    profile: Option<String>,
    /// Settings that punctual doctor recommends on this machine
    #[arg(long, conflicts_with = "profile")]
    from_doctor: bool,
    #[command(flatten)]
    role: ForRole,
    /// CPUs that are measured or run the application, such as 2-3
    #[arg(short = 'a', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Set one setting, or SETTING@INSTANCE=VALUE; overrides the profile
    #[arg(short, long, value_name = "SETTING=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    form: Form,
}

#[derive(Args)]
struct Apply {
    #[command(flatten)]
    wished: Wished,
    /// Undo everything if the kernel refuses any setting
    #[arg(long, conflicts_with = "keep_going")]
    strict: bool,
    /// Also omit settings of --set that are absent or refused
    #[arg(long)]
    keep_going: bool,
}

impl Run for Tune {
    fn run(self, context: &Context) -> Result<Exit> {
        match self {
            Self::Plan(wished) => wished.show(context),
            Self::Apply(apply) => apply.run(context),
            Self::Status(form) => status(form, context),
            Self::Verify(wished) => wished.verify(context),
            Self::Revert { form, forget } => revert(form, forget, context),
            Self::Enable(enable) => enable.run(context),
            Self::Disable { system, form } => every_boot::run_disable(&system, form, context),
            Self::Boot(boot) => boot.run(context),
            Self::Cmdline(cmdline) => cmdline.run(context),
            Self::Profiles { show } => profiles(show.as_deref(), context),
            Self::Import(import) => import.run(context),
            Self::Export(export) => export.run(),
            Self::Settings(which) => which.show(&context.style()),
        }
    }
}

impl Wished {
    /// Returns the settings that the user requests in addition to those from the doctor; `None` if
    /// there are none.
    fn request(&self, keep_going: bool) -> Result<Option<Request>> {
        let profile = self.profile.as_deref().map(Profile::find).transpose()?;
        if self.role.role.is_some() && !self.from_doctor {
            return Err(UsageError("--role needs --from-doctor".to_owned()).into());
        }
        let sets = (self.set.iter())
            .map(|text| Wish::parse(text))
            .map(|wish| {
                if keep_going {
                    wish.map(Wish::lenient)
                } else {
                    wish
                }
            })
            .collect::<Result<Vec<_>, _>>()?;
        if profile.is_none() && sets.is_empty() {
            return Ok(None);
        }
        Ok(Some(Request {
            profile,
            sets,
            cpus: self.cpus.clone(),
        }))
    }

    fn plan(&self, keep_going: bool) -> Result<Plan> {
        let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        let asked = self.request(keep_going)?;
        let places = crate::context::tune_places()?;
        if self.from_doctor {
            let request = punctual_checks::Request {
                role: self.role.get(),
                cpus: self.cpus.clone(),
            };
            // There is no need to count events, because they would not lead to more recommended
            // settings.
            let audited = audit::here(&request, None)?;
            return from_doctor::plan(&audited, asked.unwrap_or_default(), &places.applied);
        }
        let request = asked.ok_or_else(|| {
            UsageError(format!(
                "nothing to apply: pass a profile ({}, or a TOML file), --set SETTING=VALUE or \
                 --from-doctor",
                names.join(", ")
            ))
        })?;
        Ok(Plan::make(&request, &Host::live(), &places.applied)?)
    }

    fn show(&self, context: &Context) -> Result<Exit> {
        let plan = self.plan(false)?;
        self.form.show(&plan, context, || document::plan(&plan))?;
        Ok(Exit::Done)
    }

    /// Verifies the settings that the profile or the options request. Without these, verifies the
    /// settings that were applied.
    fn verify(&self, context: &Context) -> Result<Exit> {
        if self.from_doctor || self.request(false)?.is_some() {
            let plan = self.plan(false)?;
            let exit = in_force(plan.changes().next().is_none());
            context.ends_with(exit);
            self.form
                .show(&plan, context, || document::verified(&plan))?;
            return Ok(exit);
        }
        let status = Status::read(&crate::context::tune_places()?.applied, &Host::live())?;
        let exit = in_force(status.as_ref().is_some_and(Status::holds));
        context.ends_with(exit);
        self.form
            .show(&status, context, || document::status(status.as_ref()))?;
        Ok(exit)
    }
}

/// Returns the exit code of `verify`.
const fn in_force(holds: bool) -> Exit {
    if holds { Exit::Done } else { Exit::Broken }
}

impl Form {
    /// Prints a value as JSON if requested, otherwise as text.
    fn show<T: ToJson>(
        self,
        value: &T,
        context: &Context,
        document: impl FnOnce() -> Document,
    ) -> Result<()> {
        if self.json {
            output::print(&output::json(value))
        } else {
            print(&document(), context)
        }
    }
}

impl Apply {
    fn run(&self, context: &Context) -> Result<Exit> {
        let plan = self.wished.plan(self.keep_going)?;
        let refusals = match (self.strict, self.keep_going) {
            (true, _) => Refusals::UndoAll,
            (_, true) => Refusals::LeaveOutAll,
            _ => Refusals::LeaveOutWishes,
        };
        let options = Options { refusals };
        let places = crate::context::tune_places()?;
        let applied = punctual_tune::apply(&plan, &Host::live(), &places, options)?;
        // If all changes were refused, the verb has failed.
        let failed = applied.changes.is_empty() && !applied.refused.is_empty();
        let exit = if failed { Exit::Failed } else { Exit::Done };
        if !applied.changes.is_empty() {
            context.done(exit, APPLIED);
        }
        let form = self.wished.form;
        form.show(&applied, context, || document::applied(&plan, &applied))?;
        Ok(exit)
    }
}

fn status(form: Form, context: &Context) -> Result<Exit> {
    let status = Status::read(&crate::context::tune_places()?.applied, &Host::live())?;
    form.show(&status, context, || document::status(status.as_ref()))?;
    Ok(Exit::Done)
}

fn revert(form: Form, forget: bool, context: &Context) -> Result<Exit> {
    let places = crate::context::tune_places()?;
    match punctual_tune::revert(&Host::live(), &places, forget) {
        Ok(restored) => {
            context.done(Exit::Done, "the settings are restored");
            form.show(&restored, context, || document::reverted(&restored))?;
            Ok(Exit::Done)
        }
        Err(punctual_tune::TuneError::NotRestored { restored, failures }) => {
            // Also report the settings that were restored.
            if !form.json && !restored.is_empty() {
                print(&document::reverted(&restored), context)?;
            }
            let error = punctual_tune::TuneError::NotRestored { restored, failures };
            Err(anyhow::Error::from(error).context(
                "not all settings are restored (the next command tries again; `punctual tune \
                 revert --forget` skips the rest)",
            ))
        }
        Err(error) => {
            if let punctual_tune::TuneError::NotRecorded { restored, .. } = &error
                && !form.json
            {
                print(&document::reverted(restored), context)?;
            }
            Err(error.into())
        }
    }
}

fn profiles(name: Option<&str>, context: &Context) -> Result<Exit> {
    let Some(name) = name else {
        print(&document::profiles()?, context)?;
        return Ok(Exit::Done);
    };
    match PROFILES.iter().find(|profile| profile.name == name) {
        Some(profile) => output::print(profile.text)?,
        None => {
            // The error that this function returns lists the existing profiles.
            let profile = Profile::find(name)?;
            return Err(UsageError(format!("{} already exists", profile.name)).into());
        }
    }
    Ok(Exit::Done)
}
