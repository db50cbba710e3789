//! Names of files.

/// Returns the name of a series, changed so that it is valid in a file name.
pub(crate) fn file_name(series: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    series.chars().map(plain).collect()
}
