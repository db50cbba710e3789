//! Counts data that cannot be read.

/// Maximum number of warnings.
const MOST: usize = 100;

/// The number of affected pages, and the CPU and file offset of the first one.
#[derive(Debug, Default)]
pub(super) struct Count {
    pages: u64,
    first: Option<(u32, u64)>,
}

impl Count {
    /// Counts a page of this CPU at this file offset.
    pub(super) fn add(&mut self, cpu: u32, offset: u64) {
        self.pages += 1;
        self.first.get_or_insert((cpu, offset));
    }

    fn says(&self, what: &str) -> Option<String> {
        let (cpu, offset) = self.first?;
        let pages = match self.pages {
            1 => "1 page".to_owned(),
            pages => format!("{pages} pages"),
        };
        Some(format!(
            "{what} in {pages}; the first is a page of CPU {cpu} at byte {offset}"
        ))
    }
}

/// Counts of unreadable data, by reason.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    sentences: Vec<String>,
    /// Pages that are damaged, at least in part.
    pub(super) bad_page: Count,
    /// Records whose times are earlier than those of the records before them.
    pub(super) back: Count,
    /// Records that are too short to contain all their fields.
    pub(super) unreadable: Count,
    /// Whether two buffers contain the same event.
    pub(super) double: bool,
}

impl Warnings {
    /// Adds a warning.
    pub(super) fn add(&mut self, sentence: String) {
        if self.sentences.len() < MOST {
            self.sentences.push(sentence);
        }
    }

    /// Returns all warnings.
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut sentences = std::mem::take(&mut self.sentences);
        let counts = [
            self.bad_page.says("damaged records count as lost events"),
            self.back
                .says("records that go back in time count as lost events"),
            self.unreadable
                .says("records shorter than their fields count as lost events"),
        ];
        sentences.extend(counts.into_iter().flatten());
        if self.double {
            sentences.push(
                "several buffers contain the same events; each event is read from only one buffer"
                    .to_owned(),
            );
        }
        sentences
    }
}
