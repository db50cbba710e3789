//! Reasons why the kernel's configuration is unknown.

use crate::Unread;

/// The reason why a file is not a kernel configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAConfig {
    /// The file could not be read.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The file is compressed and damaged. The fields are the format and the decoder's message.
    #[error("damaged {0}: {1}")]
    Damaged(&'static str, String),
    /// Its compression format is not supported.
    #[error("is compressed with {0}: decompress it first")]
    Packed(&'static str),
    /// After decompression, the file is larger than any configuration.
    #[error("is larger than 8 MiB after decompression, so it is not a kernel configuration")]
    TooLong,
    /// The file is Buildroot's own configuration.
    #[error(
        "is the configuration of Buildroot (BR2_...), not of a kernel: that of its kernel is \
         output/build/linux-*/.config"
    )]
    Buildroot,
    /// The file is another kind of text.
    #[error("has no options")]
    NoOptions,
}

/// The reason why no configuration of the running kernel was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoConfig {
    /// None of the usual files exists.
    #[error("no kernel configuration found")]
    NoFile,
    /// Some of the usual files exist, but none can be used. The reason is given for each.
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
