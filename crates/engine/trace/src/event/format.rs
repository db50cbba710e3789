//! Parses the `format` file of an event, which lists the positions of its fields.
//!
//! The crate tracepoint_decode can also parse such files. It is not used because it does not
//! support `__rel_loc` fields of 4 bytes, adds numbers from the file without checking for overflow,
//! and has a hundred times as much code as this module.

use crate::ring::Layout;

/// The fields of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Value of `common_type` in the event's records.
    pub id: u16,
    /// Name of the event, without the trace system.
    pub name: String,
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    position: FieldPosition,
    shape: Shape,
}

/// How a field's value is formatted as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Characters up to the first NUL.
    Text,
    Signed,
    Unsigned,
    /// A hexadecimal number.
    Address,
    /// An array whose elements have this size in bytes.
    Elements(u32),
}

/// Name prefix of the fields at the start of every record. They are not part of an event's text.
const COMMON: &str = "common_";

/// The position of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPosition {
    offset: u32,
    /// Size in bytes; 0 for a field that extends to the end of the record.
    size: u32,
    kind: PositionKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PositionKind {
    /// The field contains the value itself.
    Plain,
    /// `__data_loc`: the field contains the length of the value and its offset from the start of
    /// the record, 16 bits each.
    DataLoc,
    /// `__rel_loc`: the field contains the length of the value and its offset from the end of the
    /// field, 16 bits each.
    RelLoc,
}

impl Format {
    /// Parses the text of a `format` file. Returns `None` if the text has another format.
    pub fn parse(text: &str) -> Option<Self> {
        let after = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(value.trim())
        };
        let name = after("name:")?;
        let fields = text.lines().filter_map(field).collect();
        Some(Self {
            id: after("ID:")?.parse().ok()?,
            name: (!name.is_empty()).then(|| name.to_owned())?,
            fields,
        })
    }

    /// Returns the position of a field.
    pub fn position(&self, name: &str) -> Option<FieldPosition> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        Some(field.position)
    }

    /// Returns the positions of the event's own fields, in order.
    pub fn own_positions(&self) -> impl Iterator<Item = FieldPosition> {
        self.own_fields().map(|(_, position, _)| position)
    }

    /// Returns the names of the event's own fields, with their positions and how they are
    /// formatted.
    pub(crate) fn own_fields(&self) -> impl Iterator<Item = (&str, FieldPosition, Shape)> {
        let own = |field: &&Field| !field.name.starts_with(COMMON);
        let fields = self.fields.iter().filter(own);
        fields.map(|field| (field.name.as_str(), field.position, field.shape))
    }
}

/// Parses a line such as `\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;`
fn field(line: &str) -> Option<Field> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';');
    let declared = parts.next()?.trim();
    let mut number = |key: &str| parts.next()?.trim().strip_prefix(key)?.parse().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let signed = number("signed:") == Some(1);
    let kind = match declared.split_whitespace().next()? {
        "__data_loc" => PositionKind::DataLoc,
        "__rel_loc" => PositionKind::RelLoc,
        _ => PositionKind::Plain,
    };
    let name = declared.rsplit([' ', '*']).next()?;
    let name = name.split('[').next()?;
    Some(Field {
        name: name.to_owned(),
        position: FieldPosition { offset, size, kind },
        shape: shape(declared, size, signed),
    })
}

/// Returns how to format a field with a declaration such as `unsigned long args[6]`, `__data_loc
/// char[] name` or `const char * file`.
fn shape(declared: &str, size: u32, signed: bool) -> Shape {
    let array = declared.split_once('[').map(|(_, rest)| rest);
    let is_text = declared.split_whitespace().any(|word| {
        let word = word.split('[').next().unwrap_or_default();
        word == "char"
    });
    match array {
        Some(_) if is_text && !declared.contains("unsigned") => Shape::Text,
        Some(rest) => {
            let count = rest.split(']').next().and_then(|n| n.parse().ok());
            let count: u32 = count.unwrap_or(0);
            Shape::Elements(size.checked_div(count).unwrap_or(1).max(1))
        }
        None if declared.contains('*') => Shape::Address,
        None if signed => Shape::Signed,
        None => Shape::Unsigned,
    }
}

impl FieldPosition {
    pub(crate) fn is_at(&self, offset: usize, size: usize) -> bool {
        (self.offset as usize, self.size as usize) == (offset, size)
    }

    /// Returns the part of the record that begins at the field, regardless of the declared size.
    pub(crate) fn rest<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset as usize..)
    }

    /// Returns the bytes of the field in a record; `None` if the record is too short.
    #[inline]
    pub fn bytes<'a>(&self, layout: &Layout, record: &'a [u8]) -> Option<&'a [u8]> {
        let begin = self.offset as usize;
        if self.size == 0 {
            return record.get(begin..);
        }
        let end = begin.checked_add(self.size as usize)?;
        let own = record.get(begin..end)?;
        let from = match self.kind {
            PositionKind::Plain => return Some(own),
            PositionKind::DataLoc => 0,
            PositionKind::RelLoc => end,
        };
        let word = layout.unsigned(own);
        let begin = from.checked_add((word & 0xffff) as usize)?;
        record.get(begin..begin.checked_add((word >> 16) as usize & 0xffff)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIGRATE: &str = "name: sched_migrate_task\nID: 371\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t pid;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:__rel_loc char[] more;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:char buf[];\toffset:28;\tsize:0;\tsigned:0;\n\n\
        print fmt: \"comm=%s field:x\", __get_str(comm)\n";

    fn layout() -> Layout {
        Layout {
            long_bytes: 8,
            big_endian: false,
            data_at: 16,
            page_bytes: 4_096,
        }
    }

    #[test]
    fn fields_are_found_where_they_are() {
        let format = Format::parse(MIGRATE).unwrap();
        assert_eq!(
            (format.id, format.name.as_str()),
            (371, "sched_migrate_task")
        );
        let mut record = vec![0; 28];
        record[8..12].copy_from_slice(&((3 << 16 | 28_u32).to_le_bytes()));
        record[12..16].copy_from_slice(&77_u32.to_le_bytes());
        // The offset is counted from the end of the field, which is at 28.
        record[24..28].copy_from_slice(&((2 << 16 | 1_u32).to_le_bytes()));
        record.extend(b"abcd");
        let bytes = |name: &str| format.position(name)?.bytes(&layout(), &record);
        assert_eq!(bytes("comm"), Some(&b"abc"[..]));
        assert_eq!(bytes("pid").map(|b| layout().unsigned(b)), Some(77));
        assert_eq!(bytes("function"), Some(&[0; 8][..]));
        assert_eq!(bytes("more"), Some(&b"bc"[..]));
        assert_eq!(bytes("buf"), Some(&b"abcd"[..]));
        assert_eq!(bytes("nothing"), None);
        let short = &record[..30];
        assert_eq!(
            format.position("comm").unwrap().bytes(&layout(), short),
            None
        );
    }

    proptest! {
        #[test]
        fn no_text_and_no_record_panics(
            line in "\tfield:(__data_loc |__rel_loc |)[a-z* \\[\\]]{0,9};\toffset:[0-9]{1,10};\tsize:[0-9]{1,10};\tsigned:1;",
            other in "\\PC{0,60}",
            record in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let _ = Format::parse(&other);
            let text = format!("name: x\nID: 1\nformat:\n{line}\n{other}\n");
            let format = Format::parse(&text).unwrap();
            for field in &format.fields {
                if let Some(bytes) = field.position.bytes(&layout(), &record) {
                    prop_assert!(bytes.len() <= record.len());
                }
            }
        }
    }
}
