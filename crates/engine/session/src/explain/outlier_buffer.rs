//! The worst outliers, and on their way to the store the events around them.

use std::cmp::Reverse;

use punctual_model::{Explanation, Outlier, Window};
use punctual_store::{StoreError, Writer};
use punctual_trace::{Description, RawPage, pack_pages};

/// The kind under which an outlier's raw pages are kept beside a recording.
pub(crate) const PAGES: &str = "pages";

/// The same of events that the user asked for.
pub(crate) const REQUESTED: &str = "requested-pages";

/// And that of the kernel's description of them, one for all, under number 0.
pub(crate) const DESCRIPTION: &str = "description";

/// What waits for the store takes at most, where it refuses for a while.
const WAITING_BYTES: usize = 4 << 20;

/// An outlier, and what was traced of it until the store has it.
struct Kept {
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

/// What is kept of a run's outliers: the worst [`Explanation::KEPT`].
pub(super) struct OutlierBuffer {
    /// Of raw pages; `None`: there are none to keep.
    description: Option<Description>,
    described: bool,
    kept: Vec<Kept>,
    /// In the store, and no longer among the worst.
    forget: Vec<u64>,
    given_up: u64,
}

impl OutlierBuffer {
    pub(super) fn new(description: Option<Description>) -> Self {
        Self {
            description,
            described: false,
            kept: Vec::new(),
            forget: Vec::new(),
            given_up: 0,
        }
    }

    /// Pages of other events are kept, too.
    pub(super) fn describe_too(&mut self, other: Description) {
        match &mut self.description {
            Some(description) => description.add_events_of(other),
            None => self.description = Some(other),
        }
    }

    pub(super) fn outliers(&self) -> impl Iterator<Item = &Outlier> {
        self.kept.iter().map(|kept| &kept.outlier)
    }

    /// Takes one in, if it is among the worst; of equals the earlier one.
    pub(super) fn add(
        &mut self,
        outlier: Outlier,
        window: Window,
        pages: &[RawPage],
        requested: &[RawPage],
    ) {
        if self.kept.len() >= Explanation::KEPT {
            let least = (self.kept.iter().enumerate())
                .min_by_key(|(_, kept)| (kept.outlier.latency_ns, Reverse(kept.outlier.number)))
                .map(|(place, kept)| (place, kept.outlier.latency_ns));
            match least {
                Some((place, latency)) if latency < outlier.latency_ns => {
                    let gone = self.kept.swap_remove(place);
                    if gone.waiting.is_none() {
                        self.forget.push(gone.outlier.number);
                    }
                }
                _ => return,
            }
        }
        let traced = Traced {
            window: window.shortened(),
            pages: pack_pages(pages),
            requested: pack_pages(requested),
        };
        self.kept.push(Kept {
            outlier,
            waiting: Some(traced),
        });
        self.give_up();
    }

    /// Lets go of events that wait for the store, the earliest first, where they
    /// are too much.
    fn give_up(&mut self) {
        let waiting = |kept: &Kept| kept.waiting.as_ref().map_or(0, Traced::bytes);
        let mut bytes: usize = self.kept.iter().map(waiting).sum();
        for kept in &mut self.kept {
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

    /// Brings the store to what is kept.
    pub(super) fn store(&mut self, writer: Option<&mut Writer>) -> Result<(), StoreError> {
        let Some(writer) = writer else {
            // Nobody will ask for them.
            self.kept.iter_mut().for_each(|kept| kept.waiting = None);
            return Ok(());
        };
        if let Some(description) = &self.description
            && !self.described
            && self.kept.iter().any(|kept| kept.waiting.is_some())
        {
            let json = serde_json::to_vec(description);
            let json = json.map_err(|error| StoreError::Compress {
                reason: error.to_string(),
            })?;
            writer.attach(DESCRIPTION, 0, "null", &json)?;
            self.described = true;
        }
        while let Some(number) = self.forget.last() {
            writer.forget_outlier(*number)?;
            self.forget.pop();
        }
        for Kept { outlier, waiting } in &mut self.kept {
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
    pub(super) fn warning(&self) -> Option<String> {
        (self.given_up > 0).then(|| {
            format!(
                "the events around {} explained outliers are not kept: the store did not take them \
                 in time",
                self.given_up
            )
        })
    }
}
