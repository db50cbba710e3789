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
