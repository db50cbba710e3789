//! The format of JUnit XML that Jenkins and GitLab accept.

use std::time::Duration;

use punctual_model::{Nanos, counted};

use crate::sanitize::push_xml;

/// One group of test cases.
#[derive(Default)]
pub(crate) struct Suite {
    pub(crate) name: String,
    pub(crate) time: Option<Duration>,
    /// Start time, as xs:dateTime.
    pub(crate) timestamp: Option<String>,
    pub(crate) properties: Vec<(&'static str, String)>,
    pub(crate) cases: Vec<Case>,
    pub(crate) output: Option<String>,
}

/// One test case.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) class: String,
    pub(crate) time: Option<Duration>,
    pub(crate) state: State,
    /// The value that was judged, if known. JUnit XML has no place for it.
    pub(crate) measured: Option<Measured>,
    /// Whether it is only a warn level, which judges nothing.
    pub(crate) is_warn_level: bool,
    pub(crate) output: Option<String>,
}

/// A measured value.
#[derive(Clone, Copy)]
pub(crate) enum Measured {
    Time(Nanos),
    Count(u64),
    /// Seconds per day.
    PerDay(f64),
}

impl Measured {
    /// Returns the value as a decimal number and its unit, for programs.
    pub(crate) fn number(self) -> (String, &'static str) {
        match self {
            Self::Time(Nanos(ns)) => (format!("{}.{:03}", ns / 1_000, ns % 1_000), "us"),
            Self::Count(count) => (count.to_string(), "periods"),
            Self::PerDay(seconds) => (format!("{seconds:.1}"), "seconds_per_day"),
        }
    }

    /// Returns the value with its unit, for people.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Time(time) => time.to_string(),
            Self::Count(count) => counted(count, "period", "periods"),
            Self::PerDay(seconds) => format!("{seconds:.1} seconds a day"),
        }
    }
}

/// How a test case ended. A problem has its kind and its message.
pub(crate) enum State {
    Success,
    Failure(String, String),
    Error(String, String),
    Skipped(String),
    /// Measured without a requirement: neither a success nor a failure.
    Measured(String),
    /// A warn level was reached, or could not be judged: neither a failure nor an error.
    Warning(String),
}

impl Case {
    /// Returns the text of the result, which contains all parts of a claim.
    pub(crate) fn message(&self) -> &str {
        match &self.state {
            State::Success => self.output.as_deref().unwrap_or_default(),
            State::Failure(_, text)
            | State::Error(_, text)
            | State::Skipped(text)
            | State::Measured(text)
            | State::Warning(text) => text,
        }
    }
}

impl State {
    /// Returns the name of its XML element.
    const fn element(&self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure(..) => "failure",
            Self::Error(..) => "error",
            Self::Skipped(..) | Self::Measured(..) => "skipped",
            Self::Warning(..) => "system-out",
        }
    }
}

/// An XML document under construction.
struct Xml {
    text: String,
    depth: usize,
}

impl Xml {
    /// Writes `<name key="value" ...`, without the end of the tag.
    fn tag(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.text.push_str(&"    ".repeat(self.depth));
        self.text.push('<');
        self.text.push_str(name);
        for (key, value) in attributes {
            self.text.push_str(&format!(" {key}=\""));
            push_xml(&mut self.text, value);
            self.text.push('"');
        }
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.tag(name, attributes);
        self.text.push_str("/>\n");
    }

    fn around(&mut self, name: &str, attributes: &[(&str, &str)], within: impl FnOnce(&mut Self)) {
        self.tag(name, attributes);
        self.text.push_str(">\n");
        self.depth += 1;
        within(self);
        self.depth -= 1;
        self.text.push_str(&"    ".repeat(self.depth));
        self.text.push_str(&format!("</{name}>\n"));
    }

    /// Lines of text.
    fn output(&mut self, text: &str) {
        self.tag("system-out", &[]);
        self.text.push('>');
        for line in text.split_inclusive('\n') {
            push_xml(&mut self.text, line.trim_end_matches('\n'));
            if line.ends_with('\n') {
                self.text.push('\n');
            }
        }
        self.text.push_str("</system-out>\n");
    }

    fn suite(&mut self, suite: &Suite) {
        let counts = counts(&suite.cases);
        let mut attributes = vec![("name", suite.name.as_str())];
        attributes.extend(counts.iter().map(|(key, count)| (*key, count.as_str())));
        let time = suite.time.map(seconds);
        attributes.extend(time.as_deref().map(|time| ("time", time)));
        attributes.extend(suite.timestamp.as_deref().map(|at| ("timestamp", at)));
        self.around("testsuite", &attributes, |xml| {
            if !suite.properties.is_empty() {
                xml.around("properties", &[], |xml| {
                    for (name, value) in &suite.properties {
                        xml.empty("property", &[("name", name), ("value", value)]);
                    }
                });
            }
            suite.cases.iter().for_each(|case| xml.case(case));
            if let Some(output) = &suite.output {
                xml.output(output);
            }
        });
    }

    fn case(&mut self, case: &Case) {
        let time = case.time.map(seconds);
        let mut attributes = vec![("name", case.name.as_str()), ("classname", &case.class)];
        attributes.extend(time.as_deref().map(|time| ("time", time)));
        if matches!(case.state, State::Success) && case.output.is_none() {
            return self.empty("testcase", &attributes);
        }
        self.around("testcase", &attributes, |xml| {
            let element = case.state.element();
            match &case.state {
                State::Success => {}
                State::Failure(kind, message) | State::Error(kind, message) => {
                    xml.empty(element, &[("message", message), ("type", kind)]);
                }
                State::Skipped(message) | State::Measured(message) => {
                    xml.empty(element, &[("message", message)])
                }
                // JUnit has no warnings, so the test passes with a text.
                State::Warning(message) => xml.output(&format!("warning: {message}\n")),
            }
            if let Some(output) = &case.output {
                xml.output(output);
            }
        });
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// Returns the counts of test cases, each with the name of its attribute.
fn counts<'a>(cases: impl IntoIterator<Item = &'a Case>) -> [(&'static str, String); 4] {
    let mut counts = [("tests", 0), ("skipped", 0), ("errors", 0), ("failures", 0)];
    for case in cases {
        counts[0].1 += 1;
        match case.state {
            State::Success | State::Warning(..) => {}
            State::Skipped(..) | State::Measured(..) => counts[1].1 += 1,
            State::Error(..) => counts[2].1 += 1,
            State::Failure(..) => counts[3].1 += 1,
        }
    }
    counts.map(|(key, count): (_, u32)| (key, count.to_string()))
}

/// Writes a report of several suites.
pub(crate) fn write(name: &str, suites: &[Suite]) -> String {
    let counts = counts(suites.iter().flat_map(|suite| &suite.cases));
    let mut attributes = vec![("name", name)];
    // The schema of Jenkins has this attribute only for single suites.
    let total = counts.iter().filter(|(key, _)| *key != "skipped");
    attributes.extend(total.map(|(key, count)| (*key, count.as_str())));
    let mut xml = Xml {
        text: "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(),
        depth: 0,
    };
    xml.around("testsuites", &attributes, |xml| {
        suites.iter().for_each(|suite| xml.suite(suite));
    });
    xml.text
}
