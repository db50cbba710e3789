//! Formats events that are not in the model's table as text, such as `irq=24 name=eth0`.

use std::fmt::Write as _;

use punctual_model::{EventKind, Text};

use super::format::{FieldPosition, Format, Shape};
use crate::ring::Layout;

/// Maximum number of characters in an event's text, and maximum number of elements shown of an
/// array.
const LONGEST: usize = 400;
const MOST_ELEMENTS: usize = 8;

/// The decoder for the records of such an event.
#[derive(Clone, Debug)]
pub(crate) struct Requested {
    name: Text,
    fields: Vec<(String, FieldPosition, Shape)>,
}

impl Requested {
    pub(crate) fn from_format(full_name: &str, format: &Format) -> Self {
        let fields = format.own_fields();
        Self {
            name: full_name.into(),
            fields: fields
                .map(|(name, place, shape)| (name.to_owned(), place, shape))
                .collect(),
        }
    }

    /// Formats the event. A field beyond the end of the record is shown as `?`.
    pub(crate) fn decode(&self, layout: &Layout, record: &[u8]) -> EventKind {
        let mut text = String::new();
        for (name, place, shape) in &self.fields {
            let value = place
                .bytes(layout, record)
                .map_or_else(|| "?".to_owned(), |bytes| value(layout, bytes, *shape));
            let gap = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{gap}{name}={value}");
            if text.len() > LONGEST {
                let mut end = LONGEST;
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text.truncate(end);
                text.push('\u{2026}');
                break;
            }
        }
        EventKind::Requested {
            name: self.name.clone(),
            fields: text,
        }
    }
}

fn value(layout: &Layout, bytes: &[u8], shape: Shape) -> String {
    let is_number = matches!(bytes.len(), 1 | 2 | 4 | 8);
    match shape {
        // The field is a structure.
        Shape::Signed | Shape::Unsigned | Shape::Address if !is_number => {
            value(layout, bytes, Shape::Elements(1))
        }
        Shape::Text => {
            let end = bytes.iter().position(|byte| *byte == 0);
            String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
        }
        Shape::Signed => signed(layout, bytes).to_string(),
        Shape::Unsigned => match layout.unsigned(bytes) {
            // A larger number is most likely an address or a bit mask.
            large if large >> 48 != 0 => format!("{large:#x}"),
            number => number.to_string(),
        },
        Shape::Address => format!("{:#x}", layout.unsigned(bytes)),
        Shape::Elements(size) => {
            let elements = bytes.chunks_exact(size as usize);
            let more = if elements.len() > MOST_ELEMENTS {
                ", \u{2026}"
            } else {
                ""
            };
            let shown = elements
                .take(MOST_ELEMENTS)
                .map(|element| format!("{:#x}", layout.unsigned(element)));
            format!("[{}{more}]", shown.collect::<Vec<_>>().join(", "))
        }
    }
}

fn signed(layout: &Layout, bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    (layout.unsigned(bytes) << unused) as i64 >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORMAT: &str = "name: mine\nID: 9\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:16;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned short args[2];\toffset:20;\tsize:4;\tsigned:0;\n\
        \tfield:const char * file;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;\n\
        \tfield:unsigned long flags;\toffset:36;\tsize:8;\tsigned:0;\n";

    fn layout() -> Layout {
        Layout {
            long_bytes: 8,
            big_endian: false,
            data_at: 16,
            page_bytes: 4_096,
        }
    }

    fn text(record: &[u8]) -> String {
        let requested = Requested::from_format("my:mine", &Format::parse(FORMAT).unwrap());
        match requested.decode(&layout(), record) {
            EventKind::Requested { name, fields } => format!("{name} {fields}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn fields_are_written_by_their_types() {
        let mut record = vec![0; 44];
        record[8..11].copy_from_slice(b"dsp");
        record[16..20].copy_from_slice(&(-1_i32).to_le_bytes());
        record[20..24].copy_from_slice(&[1, 0, 16, 0]);
        record[24..32].copy_from_slice(&0xffff_0000_u64.to_le_bytes());
        record[32..36].copy_from_slice(&((5 << 16 | 44_u32).to_le_bytes()));
        record[36..44].copy_from_slice(&7_u64.to_le_bytes());
        record.extend(b"eth0\0");
        assert_eq!(
            text(&record),
            "my:mine comm=dsp pid=-1 args=[0x1, 0x10] file=0xffff0000 name=eth0 flags=7"
        );
        // A truncated record.
        assert_eq!(
            text(&record[..24]),
            "my:mine comm=dsp pid=-1 args=[0x1, 0x10] file=? name=? flags=?"
        );
    }

    proptest! {
        #[test]
        fn no_record_panics(record in proptest::collection::vec(any::<u8>(), 0..96)) {
            prop_assert!(text(&record).len() < LONGEST + 20);
        }
    }
}
