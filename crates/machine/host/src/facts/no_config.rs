//! Why there is no configuration of the kernel.

use crate::Unread;

/// Why a file is not the configuration of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAConfig {
    /// It was not read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// It is compressed and damaged, in the words of the decoder.
    #[error("damaged {0}: {1}")]
    Damaged(&'static str, String),
    /// It is compressed by a program that is not read.
    #[error("is packed by {0}: unpack it first")]
    Packed(&'static str),
    /// It is larger, once unpacked, than any configuration.
    #[error("is larger than 8 MiB when unpacked, and so no configuration")]
    TooLong,
    /// It is another text.
    #[error("has no options")]
    NoOptions,
}

/// Why no configuration of the running kernel was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoConfig {
    /// None of the usual files is there.
    #[error("no kernel configuration found")]
    NoFile,
    /// The files that are there, and why they cannot be used.
    #[error("{}", each(.0))]
    NoneUsable(Vec<(String, NotAConfig)>),
}

fn each(files: &[(String, NotAConfig)]) -> String {
    let each = files.iter().map(|(file, why)| format!("{file}: {why}"));
    each.collect::<Vec<String>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_reason() {
        let file = |name: &str, why| (name.to_owned(), why);
        for (why, text) in [
            (NoConfig::NoFile, "no kernel configuration found"),
            (
                NoConfig::NoneUsable(vec![
                    file("/a", NotAConfig::Unread(Unread::PermissionDenied)),
                    file(
                        "/b",
                        NotAConfig::Damaged("gzip", "corrupt deflate stream".to_owned()),
                    ),
                    file("/c", NotAConfig::NoOptions),
                ]),
                "/a: permission denied; /b: damaged gzip: corrupt deflate stream; /c: has no \
                 options",
            ),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }
}
