//! `pb.gz`: the format of pprof, with the names and numbers from `proto/profile.proto`
//! (<https://github.com/google/pprof>).

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use punctual_model::Recording;
use punctual_model::cause::{FrameOf, LatenessProfile, ProfileFrame, ProfileState};

use super::{INCOMPLETE, own_frames};
use crate::FormatError;

#[derive(Clone, PartialEq, prost::Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// A profile in progress.
#[derive(Default)]
struct Builder {
    profile: Profile,
    strings: HashMap<String, i64>,
    /// The location of each function.
    locations: HashMap<ProfileFrame, u64>,
}

impl Builder {
    fn string(&mut self, text: &str) -> i64 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = self.profile.string_table.len() as i64;
        self.profile.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, name: &str, unit: &str) -> ValueType {
        ValueType {
            r#type: self.string(name),
            unit: self.string(unit),
        }
    }

    fn location(&mut self, frame: &ProfileFrame) -> u64 {
        if let Some(id) = self.locations.get(frame) {
            return *id;
        }
        let id = self.locations.len() as u64 + 1;
        let file = match frame.of {
            FrameOf::Kernel => "[kernel]",
            _ => frame.file.as_deref().unwrap_or_default(),
        };
        let function = Function {
            id,
            name: self.string(&frame.name),
            filename: self.string(file),
        };
        self.profile.function.push(function);
        self.profile.location.push(Location {
            id,
            line: vec![Line { function_id: id }],
        });
        self.locations.insert(frame.clone(), id);
        id
    }

    fn label(&mut self, key: &str, text: &str) -> Label {
        Label {
            key: self.string(key),
            str: self.string(text),
        }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn built(profile: &LatenessProfile, recording: &Recording) -> Profile {
    let mut all = Builder::default();
    // The first string is empty.
    all.string("");
    all.profile.sample_type = vec![
        all.value_type("samples", "count"),
        all.value_type("excess", "nanoseconds"),
    ];
    all.profile.period_type = Some(all.value_type("cpu", "nanoseconds"));
    all.profile.period = signed(profile.interval.0);
    all.profile.time_nanos = i64::try_from(recording.started.as_nanosecond()).unwrap_or_default();
    all.profile.duration_nanos = signed(recording.duration_ns.0);
    all.profile.comment = vec![all.string(&recording.headline())];
    for stack in &profile.stacks {
        let frames: Vec<&ProfileFrame> = own_frames(&stack.frames).collect();
        let is_wait = stack.state == ProfileState::Waiting;
        let functions = (frames.iter()).filter(|one| !is_wait || one.of != FrameOf::Remark);
        let mut location_id: Vec<u64> = functions.map(|one| all.location(one)).collect();
        location_id.reverse();
        if stack.is_incomplete {
            location_id.push(all.location(&ProfileFrame {
                name: INCOMPLETE.to_owned(),
                file: None,
                of: FrameOf::Remark,
            }));
        }
        let mut label = vec![
            all.label("thread", &stack.thread),
            all.label("state", stack.state.text()),
        ];
        let remark = (frames.iter()).find(|one| is_wait && one.of == FrameOf::Remark);
        label.extend(remark.map(|one| all.label("end of the wait", &one.name)));
        all.profile.sample.push(Sample {
            location_id,
            value: vec![signed(stack.samples), signed(stack.excess.0)],
            label,
        });
    }
    all.profile
}

pub(super) fn write(
    profile: &LatenessProfile,
    recording: &Recording,
    out: &mut dyn Write,
) -> Result<(), FormatError> {
    let bytes = built(profile, recording).encode_to_vec();
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&bytes)?;
    packed.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use punctual_model::testing;

    use super::super::testing::profile;
    use super::*;

    #[test]
    fn written_profile_reads_back() {
        let mut out = Vec::new();
        write(&profile(), &testing::recording(1, 1), &mut out).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&*out)
            .read_to_end(&mut bytes)
            .unwrap();
        let read = Profile::decode(&*bytes).unwrap();
        let text = |number: i64| read.string_table[number as usize].as_str();
        let names = |sample: &Sample| -> Vec<String> {
            let functions = sample.location_id.iter();
            let functions = functions.map(|id| &read.function[*id as usize - 1]);
            functions.map(|one| text(one.name).to_owned()).collect()
        };
        assert_eq!(read.sample.len(), 3);
        let first = &read.sample[0];
        assert_eq!(names(first), ["futex_wait", "waits<a;b>", "main"]);
        assert_eq!(first.value, [3, 5_000_500]);
        let labels: Vec<_> = (first.label.iter())
            .map(|label| (text(label.key), text(label.str)))
            .collect();
        assert_eq!(labels[1], ("state", "waiting"));
        assert_eq!(labels[2], ("end of the wait", "[woken by holder]"));
        assert_eq!(names(&read.sample[1]), ["burns", "main", "main"]);
        assert_eq!(names(&read.sample[2]), ["read", INCOMPLETE]);
        assert_eq!(text(0), "");
        assert_eq!(read.location.len(), read.function.len());
    }
}
