//! Typed parameters. A constant defines name, limits, default and help, and also reads the value.

use std::marker::PhantomData;
use std::ops::RangeInclusive;

use super::{Arguments, Parameter, ParameterKind};
use crate::Nanos;

/// The words of a choice, each with its meaning.
type Words = &'static [(&'static str, &'static str)];

/// A parameter with values of type `T`. Without a default, `T` is an `Option`.
#[derive(Clone, Copy, Debug)]
pub struct Typed<T> {
    /// Row of the parameter in the table.
    pub parameter: Parameter,
    value: PhantomData<T>,
}

/// A type that the value of a parameter can have.
pub trait Value: Default {
    /// Returns the value of the parameter with this name, if it is of this type.
    fn find(arguments: &Arguments, name: &str) -> Option<Self>;
}

impl Value for Nanos {
    fn find(arguments: &Arguments, name: &str) -> Option<Self> {
        arguments.duration(name)
    }
}

impl Value for u64 {
    fn find(arguments: &Arguments, name: &str) -> Option<Self> {
        arguments.count(name)
    }
}

impl Value for &'static str {
    fn find(arguments: &Arguments, name: &str) -> Option<Self> {
        arguments.choice(name)
    }
}

impl Value for bool {
    fn find(arguments: &Arguments, name: &str) -> Option<Self> {
        Some(arguments.flag(name))
    }
}

impl Value for String {
    fn find(arguments: &Arguments, name: &str) -> Option<Self> {
        arguments.text(name).map(str::to_owned)
    }
}

impl<T: Value> Value for Option<T> {
    fn find(arguments: &Arguments, name: &str) -> Option<Self> {
        Some(T::find(arguments, name))
    }
}

impl<T> Typed<T> {
    const fn new(
        name: &'static str,
        kind: ParameterKind,
        default: Option<&'static str>,
        help: &'static str,
    ) -> Self {
        Self {
            parameter: Parameter {
                name,
                short: None,
                kind,
                default,
                help,
                of_older_tools: false,
            },
            value: PhantomData,
        }
    }

    /// Adds a short option.
    #[must_use]
    pub const fn short(mut self, letter: char) -> Self {
        self.parameter.short = Some(letter);
        self
    }

    /// Leaves the parameter to the options of older tools.
    #[must_use]
    pub const fn of_older_tools(mut self) -> Self {
        self.parameter.of_older_tools = true;
        self
    }
}

impl<T: Value> Typed<T> {
    /// Returns the value of the parameter: the given one, or the default. `arguments` must have
    /// been checked against the table of this parameter.
    pub fn value_in(&self, arguments: &Arguments) -> T {
        T::find(arguments, self.parameter.name).unwrap_or_default()
    }
}

impl<T> Typed<Option<T>> {
    /// Sets the default, which must be a valid value.
    #[must_use]
    pub const fn or(self, default: &'static str) -> Typed<T> {
        let Parameter {
            name,
            short,
            kind,
            help,
            of_older_tools,
            ..
        } = self.parameter;
        let mut typed = Typed::new(name, kind, Some(default), help);
        typed.parameter.short = short;
        typed.parameter.of_older_tools = of_older_tools;
        typed
    }
}

impl Typed<Option<Nanos>> {
    /// A duration between these limits.
    pub const fn duration(
        name: &'static str,
        help: &'static str,
        limits: RangeInclusive<Nanos>,
    ) -> Self {
        let (min, max) = (*limits.start(), *limits.end());
        Self::new(name, ParameterKind::Duration { min, max }, None, help)
    }
}

impl Typed<Option<u64>> {
    /// A whole number between these limits.
    pub const fn count(
        name: &'static str,
        help: &'static str,
        limits: RangeInclusive<u64>,
    ) -> Self {
        let (min, max) = (*limits.start(), *limits.end());
        Self::new(name, ParameterKind::Count { min, max }, None, help)
    }
}

impl Typed<Option<&'static str>> {
    /// A word from this list.
    pub const fn choice(name: &'static str, help: &'static str, words: Words) -> Self {
        Self::new(name, ParameterKind::Choice(words), None, help)
    }
}

impl Typed<bool> {
    /// A flag without a value.
    pub const fn flag(name: &'static str, help: &'static str) -> Self {
        Self::new(name, ParameterKind::Flag, Some("no"), help)
    }
}

