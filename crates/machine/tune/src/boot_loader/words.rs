//! Words of the kernel's command line.

use punctual_model::{RepeatRule, is_parameter, obeyed_words};

use super::BootError;

/// Refuses words that a boot loader or a shell would interpret differently.
///
/// # Errors
/// Returns [`BootError::Words`] if there is such a word.
pub fn check_words(words: &str) -> Result<(), BootError> {
    let refused = |why| BootError::Words {
        words: words.to_owned(),
        why,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-.,=:/@+^%".contains(c);
    match words.chars().all(plain) {
        false => Err(refused("use only letters, digits, spaces and _-.,=:/@+^%")),
        true if words.len() > 1_000 => Err(refused("it is longer than 1,000 bytes")),
        true => Ok(()),
    }
}

fn name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Returns whether a new occurrence of a parameter does not replace an existing one.
fn is_repeated(word: &str) -> bool {
    RepeatRule::of(name(word)) == RepeatRule::All
}

/// Adds words to a command line. These replace existing words of the same name.
pub(super) fn with_words(line: &str, words: &str) -> String {
    let wanted: Vec<&str> = words.split_whitespace().collect();
    let replaced =
        |word: &&str| !is_repeated(word) && wanted.iter().any(|one| is_parameter(word, name(one)));
    let kept = line.split_whitespace().filter(|word| !replaced(word));
    let all: Vec<&str> = kept.chain(wanted.iter().copied()).collect();
    all.join(" ")
}

/// If the machine did not boot as requested, returns the difference that shows this: a word of
/// `arm` that is missing from the command line, or a word of `others` that it contains. `usual` is
/// the command line without any of these words.
pub fn differs(line: &str, arm: &str, others: &[&str], usual: &str) -> Option<String> {
    let there: Vec<&str> = line.split_whitespace().collect();
    let wanted: Vec<&str> = arm.split_whitespace().collect();
    for word in &wanted {
        let obeyed = obeyed_words(there.iter().copied(), word);
        if !obeyed.contains(word) {
            return Some(match obeyed.last() {
                Some(other) if !is_repeated(word) => format!("{other} instead of {word}"),
                _ => format!("without {word}"),
            });
        }
    }
    let usual: Vec<&str> = usual.split_whitespace().collect();
    let foreign = others.iter().flat_map(|other| other.split_whitespace());
    let mut foreign = foreign.filter(|word| !wanted.contains(word) && !usual.contains(word));
    foreign
        .find(|word| there.contains(word))
        .map(|word| format!("with {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_replace_those_of_the_same_name() {
        assert_eq!(
            with_words("root=/dev/sda1 ro preempt=full quiet", "preempt=lazy nosmt"),
            "root=/dev/sda1 ro quiet preempt=lazy nosmt"
        );
        assert_eq!(
            with_words("console=tty0 quiet", "console=ttyS0 quiet"),
            "console=tty0 console=ttyS0 quiet"
        );
        assert_eq!(with_words("ro quiet", ""), "ro quiet");
        for wrong in ["a'b", "a b;c", "$x", "a\nb", "{"] {
            assert!(check_words(wrong).is_err(), "{wrong}");
        }
        assert!(check_words("preempt=full isolcpus=domain,2-3").is_ok());
    }

    #[test]
    fn length_of_words_is_limited() {
        assert!(check_words(&"a".repeat(1_000)).is_ok());
        let error = check_words(&"a".repeat(1_001)).unwrap_err().to_string();
        assert!(error.contains("longer than 1,000 bytes"), "{error}");
        assert!(check_words("").is_ok() && check_words("a_-.,=:/@+^%1 b").is_ok());
        let error = check_words("a\"").unwrap_err().to_string();
        assert!(error.contains("use only letters, digits"), "{error}");
    }

    #[test]
    fn only_words_of_other_arms_are_foreign() {
        let foreign = |line: &str, arm: &str| differs(line, arm, &["a=1 b", "c"], "ro c");
        assert_eq!(foreign("ro", ""), None);
        assert_eq!(foreign("ro b", "b"), None, "it is the arm's own");
        assert_eq!(foreign("ro c", ""), None, "it is usual");
        assert_eq!(foreign("ro b", "").as_deref(), Some("with b"));
        assert_eq!(foreign("b a=1", "a=1").as_deref(), Some("with b"));
        // Of a parameter that can be repeated, another one is no reason.
        assert_eq!(
            differs("console=x", "console=y", &[], "").as_deref(),
            Some("without console=y")
        );
        assert_eq!(differs("console=y console=x", "console=y", &[], ""), None);
    }

    #[test]
    fn a_boot_with_other_words_is_known() {
        let usual = "BOOT_IMAGE=/vmlinuz ro quiet";
        let others = ["preempt=lazy"];
        let as_asked = "BOOT_IMAGE=/vmlinuz ro quiet preempt=full";
        assert_eq!(differs(as_asked, "preempt=full", &others, usual), None);
        assert_eq!(
            differs("ro preempt=lazy", "preempt=full", &others, usual).as_deref(),
            Some("preempt=lazy instead of preempt=full")
        );
        assert_eq!(
            differs(usual, "preempt=full", &others, usual).as_deref(),
            Some("without preempt=full")
        );
        // The usual command line is correct for an arm without words, because only the other arm
        // adds words.
        assert_eq!(differs(usual, "", &others, usual), None);
        assert_eq!(
            differs("ro preempt=lazy", "", &others, usual).as_deref(),
            Some("with preempt=lazy")
        );
        assert_eq!(
            differs("a=1 a=2", "a=1", &[], usual).as_deref(),
            Some("a=2 instead of a=1")
        );
        // The kernel obeys the first isolcpus=.
        let twice = "isolcpus=1 isolcpus=2";
        assert_eq!(differs(twice, "isolcpus=1", &[], twice), None);
        assert_eq!(
            differs(twice, "isolcpus=2", &[], twice).as_deref(),
            Some("isolcpus=1 instead of isolcpus=2")
        );
    }
}
