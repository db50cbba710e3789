//! Records with text from programs or from the kernel, which the tracers write themselves.

use std::collections::HashMap;

use punctual_trace::{FieldPosition, Format, Layout};

use super::meta::{FTRACE, Meta};

/// A kind of record that becomes an [`Item::Mark`](crate::Item::Mark).
#[derive(Clone, Debug)]
pub(super) enum AnnotationFormat {
    /// `ftrace:print`: text that was written by a program (through `trace_marker`) or by the
    /// kernel.
    Print { text: FieldPosition },
    /// `ftrace:bputs`: a constant string of the kernel.
    Puts { text: FieldPosition },
    /// `ftrace:bprint`: a format string of the kernel and its values.
    Values {
        format: FieldPosition,
        values: FieldPosition,
    },
    /// `ftrace:timerlat`: a sample of the tracer timerlat.
    Timerlat {
        sequence: FieldPosition,
        context: FieldPosition,
        latency: FieldPosition,
    },
}

impl AnnotationFormat {
    /// Returns the kind of a tracer's record. Returns `None` if the record is not a mark.
    pub(super) fn from_format(system: &str, format: &Format) -> Option<Self> {
        if system != FTRACE {
            return None;
        }
        let place = |name| format.position(name);
        Some(match format.name.as_str() {
            "print" => Self::Print {
                text: place("buf")?,
            },
            "bputs" => Self::Puts {
                text: place("str")?,
            },
            "bprint" => Self::Values {
                format: place("fmt")?,
                values: place("buf")?,
            },
            "timerlat" => Self::Timerlat {
                sequence: place("seqnum")?,
                context: place("context")?,
                latency: place("timer_latency")?,
            },
            _ => return None,
        })
    }

    /// Returns the text of a record. Returns `None` if the record is truncated or contains no text.
    pub(super) fn text(&self, layout: &Layout, texts: &Texts, record: &[u8]) -> Option<String> {
        let number = |place: &FieldPosition| Some(layout.unsigned(place.bytes(layout, record)?));
        match self {
            Self::Print { text } => {
                let text = super::parser::text(text.bytes(layout, record)?);
                Some(text.trim_end_matches('\n').to_owned())
            }
            Self::Puts { text } => Some(texts.get(number(text)?)),
            Self::Values { format, values } => {
                let format = texts.get(number(format)?);
                let values = values.bytes(layout, record)?;
                Some(super::printf::print(&format, layout, values))
            }
            Self::Timerlat {
                sequence,
                context,
                latency,
            } => {
                let context = match number(context)? {
                    0 => "irq",
                    1 => "thread",
                    2 => "user-ret",
                    _ => return None,
                };
                let (sequence, latency) = (number(sequence)?, number(latency)?);
                // This is the form in which tracefs prints samples.
                Some(format!(
                    "#{sequence} context {context} timer_latency {latency} ns"
                ))
            }
        }
    }
}

/// Constant strings of the kernel, by their addresses.
#[derive(Debug, Default)]
pub(super) struct Texts(HashMap<u64, String>);

impl Texts {
    /// Reads lines such as `0xffffffff82000000 : "text %d\n"`.
    pub(super) fn from_meta(meta: &Meta) -> Self {
        let line = |line: &str| {
            let (address, text) = line.split_once(" : ")?;
            let address = address.trim().strip_prefix("0x")?;
            let address = u64::from_str_radix(address, 16).ok()?;
            let text = text.trim().strip_prefix('"')?.strip_suffix('"')?;
            let text = text.replace("\\n", "\n").replace("\\t", "\t");
            Some((address, text.replace("\\\"", "\"").replace("\\\\", "\\")))
        };
        Self(meta.printk.lines().filter_map(line).collect())
    }

    fn get(&self, address: u64) -> String {
        match self.0.get(&address) {
            Some(text) => text.trim_end_matches('\n').to_owned(),
            None => format!("(the text at {address:#x} is not in the file)"),
        }
    }
}