impl Typed<Option<String>> {
    /// Any text that is not empty.
    pub const fn text(name: &'static str, help: &'static str) -> Self {
        Self::new(name, ParameterKind::Text, None, help)
    }
}

/// Creates a constant of type [`Typed`] for each parameter, and `PARAMETERS`, the table of all
/// parameters in this order. The enclosing module uses both.
#[macro_export]
macro_rules! parameters {
    ($($name:ident: $value:ty = $parameter:expr;)*) => {
        $(pub(super) const $name: $crate::Typed<$value> = $parameter;)*
        pub(super) const PARAMETERS: &[$crate::Parameter] = &[$($name.parameter),*];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Typed<Nanos> = Typed::duration(
        "interval",
        "time between wake-ups",
        Nanos(1_000)..=Nanos(1_000_000),
    )
    .short('i')
    .of_older_tools()
    .or("500us");
    const LOOPS: Typed<Option<u64>> = Typed::count("loops", "number of loops", 1..=9).short('l');
    const WAIT: Typed<&'static str> = Typed::choice(
        "wait",
        "how to wait",
        &[("sleep", "sleeps"), ("spin", "spins")],
    )
    .or("spin");
    const QUIET: Typed<bool> = Typed::flag("quiet", "prints less");
    const FILE: Typed<Option<String>> = Typed::text("file", "where to write");
    const ALL: &[Parameter] = &[
        INTERVAL.parameter,
        LOOPS.parameter,
        WAIT.parameter,
        QUIET.parameter,
        FILE.parameter,
    ];

    #[test]
    fn default_and_letters_are_those_of_the_constant() {
        let (interval, loops) = (INTERVAL.parameter, LOOPS.parameter);
        assert_eq!(
            (interval.name, interval.help),
            ("interval", "time between wake-ups")
        );
        assert_eq!((interval.short, interval.of_older_tools), (Some('i'), true));
        assert_eq!(interval.default, Some("500us"));
        assert_eq!(
            (loops.short, loops.default, loops.of_older_tools),
            (Some('l'), None, false)
        );
        assert_eq!(
            (WAIT.parameter.short, WAIT.parameter.default),
            (None, Some("spin"))
        );
        assert_eq!(
            (QUIET.parameter.default, FILE.parameter.default),
            (Some("no"), None)
        );
    }

    #[test]
    fn values_have_the_type_of_their_parameter() {
        let given = Arguments::check(ALL, []).unwrap();
        assert_eq!(INTERVAL.value_in(&given), Nanos(500_000));
        assert_eq!(
            (LOOPS.value_in(&given), FILE.value_in(&given)),
            (None, None)
        );
        assert_eq!(
            (WAIT.value_in(&given), QUIET.value_in(&given)),
            ("spin", false)
        );
        let texts = [
            ("interval", "1ms"),
            ("loops", "9"),
            ("wait", "sleep"),
            ("quiet", "yes"),
            ("file", "a.txt"),
        ];
        let given = Arguments::check(ALL, texts).unwrap();
        assert_eq!(INTERVAL.value_in(&given), Nanos(1_000_000));
        assert_eq!(LOOPS.value_in(&given), Some(9));
        assert_eq!(
            (WAIT.value_in(&given), QUIET.value_in(&given)),
            ("sleep", true)
        );
        assert_eq!(FILE.value_in(&given).as_deref(), Some("a.txt"));
        assert_eq!(given.interval(), Some(Nanos(1_000_000)));
        // A name of another type has no value.
        assert_eq!(
            (given.count("interval"), given.duration("loops")),
            (None, None)
        );
        assert_eq!(
            (given.choice("file"), given.text("wait"), given.flag("file")),
            (None, None, false)
        );
    }

    #[test]
    fn limits_include_their_ends() {
        for (name, good, bad) in [
            ("interval", ["1us", "1ms"], ["999ns", "1000001ns"]),
            ("loops", ["1", "9"], ["0", "10"]),
            ("wait", ["sleep", "spin"], ["poll", ""]),
        ] {
            for text in good {
                assert!(
                    Arguments::check(ALL, [(name, text)]).is_ok(),
                    "{name} {text}"
                );
            }
            for text in bad {
                assert!(
                    Arguments::check(ALL, [(name, text)]).is_err(),
                    "{name} {text}"
                );
            }
        }
    }
}
