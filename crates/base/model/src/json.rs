//! JSON of stored and printed types. Each type has one writer and one reader, which are compiled
//! once, in the crate that defines the type. Other crates call these instead of `serde_json`,
//! because every further call with another reader or writer compiles the type once more.

use serde_json::Value;

#[doc(hidden)]
pub use serde_json;

/// A type that can be written as JSON. [`to_json!`](crate::to_json) implements it.
pub trait ToJson {
    /// Returns the value as JSON on one line.
    fn to_json(&self) -> String;

    /// Returns the value as JSON on several lines, with the fields in the same order.
    fn to_pretty_json(&self) -> String {
        let mut all = String::new();
        self.pretty_json_in_pieces(&mut |piece| all.push_str(piece));
        all
    }

    /// Passes the same text to `take` in pieces, so that a long text is not kept in memory.
    fn pretty_json_in_pieces(&self, take: &mut dyn FnMut(&str)) {
        indent(&self.to_json(), take);
    }

    /// Returns the value as an untyped tree.
    fn to_value(&self) -> Value {
        Value::from_json(self.to_json().as_bytes()).unwrap_or_default()
    }
}

/// A type that can be read from JSON. [`from_json!`](crate::from_json) implements it.
pub trait FromJson: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON of this type.
    fn from_json(json: &[u8]) -> serde_json::Result<Self>;
}

/// Implements [`ToJson`] for types that derive `Serialize`. Their map keys must be texts, because
/// otherwise they cannot be written as JSON.
#[macro_export]
macro_rules! to_json {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::ToJson for $type {
            fn to_json(&self) -> String {
                match $crate::serde_json::to_string(self) {
                    Ok(json) => json,
                    Err(error) => unreachable!("a {} is no JSON: {error}", stringify!($type)),
                }
            }
        }
    )+};
}

/// Implements [`FromJson`] for types that derive `Deserialize`.
#[macro_export]
macro_rules! from_json {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::FromJson for $type {
            fn from_json(json: &[u8]) -> $crate::serde_json::Result<Self> {
                $crate::serde_json::from_slice(json)
            }
        }
    )+};
}

to_json!(Value, String);
from_json!(Value, String, Vec<String>);

impl<T: ToJson + ?Sized> ToJson for &T {
    fn to_json(&self) -> String {
        (**self).to_json()
    }
}

impl<T: ToJson> ToJson for [T] {
    fn to_json(&self) -> String {
        let each: Vec<String> = self.iter().map(T::to_json).collect();
        format!("[{}]", each.join(","))
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> String {
        self.as_slice().to_json()
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self) -> String {
        self.as_ref().map_or_else(|| "null".to_owned(), T::to_json)
    }
}

/// A piece has about this number of bytes.
const PIECE: usize = 64 << 10;

/// Breaks JSON on one line into lines, like `serde_json::to_string_pretty`.
fn indent(json: &str, take: &mut dyn FnMut(&str)) {
    let mut pretty = String::new();
    let mut depth = 0;
    let mut chars = json.chars().peekable();
    let mut end_line = |pretty: &mut String, depth: usize| {
        if pretty.len() > PIECE {
            take(pretty);
            pretty.clear();
        }
        pretty.push('\n');
        pretty.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                pretty.push(c);
                while let Some(c) = chars.next() {
                    pretty.push(c);
                    match c {
                        '"' => break,
                        '\\' => pretty.extend(chars.next()),
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                pretty.push(c);
                match chars.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => pretty.push(end),
                    None => {
                        depth += 1;
                        end_line(&mut pretty, depth);
                    }
                }
            }
            '}' | ']' => {
                depth -= 1;
                end_line(&mut pretty, depth);
                pretty.push(c);
            }
            ',' => {
                pretty.push(c);
                end_line(&mut pretty, depth);
            }
            ':' => pretty.push_str(": "),
            _ => pretty.push(c),
        }
    }
    take(&pretty);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic in a test is the report")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn lists_and_options_are_written_like_serde_does() {
        let texts = ["a\"b".to_owned(), String::new()];
        assert_eq!(texts[..].to_json(), json!(texts).to_string());
        assert_eq!(Vec::<String>::new().to_json(), "[]");
        assert_eq!(None::<String>.to_json(), "null");
        assert_eq!(Some(&texts[0]).to_json(), r#""a\"b""#);
    }

    #[test]
    fn long_json_has_pieces() {
        let value = Value::from((0..PIECE).collect::<Vec<_>>());
        let mut pieces = Vec::new();
        value.pretty_json_in_pieces(&mut |piece| pieces.push(piece.to_owned()));
        assert!(pieces.len() > 5, "{}", pieces.len());
        assert_eq!(
            pieces.concat(),
            serde_json::to_string_pretty(&value).unwrap()
        );
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[\\PC\"\\\\{}\\[\\],:\n]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a\"\\\\:{]{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn lines_are_those_of_serde(value in any_value()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(value.to_pretty_json(), pretty);
            prop_assert_eq!(value.to_value(), value);
        }
    }
}
