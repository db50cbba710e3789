//! Entries of another store that `store merge` and `store copy` left out.

use punctual_model::grouped;
use punctual_report::document::Field;
use punctual_store::LeftOut;

use crate::exit::Exit;

/// Their number, and why the first was left out. Returns `None` if all were taken.
pub(super) fn field(refused: &LeftOut) -> Option<Field> {
    let why = refused.left_out_why.as_deref()?;
    let text = format!("{}; the first: {why}", grouped(refused.left_out));
    Some(Field::new("left out", text))
}

/// The exit code: a store that was taken in part has failed.
pub(super) fn exit(refused: &LeftOut) -> Exit {
    match refused.left_out {
        0 => Exit::Done,
        _ => Exit::Failed,
    }
}
