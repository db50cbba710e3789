//! Reasons why a file of the machine was not read, or why its text is not a value. These become the
//! reasons why facts are unknown.

/// The reason why a file or folder was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unread {
    /// The file or folder does not exist.
    #[error("not there")]
    NotThere,
    /// Its mode or a security module forbids reading it.
    #[error("permission denied")]
    PermissionDenied,
    /// A locked-down kernel does not even let root read it.
    #[error("lockdown ({0})")]
    Lockdown(String),
    /// The kernel does not even let root read it, but lockdown cannot be confirmed.
    #[error(
        "not permitted, although the file mode allows it: missing capability or kernel lockdown"
    )]
    NotPermitted,
    /// Another error, with the system's message.
    #[error("{0}")]
    System(String),
}

/// The reason why a text is not the expected value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unparsed {
    #[error("empty")]
    Empty,
    #[error("not readable as {expected}: '{shown}'")]
    Other {
        expected: &'static str,
        /// The text, truncated for display.
        shown: String,
    },
    #[error("has no line '{0}'")]
    NoLine(String),
}

impl Unparsed {
    /// Creates the reason for an unexpected text. A long text is truncated, because a reason must
    /// fit on one line.
    pub(crate) fn other(expected: &'static str, text: &str) -> Self {
        const SHOWN: usize = 40;
        let mut shown: String = text
            .chars()
            .take(SHOWN)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if text.chars().count() > SHOWN {
            shown.push('…');
        }
        Self::Other { expected, shown }
    }
}

/// The reason why a file has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoValue {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error(transparent)]
    Unparsed(#[from] Unparsed),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_file_has_a_reason() {
        for (why, text) in [
            (Unread::NotThere, "not there"),
            (Unread::PermissionDenied, "permission denied"),
            (
                Unread::Lockdown("integrity".to_owned()),
                "lockdown (integrity)",
            ),
            (
                Unread::NotPermitted,
                "not permitted, although the file mode allows it: missing capability or kernel \
                 lockdown",
            ),
            (
                Unread::System("Is a directory (os error 21)".to_owned()),
                "Is a directory (os error 21)",
            ),
        ] {
            assert_eq!(why.to_string(), text);
            assert_eq!(NoValue::from(why).to_string(), text);
        }
    }

    #[test]
    fn invalid_text_has_a_reason() {
        let forty = "x".repeat(40);
        for (why, text) in [
            (Unparsed::Empty, "empty".to_owned()),
            (
                Unparsed::other("a number", "12\nmonkeys"),
                "not readable as a number: '12 monkeys'".to_owned(),
            ),
            (
                Unparsed::other("0 or 1", &forty),
                format!("not readable as 0 or 1: '{forty}'"),
            ),
            (
                Unparsed::other("0 or 1", &format!("{forty}y")),
                format!("not readable as 0 or 1: '{forty}…'"),
            ),
            (
                Unparsed::NoLine("MemTotal:".to_owned()),
                "has no line 'MemTotal:'".to_owned(),
            ),
        ] {
            assert_eq!(why.to_string(), text);
            assert_eq!(NoValue::from(why).to_string(), text);
        }
    }
}
