//! The outliers of a recording, one line each. This is the first part of the output of `explain`.

use punctual_model::{Explanation, Outlier, Recording, Resemblance, ResemblancePlace, ShareKind};

use super::table::{Column, Row, Table};
use super::{Block, Document, Section, findings, foreign_trace, without};
use crate::figures;

/// Maximum number of outliers on a terminal. The longest ones come first.
const WORST: usize = 20;

/// Returns a summary of a recording's outliers: their number, the combined causes of all of them,
/// and the longest ones.
pub fn outliers(recording: &Recording, explanation: &Explanation) -> Document {
    let mut document = Document::default();
    let text = figures::explained_text(explanation);
    if let Some(section) = foreign_trace::section(recording) {
        document.push(section);
        if !recording.warnings.is_empty() {
            let warnings = Block::Warnings(recording.warnings.clone());
            document.push(Section::new(vec![warnings]));
        }
    }
    document.push(Section::new(vec![Block::text(text)]));
    if explanation.trace.is_some() && explanation.jobs.is_some() {
        document.title = super::jobs::sentence(recording).unwrap_or_default();
        super::jobs::sections(recording)
            .into_iter()
            .for_each(|section| document.push(section));
    }
    findings::of_explanation(explanation)
        .into_iter()
        .for_each(|section| document.push(section));
    document
        .sections
        .extend(without::benefits(recording, explanation));
    if let Some(note) = not_preempted(recording, explanation) {
        document.push(Section::new(vec![Block::text(note)]));
    }
    if explanation.outliers.is_empty() {
        let functions = explanation
            .trace
            .as_ref()
            .and_then(foreign_trace::functions);
        document.sections.extend(functions);
        return document;
    }
    let mut largest: Vec<&Outlier> = explanation.outliers.iter().collect();
    largest.sort_by_key(|outlier| outlier.order());
    let in_trace = explanation.trace.is_some();
    let columns = vec![
        Column::right("outlier"),
        if in_trace {
            Column::right("time")
        } else {
            Column::left("time (UTC)")
        },
        Column::left("where").most(24),
        Column::right(recording.probe.quantity()),
        Column::left("main cause").cut_to(20),
    ];
    let alike = punctual_culprit::alike(&explanation.outliers);
    let alike = |number: u64| alike.iter().find(|one| one.number == number);
    let rows = largest.into_iter().map(|outlier| {
        Row::new([
            outlier.number.to_string(),
            if in_trace {
                figures::trace_time(outlier.monotonic_ns)
            } else {
                figures::time_of_day(outlier.time)
            },
            figures::thread_label(recording, outlier.thread, outlier.cpu),
            outlier.latency_ns.to_string(),
            match alike(outlier.number) {
                Some(one) => format!("as outlier {} ({})", one.outlier, as_well(one)),
                None if outlier.light_stage => {
                    format!("{} (light stage)", outlier.blame.culprit())
                }
                None => outlier.blame.culprit(),
            },
        ])
    });
    let table = Table::new(columns, rows.collect()).at_most(WORST);
    let table = table.further("further outlier", "further outliers");
    document.push(Section::new(vec![Block::Table(table)]));
    document
}

/// Returns what an outlier of the light stage has in common with explained ones, such as `same futex,
/// same waker; 2 explained`.
fn as_well(alike: &Resemblance) -> String {
    let place = match &alike.place {
        ResemblancePlace::Wait { call, waker, .. } => {
            let waker = match waker {
                Some(_) => "same waker",
                None => "waker not recorded",
            };
            format!("same {}, {waker}", call.0)
        }
        ResemblancePlace::OnCpu => "on the CPU for a similar time".to_owned(),
    };
    let explained = match (alike.with_cause, alike.explained) {
        (some, all) if some == all => format!("{all} explained"),
        (some, all) => format!("{some} of {all} explained"),
    };
    format!("{place}; {explained}")
}

