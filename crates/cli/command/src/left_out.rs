//! Reports entries of another store that a merge or a copy left out.

use punctual_model::grouped;
use punctual_report::document::Field;
use punctual_store::LeftOut;

use crate::exit::Exit;

/// Returns the number of these entries and the reason why the first was left out. Returns `None` if
/// no entry was left out.
pub fn field(refused: &LeftOut) -> Option<Field> {
    let why = refused.left_out_why.as_deref()?;
    let text = format!("{}; the first: {why}", grouped(refused.left_out));
    Some(Field::new("left out", text))
}

/// Returns the exit code. If only a part of the store was copied, the verb has failed.
pub fn exit(refused: &LeftOut) -> Exit {
    match refused.left_out {
        0 => Exit::Done,
        _ => Exit::Failed,
    }
}
