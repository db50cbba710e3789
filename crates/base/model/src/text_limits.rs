//! Limits on the length of texts from other sources that appear in a store, on a page or in a plot.

use crate::cause::Cause;
use crate::{
    Blame, ChangeAnnotation, Experiment, Note, Recording, SeriesEpoch, Slot, ToJson, WakeWindow,
};

/// Maximum length in characters of the label of a recording or an experiment, and of the name of a
/// series, an author or a figure.
pub const LONGEST_LABEL: usize = 256;
/// Maximum length of the name of a machine, in characters: the longest name in the DNS (RFC 1035,
/// 2.3.4).
pub const LONGEST_HOST_NAME: usize = 253;
/// Maximum length of a note, and of the reason of a slot or a decision, in bytes.
pub const LONGEST_NOTE: usize = 4_096;
/// Maximum length of the definition of a series, in bytes.
pub const LONGEST_DEFINITION: usize = 64 << 10;
/// Maximum length of the cause of a share, in bytes of its JSON.
pub const LONGEST_CAUSE: usize = 16 << 10;
/// Maximum number of notes in a store about one machine.
pub const MOST_NOTES: usize = 1_000;

/// A text that is longer than its limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} has {length} {unit}: at most {most} are allowed")]
pub struct TooLongText {
    what: &'static str,
    length: usize,
    unit: &'static str,
    most: usize,
}

/// A type that contains texts from other sources, such as a delivery.
pub trait BoundedTexts {
    /// Checks that the texts are within the limits.
    ///
    /// # Errors
    /// Fails with the first text that is too long.
    fn check_texts(&self) -> Result<(), TooLongText>;
}

impl BoundedTexts for Recording {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_label(self.label.as_deref().unwrap_or_default())?;
        check_host_name(self.host.hostname.get().map_or("", String::as_str))?;
        let outliers = self.explanation.iter();
        let outliers = outliers.flat_map(|one| one.outliers.iter().map(|one| &one.blame));
        let largest = self.top_samples.iter().filter_map(|one| one.blame.as_ref());
        largest.chain(outliers).try_for_each(Blame::check)?;
        let found = self.explanation.iter();
        let sources = found.flat_map(|one| {
            let causes = one.causes.iter().map(|one| &one.source);
            causes.chain(one.periods.iter().map(|one| &one.source))
        });
        let mut sources = sources.cloned().map(Cause::new);
        sources.try_for_each(|cause| cause.check())
    }
}

impl Cause {
    /// Checks that the cause is within its limit. A limit on the bytes of its JSON also limits its
    /// texts, its chains and its depth.
    ///
    /// # Errors
    /// Fails if the cause is too long.
    pub fn check(&self) -> Result<(), TooLongText> {
        check_bytes("cause", &self.to_json(), LONGEST_CAUSE)
    }
}

impl Blame {
    /// Maximum number of shares. The analysis combines further sources of one kind into
    /// [`Source::Others`](crate::cause::Source::Others).
    pub const MOST_SHARES: usize = 1_000;

    /// Checks that the number of shares and each cause are within their limits.
    ///
    /// # Errors
    /// Fails if there are too many shares, or if a cause is too long.
    pub fn check(&self) -> Result<(), TooLongText> {
        let length = self.shares.len();
        if length > Self::MOST_SHARES {
            return Err(TooLongText {
                what: "blame",
                length,
                unit: "shares",
                most: Self::MOST_SHARES,
            });
        }
        self.shares.iter().try_for_each(|share| share.cause.check())
    }
}

impl BoundedTexts for Experiment {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_label(self.label.as_deref().unwrap_or_default())?;
        check_host_name(self.host.as_deref().unwrap_or_default())
    }
}

impl BoundedTexts for SeriesEpoch {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_host_name(&self.machine)?;
        check_host_name(self.host.as_deref().unwrap_or_default())?;
        check_series(&self.name)?;
        check_bytes("definition", &self.definition, LONGEST_DEFINITION)
    }
}

impl BoundedTexts for Slot {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_host_name(&self.machine)?;
        check_series(&self.series)?;
        let reason = self.reason.as_deref().unwrap_or_default();
        check_bytes("reason", reason, LONGEST_NOTE)
    }
}

impl BoundedTexts for WakeWindow {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_host_name(&self.machine)
    }
}

impl BoundedTexts for Note {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_host_name(self.machine.as_deref().unwrap_or_default())?;
        check_series(self.series.as_deref().unwrap_or_default())?;
        characters("author", &self.author, LONGEST_LABEL)?;
        check_bytes("note", &self.text, LONGEST_NOTE)
    }
}

