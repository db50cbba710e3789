//! Shows the explanations of the outliers of a recording, or of a trace.

use anyhow::Result;
use punctual_model::cause::Source;
use punctual_model::{Explanation, Nanos, Outlier, RecordingId, Segment, Window};
use punctual_report::document::Document;
use punctual_report::{OutlierTimeline, document, text};
use serde::Serialize;

use super::Explain;
use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::recordings::explained::Explained;

/// Prints all outliers, or one of them.
pub(super) fn print(explained: &Explained, options: &Explain, context: &Context) -> Result<Exit> {
    let (json, all) = (options.json, options.all_events);
    let style = context.style();
    if !options.without.is_empty() {
        let prediction = prediction(explained, &options.without)?;
        output::print(&text::render(&prediction, &style))?;
        return Ok(Exit::Done);
    }
    let text = match options.outlier {
        Some(number) => {
            let timeline = explained.one(number)?;
            if json {
                output::json(&OutlierJson::from(timeline))
            } else {
                let mut one = document::outlier(&timeline, all);
                let resemblance = document::resemblance(&explained.explanation, number);
                if let Some(section) = resemblance {
                    one.sections.insert(one.sections.len().min(2), section);
                }
                text::render(&one, &style)
            }
        }
        None if json => output::json(&whole(explained)?),
        None => {
            let list = document::outliers(&explained.recording, &explained.explanation);
            let list = text::render(&list, &style);
            match explained.largest()? {
                Some(largest) => format!(
                    "{list}\n{}",
                    text::render(&document::outlier(&largest, all), &style)
                ),
                None => list,
            }
        }
    };
    output::print(&text)?;
    Ok(Exit::Done)
}

/// Predicts the outliers without the causes that these names match.
fn prediction(explained: &Explained, names: &[String]) -> Result<Document> {
    let explanation = &explained.explanation;
    if explanation.threshold_ns == Nanos::ZERO {
        let why = "--without needs a limit to predict for: give --threshold 100us";
        return Err(UsageError(why.to_owned()).into());
    }
    for name in names {
        let causes = explanation.causes.iter();
        let mut all = causes.map(|cause| (cause.source.kind().name(), cause.source.who()));
        if !all.clone().any(|(kind, who)| is_named(name, kind, &who)) {
            let all = all
                .by_ref()
                .take(NAMED)
                .map(|(kind, who)| format!("{kind}:{who}"));
            let all: Vec<String> = all.collect();
            let all = if all.is_empty() {
                "none".to_owned()
            } else {
                all.join(", ")
            };
            return Err(UsageError(format!(
                "--without {name}: no outlier has this cause; the causes are: {all}"
            ))
            .into());
        }
    }
    let is_removed = |source: &Source| {
        let (kind, who) = (source.kind().name(), source.who());
        names.iter().any(|name| is_named(name, kind, &who))
    };
    Ok(document::prediction(
        &explained.recording,
        explanation,
        names,
        is_removed,
    ))
}

/// Maximum number of causes that an error names.
const NAMED: usize = 12;

/// Returns whether a name of `--without` matches a cause: its kind, a part of its name, or both,
/// separated by a colon.
fn is_named(name: &str, kind: &str, who: &str) -> bool {
    let name = name.to_lowercase().replace('_', " ");
    let who = who.to_lowercase().replace('_', " ");
    let kind = kind.to_lowercase();
    match name.split_once(':') {
        Some((of_kind, part)) if of_kind == kind => who.contains(part.trim()),
        _ => name == kind || who.contains(&name),
    }
}

/// Returns all stored data.
fn whole(explained: &Explained) -> Result<ExplainedJson> {
    let mut explanation = explained.explanation.clone();
    explanation.put_into_words();
    let mut outliers = Vec::new();
    for outlier in &explanation.outliers {
        let timeline = explained.timeline(outlier.number)?;
        outliers.push(timeline.map_or_else(
            || OutlierJson {
                outlier: outlier.clone(),
                window: None,
                segments: Vec::new(),
            },
            OutlierJson::from,
        ));
    }
    Ok(ExplainedJson {
        recording: explained.recording.id,
        explanation,
        outliers,
    })
}

/// One outlier with the events around it. The events have short keys, because a window can contain
/// hundreds of them.
#[derive(Serialize)]
pub(in crate::verbs) struct OutlierJson {
    /// The explanation.
    outlier: Outlier,
    /// The events; null if they are not kept.
    window: Option<Window>,
    /// The cause of each time span.
    segments: Vec<Segment>,
}

/// All stored data of a recording's outliers.
#[derive(Serialize)]
pub(in crate::verbs) struct ExplainedJson {
    /// The recording. If a trace is explained, this recording is not in the store.
    recording: RecordingId,
    /// The summary of all explanations.
    explanation: Explanation,
    /// The outliers with their events.
    outliers: Vec<OutlierJson>,
}

impl From<OutlierTimeline> for OutlierJson {
    fn from(mut timeline: OutlierTimeline) -> Self {
        timeline.outlier.blame.put_into_words();
        for segment in &mut timeline.segments {
            segment.words = Some(Box::new(segment.cause.words()));
        }
        Self {
            outlier: timeline.outlier,
            window: Some(timeline.window),
            segments: timeline.segments,
        }
    }
}

punctual_model::to_json!(OutlierJson, ExplainedJson);

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn causes_are_named_by_kind_name_or_both() {
        let nvme = |name| is_named(name, "interrupt", "nvme0q1 (24)");
        for name in [
            "interrupt",
            "nvme",
            "NVMe0q1",
            "interrupt:nvme",
            "interrupt:",
        ] {
            assert!(nvme(name), "{name}");
        }
        for name in ["inter", "softirq:nvme", "interrupt:eth", "interrupt nvme"] {
            assert!(!nvme(name), "{name}");
        }
        assert!(is_named(
            "timer_late",
            "timer late",
            "the timer's interrupt"
        ));
        // A colon may also be part of the name of a thread.
        assert!(is_named("kworker/u8:3", "blocking", "kworker/u8:3-17"));
    }
}
