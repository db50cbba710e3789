//! Features of the kernel that programs need. The kernel refuses a program without naming the missing
//! feature.

use aya::maps::MapType;
use aya::programs::ProgramType;
use aya::sys::{BpfHelper, is_helper_supported, is_map_supported, is_program_supported};

use crate::WatchError;

/// A feature that jobs and stacks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Tracepoints,
    RingBuffer,
    CurrentTask,
    Registers,
}

impl Need {
    const ALL: [Self; 4] = [
        Self::Tracepoints,
        Self::RingBuffer,
        Self::CurrentTask,
        Self::Registers,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::Tracepoints => "BPF programs at tracepoints with types (Linux 5.5)",
            Self::RingBuffer => "BPF ring buffers (Linux 5.8)",
            Self::CurrentTask => "the BPF function bpf_get_current_task_btf (Linux 5.11)",
            Self::Registers => "the BPF function bpf_task_pt_regs (Linux 5.15)",
        }
    }

    /// Returns whether the kernel has this feature, or `None` if that is unknown.
    fn is_there(self) -> Option<bool> {
        let helper = |helper| is_helper_supported(ProgramType::RawTracePoint, helper).ok();
        match self {
            Self::Tracepoints => is_program_supported(ProgramType::Tracing).ok(),
            Self::RingBuffer => is_map_supported(MapType::RingBuf).ok(),
            Self::CurrentTask => helper(BpfHelper::BPF_FUNC_get_current_task_btf),
            Self::Registers => helper(BpfHelper::BPF_FUNC_task_pt_regs),
        }
    }
}

/// Names the feature that this kernel lacks, if that may be why it refused programs.
pub(crate) fn name_missing(error: WatchError) -> WatchError {
    named(error, Need::is_there)
}

fn named(error: WatchError, is_there: impl Fn(Need) -> Option<bool>) -> WatchError {
    let WatchError::Refused(_) = error else {
        return error;
    };
    let missing = Need::ALL
        .into_iter()
        .find(|one| is_there(*one) == Some(false));
    match missing {
        Some(need) => WatchError::Lacks(need.text()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_missing_feature_is_named() {
        let refused = || WatchError::Refused("no reason".to_owned());
        for need in Need::ALL {
            let error = named(refused(), |one| Some(one != need)).to_string();
            assert!(error.contains(need.text()), "{error}");
        }
        let old = named(refused(), |_| Some(false)).to_string();
        assert!(old.contains("Linux 5.5"), "{old}");
        // Unknown is not missing, and other errors have their own reason.
        assert!(named(refused(), |_| None).to_string().contains("no reason"));
        let other = named(WatchError::Processor("arm"), |_| Some(false));
        assert!(matches!(other, WatchError::Processor(_)));
    }

    /// A kernel that runs the programs is not said to lack a feature.
    #[test]
    fn running_kernel_has_what_its_programs_need() {
        match crate::StackSampler::start() {
            Ok(_) => {
                let missing = Need::ALL
                    .into_iter()
                    .find(|one| one.is_there() == Some(false));
                assert_eq!(missing, None);
            }
            Err(error) => punctual_testing::skip_refused("BPF programs", error.to_string()),
        }
    }
}
