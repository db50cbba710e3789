//! Command lines, parsed like getopt_long(3) of the GNU C library.

use crate::{OptionSpec, Takes};

/// An option that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The option.
    pub option: &'static OptionSpec,
    /// Its index in the table of the tool.
    pub index: usize,
    /// Its value.
    pub value: Option<String>,
}

/// Reason why getopt rejects a command line, with the message of getopt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GetoptError {
    /// No option has this letter.
    #[error("invalid option -- '{0}'")]
    Letter(char),
    /// The value of a letter is missing.
    #[error("option requires an argument -- '{0}'")]
    LetterWithoutValue(char),
    /// No option has this name.
    #[error("unrecognized option '--{0}'")]
    Name(String),
    /// Several options begin with this name.
    #[error("option '--{0}' is ambiguous; possibilities: {1}")]
    Ambiguous(String, String),
    /// The value of an option with a long name is missing.
    #[error("option '--{0}' requires an argument")]
    NameWithoutValue(&'static str),
    /// An option that does not take a value was given one.
    #[error("option '--{0}' doesn't allow an argument")]
    Value(&'static str),
}

/// A parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The options in the order they were given.
    pub given: Vec<Given>,
    /// Words that are neither options nor their values.
    pub operands: Vec<String>,
}

impl Parsed {
    /// Returns whether the option with this long name was given.
    pub(crate) fn has(&self, long: &str) -> bool {
        self.given.iter().any(|given| given.option.long == long)
    }
}

/// Parses the words after the program name. Options and operands may be mixed, because getopt
/// permutes them. With `posixly_correct` (the environment contains `POSIXLY_CORRECT`), the first
/// operand ends the options instead.
///
/// # Errors
/// Returns an error if getopt would report one.
pub(crate) fn parse(
    words: &[String],
    options: &'static [OptionSpec],
    posixly_correct: bool,
) -> Result<Parsed, GetoptError> {
    let mut parsed = Parsed::default();
    let mut place = 0;
    while let Some(word) = words.get(place) {
        place += 1;
        if word == "--" {
            parsed.operands.extend_from_slice(&words[place..]);
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            place += long_option(long, &words[place..], options, &mut parsed.given)?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            place += letters_of(letters, &words[place..], options, &mut parsed.given)?;
        } else if posixly_correct {
            parsed.operands.extend_from_slice(&words[place - 1..]);
            break;
        } else {
            parsed.operands.push(word.clone());
        }
    }
    Ok(parsed)
}

/// Parses `--name`, `--name=value` or `--na`. Returns how many of the following words were used.
fn long_option(
    text: &str,
    following: &[String],
    options: &'static [OptionSpec],
    given: &mut Vec<Given>,
) -> Result<usize, GetoptError> {
    let (name, attached) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let (place, option) = by_name(name, options)?;
    let long = option.long;
    let (value, taken) = match (option.takes, attached) {
        (Takes::Nothing, Some(_)) => {
            return Err(GetoptError::Value(long));
        }
        (Takes::Required(_), None) => match following.first() {
            Some(next) => (Some(next.clone()), 1),
            None => return Err(GetoptError::NameWithoutValue(long)),
        },
        (Takes::Optional(_), None) => optional(option, following),
        (_, attached) => (attached, 0),
    };
    given.push(Given {
        option,
        index: place,
        value,
    });
    Ok(taken)
}

/// Returns the next word if it is used as the value of an option with an optional value. Also
/// returns how many words were used.
fn optional(option: &OptionSpec, following: &[String]) -> (Option<String>, usize) {
    match following.first().filter(|word| option.next.takes(word)) {
        Some(word) => (Some(word.clone()), 1),
        None => (None, 0),
    }
}

/// Returns the option with this long name, or the only one with this prefix.
fn by_name(
    name: &str,
    options: &'static [OptionSpec],
) -> Result<(usize, &'static OptionSpec), GetoptError> {
    let long = || (options.iter().enumerate()).filter(|(_, option)| !option.long.is_empty());
    if let Some(found) = long().find(|(_, option)| option.long == name) {
        return Ok(found);
    }
    let candidates: Vec<_> = long()
        .filter(|(_, option)| option.long.starts_with(name))
        .collect();
    match candidates.as_slice() {
        [only] => Ok(*only),
        [] => Err(GetoptError::Name(name.to_owned())),
        several => {
            let names: Vec<String> = several
                .iter()
                .map(|(_, o)| format!("'--{}'", o.long))
                .collect();
            Err(GetoptError::Ambiguous(name.to_owned(), names.join(" ")))
        }
    }
}

