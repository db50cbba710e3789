//! A limit of late periods in windows of consecutive periods.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A weakly hard requirement: at most `late` of any `periods` consecutive due periods of a thread
/// may be late (G. Bernat, A. Burns and A. Llamosi, "Weakly Hard Real-Time Systems", IEEE
/// Transactions on Computers 50, 2001). Written as `2/100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MissLimit {
    late: u32,
    periods: u32,
}

impl MissLimit {
    /// Maximum number of periods of a window, because the late periods of a window are kept in
    /// memory.
    pub const MOST_PERIODS: u32 = 1_000_000;

    /// Creates a limit. `None` if it allows each period of the window to be late, or if the window
    /// is too long.
    pub fn new(late: u32, periods: u32) -> Option<Self> {
        (late < periods && periods <= Self::MOST_PERIODS).then_some(Self { late, periods })
    }

    /// Returns the number of late periods that are allowed in a window.
    pub const fn late(self) -> u32 {
        self.late
    }

    /// Returns the number of periods of a window.
    pub const fn periods(self) -> u32 {
        self.periods
    }
}

impl fmt::Display for MissLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}", self.late, self.periods))
    }
}

/// A text that is no limit of late periods in a window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not M/K with M below K and K at most {most}: 2/100 allows 2 late periods in any 100 \
     consecutive ones",
    most = MissLimit::MOST_PERIODS
)]
pub struct MissLimitError(String);

impl FromStr for MissLimit {
    type Err = MissLimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let limit = text
            .split_once('/')
            .and_then(|(late, periods)| Self::new(late.parse().ok()?, periods.parse().ok()?));
        limit.ok_or_else(|| MissLimitError(text.to_owned()))
    }
}

impl TryFrom<String> for MissLimit {
    type Error = MissLimitError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<MissLimit> for String {
    fn from(limit: MissLimit) -> Self {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_windows_are_refused() {
        assert_eq!("2/100".parse::<MissLimit>().unwrap().to_string(), "2/100");
        assert_eq!("0/1".parse::<MissLimit>().unwrap().late(), 0);
        for text in [
            "3/2",
            "2/2",
            "0/0",
            "-1/3",
            "1",
            "1/",
            "/2",
            "1/1000001",
            "1/2/3",
            "a/b",
        ] {
            assert!(text.parse::<MissLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn limit_is_written_as_it_is_read() {
        for (text, late, periods) in [
            ("2/100", 2, 100),
            ("0/1", 0, 1),
            ("999999/1000000", 999_999, 1_000_000),
        ] {
            let limit: MissLimit = text.parse().unwrap();
            assert_eq!((limit.late(), limit.periods()), (late, periods));
            assert_eq!(limit.to_string(), text);
            let json = serde_json::to_string(&limit).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<MissLimit>(&json).unwrap(), limit);
        }
        for wrong in [
            "1/1",
            "2/1",
            "0/0",
            "0/1000001",
            "-1/5",
            "1",
            "1/",
            "/5",
            "a/b",
            "",
        ] {
            let error = wrong.parse::<MissLimit>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("'{wrong}' is not M/K")),
                "{error}"
            );
            assert!(serde_json::from_str::<MissLimit>(&format!("\"{wrong}\"")).is_err());
        }
    }
}
