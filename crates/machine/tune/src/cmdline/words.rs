//! Treats kernel parameters as words: checks them, and adds them to or removes them from a text
//! without changing its other characters.

use punctual_model::{RepeatRule, is_parameter};

use super::CmdlineError;

/// Changes to a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Parameters with values. Each replaces existing parameters of the same name.
    add: Vec<String>,
    /// Names of parameters to remove, regardless of their values.
    remove: Vec<String>,
}

impl Changes {
    /// Creates changes from parameters to add (`isolcpus=2-3`) and names of parameters to remove. A
    /// parameter that is given twice is added only once.
    ///
    /// # Errors
    /// Returns [`CmdlineError::Parameter`] for a text that a boot loader or a shell could
    /// misinterpret, and [`CmdlineError::Contradiction`] for a name in both lists.
    pub fn new(add: &[String], remove: &[String]) -> Result<Self, CmdlineError> {
        let mut changes = Self::default();
        for parameter in add {
            check(parameter)?;
            if !changes.add.contains(parameter) {
                changes.add.push(parameter.clone());
            }
        }
        for name in remove {
            check(name)?;
            if name.contains('=') {
                return Err(CmdlineError::Parameter {
                    text: name.clone(),
                    why: "it must be a name without a value",
                });
            }
            if changes.add.iter().any(|word| is_parameter(word, name)) {
                return Err(CmdlineError::Contradiction { name: name.clone() });
            }
            changes.remove.push(name.clone());
        }
        Ok(changes)
    }

    /// Returns the parameters to add.
    pub fn added(&self) -> &[String] {
        &self.add
    }

    /// Returns the names to remove.
    pub fn removed(&self) -> &[String] {
        &self.remove
    }

    /// Returns whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty()
    }
}

/// A change to the words of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WordEdit {
    /// Adds a word after the others.
    Add(String),
    /// Replaces the occurrence that the kernel obeys, and removes the others.
    Replace(String),
    /// Removes all words with this name.
    Remove(String),
}

impl WordEdit {
    /// Returns what becomes of one of several words, given by its position. `None` means that the
    /// word is removed.
    pub(super) fn apply<'a>(&'a self, words: &[&'a str], place: usize) -> Option<&'a str> {
        let word = words[place];
        match self {
            Self::Add(_) => Some(word),
            Self::Remove(name) => (!is_parameter(word, name)).then_some(word),
            Self::Replace(new) => {
                let name = name_of(new);
                if !is_parameter(word, name) {
                    return Some(word);
                }
                let same = (0..words.len()).filter(|at| is_parameter(words[*at], name));
                let winner = RepeatRule::of(name).select(same.collect());
                (winner.first() == Some(&place)).then_some(new)
            }
        }
    }
}

/// Refuses a text that a boot loader or a shell would not read as one word.
fn check(parameter: &str) -> Result<(), CmdlineError> {
    let refuse = |why| {
        Err(CmdlineError::Parameter {
            text: parameter.chars().take(60).collect(),
            why,
        })
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.,:=/+@*[]()%~^!".contains(c);
    if !parameter.chars().all(allowed) {
        return refuse("it contains a character that boot loaders or shells interpret");
    }
    if !parameter.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return refuse("it does not begin with the name of a parameter");
    }
    Ok(())
}

/// Returns the name of a parameter.
pub(super) fn name_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Returns whether a word refers to a variable: `$name`, `${name}` or `${name:+...}`.
pub(super) fn refers(word: &str, name: &str) -> bool {
    word.match_indices('$').any(|(place, _)| {
        let rest = &word[place + 1..];
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        rest.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(end))
    })
}

/// Returns the kernel's parameters with their offsets. Words after `--` are meant for init.
pub(super) fn words(text: &str) -> Vec<(usize, &str)> {
    let all = all_words(text).into_iter();
    all.take_while(|(_, word)| *word != "--").collect()
}

