//! Converts the store of an earlier version.

use anyhow::Result;
use punctual_store::{Store, StoreError};

use crate::exit::Exit;
use crate::{Context, output};

/// Converts the store, or with `dry_run` only tries it, and prints the result.
///
/// # Errors
/// Returns an error if the store cannot be converted. It is unchanged in this case.
pub fn run(context: &Context, dry_run: bool) -> Result<Exit> {
    let path = context.place_of_store()?;
    let text = match Store::upgrade(&path, dry_run)? {
        None => format!("{} needs no conversion\n", path.display()),
        Some(done) if dry_run => format!(
            "{} can be converted from schema {} to {}; the copy of the old store would be {}\n",
            path.display(),
            done.from,
            done.to,
            done.backup.display()
        ),
        Some(done) => format!("{}\n", sentence(&done)),
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

fn sentence(done: &punctual_store::Upgrade) -> String {
    format!(
        "converted {} from schema {} to {}; {} is a copy of the old store",
        done.path.display(),
        done.from,
        done.to,
        done.backup.display()
    )
}

/// Converts a store of an earlier version before a service opens it, because an update of the
/// package does not convert it.
///
/// # Errors
/// Returns an error if the store cannot be converted. It is unchanged in this case.
pub fn for_service(context: &Context) -> Result<()> {
    let path = context.place_of_store()?;
    if let Err(StoreError::Older { .. }) = Store::open_read_only(&path)
        && let Some(done) = Store::upgrade(&path, false)?
    {
        output::note(&sentence(&done));
    }
    Ok(())
}
