//! The series of a recording, in a header of its delivery: both become one transaction.

use jiff::Timestamp;
use punctual_model::SeriesEpoch;
use serde::{Deserialize, Serialize};

/// The header with the series of what is delivered.
pub(crate) const SERIES: &str = "punctual-series";
/// The longest that is sent and taken, in bytes; a server reads so much of a head.
const LONGEST: usize = 8 << 10;

/// An epoch of a series, without its machine: that is who delivers.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Membership {
    /// The name of the series.
    name: String,
    /// Counts from 1; another number where that of another definition is taken.
    epoch: u32,
    /// What is measured, as JSON.
    definition: String,
    /// When the epoch began.
    begun: Timestamp,
}

impl Membership {
    pub(crate) fn of(epoch: &SeriesEpoch) -> Self {
        Self {
            name: epoch.name.clone(),
            epoch: epoch.epoch,
            definition: epoch.definition.clone(),
            begun: epoch.begun,
        }
    }

    /// The epoch of this machine.
    pub(crate) fn of_machine(self, machine: &str) -> SeriesEpoch {
        SeriesEpoch {
            machine: machine.to_owned(),
            host: Some(machine.to_owned()),
            name: self.name,
            epoch: self.epoch,
            definition: self.definition,
            begun: self.begun,
        }
    }

    /// As the value of a header: JSON of ASCII characters; `None` where it is too long.
    pub(crate) fn header(&self) -> Option<String> {
        use std::fmt::Write;
        let json = serde_json::json!(self).to_string();
        let mut text = String::with_capacity(json.len());
        for unit in json.chars() {
            match unit {
                ' '..='~' => text.push(unit),
                _ => {
                    for half in unit.encode_utf16(&mut [0; 2]) {
                        // Writing to a string does not fail.
                        let _ = write!(text, "\\u{half:04x}");
                    }
                }
            }
        }
        (text.len() <= LONGEST).then_some(text)
    }

    /// That of a header; `Err` where it is none.
    pub(crate) fn read(header: &str) -> Result<Self, &'static str> {
        if header.len() > LONGEST {
            return Err("the header Punctual-Series is too long");
        }
        let read: Self = serde_json::from_str(header)
            .map_err(|_| "the header Punctual-Series does not describe a series")?;
        match read.name.is_empty() || read.epoch == 0 {
            true => Err("the header Punctual-Series names no series"),
            false => Ok(read),
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
