//! Why BPF programs count nothing, and trace events have to be read instead.

use punctual_trace::WatchError;

/// Why no BPF programs count.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPrograms {
    /// The user wants none.
    #[error("BPF programs were not asked for (--no-bpf)")]
    NotWanted,
    /// The kernel takes none.
    #[error(transparent)]
    Refused(#[from] WatchError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_no_programs_count_is_a_clause() {
        let refused = || WatchError::Refused("EPERM".to_owned());
        let refusal = refused().to_string();
        for (error, text) in [
            (
                NoPrograms::NotWanted,
                "BPF programs were not asked for (--no-bpf)",
            ),
            (refused().into(), &refusal),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