/// Parses `-q`, `-qm`, `-i100`, `-qi 100`, `-t` or `-t5`.
fn letters_of(
    letters: &str,
    following: &[String],
    options: &'static [OptionSpec],
    given: &mut Vec<Given>,
) -> Result<usize, GetoptError> {
    let mut rest = letters;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let (place, option) = (options.iter().enumerate())
            .find(|(_, option)| option.short == Some(letter))
            .ok_or(GetoptError::Letter(letter))?;
        let attached = (!rest.is_empty()).then(|| rest.to_owned());
        let (value, taken) = match (option.takes, attached) {
            (Takes::Nothing, _) => {
                given.push(Given {
                    option,
                    index: place,
                    value: None,
                });
                continue;
            }
            (Takes::Required(_), None) => match following.first() {
                Some(next) => (Some(next.clone()), 1),
                None => return Err(GetoptError::LetterWithoutValue(letter)),
            },
            (Takes::Optional(_), None) => optional(option, following),
            (_, attached) => (attached, 0),
        };
        given.push(Given {
            option,
            index: place,
            value,
        });
        return Ok(taken);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NextWord;
    use proptest::prelude::*;

    const OPTIONS: &[OptionSpec] = &[
        OptionSpec::named("-q --quiet", ""),
        OptionSpec::named("-m --mlockall", ""),
        OptionSpec::named("-i --interval=US", ""),
        OptionSpec {
            next: NextWord::Number,
            ..OptionSpec::named("-t --threads[=NUM]", "")
        },
        OptionSpec::named("--spike=US", ""),
        OptionSpec::named("--spike-nodes=N", ""),
        OptionSpec::named("--histogram=US", ""),
        OptionSpec::named("--histfile=PATH", ""),
    ];

    fn read(line: &str) -> Result<Parsed, GetoptError> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words, OPTIONS, false)
    }

    /// Formats each option as `name=value`.
    fn said(line: &str) -> Vec<String> {
        let parsed = read(line).unwrap();
        let form = |given: &Given| match &given.value {
            Some(value) => format!("{}={value}", given.option.long),
            None => given.option.long.to_owned(),
        };
        parsed.given.iter().map(form).collect()
    }

    #[test]
    fn each_form_is_read() {
        for (line, expected) in [
            ("-qm -i100", "quiet mlockall interval=100"),
            ("-qmi 100 -t", "quiet mlockall interval=100 threads"),
            ("-i=100", "interval==100"),
            ("-i -5", "interval=-5"),
            ("-t4 -t 4 -t -q", "threads=4 threads=4 threads quiet"),
            ("-qt 4", "quiet threads=4"),
            ("-tq", "threads=q"),
            ("--interval=100 --interval 200", "interval=100 interval=200"),
            ("--int=100 --thr --thr=3", "interval=100 threads threads=3"),
            ("--spike 5 --spike-n 7", "spike=5 spike-nodes=7"),
            ("--interval=", "interval="),
            ("a -q b --m c", "quiet mlockall"),
        ] {
            assert_eq!(
                said(line),
                expected.split(' ').collect::<Vec<_>>(),
                "{line}"
            );
        }
    }

    #[test]
    fn operands_may_stand_anywhere() {
        let operands = |line: &str| read(line).unwrap().operands;
        assert_eq!(operands("a -q - b"), ["a", "-", "b"]);
        assert_eq!(operands("-q -- -i --x"), ["-i", "--x"]);
        // A word that is not used as an optional value becomes an operand, even if it is repeated.
        assert_eq!(operands("-t two"), ["two"]);
        assert_eq!(operands("-t 0 -t4 4 -t 0,1"), ["0", "4", "0,1"]);
        assert!(operands("-t 4 -t 4").is_empty());
        let words = ["a", "-q"].map(str::to_owned);
        let strict = parse(&words, OPTIONS, true).unwrap();
        assert_eq!((strict.given.len(), strict.operands.len()), (0, 2));
    }

    #[test]
    fn errors_are_getopts() {
        for (line, error) in [
            ("-n", "invalid option -- 'n'"),
            ("-qn", "invalid option -- 'n'"),
            ("-i", "option requires an argument -- 'i'"),
            ("--interval", "option '--interval' requires an argument"),
            ("--quiet=1", "option '--quiet' doesn't allow an argument"),
            ("--nothing", "unrecognized option '--nothing'"),
            ("--nothing=5", "unrecognized option '--nothing'"),
            (
                "--hist=5",
                "option '--hist' is ambiguous; possibilities: '--histogram' '--histfile'",
            ),
        ] {
            assert_eq!(read(line).unwrap_err().to_string(), error, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_word_is_lost(words in prop::collection::vec("-{0,2}[a-z=0-9é]{0,6}", 0..8)) {
            if let Ok(parsed) = parse(&words, OPTIONS, false) {
                // Each word must be an operand, an option or a value.
                let ends = words.iter().filter(|word| *word == "--").count().min(1);
                let options = parsed.given.len();
                prop_assert!(parsed.operands.len() + options + ends <= words.iter().map(|w| w.len().max(1)).sum::<usize>());
                for operand in &parsed.operands {
                    prop_assert!(words.contains(operand));
                }
            }
        }
    }
}
