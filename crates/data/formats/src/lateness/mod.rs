//! Lateness profiles in the formats of profilers.

mod firefox;
mod flame_graph;
mod pprof;

use std::io::Write;

use punctual_model::Recording;
use punctual_model::cause::{FrameOf, LatenessProfile, ProfileFrame};

use crate::FormatError;

/// A format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// A flame graph, as an SVG with a search and zoom.
    FlameGraph,
    /// The format of pprof: protobuf, compressed with gzip.
    Pprof,
    /// The processed format of the Firefox Profiler.
    Firefox,
}

impl ProfileFormat {
    /// The formats and the ends of their file names.
    pub const ALL: [(Self, &str); 3] = [
        (Self::FlameGraph, "svg"),
        (Self::Pprof, "pb.gz"),
        (Self::Firefox, "json"),
    ];

    /// Returns the format of a file.
    pub fn of(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let fits = |(_, end): &&(Self, &str)| name.ends_with(&format!(".{end}"));
        Self::ALL.iter().find(fits).map(|(format, _)| *format)
    }

    /// Writes the profile of a recording.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(
        self,
        profile: &LatenessProfile,
        recording: &Recording,
        out: &mut dyn Write,
    ) -> Result<(), FormatError> {
        match self {
            Self::FlameGraph => flame_graph::write(profile, out),
            Self::Pprof => pprof::write(profile, recording, out),
            Self::Firefox => firefox::write(profile, recording, out),
        }
    }
}

const INCOMPLETE: &str = "[stack incomplete]";

/// Returns the frames of the thread itself, the outermost first. They exclude the functions of the
/// thread that ended a wait, because profilers count the time for the last frame.
fn own_frames(frames: &[ProfileFrame]) -> impl Iterator<Item = &ProfileFrame> {
    frames.iter().filter(|one| one.of != FrameOf::Waker)
}

#[cfg(test)]
mod testing {
    use punctual_model::Nanos;
    use punctual_model::cause::{
        ExcessStack, FrameOf, LatenessProfile, ProfileFrame, ProfileState,
    };

    pub(super) fn profile() -> LatenessProfile {
        let frame = |name: &str, of| ProfileFrame {
            name: name.to_owned(),
            file: (of == FrameOf::Program).then(|| "/bin/motion".to_owned()),
            of,
        };
        let stack = |frames: Vec<ProfileFrame>, excess| ExcessStack {
            thread: "motion-7".to_owned(),
            state: if frames.len() < 4 {
                ProfileState::Running
            } else {
                ProfileState::Waiting
            },
            is_incomplete: frames.len() < 3,
            frames,
            excess: Nanos(excess),
            samples: 3,
        };
        let main = || frame("main", FrameOf::Program);
        LatenessProfile {
            late_jobs: 3,
            other_jobs: 97,
            excess: Nanos(9_000_000),
            runnable: Nanos::ZERO,
            interval: Nanos(997_000),
            stacks: vec![
                stack(
                    vec![
                        main(),
                        frame("waits<a;b>", FrameOf::Program),
                        frame("futex_wait", FrameOf::Kernel),
                        frame("[woken by holder]", FrameOf::Remark),
                        frame("futex_wake", FrameOf::Waker),
                    ],
                    5_000_500,
                ),
                stack(
                    vec![main(), main(), frame("burns", FrameOf::Program)],
                    3_000_000,
                ),
                stack(vec![frame("read", FrameOf::Library)], 1_000_000),
            ],
            functions: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_choose_the_format() {
        assert_eq!(ProfileFormat::of("a.SVG"), Some(ProfileFormat::FlameGraph));
        assert_eq!(ProfileFormat::of("x/a.pb.gz"), Some(ProfileFormat::Pprof));
        assert_eq!(ProfileFormat::of("a.json"), Some(ProfileFormat::Firefox));
        for other in ["a.gz", "svg", "a.pb", ""] {
            assert_eq!(ProfileFormat::of(other), None, "{other}");
        }
    }
}
