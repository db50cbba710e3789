//! Parser of the kernel's command line.

/// Splits the kernel's command line into words. Double quotes protect spaces
/// (Documentation/admin-guide/kernel-parameters.rst). Words after `--` are meant for init.
pub(crate) fn boot_words(text: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    text.split(move |c: char| {
        quoted ^= c == '"';
        c.is_whitespace() && !quoted
    })
    .filter(|word| !word.is_empty())
    .take_while(|word| *word != "--")
}

/// Compares parameter names. Dashes and underscores are equivalent
/// (Documentation/admin-guide/kernel-parameters.rst).
pub(crate) fn same_parameter(a: &str, b: &str) -> bool {
    let same = |(a, b): (u8, u8)| a == b || (b"-_".contains(&a) && b"-_".contains(&b));
    a.len() == b.len() && a.bytes().zip(b.bytes()).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_and_init_are_heeded() {
        let words: Vec<&str> = boot_words("a=\"b c\"  d -- e").collect();
        assert_eq!(words, ["a=\"b c\"", "d"]);
    }

    #[test]
    fn dashes_are_underscores() {
        assert!(same_parameter("rcu-nocbs", "rcu_nocbs"));
        assert!(!same_parameter("rcu_nocb", "rcu_nocbs"));
    }

    proptest! {
        #[test]
        fn no_command_line_panics(text in "\\PC{0,300}") {
            let _ = boot_words(&text).count();
        }
    }
}
