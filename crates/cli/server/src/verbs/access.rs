//! `enrol`, `revoke`, `moved`, `tokens`: who may push and read.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Parser;
use jiff::Timestamp;
use punctual_command::exit::{Exit, UsageError};
use punctual_command::{Context, Run, Verb, named, output};
use punctual_store::{AuditLine, Collection, Role, Token};

use crate::collection;

pub(super) const ENROL: Verb = Verb::new::<Enrol>("enrol");
pub(super) const REVOKE: Verb = Verb::new::<Revoke>("revoke");
pub(super) const MOVED: Verb = Verb::new::<Moved>("moved");
pub(super) const TOKENS: Verb = Verb::new::<Tokens>("tokens");

/// Create a token for a machine or a user, and print it
#[derive(Parser)]
struct Enrol {
    /// Name of the machine or user
    #[arg(value_name = "NAME", required_unless_present = "file")]
    name: Option<String>,
    /// File with a name in each line; prints each name with its token
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    file: Option<PathBuf>,
    /// Role: machine (pushes), viewer (reads) or admin
    #[arg(long, value_name = "ROLE", default_value = "machine", value_parser = roles())]
    role: Role,
}

/// Revoke the token of a machine or a user
#[derive(Parser)]
struct Revoke {
    /// Name of the machine or user
    #[arg(value_name = "NAME")]
    name: String,
}

/// Let another machine use the token of this name from now on
#[derive(Parser)]
struct Moved {
    /// Name of the machine
    #[arg(value_name = "NAME")]
    name: String,
}

/// List the names and roles that have a token
#[derive(Parser)]
struct Tokens {}

fn roles() -> impl clap::builder::TypedValueParser<Value = Role> {
    named(Role::ALL.iter().map(|role| (role.name(), *role)).collect())
}

impl Run for Enrol {
    fn run(self, context: &Context) -> Result<Exit> {
        let collection = collection::open_or_create(context)?;
        if let Some(file) = self.file {
            enrol_file(&file, self.role, collection.as_ref())?;
        } else {
            let name = self.name.unwrap_or_default();
            let token = punctual_serve::enrol(collection.as_ref(), &name, self.role)?;
            if let Err(error) = output::print(&format!("{token}\n")) {
                // Nobody knows this token.
                collection.remove_token(&name)?;
                output::note("the token could not be printed, and is revoked");
                return Err(error);
            }
            output::note("this token is shown once; only its SHA-256 is stored");
        }
        Ok(Exit::Done)
    }
}

impl Run for Revoke {
    fn run(self, context: &Context) -> Result<Exit> {
        let collection = collection::open_existing(context)?;
        if !collection.remove_token(&self.name)? {
            return Err(no_token(&self.name).into());
        }
        log(collection.as_ref(), "revoke", self.name)?;
        Ok(Exit::Done)
    }
}

impl Run for Moved {
    fn run(self, context: &Context) -> Result<Exit> {
        let collection = collection::open_existing(context)?;
        let tokens = collection.tokens()?;
        let known = tokens.into_iter().find(|one| one.name == self.name);
        let token = known.ok_or_else(|| no_token(&self.name))?;
        collection.set_machine(&self.name, token.machine.as_deref(), None)?;
        log(collection.as_ref(), "moved", self.name)?;
        output::note("the token now belongs to the next machine that pushes with it");
        Ok(Exit::Done)
    }
}

impl Run for Tokens {
    fn run(self, context: &Context) -> Result<Exit> {
        for Token {
            name,
            role,
            created,
            ..
        } in collection::open_existing(context)?.tokens()?
        {
            let created = created.strftime("%Y-%m-%d %H:%M");
            output::print(&format!("{created} UTC  {:<8} {name}\n", role.name()))?;
        }
        Ok(Exit::Done)
    }
}

fn no_token(name: &str) -> UsageError {
    UsageError(format!("'{name}' has no token: see punctual-server tokens"))
}

/// Writes a line of the audit log.
pub(super) fn log(collection: &dyn Collection, action: &str, what: String) -> Result<()> {
    Ok(collection.log(&AuditLine {
        at: Timestamp::now(),
        who: "command line".to_owned(),
        action: action.to_owned(),
        what,
    })?)
}

/// Maximum size of a file of names, in bytes.
const NAMES_FILE: u64 = 1 << 20;

/// Creates a token for each name in a file, or for none of them.
fn enrol_file(file: &Path, role: Role, collection: &dyn Collection) -> Result<()> {
    let text = punctual_files::Budget::bytes(NAMES_FILE).read_text(file)?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let is_name = |(_, line): &(usize, &str)| !line.is_empty() && !line.starts_with('#');
    let (numbers, names): (Vec<usize>, Vec<&str>) = lines.filter(is_name).unzip();
    let tokens =
        punctual_serve::enrol_all(collection, &names, role).map_err(|(place, error)| {
            let (file, line) = (file.display(), numbers.get(place).unwrap_or(&0));
            UsageError(format!("{file}:{line}: {error}; no token was created"))
        })?;
    let lines = names.iter().zip(tokens);
    let lines = lines.map(|(name, token)| format!("{name} {token}\n"));
    output::print(&lines.collect::<String>())?;
    output::note("these tokens are shown once; only their SHA-256 is stored");
    Ok(())
}