/// Returns which explained outliers an outlier of the light stage resembles.
pub fn resemblance(explanation: &Explanation, number: u64) -> Option<Section> {
    let alike = punctual_culprit::alike(&explanation.outliers);
    let alike = alike.into_iter().find(|one| one.number == number)?;
    let cause = (explanation
        .outliers
        .iter()
        .filter(|one| one.number == alike.outlier))
    .map(|one| one.blame.culprit())
    .next()?;
    let place = match &alike.place {
        ResemblancePlace::Wait {
            call,
            argument,
            waker,
        } => {
            let place = format!("{} {argument:#x}", call.0);
            match waker {
                Some(waker) => format!("the thread, {place} and the waker {waker} are the same"),
                None => format!(
                    "the thread and {place} are the same; what ended the wait was not recorded"
                ),
            }
        }
        ResemblancePlace::OnCpu => {
            "the thread is the same, and it was on its CPU for a similar time".to_owned()
        }
    };
    Some(Section::new(vec![Block::text(format!(
        "As outlier {}: {place}. {} of {} with these in common {} {cause} as their main cause",
        alike.outlier,
        alike.with_cause,
        punctual_model::counted(alike.explained, "explained outlier", "explained outliers"),
        if alike.with_cause == 1 { "has" } else { "have" },
    ))]))
}

/// Explains blocking threads if the preemption model of the kernel allows them.
fn not_preempted(recording: &Recording, explanation: &Explanation) -> Option<String> {
    let model = recording.host.kernel.preempt_model.get()?;
    let until = match model.as_str() {
        "none" => "it sleeps or returns to user space",
        "voluntary" => "it sleeps, returns to user space or reaches a voluntary preemption point",
        _ => return None,
    };
    let kind = ShareKind::Blocking;
    let blocks = (explanation.causes.iter()).any(|cause| cause.source.kind() == kind);
    blocks.then(|| {
        format!(
            "preempt={model}: the kernel does not preempt a thread in a system call until {until}, so \
             threads of lower priority block by design. Remedy: boot with preempt=full, or use a \
             PREEMPT_RT kernel"
        )
    })
}

#[cfg(test)]
mod tests {
    use punctual_model::cause::{Awaited, Cause, Detail, Leaf, Name, Source, Wait};
    use punctual_model::{Comm, Nanos, Share, testing};

    use super::*;
    use crate::text::{self, TextStyle};

    fn outlier(number: u64, light_stage: bool, leaf: Leaf) -> Outlier {
        let source = Source::Awaited(Awaited {
            wait: Wait::Lock,
            chain: vec![Name {
                pid: Some(20),
                comm: Comm::new(b"db"),
            }],
            leaf,
        });
        let place = Detail::WaitsIn {
            call: Some("futex".into()),
            argument: 0x5000,
            at: None,
        };
        let share = Share::new(Cause::new(source).with(place), Nanos(900), 1);
        Outlier {
            light_stage,
            number,
            time: jiff::Timestamp::UNIX_EPOCH,
            monotonic_ns: Nanos(1),
            cpu: None,
            thread: 0,
            latency_ns: Nanos(900),
            blame: testing::blame(vec![share]),
        }
    }

    #[test]
    fn outlier_of_light_stage_names_explained_one() {
        let explanation = Explanation {
            outliers: vec![
                outlier(3, true, Leaf::Unknown),
                outlier(12, false, Leaf::Ran),
            ],
            ..Explanation::default()
        };
        let list = outliers(&testing::recording(1, 1), &explanation);
        let list = text::render(&list, &TextStyle::default());
        assert!(list.contains("as outlier 12"), "{list}");
        assert!(resemblance(&explanation, 12).is_none());
        let one = Document {
            sections: resemblance(&explanation, 3).into_iter().collect(),
            ..Document::default()
        };
        let one = text::render(&one, &TextStyle::default());
        let one = one.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            one.contains("the thread, futex 0x5000 and the waker db-20 are the same. 1 of 1 explained outlier"),
            "{one}"
        );
    }
}
