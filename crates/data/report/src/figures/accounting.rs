//! The sample accounting as text, and its errors.

use punctual_model::{Accounting, Recording, Unknown, grouped};

/// Returns the accounting of all threads, as far as known.
pub(crate) fn account_of(recording: &Recording) -> String {
    let account = recording.accounting();
    if recording.knows(Unknown::Missed) {
        account_text(&account)
    } else {
        format!(
            "{} recorded; expected and missed unknown",
            grouped(account.recorded)
        )
    }
}

/// Returns `123,003 expected = 120,000 recorded + 3 missed + 3,000 warm-up`, with notes about early
/// samples and about periods missed during the warm-up.
pub(crate) fn account_text(account: &Accounting) -> String {
    let sign = if account.balances() { "=" } else { "≠" };
    let mut text = format!(
        "{} expected {sign} {} recorded + {} missed + {} warm-up",
        grouped(account.expected),
        grouped(account.recorded),
        grouped(account.missed),
        grouped(account.warm_up),
    );
    let mut notes = Vec::new();
    if account.early > 0 {
        notes.push(format!(
            "{} of the recorded periods were early",
            grouped(account.early)
        ));
    }
    if account.warm_up_missed > 0 {
        notes.push(format!(
            "{} missed during warm-up",
            grouped(account.warm_up_missed)
        ));
    }
    if !notes.is_empty() {
        text.push_str(&format!(" ({})", notes.join(", ")));
    }
    text
}

/// Returns what is wrong with the accounting, or `None` if it is correct. The account of each
/// thread must balance, because the errors of two threads may cancel each other out in the sum.
pub(crate) fn account_fault(recording: &Recording) -> Option<&'static str> {
    let mut threads = recording.threads.iter();
    match threads.all(|thread| thread.accounting.balances()) {
        true => None,
        false if recording.accounting().balances() => Some("✗ balances only in total"),
        false => Some("✗ does not balance"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_hide_each_other() {
        let mut recording = punctual_model::testing::recording(2, 1);
        assert_eq!(account_fault(&recording), None);
        recording.threads[0].accounting.expected += 1;
        assert_eq!(account_fault(&recording), Some("✗ does not balance"));
        recording.threads[1].accounting.expected -= 1;
        assert_eq!(account_fault(&recording), Some("✗ balances only in total"));
    }

    #[test]
    fn an_account_is_told_in_words() {
        let mut account = Accounting {
            expected: 1_013,
            recorded: 1_000,
            missed: 3,
            early: 2,
            warm_up: 10,
            ..Accounting::default()
        };
        assert_eq!(
            account_text(&account),
            "1,013 expected = 1,000 recorded + 3 missed + 10 warm-up (2 of the recorded periods \
             were early)"
        );
        account.missed = 4;
        assert!(account_text(&account).contains('≠'));
    }
}
