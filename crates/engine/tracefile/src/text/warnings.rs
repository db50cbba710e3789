//! Counts what could not be read.

/// Lines of one kind, and the first of them.
#[derive(Debug, Default)]
pub(super) struct Count {
    lines: u64,
    first: Option<(u64, String)>,
}

impl Count {
    /// Adds a line.
    pub(super) fn add(&mut self, number: u64, text: &str) {
        self.lines += 1;
        self.first
            .get_or_insert_with(|| (number, shortened(text.trim())));
    }

    /// Returns whether there is any.
    pub(super) const fn is_any(&self) -> bool {
        self.lines > 0
    }

    fn says(&self, what: impl Fn(&str) -> String) -> Option<String> {
        let (number, text) = self.first.as_ref()?;
        let lines = match self.lines {
            1 => "1 line".to_owned(),
            lines => format!("{lines} lines"),
        };
        Some(format!("{}: line {number}: \"{text}\"", what(&lines)))
    }
}

/// Counts of the lines that could not be read, by reason.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// Not an event: no time.
    pub(super) no_event: Count,
    /// An event of the table whose text has an unknown form.
    pub(super) unreadable: Count,
    /// Without a CPU.
    pub(super) no_cpu: Count,
    /// Without a thread.
    pub(super) no_thread: Count,
    /// Joined with the line before.
    pub(super) joined: Count,
    /// Earlier than events that were returned.
    pub(super) late: Count,
    /// The first event of another trace in the same text.
    pub(super) restart: Count,
    /// From a second buffer.
    pub(super) other_buffer: Count,
}

impl Warnings {
    /// Returns a sentence for each kind.
    pub(super) fn sentences(&self) -> Vec<String> {
        let no_event = |lines: &str| format!("skipped {lines} that are not events, the first");
        let unreadable = |lines: &str| {
            format!("cannot read the event in {lines}, which counts as lost; the first")
        };
        let no_cpu = |lines: &str| format!("skipped {lines} without a CPU, the first");
        let no_thread = |lines: &str| format!("skipped {lines} without a thread, the first");
        let joined =
            |lines: &str| format!("joined {lines} with the line before (text wrapped), the first");
        let late = |lines: &str| {
            format!("skipped {lines} that are too far out of order, as lost events; the first")
        };
        let restart = |lines: &str| format!("another trace begins in {lines}; the first");
        let other_buffer = |lines: &str| {
            format!("skipped {lines} of events that another buffer also has; the first")
        };
        let all = [
            self.no_event.says(no_event),
            self.unreadable.says(unreadable),
            self.no_cpu.says(no_cpu),
            self.no_thread.says(no_thread),
            self.joined.says(joined),
            self.late.says(late),
            self.restart.says(restart),
            self.other_buffer.says(other_buffer),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Cuts a text for a message, and replaces control characters.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    let printable = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().take(LONGEST).map(printable).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('\u{2026}');
    }
    short
}
