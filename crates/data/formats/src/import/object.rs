//! JSON files, which are parsed as a whole, with typed access to their keys.

use punctual_model::Nanos;
use serde_json::{Map, Value};

use super::{ImportError, Location, Source};

/// Parses a JSON file.
///
/// # Errors
/// Returns an error with the line for invalid JSON, and an error if it is not an object.
pub(crate) fn parse(source: &mut Source<'_>) -> Result<Map<String, Value>, ImportError> {
    let bytes = source.rest()?;
    if bytes.trim_ascii().is_empty() {
        return Err(source.bad_at(Location::Whole, "the file is empty"));
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(source.bad_at(Location::Line(1), "the file is not a JSON object")),
        Err(error) if error.is_eof() => Err(source.bad_at(
            Location::Line(error.line() as u64),
            "the JSON data is incomplete: the file is truncated",
        )),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default();
            Err(source.bad_at(
                Location::Line(error.line() as u64),
                format!(
                    "not valid JSON, column {}: {reason} (rt-tests tools write invalid JSON if \
                     their command line contains a quotation mark)",
                    error.column()
                ),
            ))
        }
    }
}

/// An object in a JSON file, with its path for messages.
pub(crate) struct Object<'a, 's> {
    source: &'a Source<'s>,
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a, 's> Object<'a, 's> {
    /// The file's outermost object.
    pub(crate) fn root(source: &'a Source<'s>, map: &'a Map<String, Value>) -> Self {
        Self {
            source,
            map,
            path: String::new(),
        }
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// Creates the error for an invalid value of `key`.
    pub(crate) fn bad(&self, key: &str, reason: &str) -> ImportError {
        let place = self.path_of(key);
        (self.source).bad_at(Location::Whole, format!("'{place}' {reason}"))
    }

    /// Returns a value. A null counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// Returns whether the key is present.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    fn needed(&self, key: &str) -> Result<&'a Value, ImportError> {
        self.get(key)
            .ok_or_else(|| self.bad(key, "is missing: the file has another format or is damaged"))
    }

    fn as_count(&self, key: &str, value: &Value) -> Result<u64, ImportError> {
        value.as_u64().ok_or_else(|| {
            let reason = format!("is {}, not a count", short(value));
            self.bad(key, &reason)
        })
    }

    /// Returns a count, if present.
    pub(crate) fn maybe_count(&self, key: &str) -> Result<Option<u64>, ImportError> {
        let value = self.get(key);
        value.map(|value| self.as_count(key, value)).transpose()
    }

    /// Returns a count.
    pub(crate) fn count(&self, key: &str) -> Result<u64, ImportError> {
        self.as_count(key, self.needed(key)?)
    }

    /// Returns an integer, which may be negative, if present.
    pub(crate) fn maybe_integer(&self, key: &str) -> Result<Option<i64>, ImportError> {
        let integer = |value: &Value| {
            value.as_i64().ok_or_else(|| {
                let reason = format!("is {}, not an integer", short(value));
                self.bad(key, &reason)
            })
        };
        self.get(key).map(integer).transpose()
    }

    /// Returns a non-negative number, if present.
    pub(crate) fn maybe_number(&self, key: &str) -> Result<Option<f64>, ImportError> {
        let number = |value: &Value| {
            let number = value.as_f64().filter(|number| *number >= 0.0);
            number.ok_or_else(|| {
                let reason = format!("is {}, not a number of 0 or more", short(value));
                self.bad(key, &reason)
            })
        };
        self.get(key).map(number).transpose()
    }

    /// Returns a time given as a count of `unit`s.
    pub(crate) fn time(&self, key: &str, unit: Nanos) -> Result<Nanos, ImportError> {
        let count = self.count(key)?;
        let ns = count.checked_mul(unit.0).map(Nanos);
        ns.ok_or_else(|| self.bad(key, &format!("is {count}, out of range")))
    }

    /// Returns a text, if present.
    pub(crate) fn maybe_text(&self, key: &str) -> Result<Option<&'a str>, ImportError> {
        let text = |value: &'a Value| {
            value.as_str().ok_or_else(|| {
                let reason = format!("is {}, not a text", short(value));
                self.bad(key, &reason)
            })
        };
        self.get(key).map(text).transpose()
    }

    /// Returns an object, if present.
    pub(crate) fn maybe_object(&self, key: &str) -> Result<Option<Self>, ImportError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let map = value.as_object().ok_or_else(|| {
            let reason = format!("is {}, not an object", short(value));
            self.bad(key, &reason)
        })?;
        Ok(Some(Self {
            source: self.source,
            map,
            path: self.path_of(key),
        }))
    }

    /// Returns an object.
    pub(crate) fn object(&self, key: &str) -> Result<Self, ImportError> {
        self.needed(key)?;
        let found = self.maybe_object(key)?;
        found.ok_or_else(|| self.bad(key, "is missing"))
    }

    /// Returns the keys in numerical order. All of them must be numbers.
    pub(crate) fn numbers(&self) -> Result<Vec<(u64, &'a str)>, ImportError> {
        let mut numbers = Vec::with_capacity(self.map.len());
        for key in self.map.keys() {
            let digits = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
            match key.parse().ok().filter(|_| digits) {
                Some(number) => numbers.push((number, key.as_str())),
                None => {
                    return Err(self.bad(
                        &shorten(key),
                        "is not a number: every key in this \
                    object must be a number",
                    ));
                }
            }
        }
        numbers.sort_unstable();
        match numbers.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(twice) => Err(self.bad(twice[1].1, "is there twice")),
            None => Ok(numbers),
        }
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => shorten(&other.to_string()),
    }
}

fn shorten(text: &str) -> String {
    super::head::shown(text.as_bytes())
}
