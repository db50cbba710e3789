//! `json`: the processed format of the Firefox Profiler (<https://profiler.firefox.com>).
//!
//! The samples are added up, so the position of a sample on the time axis has no meaning.

use std::collections::HashMap;
use std::io::Write;

use fxprof_processed_profile::{
    CategoryColor, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile,
    ReferenceTimestamp, SamplingInterval, ThreadHandle, Timestamp, WeightType,
};
use punctual_model::Recording;
use punctual_model::cause::{ExcessStack, FrameOf, LatenessProfile};
use serde_json::Value;

use super::{INCOMPLETE, own_frames};
use crate::FormatError;

/// Process ID in the file. Several processes may have been watched.
const PROCESS: u32 = 1;

fn frames_of(
    all: &mut Profile,
    stack: &ExcessStack,
    [user, kernel]: [CategoryPairHandle; 2],
) -> Vec<FrameInfo> {
    let own = own_frames(&stack.frames).map(|one| (one.name.as_str(), one.of));
    let mark = stack.is_incomplete.then_some((INCOMPLETE, FrameOf::Remark));
    let frames = mark.into_iter().chain(own);
    let frame = |(name, of): (&str, FrameOf)| FrameInfo {
        frame: Frame::Label(all.intern_string(name)),
        category_pair: if of == FrameOf::Kernel { kernel } else { user },
        flags: FrameFlags::empty(),
    };
    frames.map(frame).collect()
}

/// Returns the profile, with weights in µs.
fn built(profile: &LatenessProfile, recording: &Recording) -> Profile {
    let started = recording.started.as_millisecond() as f64;
    let mut all = Profile::new(
        "punctual: time of late jobs in excess of others",
        ReferenceTimestamp::from_millis_since_unix_epoch(started),
        SamplingInterval::from_nanos(profile.interval.0),
    );
    all.set_os_name("Linux");
    all.set_symbolicated(true);
    let categories = [
        all.add_category("User", CategoryColor::Green).into(),
        all.add_category("Kernel", CategoryColor::Orange).into(),
    ];
    let start = Timestamp::from_millis_since_reference(0.0);
    let process = all.add_process(&recording.headline(), PROCESS, start);
    let mut threads: HashMap<&str, (ThreadHandle, u32)> = HashMap::new();
    for stack in &profile.stacks {
        let number = PROCESS + threads.len() as u32;
        let entry = threads.entry(&stack.thread).or_insert_with(|| {
            // A main thread would be shown with the name of the process.
            let thread = all.add_thread(process, number, start, false);
            all.set_thread_name(thread, &stack.thread);
            all.set_thread_samples_weight_type(thread, WeightType::TracingMs);
            (thread, 0)
        });
        let (thread, place) = *entry;
        entry.1 += 1;
        let frames = frames_of(&mut all, stack, categories);
        let handle = all.intern_stack_frames(thread, frames.into_iter());
        let time = f64::from(place) * profile.interval.0 as f64 / 1e6;
        let weight = i32::try_from(stack.excess.0.div_ceil(1000)).unwrap_or(i32::MAX);
        let time = Timestamp::from_millis_since_reference(time);
        all.add_sample(thread, time, handle, CpuDelta::ZERO, weight);
    }
    all
}

pub(super) fn write(
    profile: &LatenessProfile,
    recording: &Recording,
    out: &mut dyn Write,
) -> Result<(), FormatError> {
    let json = |error: serde_json::Error| std::io::Error::from(error);
    let mut value = serde_json::to_value(built(profile, recording)).map_err(json)?;
    // The format has fractions of milliseconds, but the library takes integers only.
    for thread in value["threads"].as_array_mut().into_iter().flatten() {
        let weights = thread["samples"]["weight"].as_array_mut();
        for weight in weights.into_iter().flatten() {
            *weight = Value::from(weight.as_f64().unwrap_or_default() / 1000.0);
        }
    }
    serde_json::to_writer(out, &value).map_err(json)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use punctual_model::testing;

    use super::super::testing::profile;
    use super::*;

    #[test]
    fn weights_are_milliseconds() {
        let mut out = Vec::new();
        write(&profile(), &testing::recording(1, 1), &mut out).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert!(value["meta"]["preprocessedProfileVersion"].as_u64() > Some(30));
        let thread = &value["threads"][0];
        assert_eq!(thread["name"], "motion-7");
        let samples = &thread["samples"];
        assert_eq!(samples["weightType"], "tracing-ms");
        assert_eq!(
            samples["weight"],
            serde_json::json!([5.001, 3.0, 1.0]),
            "{samples}"
        );
        let text = String::from_utf8(out).unwrap();
        for name in ["waits<a;b>", "[woken by holder]", INCOMPLETE] {
            assert!(text.contains(name), "{name}");
        }
        assert!(!text.contains("futex_wake"), "{text}");
    }
}
