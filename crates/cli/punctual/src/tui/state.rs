//! The state of the view, and how keys change it. It knows no terminal.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use punctual_model::{Histogram, Metric, Nanos, Outlier, Recording, sanitize};
use punctual_session::Snapshot;

use super::key::Key;
use super::timeline::{ShownTimeline, Timelines};
use super::trial::{Question, Trial};

/// Maximum number of listed outliers: the longest.
const LISTED: usize = 1_000;

/// Number of rows that a page key moves.
const PAGE: usize = 10;

/// The figures of a run.
#[derive(Clone, Default)]
pub(super) struct Figures {
    pub(super) headline: String,
    /// The limit that the histogram marks: its name and its value.
    pub(super) limit: Option<(&'static str, Nanos)>,
    /// Whether outliers are explained.
    pub(super) is_explained: bool,
    pub(super) snapshot: Option<Snapshot>,
    /// All latencies so far.
    pub(super) latencies: Histogram,
    /// The longest outliers, by number.
    pub(super) outliers: Vec<Outlier>,
}

impl Figures {
    pub(super) fn new(recording: &Recording) -> Self {
        let mut limits = recording.requirement.limits.iter();
        let limit = limits.find(|limit| limit.metric == Metric::Max);
        let limit = limit.map(|limit| ("limit", Nanos(limit.at_most)));
        let threshold = recording.explanation.as_ref();
        let threshold = threshold.map(|one| ("threshold", one.threshold_ns));
        Self {
            headline: sanitize(&recording.headline()).into_owned(),
            limit: limit.or(threshold),
            is_explained: recording.explanation.is_some(),
            ..Self::default()
        }
    }

    /// Adds explained outliers.
    pub(super) fn add(&mut self, new: &[Outlier]) {
        self.outliers.extend_from_slice(new);
        if self.outliers.len() > LISTED {
            self.outliers.sort_by_key(|one| Reverse(one.latency_ns));
            self.outliers.truncate(LISTED);
            self.outliers.sort_by_key(|one| one.number);
        }
    }

    /// Returns the causes of the outliers, by name.
    fn causes(&self) -> BTreeSet<String> {
        self.outliers
            .iter()
            .map(|one| one.blame.culprit())
            .collect()
    }
}

/// The order of the outliers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Newest,
    Longest,
    Cause,
}

impl Order {
    const fn next(self) -> Self {
        match self {
            Self::Newest => Self::Longest,
            Self::Longest => Self::Cause,
            Self::Cause => Self::Newest,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Newest => "newest first",
            Self::Longest => "longest first",
            Self::Cause => "by cause",
        }
    }
}

/// The page that fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Run,
    /// The outlier with this number.
    Outlier(u64),
    /// The timeline of the outlier with this number.
    Timeline(u64),
    /// The question whether to try the remedy.
    Question,
    Help,
}

/// The state of the view.
#[derive(Default)]
pub(super) struct State {
    pub(super) figures: Figures,
    pub(super) is_paused: bool,
    pub(super) order: Order,
    /// Only outliers with this main cause.
    pub(super) filter: Option<String>,
    pub(super) page: Page,
    /// How a remedy can be tried; `None` if it cannot.
    pub(super) trial: Option<Trial>,
    pub(super) question: Option<Question>,
    /// Finds the timelines of outliers; `None` without a store.
    timelines: Option<Timelines>,
    pub(super) timeline: Option<ShownTimeline>,
    /// Number of the selected outlier; the first in the list if `None`.
    selected: Option<u64>,
    /// Whether the user wants to end the run.
    pub(super) wants_stop: bool,
}

impl State {
    pub(super) fn new(trial: Option<Trial>, timelines: Option<Timelines>) -> Self {
        Self {
            trial,
            timelines,
            ..Self::default()
        }
    }

    /// Takes the latest figures, unless the view is paused.
    pub(super) fn take(&mut self, latest: Figures) {
        if !self.is_paused {
            self.figures = latest;
        }
    }

