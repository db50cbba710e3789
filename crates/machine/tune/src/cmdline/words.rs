//! Treats kernel parameters as words: checks them, and adds them to or removes them from a text
//! without changing its other characters.

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
            if changes.add.iter().any(|word| is_of(word, name)) {
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

    /// Returns whether this word of a command line is removed.
    pub(super) fn drops(&self, word: &str) -> bool {
        let replaced = || {
            let same = |added: &String| is_of(word, name_of(added));
            self.add.iter().any(same) && !self.add.iter().any(|added| added == word)
        };
        self.remove.iter().any(|name| is_of(word, name)) || replaced()
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
fn name_of(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

/// Returns whether a word is the parameter with this name. The kernel treats `-` and `_` as equal
/// (`parameqn` in kernel/params.c).
pub(super) fn is_of(word: &str, name: &str) -> bool {
    let own = name_of(word).bytes();
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte };
    own.map(plain).eq(name.bytes().map(plain))
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

/// Returns the text without the words that are removed.
pub(super) fn without(text: &str, changes: &Changes) -> String {
    let mut kept = text.to_owned();
    for (place, word) in words(text).into_iter().rev() {
        if !changes.drops(word) {
            continue;
        }
        // Also remove the space before the word. For the first word, remove the space after it
        // instead.
        let before = kept[..place].trim_end_matches([' ', '\t']).len();
        let mut end = place + word.len();
        if before == 0 {
            end += kept[end..].len() - kept[end..].trim_start_matches([' ', '\t']).len();
        }
        let start = if before == 0 { place } else { before };
        kept.replace_range(start..end, "");
    }
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

    fn changes(add: &[&str], remove: &[&str]) -> Changes {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        Changes::new(&owned(add), &owned(remove)).unwrap()
    }

    #[test]
    fn removed_words_take_only_their_space() {
        let some = changes(&["isolcpus=2-3"], &["nohz-full"]);
        for (before, after) in [
            ("quiet  isolcpus=1 splash", "quiet splash"),
            ("isolcpus=1 splash", "splash"),
            ("a isolcpus=2-3 b", "a isolcpus=2-3 b"),
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
        changes(
            &["isolcpus=managed_irq,domain,2-3", "rcutree.kthread_prio=2"],
            &[],
        );
    }
}
