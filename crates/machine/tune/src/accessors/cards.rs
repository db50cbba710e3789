//! Common code of the settings of network cards. No file contains these settings: the kernel
//! is asked about each card through the generic netlink family `ethtool`.

use std::io;
use std::path::PathBuf;

use crate::TuneError;
use crate::pattern::by_number;
use crate::target::Target;

const CARDS: &str = "/sys/class/net";
/// `ENODEV` from errno(3): the device no longer exists.
const NO_DEVICE: i32 = 19;

/// The reason why no card has such a setting.
pub(super) const ABSENT: &str = "no driver of a network card has this setting";

/// Returns the network interfaces that `has` accepts.
pub(super) fn names(target: &Target<'_>, has: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names = target.files.names(&target.below(CARDS)).unwrap_or_default();
    names.retain(|card| has(card));
    names.sort_by(|a, b| by_number(a, b));
    names
}

/// Returns whether a text from a journal can be the name of a card.
pub(super) fn is_name(card: &str) -> bool {
    !card.is_empty() && !card.contains('/') && !card.contains(char::is_control)
}

/// Returns whether the card no longer exists.
pub(super) fn is_gone<T>(answer: &io::Result<T>) -> bool {
    (answer.as_ref()).is_err_and(|error| error.raw_os_error() == Some(NO_DEVICE))
}

/// Creates the error for a query that failed. `option` is the option of ethtool(8) that shows the
/// same values.
pub(super) fn unread(option: &str, card: &str, source: io::Error) -> TuneError {
    TuneError::Read {
        path: PathBuf::from(format!("ethtool {option} {card}")),
        source,
    }
}

/// Creates the error for a change that failed.
pub(super) fn unwritten(
    target: &Target<'_>,
    option: &str,
    card: &str,
    source: io::Error,
) -> TuneError {
    target.not_written(PathBuf::from(format!("ethtool {option} {card}")), source)
}

/// Returns `wanted` if it differs from `found`. Only parameters that differ are sent, because some
/// can be read but not set, and a driver refuses a message that contains such a parameter.
pub(super) fn changed<T: PartialEq>(found: Option<T>, wanted: Option<T>) -> Option<T> {
    if found == wanted { None } else { wanted }
}
