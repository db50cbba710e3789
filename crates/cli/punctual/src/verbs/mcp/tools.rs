//! The tools: each runs a command that only reads, and returns its JSON.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use punctual_files::Budget;
use serde_json::{Map, Value, json};

use super::data::{self, Found};
use crate::context::Context;

/// Limits of one command.
const BUDGET: Budget = Budget::bytes(256 << 20).within(Duration::from_secs(120));
/// Maximum length of an argument, in bytes.
const LONGEST: usize = 256;
/// Maximum number of recordings of one side of a comparison.
const MOST: usize = 100;

/// A tool, which is named like its command.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    arguments: &'static [Argument],
    /// Words that are always passed.
    fixed: &'static [&'static str],
    /// Removes what a model need not read, and returns a sentence about it.
    pub(super) shorten: fn(&mut Value) -> Option<String>,
}

/// An argument of a tool.
struct Argument {
    name: &'static str,
    about: &'static str,
    kind: Kind,
    is_required: bool,
}

/// The form of an argument on the command line.
enum Kind {
    /// A word.
    Word,
    /// The value of an option.
    Option(&'static str),
    /// A number from 1 to this one, as the value of an option.
    Number(&'static str, u64),
    /// Words after all options.
    Words,
    /// Words that follow this option.
    WordsOf(&'static str),
}

const fn argument(name: &'static str, kind: Kind, about: &'static str) -> Argument {
    Argument {
        name,
        about,
        kind,
        is_required: false,
    }
}

const fn required(name: &'static str, kind: Kind, about: &'static str) -> Argument {
    Argument {
        is_required: true,
        ..argument(name, kind, about)
    }
}

const ID: &str =
    "Recording: an ID, the start or end of an ID, a label, last or last~N (default: last)";
const HOST: &str = "Only recordings of this machine";
const SINCE: &str = "Only since this time: 2026-11-03, an RFC 3339 time, or 24h";

/// All tools.
pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "list",
        about: "List stored recordings, newest first, with their largest latency and result",
        arguments: &[
            argument(
                "limit",
                Kind::Number("--limit", 1_000),
                "Only the newest N (default: 50)",
            ),
            argument(
                "probe",
                Kind::Option("--probe"),
                "Only recordings of this probe",
            ),
            argument("host", Kind::Option("--host"), HOST),
            argument(
                "series",
                Kind::Option("--series"),
                "Only runs of this series",
            ),
            argument(
                "label",
                Kind::Option("--label"),
                "Only labels with this text",
            ),
            argument("since", Kind::Option("--since"), SINCE),
        ],
        fixed: &[],
        shorten: |_| None,
    },
    Tool {
        name: "show",
        about: "Show a recording: latencies of each thread, verdict, warnings, facts of the machine",
        arguments: &[argument("recording", Kind::Word, ID)],
        fixed: &[],
        shorten: |_| None,
    },
    Tool {
        name: "explain",
        about: "Show the causes of the outliers of a recording, as shares of their time, with \
            remedies. The recording must have been made with --explain",
        arguments: &[
            argument("recording", Kind::Word, ID),
            argument(
                "outlier",
                Kind::Number("--outlier", 1_000_000),
                "Only this outlier",
            ),
        ],
        fixed: &[],
        shorten: |_| None,
    },
    Tool {
        name: "doctor",
        about: "Audit this machine: settings and properties that cost latency, with remedies. Takes a \
            second and changes nothing",
        arguments: &[
            argument(
                "cpus",
                Kind::Option("--cpus"),
                "CPUs of the application, such as 2-3",
            ),
            argument(
                "role",
                Kind::Option("--role"),
                "control, audio, network, trading, telco or lab (default: control)",
            ),
        ],
        fixed: &["--report-only"],
        shorten: without_good_checks,
    },
    Tool {
        name: "trend",
        about: "Show whether a series of recordings got better or worse over time, and when",
        arguments: &[
            argument(
                "series",
                Kind::Word,
                "Series, or label of recordings (default: the only series)",
            ),
            argument("host", Kind::Option("--host"), HOST),
            argument("since", Kind::Option("--since"), SINCE),
        ],
        fixed: &[],
        shorten: |_| None,
    },
    Tool {
        name: "compare",
        about: "Compare recordings of one probe, with confidence intervals. Several recordings on each \
            side are compared as runs",
        arguments: &[
            required(
                "baseline",
                Kind::Words,
                "IDs of the baseline, one or several",
            ),
            required(
                "candidate",
                Kind::WordsOf("--with"),
                "IDs of the candidate, one or several",
            ),
        ],
        fixed: &[],
        shorten: |_| None,
    },
];

impl Tool {
    /// Returns the JSON Schema of the arguments.
    pub(super) fn schema(&self) -> Value {
        let properties = self.arguments.iter().map(|one| {
            let about = one.about;
            let schema = match one.kind {
                Kind::Word | Kind::Option(_) => json!({"type": "string", "maxLength": LONGEST}),
                Kind::Number(_, most) => json!({"type": "integer", "minimum": 1, "maximum": most}),
                Kind::Words | Kind::WordsOf(_) => json!({
                    "type": "array", "minItems": 1, "maxItems": MOST,
                    "items": {"type": "string", "maxLength": LONGEST},
                }),
            };
            let mut schema = schema;
            schema["description"] = about.into();
            (one.name.to_owned(), schema)
        });
        let properties: Map<String, Value> = properties.collect();
        let required = self.arguments.iter().filter(|one| one.is_required);
        let required: Vec<&str> = required.map(|one| one.name).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Returns the words of the command line for these arguments.
    ///
    /// # Errors
    /// Returns what is wrong with the arguments.
    pub(super) fn words(&self, given: &Value) -> Result<Vec<String>, String> {
        let none = Map::new();
        let given = match given {
            Value::Null => &none,
            Value::Object(given) => given,
            _ => return Err("\"arguments\" must be an object".to_owned()),
        };
        let known = |name: &String| self.arguments.iter().any(|one| one.name == name);
        if let Some(unknown) = given.keys().find(|name| !known(name)) {
            let names: Vec<&str> = self.arguments.iter().map(|one| one.name).collect();
            return Err(format!(
                "unknown argument '{}': use {}",
                data::bounded(unknown, 60),
                names.join(", ")
            ));
        }
        let (mut options, mut words) = (vec![self.name.to_owned(), "--json".to_owned()], vec![]);
        options.extend(self.fixed.iter().map(|word| (*word).to_owned()));
        if self.name == "list" && !given.contains_key("limit") {
            options.push("--limit=50".to_owned());
        }
        for one in self.arguments {
            match given.get(one.name) {
                None | Some(Value::Null) if one.is_required => {
                    return Err(format!("the argument '{}' is missing", one.name));
                }
                None | Some(Value::Null) => {}
                Some(value) => {
                    let wrong = |why| format!("argument '{}': {why}", one.name);
                    one.add(value, &mut options, &mut words).map_err(wrong)?;
                }
            }
        }
        // Words after this one are never options.
        options.push("--".to_owned());
        options.extend(words);
        Ok(options)
    }
}

impl Argument {
    fn add(
        &self,
        value: &Value,
        options: &mut Vec<String>,
        words: &mut Vec<String>,
    ) -> Result<(), String> {
        match self.kind {
            Kind::Word => words.push(word(value)?),
            Kind::Option(name) => options.push(format!("{name}={}", word(value)?)),
            Kind::Number(name, most) => {
                let number = value.as_u64().filter(|number| (1..=most).contains(number));
                let number = number.ok_or_else(|| format!("not a number from 1 to {most}"))?;
                options.push(format!("{name}={number}"));
            }
            Kind::Words => words.extend(several(value)?),
            Kind::WordsOf(name) => {
                options.extend(
                    several(value)?
                        .into_iter()
                        .map(|word| format!("{name}={word}")),
                );
            }
        }
        Ok(())
    }
}

/// Removes the checks that are ok or do not apply from an audit, as the text of doctor does.
fn without_good_checks(audit: &mut Value) -> Option<String> {
    let findings = audit["findings"].as_array_mut()?;
    let all = findings.len();
    let is_good = |one: &Value| one["state"] == "ok" || one["state"] == "not_applicable";
    findings.retain(|one| !is_good(one));
    Some(format!(
        "Left out: {} checks that are ok or do not apply.",
        all - findings.len()
    ))
}

fn word(value: &Value) -> Result<String, String> {
    let text = value.as_str().ok_or("not a string")?;
    if text.is_empty() || text.len() > LONGEST || text.contains(char::is_control) {
        return Err(format!(
            "not a text of 1 to {LONGEST} bytes without control characters"
        ));
    }
    Ok(text.to_owned())
}

fn several(value: &Value) -> Result<Vec<String>, String> {
    let all = value.as_array().ok_or("not a list of strings")?;
    if all.is_empty() || all.len() > MOST {
        return Err(format!("not a list of 1 to {MOST} strings"));
    }
    all.iter().map(word).collect()
}

/// Runs commands of this program.
pub(super) struct Caller {
    program: PathBuf,
    store: Option<OsString>,
}

impl Caller {
    pub(super) fn new(context: &Context) -> Result<Self> {
        Ok(Self {
            program: std::env::current_exe().context("the path of this program is unknown")?,
            store: context
                .named_store()
                .map(|path| path.as_os_str().to_owned()),
        })
    }

    /// Runs a command, and returns its JSON.
    ///
    /// # Errors
    /// Returns the messages of the command if it printed no JSON.
    pub(super) fn call(&self, tool: &Tool, words: &[String]) -> Result<Found, String> {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null());
        if let Some(store) = &self.store {
            command.env("PUNCTUAL_STORE", store);
        }
        let ended = BUDGET.output(&mut command);
        let ended = ended.map_err(|error| format!("punctual {}: {error}", words[0]))?;
        let text = String::from_utf8_lossy(&ended.stdout);
        match text.parse::<Value>() {
            Ok(mut document) => {
                let left_out = (tool.shorten)(&mut document);
                Found::new(document, left_out)
            }
            Err(_) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                let said = data::bounded(said.trim(), data::LONGEST_MESSAGE);
                Err(if said.is_empty() {
                    format!(
                        "punctual {} ended with {} and printed no JSON",
                        words[0], ended.status
                    )
                } else {
                    said
                })
            }
        }
    }
}
