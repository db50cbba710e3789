//! The largest outliers, and the events around them until they are stored.

use std::cmp::Reverse;

use punctual_model::{Explanation, Outlier, ToJson, Window};
use punctual_store::{StoreError, Writer};
use punctual_trace::{Description, RawPage, pack_pages};

/// Kind of the attachment with the raw pages of an outlier.
pub(crate) const PAGES: &str = "pages";

/// Kind of the attachment with the pages of requested events.
pub(crate) const REQUESTED: &str = "requested-pages";

/// Kind of the attachment with the kernel's description of the pages, stored once with number 0.
pub(crate) const DESCRIPTION: &str = "description";

/// Maximum size of events that wait for the store if it rejects them for a while.
const WAITING_BYTES: usize = 4 << 20;

/// An outlier, and its traced events until they are stored.
struct BufferedOutlier {
    outlier: Outlier,
    waiting: Option<Traced>,
}

struct Traced {
    window: Window,
    pages: Vec<u8>,
    requested: Vec<u8>,
}

impl Traced {
    fn bytes(&self) -> usize {
        let events = std::mem::size_of_val(self.window.events.as_slice());
        events + self.pages.len() + self.requested.len()
    }
}

/// Buffer for a run's outliers: the largest [`Explanation::KEPT`].
pub(crate) struct OutlierBuffer {
    /// Description of the raw pages; `None` if there are none.
    description: Option<Description>,
    described: bool,
    outliers: Vec<BufferedOutlier>,
    /// Outliers in the store that are no longer among the largest.
    forget: Vec<u64>,
    given_up: u64,
}

impl OutlierBuffer {
    pub(crate) fn new(description: Option<Description>) -> Self {
        Self {
            description,
            described: false,
            outliers: Vec::new(),
            forget: Vec::new(),
            given_up: 0,
        }
    }

    /// Adds the description of the pages of other events.
    pub(crate) fn describe_too(&mut self, other: Description) {
        match &mut self.description {
            Some(description) => description.add_events_of(other),
            None => self.description = Some(other),
        }
    }

    pub(crate) fn outliers(&self) -> impl Iterator<Item = &Outlier> {
        self.outliers.iter().map(|kept| &kept.outlier)
    }

    /// Removes the outliers and returns them.
    pub(crate) fn take_outliers(&mut self) -> Vec<Outlier> {
        self.outliers.drain(..).map(|one| one.outlier).collect()
    }

    /// Adds an outlier if it is among the largest. If two are equal, the earlier one is kept.
    pub(crate) fn add(
        &mut self,
        mut outlier: Outlier,
        window: Window,
        pages: &[RawPage],
        requested: &[RawPage],
    ) {
        if self.outliers.len() >= Explanation::KEPT {
            let least = (self.outliers.iter().enumerate())
                .min_by_key(|(_, kept)| (kept.outlier.latency_ns, Reverse(kept.outlier.number)))
                .map(|(place, kept)| (place, kept.outlier.latency_ns));
            match least {
                Some((place, latency)) if latency < outlier.latency_ns => {
                    let gone = self.outliers.swap_remove(place);
                    if gone.waiting.is_none() {
                        self.forget.push(gone.outlier.number);
                    }
                }
                _ => return,
            }
        }
        outlier.blame.shares.shrink_to_fit();
        let traced = Traced {
            window: window.shortened(),
            pages: pack_pages(pages),
            requested: pack_pages(requested),
        };
        self.outliers.push(BufferedOutlier {
            outlier,
            waiting: Some(traced),
        });
        self.give_up();
    }

    /// Drops events that wait for the store, the earliest first, if they exceed the limit.
    fn give_up(&mut self) {
        let waiting = |kept: &BufferedOutlier| kept.waiting.as_ref().map_or(0, Traced::bytes);
        let mut bytes: usize = self.outliers.iter().map(waiting).sum();
        for kept in &mut self.outliers {
            if bytes <= WAITING_BYTES {
                return;
            }
            if kept.waiting.is_some() {
                bytes -= waiting(kept);
                kept.waiting = None;
                self.given_up += 1;
            }
        }
    }

    /// Updates the store.
    pub(crate) fn store(&mut self, writer: Option<&mut Writer>) -> Result<(), StoreError> {
        let Some(writer) = writer else {
            // Without a store, the events are never needed.
            self.outliers
                .iter_mut()
                .for_each(|kept| kept.waiting = None);
            return Ok(());
        };
        if let Some(description) = &self.description
            && !self.described
            && self.outliers.iter().any(|kept| kept.waiting.is_some())
        {
            let json = description.to_json();
            writer.attach(DESCRIPTION, 0, "null", json.as_bytes())?;
            self.described = true;
        }
        while let Some(number) = self.forget.last() {
            writer.forget_outlier(*number)?;
            self.forget.pop();
        }
        for BufferedOutlier { outlier, waiting } in &mut self.outliers {
            if let Some(traced) = waiting {
                writer.keep_window(outlier, &traced.window)?;
                if self.description.is_some() {
                    writer.attach(PAGES, outlier.number, "null", &traced.pages)?;
                    if !traced.requested.is_empty() {
                        writer.attach(REQUESTED, outlier.number, "null", &traced.requested)?;
                    }
                }
                *waiting = None;
            }
        }
        Ok(())
    }

    /// Adds warnings for the reader of the recording.
    pub(crate) fn warning(&self) -> Option<String> {
        (self.given_up > 0).then(|| {
            format!(
                "the events around {} explained outliers were not stored, because the store was \
                 too slow",
                self.given_up
            )
        })
    }
}