impl BoundedTexts for ChangeAnnotation {
    fn check_texts(&self) -> Result<(), TooLongText> {
        check_series(&self.series)?;
        characters("figure", &self.figure, LONGEST_LABEL)?;
        characters("author", &self.who, LONGEST_LABEL)?;
        check_bytes("reason", &self.why, LONGEST_NOTE)
    }
}

/// Checks that a label is within its limit.
///
/// # Errors
/// Fails if the label is too long.
pub fn check_label(label: &str) -> Result<(), TooLongText> {
    characters("label", label, LONGEST_LABEL)
}

/// Checks that the name of a machine is within its limit.
///
/// # Errors
/// Fails if the name is too long.
pub fn check_host_name(name: &str) -> Result<(), TooLongText> {
    characters("name of the machine", name, LONGEST_HOST_NAME)
}

/// Checks that the name of a series is within its limit.
///
/// # Errors
/// Fails if the name is too long.
pub fn check_series(name: &str) -> Result<(), TooLongText> {
    characters("name of the series", name, LONGEST_LABEL)
}

/// Checks that a text has at most `most` bytes.
///
/// # Errors
/// Fails if the text is longer.
pub fn check_bytes(what: &'static str, text: &str, most: usize) -> Result<(), TooLongText> {
    match text.len() {
        length if length > most => Err(TooLongText {
            what,
            length,
            unit: "bytes",
            most,
        }),
        _ => Ok(()),
    }
}

/// Returns the text. A text that is longer than `most` bytes is cut to that length and marked.
pub fn cut_to(text: String, most: usize) -> String {
    const MARK: &str = "…";
    if text.len() <= most {
        return text;
    }
    let end = (0..=most.saturating_sub(MARK.len())).rfind(|end| text.is_char_boundary(*end));
    format!("{}{MARK}", &text[..end.unwrap_or(0)])
}

