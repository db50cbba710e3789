//! The names of an option, and whether it takes a value.

/// One option of getopt_long(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSpec {
    /// Its letter, if any.
    pub short: Option<char>,
    /// Its long name, without the dashes; empty if there is only a letter.
    pub long: &'static str,
    /// Whether it takes a value.
    pub takes: Takes,
    /// Kind of following word that is also used as the value, if the value is optional.
    pub next: NextWord,
    /// Help text.
    pub help: &'static str,
}

impl OptionSpec {
    /// Parses names that are written as in a usage text: `-q --quiet`, `-i --interval=US`,
    /// `-t --threads[=NUM]`, `--json=FILE`, `-c=LIST`. Anything else does not compile.
    pub(crate) const fn named(names: &'static str, help: &'static str) -> Self {
        let bytes = names.as_bytes();
        let (short, start) = match bytes {
            [b'-', b'-', ..] => (None, 2),
            [b'-', letter, b' ', b'-', b'-', ..] => (Some(*letter as char), 5),
            [b'-', letter, b'=', ..] => (Some(*letter as char), 2),
            _ => panic!("an option begins with - or --"),
        };
        let mut end = start;
        while end < bytes.len() && !matches!(bytes[end], b'=' | b'[') {
            end += 1;
        }
        let (long, value) = names.split_at(start).1.split_at(end - start);
        let takes = match value.as_bytes() {
            [] => Takes::Nothing,
            [b'=', ..] => Takes::Required(value.split_at(1).1),
            [b'[', b'=', .., b']'] => {
                Takes::Optional(value.split_at(value.len() - 1).0.split_at(2).1)
            }
            _ => panic!("a value is =VALUE or [=VALUE]"),
        };
        Self {
            short,
            long,
            takes,
            next: NextWord::Never,
            help,
        }
    }
}

/// Kind of following word that is used as the value of an option with an optional value. By the
/// rules of getopt_long(3), no following word is used, but the tools read `argv[optind]`
/// themselves. A word that begins with a dash is always an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextWord {
    /// No following word is used.
    Never,
    /// A number other than 0, as atoi(3) reads it.
    Number,
    /// A time.
    Time,
    /// A list of CPUs.
    CpuList,
    /// Any word.
    Any,
}

impl NextWord {
    /// Returns whether this word is used as the value.
    pub(crate) fn takes(self, word: &str) -> bool {
        if word.starts_with('-') {
            return false;
        }
        let digits = word.strip_prefix('+').unwrap_or(word);
        let mut digits = digits.chars().take_while(char::is_ascii_digit).peekable();
        let is_number = digits.peek().is_some();
        match self {
            Self::Never => false,
            Self::Number => digits.any(|digit| digit != '0'),
            Self::Time => is_number,
            Self::CpuList => is_number || word.starts_with(['!', '+', 'a']),
            Self::Any => true,
        }
    }
}

/// Whether an option takes a value, and the value's name in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// A value is required: `-i100`, `-i 100`, `--interval=100`, `--interval 100`.
    Required(&'static str),
    /// A value is optional: `-t5`, `--threads=5`, and also `-t 5` if [`OptionSpec::next`] allows
    /// it.
    Optional(&'static str),
}
