//! `svg`: a flame graph.

use std::io::{self, Write};

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{Options, from_lines};
use punctual_model::Nanos;
use punctual_model::cause::{FrameOf, LatenessProfile, ProfileFrame};

use super::INCOMPLETE;
use crate::FormatError;

/// Returns the name of a frame. The characters that separate frames and lines are replaced. The
/// suffixes are those of `FlameGraph`, and choose the colour.
fn name(frame: &ProfileFrame) -> String {
    let name: String = (frame.name.chars())
        .map(|one| match one {
            ';' => ':',
            one if one.is_control() => ' ',
            one => one,
        })
        .collect();
    let suffix = match frame.of {
        FrameOf::Kernel => "_[k]",
        FrameOf::Waker | FrameOf::Remark => "_[i]",
        FrameOf::Program | FrameOf::Library => "_[j]",
    };
    name + suffix
}

pub(super) fn write(profile: &LatenessProfile, out: &mut dyn Write) -> Result<(), FormatError> {
    let lines: Vec<String> = (profile.stacks.iter())
        .map(|stack| {
            let thread = ProfileFrame {
                name: stack.thread.clone(),
                file: None,
                of: FrameOf::Remark,
            };
            let mark = stack.is_incomplete.then(|| ProfileFrame {
                name: INCOMPLETE.to_owned(),
                ..thread.clone()
            });
            let frames = [&thread].into_iter().chain(&mark).chain(&stack.frames);
            let names: Vec<String> = frames.map(name).collect();
            format!("{} {}", names.join(";"), stack.excess.0.div_ceil(1000))
        })
        .collect();
    let each = Nanos(profile.excess.0 / profile.late_jobs.max(1));
    let mut options = Options::default();
    // Short enough for a narrow screen.
    options.title = format!("Late jobs: {each} more than others");
    options.subtitle = Some("time above the mean of other jobs, by stack".to_owned());
    "µs".clone_into(&mut options.count_name);
    options.colors = Palette::Multi(MultiPalette::Java);
    options.deterministic = true;
    options.min_width = 0.1;
    if lines.is_empty() {
        // The library refuses an empty graph.
        return Err(
            io::Error::other("late jobs spend no more time than others in any stack").into(),
        );
    }
    from_lines(&mut options, lines.iter().map(String::as_str), out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::profile;
    use super::*;

    #[test]
    fn graph_shows_each_frame_once() {
        let mut out = Vec::new();
        write(&profile(), &mut out).unwrap();
        let svg = String::from_utf8(out).unwrap();
        for title in [
            "motion-7 (9,001 µs, 100.00%)",
            "waits&lt;a:b&gt; (5,001 µs, 55.56%)",
            "[woken by holder] (5,001 µs, 55.56%)",
            "burns (3,000 µs, 33.33%)",
            "[stack incomplete] (1,000 µs, 11.11%)",
        ] {
            assert!(svg.contains(title), "{title}: {svg}");
        }
        let none = LatenessProfile::default();
        assert!(write(&none, &mut Vec::new()).is_err());
    }
}
