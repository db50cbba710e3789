//! Counts lines that cannot be read.

/// Number of lines of one kind, with the line number and text of the first one.
#[derive(Debug, Default)]
pub(super) struct Count {
    lines: u64,
    first: Option<(u64, String)>,
}

impl Count {
    /// Counts a line.
    pub(super) fn add(&mut self, number: u64, text: &str) {
        self.lines += 1;
        self.first
            .get_or_insert_with(|| (number, shortened(text.trim())));
    }

    /// Returns whether any line was counted.
    pub(super) const fn is_any(&self) -> bool {
        self.lines > 0
    }

    fn says(&self, what: impl Fn(&str) -> String) -> Option<String> {
        let (number, text) = self.first.as_ref()?;
        let lines = match self.lines {
            1 => "1 line".to_owned(),
            lines => format!("{lines} lines"),
        };
        Some(format!("{} is line {number}: \"{text}\"", what(&lines)))
    }
}

/// Counts of lines that were skipped or need a warning, by reason.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// The line is not an event.
    pub(super) no_event: Count,
    /// The line is an event from the table, but its text has an unknown form.
    pub(super) unreadable: Count,
    /// The line has no CPU.
    pub(super) no_cpu: Count,
    /// The line of function_graph has no time.
    pub(super) untimed: Count,
    /// The line has no thread.
    pub(super) no_thread: Count,
    /// The line was joined with the previous line.
    pub(super) joined: Count,
    /// The event is earlier than events that were already returned.
    pub(super) late: Count,
    /// The event is the first one of another trace in the same text.
    pub(super) restart: Count,
    /// The event was skipped, because it is taken from another buffer that also contains it.
    pub(super) other_buffer: Count,
}

impl Warnings {
    /// Returns a warning for each kind.
    pub(super) fn sentences(&self) -> Vec<String> {
        let no_event = |lines: &str| format!("skipped {lines} that are not events; the first");
        let unreadable = |lines: &str| {
            format!("cannot read the event in {lines}, which counts as lost; the first")
        };
        let no_cpu = |lines: &str| format!("skipped {lines} without a CPU; the first");
        let untimed = |lines: &str| {
            format!(
                "{lines} of function_graph without a time, so no wait can be explained by them; to \
                 record times: echo 1 > options/funcgraph-abstime, or trace-cmd; the first"
            )
        };
        let no_thread = |lines: &str| format!("skipped {lines} without a thread; the first");
        let joined = |lines: &str| {
            format!(
                "joined {lines} with the line before, because text was wrapped; \
                the first"
            )
        };
        let late = |lines: &str| {
            format!(
                "skipped {lines} that are too far out of order and count as lost events; the \
                first"
            )
        };
        let restart = |lines: &str| format!("another trace begins in {lines}; the first");
        let other_buffer = |lines: &str| {
            format!("skipped {lines} with events that another buffer also contains; the first")
        };
        let all = [
            self.no_event.says(no_event),
            self.unreadable.says(unreadable),
            self.no_cpu.says(no_cpu),
            self.untimed.says(untimed),
            self.no_thread.says(no_thread),
            self.joined.says(joined),
            self.late.says(late),
            self.restart.says(restart),
            self.other_buffer.says(other_buffer),
        ];
        all.into_iter().flatten().collect()
    }
}

/// Shortens a text for a message and replaces control characters.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    let printable = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().take(LONGEST).map(printable).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('\u{2026}');
    }
    short
}
