//! Helpers shared by the tests of written files.

#![allow(unreachable_pub)]

use punctual_formats::{Export, ExportOptions, NoSamples, format};
use punctual_model::Recording;

/// Writes a recording without samples in the format `name`.
pub fn written(name: &str, recording: &Recording, options: ExportOptions) -> String {
    let export = Export {
        recording,
        samples: &NoSamples,
        options,
    };
    let mut bytes = Vec::new();
    (format(name).unwrap().write)(&export, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}
