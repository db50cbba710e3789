//! Parses a plan. Errors contain line and column.

mod application;
mod schedule;

use std::ops::Range;

use punctual_model::{Arguments, Nanos, WakeupAxis};
use punctual_probes::ProbeEntry;
use punctual_session::{PhaseRequest, can_be_explained};
use punctual_trace::LARGEST_TRACE;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::plan::{FlightPlan, Measured, Plan, Push, Retention, SeriesPlan, WatchPlan};

/// Error in a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}\n  {text}\n  {marker}")]
pub struct PlanError {
    /// Path of the plan, as the caller passed it.
    pub file: String,
    /// Line number, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The problem, and the remedy.
    pub message: String,
    /// Text of the line.
    pub text: String,
    /// Marker below the column.
    pub marker: String,
}

/// Minimum interval of a series, and minimum length of a window. With shorter ones, the service
/// would measure its own activity.
const SHORTEST: Nanos = Nanos::from_secs(1);

/// Maximum length of the name of a series, in bytes.
const LONGEST_NAME: usize = 100;

type Value<'a> = Spanned<DeValue<'a>>;

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

/// Parses a plan from the text of a file.
///
/// # Errors
/// Returns the first problem, with its line and column.
pub fn read_plan(file: &str, text: &str) -> Result<Plan, PlanError> {
    Reader { file, text }.plan()
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, message: impl Into<String>) -> PlanError {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let begins = before.rfind('\n').map_or(0, |place| place + 1);
        let line = self.text[begins..].lines().next().unwrap_or_default();
        let column = before[begins..].chars().count() + 1;
        let marked = self.text.get(span).and_then(|part| part.lines().next());
        let width = marked.map_or(1, |part| part.chars().count().max(1));
        PlanError {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column,
            message: message.into(),
            text: line.to_owned(),
            marker: format!("{}{}", " ".repeat(column - 1), "^".repeat(width)),
        }
    }

    fn unknown(&self, span: Range<usize>, what: &str, known: &[&str]) -> PlanError {
        let message = format!("unknown name '{what}': use one of {}", known.join(", "));
        self.error(span, message)
    }

    fn plan(&self) -> Result<Plan, PlanError> {
        let table = DeTable::parse(self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            self.error(span, error.message())
        })?;
        let mut plan = Plan::default();
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("series", DeValue::Array(list)) => plan.series = self.all_series(list)?,
                ("series", _) => {
                    let message = "a series must begin with [[series]] on a separate line";
                    return Err(self.error(key.span(), message));
                }
                ("watch", DeValue::Table(table)) => {
                    plan.watch = Some(self.watch(key.span(), table)?)
                }
                ("flight", DeValue::Table(table)) => plan.flight = Some(self.flight(table)?),
                ("keep", DeValue::Table(table)) => plan.keep = self.keep(table)?,
                ("push", DeValue::Table(table)) => {
                    plan.push = Some(self.push(key.span(), table)?);
                }
                (name @ ("watch" | "flight" | "keep" | "push"), _) => {
                    let message = format!("this is a table: write [{name}] on a separate line");
                    return Err(self.error(key.span(), message));
                }
                (other, _) => {
                    let known = ["series", "watch", "flight", "keep", "push"];
                    return Err(self.unknown(key.span(), other, &known));
                }
            }
        }
        self.rows_last(&plan, table.get_ref())?;
        if plan.series.is_empty() && plan.watch.is_none() && plan.flight.is_none() {
            Err(self.error(
                0..0,
                "the plan is empty: add [[series]], [watch] or [flight]",
            ))
        } else {
            Ok(plan)
        }
    }

    fn all_series(&self, list: &DeArray<'_>) -> Result<Vec<SeriesPlan>, PlanError> {
        let mut all: Vec<SeriesPlan> = Vec::new();
        for entry in list.iter() {
            let DeValue::Table(table) = entry.get_ref() else {
                return Err(self.error(entry.span(), "a series is a table: [[series]]"));
            };
            let series = self.series(entry.span(), table)?;
            if all.iter().any(|other| other.name == series.name) {
                let span = table.get("name").map_or(entry.span(), Spanned::span);
                let message = format!("there are two series '{}'", series.name);
                return Err(self.error(span, message));
            }
            all.push(series);
        }
        Ok(all)
    }

    fn series(&self, span: Range<usize>, table: &DeTable<'_>) -> Result<SeriesPlan, PlanError> {
        let name = self.required(span.clone(), table, "name")?;
        let name = self.name(name)?;
        let mut series = SeriesPlan {
            name,
            measured: self.measured(span.clone(), table)?,
            phases: None,
            duration: None,
            cpus: None,
            at: Vec::new(),
            every: None,
            after_boot: false,
            after_kernel_change: false,
            explain: None,
            max_latency: None,
            windows: None,
            periodic: None,
            samples: false,
            wait: SeriesPlan::WAIT,
        };
        for (key, value) in table {
            self.series_key(&mut series, key.get_ref(), key.span(), value)?;
        }
        if let (Some(value), Some(_)) = (table.get("duration"), &series.phases) {
            let message = "phases already specify a duration: remove duration or phases";
            return Err(self.error(value.span(), message));
        }
        if let Measured::Application(..) = series.measured {
            self.application(&mut series, table)?;
        } else {
            self.sample(&mut series, table)?;
            series.windows = self.windows(table, series.periodic.is_some())?;
        }
        let events = series.after_boot || series.after_kernel_change;
        let is_due = !series.at.is_empty() || series.every.is_some() || series.sample().is_some();
        if !is_due && !events {
            Err(self.error(
                span,
                format!(
                    "series '{}' is never due: add at, every, sample or after",
                    series.name
                ),
            ))
        } else {
            Ok(series)
        }
    }

    fn series_key(
        &self,
        series: &mut SeriesPlan,
        key: &str,
        span: Range<usize>,
        value: &Value<'_>,
    ) -> Result<(), PlanError> {
        let wrong = |message: String| self.error(value.span(), message);
        match key {
            "name"
            | "probe"
            | "unit"
            | "comm"
            | "cgroup"
            | "period"
            | "parameters"
            | "misses"
            | "budget"
            | "sample"
            | "max_late_seconds_per_day" => {}
            "phases" => {
                let text = self.word(value)?;
                PhaseRequest::read_all(text).map_err(|error| wrong(error.to_string()))?;
                series.phases = Some(text.to_owned());
            }
            "duration" => series.duration = Some(self.at_least(value, SHORTEST)?),
            "cpus" => {
                let cpus = self.word(value)?.parse();
                series.cpus = Some(cpus.map_err(|error| wrong(format!("{error}")))?);
            }
            "at" => series.at = self.times(value)?,
            "every" => series.every = Some(self.at_least(value, SHORTEST)?),
            "after" => self.after(series, value)?,
            "explain" => {
                if let Measured::Probe(probe, _) = &series.measured {
                    can_be_explained(probe).map_err(|error| wrong(error.to_string()))?;
                }
                series.explain = Some(self.at_least(value, Nanos(1))?);
            }
            "max_latency" => series.max_latency = Some(self.at_least(value, Nanos(1))?),
            "samples" => {
                let DeValue::Boolean(samples) = value.get_ref() else {
                    return Err(wrong("samples must be true or false".to_owned()));
                };
                series.samples = *samples;
            }
            "wait" => series.wait = self.duration(value)?,
            other => {
                const KNOWN: [&str; 21] = [
                    "name",
                    "probe",
                    "unit",
                    "comm",
                    "cgroup",
                    "period",
                    "parameters",
                    "phases",
                    "duration",
                    "cpus",
                    "at",
                    "every",
                    "sample",
                    "after",
                    "explain",
                    "max_latency",
                    "misses",
                    "budget",
                    "max_late_seconds_per_day",
                    "samples",
                    "wait",
                ];
                return Err(self.unknown(span, other, &KNOWN));
            }
        }
        Ok(())
    }

    fn name(&self, value: &Value<'_>) -> Result<String, PlanError> {
        let name = self.word(value)?;
        if name == crate::WATCH_SERIES {
            let message = "this name is reserved for the windows of [watch]: use another name";
            return Err(self.error(value.span(), message));
        }
        let fits = name
            .chars()
            .all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if fits && !name.is_empty() && name.len() <= LONGEST_NAME {
            Ok(name.to_owned())
        } else {
            Err(self.error(
                value.span(),
                "a name can contain at most 100 letters, digits, '-', '_' and '.'",
            ))
        }
    }

    fn arguments(
        &self,
        series: Range<usize>,
        probe: &'static ProbeEntry,
        value: Option<&Value<'_>>,
    ) -> Result<Arguments, PlanError> {
        let parameters = probe.parameters;
        let mut given = Vec::new();
        if let Some(value) = value {
            let DeValue::Table(table) = value.get_ref() else {
                let message = "parameters must be a table: { interval = \"200us\" }";
                return Err(self.error(value.span(), message));
            };
            for (key, value) in table {
                let text = match value.get_ref() {
                    DeValue::String(text) => text.to_string(),
                    DeValue::Integer(number) => number.as_str().to_owned(),
                    DeValue::Boolean(on) => on.to_string(),
                    _ => {
                        let message =
                            "a parameter must be a quoted string, an integer, true or false";
                        return Err(self.error(value.span(), message));
                    }
                };
                // Check each item separately, so that the error contains its position.
                let name = key.get_ref().as_ref();
                let place = if parameters.iter().any(|parameter| parameter.name == name) {
                    value.span()
                } else {
                    key.span()
                };
                Arguments::check(parameters, [(name, text.as_str())])
                    .map_err(|error| self.error(place, error.to_string()))?;
                given.push((name.to_owned(), text));
            }
        }
        let pairs = given
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        let place = value.map_or(series, Spanned::span);
        let arguments = Arguments::check(parameters, pairs)
            .map_err(|error| self.error(place.clone(), error.to_string()))?;
        (probe.check_repeatable(&arguments))
            .map_err(|error| self.error(place, error.to_string()))?;
        Ok(arguments)
    }

    fn watch(&self, span: Range<usize>, table: &DeTable<'_>) -> Result<WatchPlan, PlanError> {
        let mut plan = WatchPlan {
            window: self.at_least(self.required(span.clone(), table, "window")?, SHORTEST)?,
            listen: None,
            by: vec![WakeupAxis::Cpu],
        };
        if plan.window > Nanos::from_secs(24 * 3600) {
            return Err(self.error(span, "a window is at most 24 h long"));
        }
        for (key, value) in table {
            match &**key.get_ref() {
                "window" => {}
                "listen" => {
                    let address = self.word(value)?.parse().map_err(|_| {
                        let message = "listen must be an address with a port, such as \
                                       \"127.0.0.1:9760\"";
                        self.error(value.span(), message)
                    })?;
                    plan.listen = Some(address);
                }
                "by" => plan.by = self.axes(value)?,
                other => {
                    let known = ["window", "listen", "by"];
                    return Err(self.unknown(key.span(), other, &known));
                }
            }
        }
        match table.get("by") {
            Some(by) if plan.listen.is_none() => Err(self.error(
                by.span(),
                "by groups the counts that are served to Prometheus: add listen, or remove by",
            )),
            _ => Ok(plan),
        }
    }

    fn axes(&self, value: &Value<'_>) -> Result<Vec<WakeupAxis>, PlanError> {
        let list = self.list(value, "by must be a list, such as [\"cpu\", \"cgroup\"]")?;
        let axis = |value: &Value<'_>| {
            let word = self.word(value)?;
            let axis = WakeupAxis::ALL.into_iter().find(|axis| axis.name() == word);
            let known = WakeupAxis::ALL.map(WakeupAxis::name);
            axis.ok_or_else(|| self.unknown(value.span(), word, &known))
        };
        list.map(axis).collect()
    }

    fn flight(&self, table: &DeTable<'_>) -> Result<FlightPlan, PlanError> {
        let mut flight = FlightPlan::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "last" => flight.last = self.at_least(value, SHORTEST)?,
                "memory" => {
                    flight.memory = self.size(value)?;
                    if flight.memory > LARGEST_TRACE {
                        let message = format!("at most {} MB", LARGEST_TRACE >> 20);
                        return Err(self.error(value.span(), message));
                    }
                }
                other => return Err(self.unknown(key.span(), other, &["last", "memory"])),
            }
        }
        Ok(flight)
    }

    fn push(&self, span: Range<usize>, table: &DeTable<'_>) -> Result<Push, PlanError> {
        let mut push = Push {
            to: self.word(self.required(span, table, "to")?)?.to_owned(),
            token_file: None,
            ca: None,
            every: Push::EVERY,
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "to" => {}
                "token_file" => push.token_file = Some(self.word(value)?.into()),
                "ca" => push.ca = Some(self.word(value)?.into()),
                "every" => push.every = self.at_least(value, SHORTEST)?,
                other => {
                    let known = ["to", "token_file", "ca", "every"];
                    return Err(self.unknown(key.span(), other, &known));
                }
            }
        }
        Ok(push)
    }

    fn keep(&self, table: &DeTable<'_>) -> Result<Retention, PlanError> {
        let mut keep = Retention::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "samples" => keep.samples = Some(self.duration(value)?),
                "traces" => keep.traces = Some(self.duration(value)?),
                "rows" => keep.rows = Some(self.duration(value)?),
                "size" => keep.size = Some(self.size(value)?),
                other => {
                    let known = ["samples", "traces", "rows", "size"];
                    return Err(self.unknown(key.span(), other, &known));
                }
            }
        }
        Ok(keep)
    }

    fn size(&self, value: &Value<'_>) -> Result<u64, PlanError> {
        let text = self.word(value)?;
        let units = [("TB", 40), ("GB", 30), ("MB", 20), ("kB", 10)];
        let read = units.iter().find_map(|(unit, shift)| {
            let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            number.checked_mul(1 << shift)
        });
        read.filter(|bytes| *bytes >= 1 << 20).ok_or_else(|| {
            let message =
                format!("'{text}' is not a size: use the form 500MB or 2GB, and at least 1MB");
            self.error(value.span(), message)
        })
    }

    fn required<'t, 'd>(
        &self,
        span: Range<usize>,
        table: &'t DeTable<'d>,
        key: &str,
    ) -> Result<&'t Value<'d>, PlanError> {
        table
            .get(key)
            .ok_or_else(|| self.error(span, format!("'{key}' is missing here")))
    }

    fn word<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, PlanError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text),
            _ => Err(self.error(value.span(), "this must be a text in quotes")),
        }
    }

    fn list<'v, 'd>(
        &self,
        value: &'v Value<'d>,
        example: &str,
    ) -> Result<impl Iterator<Item = &'v Value<'d>>, PlanError> {
        match value.get_ref() {
            DeValue::Array(list) => Ok(list.iter()),
            _ => Err(self.error(value.span(), example)),
        }
    }

    fn at_least(&self, value: &Value<'_>, least: Nanos) -> Result<Nanos, PlanError> {
        let length = self.duration(value)?;
        if length < least {
            Err(self.error(
                value.span(),
                format!("{length} is too short: use at least {least}"),
            ))
        } else {
            Ok(length)
        }
    }

    /// Parses a duration. A year has 365 days, a week seven.
    fn duration(&self, value: &Value<'_>) -> Result<Nanos, PlanError> {
        const DAY: u64 = 24 * 3600;
        let text = self.word(value)?;
        let long = [("y", 365 * DAY), ("w", 7 * DAY), ("d", DAY)];
        let read = long.iter().find_map(|(unit, seconds)| {
            let number: u64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            let seconds = number.checked_mul(*seconds)?;
            seconds.checked_mul(1_000_000_000).map(Nanos)
        });
        match read {
            Some(length) => Ok(length),
            None => text
                .parse()
                .map_err(|error: punctual_model::DurationError| {
                    self.error(value.span(), error.to_string())
                }),
        }
    }
}
