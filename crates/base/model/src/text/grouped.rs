//! Formatting of counts and lists.

use std::fmt::Display;

/// Formats a number with separators between thousands: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 page fault`, `3 page faults`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    let noun = if number == 1 { one } else { many };
    format!("{} {noun}", grouped(number))
}

/// Formats the first `most` items, and the number of the others: `a, b and 1,204 more`.
pub fn listed(items: &[impl Display], most: usize) -> String {
    let shown: Vec<String> = items.iter().take(most).map(ToString::to_string).collect();
    let shown = shown.join(", ");
    match items.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {} more", grouped(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_end_with_the_number_of_the_others() {
        assert_eq!(listed(&[1, 2, 3], 3), "1, 2, 3");
        assert_eq!(listed(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!(listed(&vec![7; 1_206], 2), "7, 7 and 1,204 more");
        assert_eq!(listed(&[0; 0], 2), "");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(123_456), "123,456");
    }

    #[test]
    fn noun_number_follows_count() {
        let samples = |number| counted(number, "sample", "samples");
        assert_eq!(samples(0), "0 samples");
        assert_eq!(samples(1), "1 sample");
        assert_eq!(samples(1_234), "1,234 samples");
    }
}