    /// Returns the listed outliers.
    pub(super) fn listed(&self) -> Vec<&Outlier> {
        let all = self.figures.outliers.iter();
        let is_shown = |one: &&Outlier| {
            let wanted = self.filter.as_ref();
            wanted.is_none_or(|cause| one.blame.culprit() == *cause)
        };
        let mut listed: Vec<&Outlier> = all.filter(is_shown).collect();
        match self.order {
            Order::Newest => listed.sort_by_key(|one| Reverse(one.number)),
            Order::Longest => listed.sort_by_key(|one| (Reverse(one.latency_ns), one.number)),
            Order::Cause => listed.sort_by_cached_key(|one| {
                (one.blame.culprit(), Reverse(one.latency_ns), one.number)
            }),
        }
        listed
    }

    /// Returns the place of the selected outlier in the list.
    pub(super) fn place(&self, listed: &[&Outlier]) -> usize {
        let selected = self.selected;
        let found = selected.and_then(|number| listed.iter().position(|one| one.number == number));
        found.unwrap_or_default()
    }

    /// Returns the outlier with this number, if it is still listed.
    pub(super) fn outlier(&self, number: u64) -> Option<&Outlier> {
        self.figures
            .outliers
            .iter()
            .find(|one| one.number == number)
    }

    pub(super) fn press(&mut self, key: Key) {
        let scrolls = matches!(
            key,
            Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::First
        );
        match key {
            key if scrolls && matches!(self.page, Page::Timeline(_)) => {
                (self.timeline.iter_mut()).for_each(|timeline| timeline.press(key));
            }
            Key::Stop => self.wants_stop = true,
            Key::Pause => self.is_paused = !self.is_paused,
            Key::Sort => self.order = self.order.next(),
            Key::Filter => self.next_filter(),
            Key::Help if self.page == Page::Help => self.page = Page::Run,
            Key::Help => self.page = Page::Help,
            Key::Up => self.go(|place| place.saturating_sub(1)),
            Key::Down => self.go(|place| place + 1),
            Key::PageUp => self.go(|place| place.saturating_sub(PAGE)),
            Key::PageDown => self.go(|place| place + PAGE),
            Key::First => self.selected = None,
            Key::Open => self.open(),
            Key::Back => {
                self.page = match self.page {
                    Page::Timeline(number) => Page::Outlier(number),
                    _ => Page::Run,
                }
            }
            Key::Try => self.ask(),
            Key::Yes => {
                let question = (self.question.as_ref()).filter(|_| self.page == Page::Question);
                self.wants_stop |= question.is_some_and(Question::agree);
            }
            Key::Measure | Key::Audit => {}
        }
    }

    /// Opens the selected outlier, or the timeline of the shown one.
    fn open(&mut self) {
        match self.page {
            Page::Timeline(_) => {}
            Page::Outlier(number) => {
                let timelines = self.timelines.as_ref();
                self.timeline = Some(ShownTimeline::find(timelines, number));
                self.page = Page::Timeline(number);
            }
            _ => {
                let listed = self.listed();
                let number = listed.get(self.place(&listed)).map(|one| one.number);
                if let Some(number) = number {
                    (self.page, self.selected) = (Page::Outlier(number), Some(number));
                }
            }
        }
    }

    /// Asks whether to try the remedy of the shown outlier.
    fn ask(&mut self) {
        if let (Page::Outlier(number), Some(trial)) = (self.page, &self.trial)
            && let Some(outlier) = self.outlier(number)
        {
            self.question = Some(Question::new(trial, &outlier.blame));
            self.page = Page::Question;
        }
    }

    /// Selects another outlier. On the page of an outlier, shows that one.
    fn go(&mut self, to: impl FnOnce(usize) -> usize) {
        let listed = self.listed();
        let Some(last) = listed.len().checked_sub(1) else {
            return;
        };
        let number = listed[to(self.place(&listed)).min(last)].number;
        self.selected = Some(number);
        if let Page::Outlier(_) = self.page {
            self.page = Page::Outlier(number);
        }
    }

    /// Shows only the next cause; after the last one, all.
    fn next_filter(&mut self) {
        let causes = self.figures.causes();
        let next = match &self.filter {
            None => causes.first(),
            Some(now) => causes.iter().find(|cause| *cause > now),
        };
        self.filter = next.cloned();
    }
}
