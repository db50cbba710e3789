//! The series of a recording, which is sent in a header of its delivery. Both are stored in one
//! transaction.

use jiff::Timestamp;
use punctual_model::{FromJson, SeriesEpoch, ToJson, check_series, from_json, to_json};
use serde::{Deserialize, Serialize};

/// The header with the series of the delivered recording.
pub const SERIES: &str = "punctual-series";
/// Maximum length to send and accept, in bytes. Servers limit the size of a request head.
const LONGEST: usize = 8 << 10;

/// An epoch of a series. The machine is not included, because it is the sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// The name of the series.
    name: String,
    /// The number of the epoch, from 1. If the number already belongs to a different definition,
    /// another number is used.
    epoch: u32,
    /// The definition of the measurement, as JSON.
    definition: String,
    /// When the epoch began.
    begun: Timestamp,
}

to_json!(Membership);
from_json!(Membership);

impl Membership {
    /// Returns the part of an epoch that is sent.
    pub fn from_epoch(epoch: &SeriesEpoch) -> Self {
        Self {
            name: epoch.name.clone(),
            epoch: epoch.epoch,
            definition: epoch.definition.clone(),
            begun: epoch.begun,
        }
    }

    /// Returns the epoch for this machine.
    pub fn of_machine(self, machine: &str) -> SeriesEpoch {
        SeriesEpoch {
            machine: machine.to_owned(),
            host: Some(machine.to_owned()),
            name: self.name,
            epoch: self.epoch,
            definition: self.definition,
            begun: self.begun,
        }
    }

    /// Returns the header value, JSON in ASCII, or `None` if it is too long.
    pub fn header(&self) -> Option<String> {
        use std::fmt::Write;
        let json = self.to_json();
        let mut text = String::with_capacity(json.len());
        for unit in json.chars() {
            match unit {
                ' '..='~' => text.push(unit),
                _ => {
                    for half in unit.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(text, "\\u{half:04x}");
                    }
                }
            }
        }
        (text.len() <= LONGEST).then_some(text)
    }

    /// Parses a header value. Returns `Err` if it is invalid.
    pub fn read(header: &str) -> Result<Self, &'static str> {
        if header.len() > LONGEST {
            return Err("the header Punctual-Series is too long");
        }
        let read = Self::from_json(header.as_bytes())
            .map_err(|_| "the header Punctual-Series does not describe a series")?;
        check_series(&read.name)
            .map_err(|_| "the header Punctual-Series has a name that is too long")?;
        if read.name.is_empty() || read.epoch == 0 {
            Err("the header Punctual-Series contains no series name")
        } else {
            Ok(read)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_fits_a_header() {
        let one = Membership {
            name: "nächtlich \u{1f570}\n".to_owned(),
            epoch: 2,
            definition: "{\"probe\":\"timer\"}".to_owned(),
            begun: Timestamp::UNIX_EPOCH,
        };
        let header = one.header().unwrap();
        assert!(
            header.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
            "{header}"
        );
        let read = Membership::read(&header).unwrap();
        assert_eq!((&read.name, &read.definition), (&one.name, &one.definition));
        let long = Membership {
            definition: "x".repeat(LONGEST),
            ..one
        };
        assert!(long.header().is_none());
        for bad in [
            "",
            "{}",
            "[1]",
            r#"{"name":"","epoch":1,"definition":"","begun":"1970-01-01T00:00:00Z"}"#,
        ] {
            assert!(Membership::read(bad).is_err(), "{bad}");
        }
    }
}
