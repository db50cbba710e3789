//! The observing thread in the background: its wake-ups preempt nobody.

use punctual_rt::{Policy, current_tid, policy_of, set_policy};

/// The calling thread at SCHED_BATCH, until this is dropped. SCHED_IDLE would take even
/// less, but is not served for seconds on a busy machine: events would be lost.
pub(crate) struct Background(Option<Policy>);

impl Background {
    /// Nothing changes where the thread has another policy than the normal one.
    pub(crate) fn begin() -> Self {
        let before = policy_of(current_tid()).ok();
        Self(before.filter(|before| match before {
            Policy::Other { nice } => {
                set_policy(current_tid(), &Policy::Batch { nice: *nice }).is_ok()
            }
            _ => false,
        }))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            // With the same nice value no right is needed.
            let _ = set_policy(current_tid(), &before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_as_before_in_the_end() {
        let before = policy_of(current_tid()).unwrap();
        let background = Background::begin();
        let meanwhile = policy_of(current_tid()).unwrap();
        match before {
            Policy::Other { nice } => assert_eq!(meanwhile, Policy::Batch { nice }),
            _ => assert_eq!(meanwhile, before),
        }
        drop(background);
        assert_eq!(policy_of(current_tid()).unwrap(), before);
    }
}
