//! Paths of pages.

use punctual_model::RecordingId;

use crate::trends::SeriesOf;

/// Returns the path of a recording's page.
pub(crate) fn recording_path(id: RecordingId) -> String {
    format!("/recordings/{id}")
}

/// Returns the path of a machine's page. The name may contain any character.
pub(crate) fn machine_path(name: &str) -> String {
    format!("/machine?name={}", encoded(name))
}

/// Returns the path of a series' page.
pub(crate) fn trend_path(of: &SeriesOf) -> String {
    let series = encoded(&of.series);
    let machine = of.machine.as_deref().map(encoded).unwrap_or_default();
    format!("/trend?series={series}&machine={machine}")
}

/// Encodes a text as a query value (RFC 3986, 2.3).
pub(crate) fn encoded(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
        out
    })
}

/// Decodes a value encoded by [`encoded`]. The result matches nothing if it is not UTF-8.
pub(crate) fn decoded(value: &str) -> String {
    let mut bytes = value.bytes();
    let mut out = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        let hex = |byte: Option<u8>| char::from(byte?).to_digit(16).map(|digit| digit as u8);
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let mut ahead = bytes.clone();
                match (hex(ahead.next()), hex(ahead.next())) {
                    (Some(high), Some(low)) => {
                        out.push(high << 4 | low);
                        bytes = ahead;
                    }
                    _ => out.push(b'%'),
                }
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_value() {
        let path = machine_path("../a b&x=<script>ä");
        assert_eq!(path, "/machine?name=..%2Fa%20b%26x%3D%3Cscript%3E%C3%A4");
        assert_eq!(decoded(&encoded("../a b&x=%ä+")), "../a b&x=%ä+");
        assert_eq!(decoded("a+b%2"), "a b%2");
    }
}