/// Returns all words with their offsets. Quotation marks keep a word together.
fn all_words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut start, mut quoted) = (None, false);
    for (place, c) in text.char_indices() {
        if c == '"' {
            quoted = !quoted;
        }
        let ends = c.is_whitespace() && !quoted;
        match (start, ends) {
            (None, false) => start = Some(place),
            (Some(from), true) => {
                found.push((from, &text[from..place]));
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        found.push((from, &text[from..]));
    }
    found
}

/// Returns the text with a word at this place replaced, or removed.
pub(super) fn with_word(text: &str, place: usize, old: &str, new: Option<&str>) -> String {
    let mut kept = text.to_owned();
    let mut end = place + old.len();
    let mut start = place;
    if new.is_none() {
        // Also remove the space before the word. For the first word, remove the space after it
        // instead.
        let before = kept[..place].trim_end_matches([' ', '\t']).len();
        if before == 0 {
            end += kept[end..].len() - kept[end..].trim_start_matches([' ', '\t']).len();
        } else {
            start = before;
        }
    }
    kept.replace_range(start..end, new.unwrap_or_default());
    kept
}

/// Returns the text with the missing parameters added after the others.
pub(super) fn with_missing(text: &str, missing: &[&str]) -> String {
    let for_init = all_words(text).into_iter().find(|(_, word)| *word == "--");
    let head = for_init.map_or(text, |(place, _)| &text[..place]);
    let end = head.trim_end_matches([' ', '\t']).len();
    let (body, space) = text.split_at(end);
    let mut all: Vec<&str> = Vec::new();
    if !body.is_empty() {
        all.push(body);
    }
    all.extend(missing);
    all.join(" ") + space
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text without the words of these names.
    fn without(text: &str, names: &[&str]) -> String {
        let mut kept = text.to_owned();
        for (place, word) in words(text).into_iter().rev() {
            if names.iter().any(|name| is_parameter(word, name)) {
                kept = with_word(&kept, place, word, None);
            }
        }
        kept
    }

    #[test]
    fn removed_words_take_only_their_space() {
        let some = ["isolcpus", "nohz-full"];
        for (before, after) in [
            ("quiet  isolcpus=1 splash", "quiet splash"),
            ("isolcpus=1 splash", "splash"),
            (
                "a\tnohz_full=1  dyndbg=\"file x +p\"",
                "a  dyndbg=\"file x +p\"",
            ),
            ("isolcpus=1", ""),
            ("isolcpusx=1 ", "isolcpusx=1 "),
        ] {
            assert_eq!(without(before, &some), after);
        }
        assert_eq!(with_missing("a b ", &["c=1"]), "a b c=1 ");
        assert_eq!(with_missing("", &["c=1", "d"]), "c=1 d");
        assert_eq!(
            with_missing("a -- isolcpus=9", &["c=1"]),
            "a c=1 -- isolcpus=9"
        );
        assert_eq!(without("a -- isolcpus=9", &some), "a -- isolcpus=9");
        assert_eq!(with_word("a b  c", 2, "b", Some("xy")), "a xy  c");
    }

    #[test]
    fn quotes_keep_a_word_together() {
        for (text, expected) in [
            ("", &[][..]),
            ("  ", &[]),
            ("a", &[(0, "a")]),
            (" a  b\t", &[(1, "a"), (4, "b")]),
            ("x=\"b c\" d", &[(0, "x=\"b c\""), (8, "d")]),
            ("\"a b", &[(0, "\"a b")]),
            ("a -- b", &[(0, "a")]),
            ("a --b", &[(0, "a"), (2, "--b")]),
        ] {
            assert_eq!(words(text), expected, "{text:?}");
        }
    }

    #[test]
    fn changes_name_each_parameter_once() {
        let texts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let new = |add: &[&str], remove: &[&str]| Changes::new(&texts(add), &texts(remove));
        let changes = new(&["a=1", "b", "a=1", "a=2"], &["c"]).unwrap();
        assert_eq!(changes.added(), ["a=1", "b", "a=2"]);
        assert_eq!(changes.removed(), ["c"]);
        assert!(!changes.is_empty());
        assert!(!new(&["a"], &[]).unwrap().is_empty() && !new(&[], &["a"]).unwrap().is_empty());
        assert!(new(&[], &[]).unwrap().is_empty());
        // The kernel takes - and _ in a name as the same character.
        let error = new(&["rcu-nocbs=1"], &["rcu_nocbs"]).unwrap_err();
        assert!(matches!(error, CmdlineError::Contradiction { .. }));
        let error = new(&[], &["a=1"]).unwrap_err().to_string();
        assert!(error.contains("a name without a value"), "{error}");
        let error = new(&[&"$".repeat(100)], &[]).unwrap_err().to_string();
        assert!(error.contains(&format!("'{}'", "$".repeat(60))), "{error}");
        assert_eq!((name_of("a=b=c"), name_of("a")), ("a", "a"));
    }

    #[test]
    fn an_edit_decides_about_each_word() {
        let words = ["isolcpus=1", "a", "audit=0", "isolcpus=2", "audit=1"];
        let becomes = |edit: &WordEdit| {
            let kept = (0..words.len()).filter_map(|place| edit.apply(&words, place));
            kept.map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        let edit = |kind: fn(String) -> WordEdit, text: &str| becomes(&kind(text.to_owned()));
        assert_eq!(edit(WordEdit::Add, "b"), words.join(" "));
        assert_eq!(edit(WordEdit::Remove, "audit"), "isolcpus=1 a isolcpus=2");
        let replaced = edit(WordEdit::Replace, "isolcpus=3");
        assert_eq!(replaced, "isolcpus=3 a audit=0 audit=1");
        let replaced = edit(WordEdit::Replace, "audit=2");
        assert_eq!(replaced, "isolcpus=1 a isolcpus=2 audit=2");
        assert_eq!(edit(WordEdit::Replace, "b=1"), words.join(" "));
    }

    #[test]
    fn references_end_with_the_name() {
        for (word, refer) in [
            ("$A", true),
            ("x$A", true),
            ("$B$A", true),
            ("$A-b", true),
            ("${A:-x}", true),
            ("\\$A", true),
            ("$A_B", false),
            ("$A1", false),
            ("$", false),
            ("${", false),
            ("$ A", false),
            ("", false),
        ] {
            assert_eq!(refers(word, "A"), refer, "{word}");
        }
        assert!(refers("$tuned_params", "tuned_params") && refers("a${x}b", "x"));
        assert!(refers("${A:+$A", "A") && !refers("$AB", "A") && !refers("A", "A"));
    }

    #[test]
    fn shell_code_is_no_parameter() {
        for bad in [
            "a=$(reboot)",
            "a b",
            "a=`b`",
            "x\"",
            "a;b",
            "a\\",
            "",
            "=1",
            "-x",
            "a#b",
        ] {
            assert!(Changes::new(&[bad.to_owned()], &[]).is_err(), "{bad}");
        }
        assert!(Changes::new(&["a=1".to_owned()], &["a".to_owned()]).is_err());
        assert!(Changes::new(&[], &["a=1".to_owned()]).is_err());
        let good = ["isolcpus=managed_irq,domain,2-3", "rcutree.kthread_prio=2"];
        assert!(Changes::new(&good.map(str::to_owned), &[]).is_ok());
    }
}
