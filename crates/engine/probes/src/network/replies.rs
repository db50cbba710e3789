//! Counts the frames by their replies.

/// Number of frames after which a reply is no longer recognised as a second one.
pub(super) const REMEMBERED: u64 = 4_096;

/// The fate of the frames so far.
#[derive(Debug)]
pub(super) struct Replies {
    counts: Counts,
    /// Whether each of the last frames was answered, by its number.
    answered: Vec<bool>,
    /// The highest number that was answered.
    newest: Option<u64>,
}

/// Numbers of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) in_time: u64,
    /// Answered after their period.
    pub(super) late: u64,
    /// Answered after a newer frame.
    pub(super) reordered: u64,
    /// Replies to frames that were already answered.
    pub(super) again: u64,
    /// Replies that the kernel received before the frame was sent, and replies to frames that were
    /// never sent. Only another program or machine can make them, so they answer nothing.
    pub(super) early: u64,
}

impl Counts {
    /// Frames without a reply by the end of the run.
    pub(super) const fn unanswered(&self) -> u64 {
        self.sent.saturating_sub(self.in_time + self.late)
    }
}

impl Replies {
    pub(super) fn new() -> Self {
        Self {
            counts: Counts::default(),
            answered: vec![false; REMEMBERED as usize],
            newest: None,
        }
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Notes a sent frame.
    pub(super) fn sent(&mut self, number: u64) {
        self.counts.sent += 1;
        self.answered[(number % REMEMBERED) as usize] = false;
    }

    /// Notes that a frame does not count as sent: the run ends before its reply is due, or the
    /// queueing discipline dropped it.
    pub(super) const fn forget(&mut self) {
        self.counts.sent -= 1;
    }

    /// Notes a reply that was received before its frame was sent.
    pub(super) const fn early(&mut self) {
        self.counts.early += 1;
    }

    /// Notes the reply to a frame. `newest`: the last frame that was sent. `is_in_time`: whether the
    /// frame is still waited for. Returns whether this is the first reply to it, and in time.
    pub(super) fn answered(&mut self, number: u64, newest: u64, is_in_time: bool) -> bool {
        if number > newest {
            self.counts.early += 1;
        }
        if number > newest || newest - number >= REMEMBERED {
            return false;
        }
        let counts = &mut self.counts;
        if std::mem::replace(&mut self.answered[(number % REMEMBERED) as usize], true) {
            counts.again += 1;
            return false;
        }
        if is_in_time {
            counts.in_time += 1;
        } else {
            counts.late += 1;
        }
        counts.reordered += u64::from(self.newest > Some(number));
        self.newest = self.newest.max(Some(number));
        is_in_time
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each frame gets its replies after some periods, or none.
        #[test]
        fn each_frame_is_counted_once(
            delays in prop::collection::vec(prop::collection::vec(0..5_u64, 0..3), 1..200),
            in_time_until in 0..3_u64,
        ) {
            let mut replies = Replies::new();
            let mut expected = Counts::default();
            let (mut seen, mut newest) = (BTreeSet::new(), None);
            for current in 0..delays.len() as u64 {
                replies.sent(current);
                expected.sent += 1;
                for (number, delays) in (0..=current).zip(&delays) {
                    for _ in delays.iter().filter(|delay| number + **delay == current) {
                        let first = seen.insert(number);
                        let in_time = current - number <= in_time_until;
                        expected.again += u64::from(!first);
                        expected.in_time += u64::from(first && in_time);
                        expected.late += u64::from(first && !in_time);
                        expected.reordered += u64::from(first && newest > Some(number));
                        newest = newest.max(Some(number));
                        let counted = replies.answered(number, current, in_time);
                        prop_assert_eq!(counted, first && in_time);
                    }
                }
            }
            prop_assert_eq!(replies.counts(), expected);
            prop_assert_eq!(expected.unanswered(), delays.len() as u64 - seen.len() as u64);
        }
    }

    #[test]
    fn numbers_that_were_not_sent_do_not_count() {
        let mut replies = Replies::new();
        replies.sent(0);
        assert!(!replies.answered(1, 0, true));
        assert!(!replies.answered(u64::MAX, 0, true));
        assert!(!replies.answered(0, REMEMBERED, true));
        assert_eq!(
            replies.counts(),
            Counts {
                sent: 1,
                early: 2,
                ..Counts::default()
            }
        );
    }
}