fn characters(what: &'static str, text: &str, most: usize) -> Result<(), TooLongText> {
    match text.chars().count() {
        length if length > most => Err(TooLongText {
            what,
            length,
            unit: "characters",
            most,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of a type: how to set it, its limit, and the words that name it in an error.
    type Bounded<T> = (fn(&mut T, String), usize, &'static str);

    fn limits<T: BoundedTexts + Clone>(whole: &T, texts: &[Bounded<T>]) {
        assert_eq!(whole.check_texts(), Ok(()));
        for (set, most, what) in texts {
            let with = |length: usize| {
                let mut changed = whole.clone();
                set(&mut changed, "x".repeat(length));
                changed.check_texts()
            };
            assert_eq!(with(*most), Ok(()), "{what}");
            let error = with(most + 1).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("the {what} has {} ", most + 1)),
                "{error}"
            );
        }
    }

    #[test]
    fn each_text_of_a_recording_and_an_experiment_is_limited() {
        use crate::testing;
        let host = "name of the machine";
        limits(
            &testing::recording(1, 1),
            &[
                (|run, text| run.label = Some(text), LONGEST_LABEL, "label"),
                (
                    |run, text| run.host.hostname = crate::Fact::known(text, "test"),
                    LONGEST_HOST_NAME,
                    host,
                ),
            ],
        );
        limits(
            &testing::experiment(2, 1),
            &[
                (|run, text| run.label = Some(text), LONGEST_LABEL, "label"),
                (|run, text| run.host = Some(text), LONGEST_HOST_NAME, host),
            ],
        );
    }

    #[test]
    fn each_text_of_a_series_is_limited() {
        use crate::{ChangeDecision, RecordingId, SlotCause, SlotState, WaitHistogram};
        use jiff::Timestamp;
        let (at, id) = (Timestamp::UNIX_EPOCH, RecordingId::new());
        let (host, series) = ("name of the machine", "name of the series");
        limits(
            &SeriesEpoch {
                machine: "m".to_owned(),
                host: None,
                name: "n".to_owned(),
                epoch: 1,
                definition: "{}".to_owned(),
                begun: at,
            },
            &[
                (|one, text| one.machine = text, LONGEST_HOST_NAME, host),
                (|one, text| one.host = Some(text), LONGEST_HOST_NAME, host),
                (|one, text| one.name = text, LONGEST_LABEL, series),
                (
                    |one, text| one.definition = text,
                    LONGEST_DEFINITION,
                    "definition",
                ),
            ],
        );
        limits(
            &Slot {
                machine: "m".to_owned(),
                series: "s".to_owned(),
                epoch: 1,
                due: at,
                cause: SlotCause::At,
                state: SlotState::Missed,
                reason: None,
                recording: None,
            },
            &[
                (|one, text| one.machine = text, LONGEST_HOST_NAME, host),
                (|one, text| one.series = text, LONGEST_LABEL, series),
                (|one, text| one.reason = Some(text), LONGEST_NOTE, "reason"),
            ],
        );
        limits(
            &WakeWindow {
                machine: "m".to_owned(),
                start: at,
                length_ns: crate::Nanos(1),
                real_time: WaitHistogram::new(),
                ordinary: WaitHistogram::new(),
                longest: Vec::new(),
                lost: 0,
            },
            &[(|one, text| one.machine = text, LONGEST_HOST_NAME, host)],
        );
        limits(
            &Note {
                id,
                recording: None,
                series: None,
                machine: None,
                at,
                text: String::new(),
                author: String::new(),
                written: at,
            },
            &[
                (
                    |one, text| one.machine = Some(text),
                    LONGEST_HOST_NAME,
                    host,
                ),
                (|one, text| one.series = Some(text), LONGEST_LABEL, series),
                (|one, text| one.author = text, LONGEST_LABEL, "author"),
                (|one, text| one.text = text, LONGEST_NOTE, "note"),
            ],
        );
        limits(
            &ChangeAnnotation {
                id,
                series: "s".to_owned(),
                figure: "f".to_owned(),
                recording: id,
                decision: ChangeDecision::Acknowledged,
                who: String::new(),
                why: String::new(),
                at,
            },
            &[
                (|one, text| one.series = text, LONGEST_LABEL, series),
                (|one, text| one.figure = text, LONGEST_LABEL, "figure"),
                (|one, text| one.who = text, LONGEST_LABEL, "author"),
                (|one, text| one.why = text, LONGEST_NOTE, "reason"),
            ],
        );
    }

    #[test]
    fn causes_of_a_recording_are_limited_wherever_they_are() {
        use crate::cause::{CauseSummary, Explanation, Outlier, Period};
        use crate::testing::{blame, interrupt, recording};
        use crate::{Nanos, Share};
        let long = |bytes: usize| interrupt(&"x".repeat(bytes));
        let empty = long(0).to_json().len();
        assert_eq!(long(LONGEST_CAUSE - empty).check(), Ok(()));
        assert!(long(LONGEST_CAUSE - empty + 1).check().is_err());

        let share = |cause| Share::new(cause, Nanos(1), 1);
        let many = |count: usize| blame(vec![share(long(1)); count]);
        assert_eq!(many(Blame::MOST_SHARES).check(), Ok(()));
        let error = many(Blame::MOST_SHARES + 1).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the blame has 1001 shares: at most 1000 are allowed"
        );
        let too_long = long(LONGEST_CAUSE);
        assert!(
            blame(vec![share(long(1)), share(too_long.clone())])
                .check()
                .is_err()
        );

        let run = recording(1, 1);
        let source = || too_long.source.clone();
        let explained = |change: &dyn Fn(&mut Explanation)| {
            let mut explanation = Explanation::default();
            change(&mut explanation);
            let run = Recording {
                explanation: Some(explanation),
                ..run.clone()
            };
            run.check_texts().is_ok()
        };
        assert!(explained(&|_| ()));
        assert!(!explained(&|one| {
            one.causes = vec![CauseSummary {
                source: source(),
                count: 1,
                culprit_in: 1,
                late_only_by: None,
                total_ns: Nanos(1),
                max_ns: Nanos(1),
                max_outlier: 1,
                words: None,
            }];
        }));
        assert!(!explained(&|one| {
            one.periods = vec![Period {
                source: source(),
                period_ns: Nanos(1),
                tolerance_ns: Nanos(1),
                count: 1,
                missing: 0,
                words: None,
            }];
        }));
        assert!(!explained(&|one| {
            let sample = &run.top_samples[0];
            one.outliers = vec![Outlier {
                number: 1,
                time: sample.time,
                monotonic_ns: Nanos(1),
                cpu: None,
                thread: 0,
                latency_ns: Nanos(1),
                blame: blame(vec![share(too_long.clone())]),
                light_stage: false,
            }];
        }));
        let mut largest = run.clone();
        largest.top_samples[0].blame = Some(blame(vec![share(too_long.clone())]));
        assert!(largest.check_texts().is_err());
    }

    #[test]
    fn text_limit_is_inclusive_in_characters() {
        assert_eq!(check_label(&"µ".repeat(LONGEST_LABEL)), Ok(()));
        let error = check_label(&"x".repeat(60_000)).unwrap_err().to_string();
        assert_eq!(
            error,
            "the label has 60000 characters: at most 256 are allowed"
        );
        assert!(check_host_name(&"x".repeat(LONGEST_HOST_NAME + 1)).is_err());
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut_to("abcd".to_owned(), 4), "abcd");
        assert_eq!(cut_to("abcde".to_owned(), 4), "a…");
        assert_eq!(cut_to("µµµ".to_owned(), 6), "µµµ");
        assert_eq!(cut_to("µµµµ".to_owned(), 6), "µ…");
        assert_eq!(cut_to("µµ".to_owned(), 3), "…");
    }
}
