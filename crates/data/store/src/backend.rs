//! The formats that every [`Collection`](crate::Collection) shares: a collection in another database
//! stores the same columns, bodies and checksums, and applies the same limits.

pub use crate::collect::{
    DAY_NS, Redirected, compressed, day_of, fits, redirect_windows, unpacked,
};
pub use crate::entry::{bad_outcomes, completion_of, outcome_name, outcome_of, started_ns, time};
pub use crate::runs::{decode as decode_run, encode as encode_run};
pub use crate::select::Selector;
pub use crate::texts::{check, check_note};
pub use crate::wake_windows::{crc_of, pack as pack_window, unpack as unpack_window};
