//! Reasons for using trace events instead of BPF programs.

use punctual_trace::WatchError;

/// Reason why BPF programs are not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoPrograms {
    /// The user disabled them.
    #[error("BPF programs are disabled (--no-bpf)")]
    NotWanted,
    /// The kernel rejects them.
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
                "BPF programs are disabled (--no-bpf)",
            ),
            (refused().into(), &refusal),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
