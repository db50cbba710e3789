//! Formatting of counts.

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

#[cfg(test)]
mod tests {
    use super::*;

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
