//! `run`: runs the server.

use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use punctual_command::exit::Exit;
use punctual_command::{Context, Run, Verb, output};
use punctual_serve::Config;
use punctual_serve::trends::TrendSource;
use punctual_store::Collection;

use crate::collection::{self, file_of_store};
use crate::options::{Options, config};
use crate::trends::StoredTrends;

pub(super) const VERB: Verb = Verb::new::<Server>("run");

const LONG: &str = "Serve a dashboard, an API and metrics of the recordings in the store, and \
    receive recordings that other machines push (punctual push).\n\n\
    On a loopback address every user of this machine may read and push, unless --login is given. \
    On any other address each request needs a token (punctual-server enrol), and TLS. SIGTERM ends \
    the server after the current requests.\n\n\
    Without --store, the pages show the store of this machine. --store also accepts a PostgreSQL \
    database: postgres://USER@HOST/NAME, which several servers may share. If the URL contains a \
    password, pass it in PUNCTUAL_STORE, because other users can see arguments.";

/// Serve a dashboard, an API and metrics over HTTP
#[derive(Parser)]
#[command(long_about = LONG)]
struct Server {
    #[command(flatten)]
    options: Options,
}

impl Run for Server {
    fn run(self, context: &Context) -> Result<Exit> {
        // If the store is a file, the server also keeps data next to it.
        let file = file_of_store(context)?;
        // A server that cannot start must not create a store.
        let config = config(self.options, file.as_deref())?;
        config.check()?;
        let is_new = file.as_deref().is_some_and(|file| !file.exists());
        let collection = collection::open_or_create(context)?;
        if let (true, Some(file)) = (is_new, file) {
            output::note(&format!("the new store {} is empty", file.display()));
        }
        serve(config, collection)
    }
}

fn serve(config: Config, collection: Arc<dyn Collection>) -> Result<Exit> {
    let config = Config {
        trends: TrendSource(Some(Arc::new(StoredTrends {
            collection: Arc::clone(&collection),
        }))),
        ..config
    };
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let open = !config.login && config.sign_on.is_none() && config.listen.ip().is_loopback();
    let name = collection.name();
    punctual_serve::run(config, collection, |address| {
        output::note(&format!("serving {name} on {scheme}://{address}"));
        if open {
            output::note(
                "every user of this machine can read the recordings; --login requires a \
                token",
            );
        }
    })?;
    output::note("ended");
    Ok(Exit::Done)
}
