//! `json`: the recording itself.
//!
//! This format keeps everything except the samples. `punctual schema recording` prints its schema,
//! and [`Recording::from_json`](punctual_model::Recording::from_json) reads it.

use std::io::Write;

use punctual_model::{ToJson, escape_json};

use crate::{Export, Format, FormatError};

pub(crate) const FORMAT: Format = Format {
    name: "json",
    summary: "the whole recording as JSON, without the samples",
    extension: "json",
    needs_samples: false,
    micro_rows: false,
    write,
};

fn write(export: &Export<'_>, out: &mut dyn Write) -> Result<(), FormatError> {
    let json = export.recording.in_words().to_pretty_json();
    writeln!(out, "{}", escape_json(&json))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use punctual_model::{Recording, testing};

    use crate::testing::written;

    #[test]
    fn it_reads_back() {
        let recording = testing::recording(2, 3);
        let text = written("json", &recording);
        assert_eq!(Recording::from_json(&text).unwrap(), recording);
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn its_head_is_as_documented() {
        let text = written("json", &testing::recording(1, 1));
        let head: Vec<&str> = text.lines().take(16).collect();
        insta::assert_snapshot!(head.join("\n"));
    }
}
