//! `push`: sends the recordings of this machine to a collector.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_host::Host;
use punctual_model::Nanos;
use punctual_monitor::Push as Plan;
use punctual_push::{Deliverer, Target};

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::running::stop_flag;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Push>("push");

const LONG: &str = "Send the finished recordings of the store to a collector (punctual serve).\n\n\
    Recordings that the collector already has are skipped. If it lost some, for example because a \
    backup was restored, they are sent again: each call compares the latest recordings with the \
    collector, and --resend compares all of them. Samples and trace events are not sent. A \
    recording that the collector refuses is reported with the reason, and stays in the store.\n\n\
    The token is read from --token-file or from the variable PUNCTUAL_TOKEN.";

const AFTER: &str = "Exit codes:\n  \
    0  all recordings are pushed; with --check: they can be\n  \
    1  some are not pushed: the collector refused them, or the next call sends them";

/// Send the recordings of this machine to a collector
#[derive(Parser)]
#[command(long_about = LONG, after_long_help = AFTER)]
struct Push {
    /// URL of the collector: https://HOST:PORT
    #[arg(long, value_name = "URL")]
    to: String,
    /// File with the token of this machine
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificates to trust instead of the system's (PEM file)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Time to retry while the collector cannot be reached
    #[arg(long, value_name = "TIME", default_value = "5m")]
    patience: Nanos,
    /// Also send refused recordings, and all that the collector lost
    #[arg(long)]
    resend: bool,
    /// Send nothing: check the address, the certificate and the token
    #[arg(long, conflicts_with = "resend")]
    check: bool,
}

/// How long a service keeps retrying if the collector does not answer. After that, it waits until
/// the next push is due.
const PATIENCE: Duration = Duration::from_secs(300);

/// The flag that Ctrl-C or SIGTERM sets to stop a push.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

pub(super) fn stopped() -> bool {
    STOP.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

impl Run for Push {
    fn run(self, context: &Context) -> Result<Exit> {
        let token = token_of(self.token_file.as_deref())?;
        set_stop(&stop_flag()?);
        let deliverer = Deliverer::new(
            Target {
                url: self.to.clone(),
                token,
                machine: host_name(),
                identity: identity(),
                roots: self.ca,
            },
            stopped,
        )?;
        if self.check {
            deliverer.check()?;
            output::print(&format!("{} accepts this machine\n", self.to))?;
            return Ok(Exit::Done);
        }
        let store = context.store_to_change()?;
        let (patience, mut said) = (Duration::from(self.patience), |text: &str| {
            output::note(text);
        });
        if self.resend {
            deliverer.redeliver(&store, patience, &mut said)?;
        }
        let outbox = deliverer.deliver(&store, patience, &mut said)?;
        output::print(&format!(
            "pushed {}, due {}, refused {}\n",
            outbox.delivered, outbox.due, outbox.refused
        ))?;
        Ok(match (outbox.due + outbox.refused, stopped()) {
            (0, _) => Exit::Done,
            (_, true) => Exit::Interrupted,
            (_, false) => Exit::Failed,
        })
    }
}

/// Sets the flag that stops a push.
pub(super) fn set_stop(flag: &Arc<AtomicBool>) {
    STOP.get_or_init(|| Arc::clone(flag));
}

/// Returns the identity of this machine: a hash of its machine-id(5), its current boot, and its
/// name. Returns `None` if the boot is not known.
pub(super) fn identity() -> Option<String> {
    let (host, name) = (Host::live(), host_name());
    let id = match host.machine() {
        // A container may not have a machine-id file.
        id if id == name || id == "unknown" => "-".to_owned(),
        id => id,
    };
    let plain = |text: String| -> String {
        let plain = |c: char| if c.is_ascii_graphic() { c } else { '?' };
        text.chars().map(plain).collect()
    };
    Some(format!("{id} {} {}", plain(host.boot_id()?), plain(name)))
}

/// Returns the name of this machine, the same as in its recordings.
pub(super) fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Returns the token from the file, or from the environment.
pub(super) fn token_of(file: Option<&Path>) -> Result<Option<String>> {
    let token = match file {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Some(text.with_context(|| format!("cannot read {}", path.display()))?)
        }
        None => std::env::var("PUNCTUAL_TOKEN").ok(),
    };
    let token = token.map(|token| token.trim().to_owned());
    Ok(token.filter(|token| !token.is_empty()))
}

/// Pushes all data that is due, as configured by `[push]` in a plan.
pub(in crate::verbs) fn push_once(
    plan: &Plan,
    store: &Path,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    set_stop(stop);
    let target = Target {
        url: plan.to.clone(),
        token: token_of(plan.token_file.as_deref())?,
        machine: host_name(),
        identity: identity(),
        roots: plan.ca.clone(),
    };
    let store = punctual_store::Store::open(store)?;
    let deliverer = Deliverer::new(target, stopped)?;
    deliverer.deliver(&store, PATIENCE, &mut |text| output::note(text))?;
    Ok(())
}
