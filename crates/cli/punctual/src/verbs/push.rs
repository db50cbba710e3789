//! `push`: sends the recordings of this machine to a collector.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use punctual_model::Nanos;
use punctual_push::{Deliverer, Target};

use crate::context::Context;
use crate::exit::Exit;
use crate::output;
use crate::running::push::{host_name, identity, set_stop, stopped, token_of};
use crate::running::stop_flag;
use crate::verb::{Run, Verb};

pub(super) const VERB: Verb = Verb::new::<Push>("push");

const LONG: &str = "Send the finished recordings of the store to a collector (punctual-server).\n\n\
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
        let exit = match (outbox.due + outbox.refused, stopped()) {
            (0, _) => Exit::Done,
            (_, true) => Exit::Interrupted,
            (_, false) => Exit::Failed,
        };
        let text = format!(
            "pushed {}, due {}, refused {}",
            outbox.delivered, outbox.due, outbox.refused
        );
        context.done(exit, text.as_str());
        output::print(&format!("{text}\n"))?;
        Ok(exit)
    }
}
