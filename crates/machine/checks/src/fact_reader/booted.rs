//! Access to the kernel's build configuration and command line.

use punctual_model::CpuSet;

use super::{FactReader, Missing, line};
use crate::boot::{boot_words, same_parameter};
use crate::kernel::{self, OptionState};

impl<'a> FactReader<'a> {
    /// Returns all values of a parameter on the kernel's command line, in order. A parameter
    /// without `=` has the value "".
    pub(crate) fn boot_all(&self, name: &str) -> Result<Vec<&'a str>, Missing> {
        let command_line = &self.host().kernel.command_line;
        let Some(text) = command_line.get() else {
            self.fact(command_line)?;
            return Ok(Vec::new());
        };
        let values: Vec<&str> = boot_words(text)
            .filter_map(|word| match word.split_once('=') {
                Some((key, value)) => same_parameter(key, name).then_some(value),
                None => same_parameter(word, name).then_some(""),
            })
            .collect();
        match values.as_slice() {
            [] => self.saw(&command_line.source, &format!("without {name}")),
            values => {
                for value in values {
                    let equals = if value.is_empty() { "" } else { "=" };
                    self.saw(&command_line.source, &format!("{name}{equals}{value}"));
                }
            }
        }
        Ok(values)
    }

    /// Returns the last of the values from [`boot_all`](Self::boot_all), because the last one is
    /// effective.
    pub(crate) fn boot(&self, name: &str) -> Result<Option<&'a str>, Missing> {
        Ok(self.boot_all(name)?.last().copied())
    }

    /// Parses the CPU list of a parameter on the kernel's command line, which has the form
    /// `parameter=list`.
    pub(crate) fn boot_cpus(&self, parameter: &str, list: &str) -> Result<CpuSet, Missing> {
        let processor = &self.host().processor;
        let known = [&processor.present, &processor.online];
        let cpus = known.into_iter().filter_map(|fact| fact.get());
        let last = cpus.filter_map(|set| set.iter().next_back()).max();
        let last = last.ok_or_else(|| Missing::unknown("the machine's CPUs are unknown"))?;
        CpuSet::of_command_line(list, last).map_err(|_| {
            let list = line(list);
            Missing::unknown(format!(
                "the value of {parameter}={list} is not a list of CPUs"
            ))
        })
    }

    /// Returns the state of a kernel option, `CONFIG_…`.
    ///
    /// # Errors
    /// Returns *unknown* if the configuration is missing, or if it is partial and does not mention
    /// the option.
    pub(crate) fn option(&self, option: &str) -> Result<OptionState<'a>, Missing> {
        let config = &self.facts.kernel_config;
        let source = format!("{} {option}", config.source);
        let Some(text) = config.get() else {
            let why = config.unknown.as_deref().unwrap_or("not known");
            self.could_not(&source, why);
            return Err(Missing::unknown(why));
        };
        let state = kernel::option_state(text, option);
        if state == OptionState::Unmentioned && !kernel::is_whole(text) {
            const PART: &str = "not in this configuration, which is only a fragment";
            self.could_not(&source, PART);
            return Err(Missing::unknown(format!("{option} is {PART}")));
        }
        self.saw(source, &state.to_string());
        Ok(state)
    }

    /// Returns whether the kernel is built with an option; `None` if not known.
    pub(crate) fn built_with(&self, option: &str) -> Option<bool> {
        self.option(option).ok().map(OptionState::is_on)
    }

    /// Returns the output of `uname -m`; `None` if not known.
    pub(crate) fn architecture(&self) -> Option<&'a str> {
        self.host().kernel.architecture.get().map(String::as_str)
    }

    /// Returns whether a parameter is given and has an effect. It has an effect only in a kernel
    /// that is built with `option`.
    ///
    /// # Errors
    /// Returns *unknown* if the parameter is given but the state of the option is not known.
    pub(crate) fn obeys(&self, parameter: &str, option: &str) -> Result<ParameterEffect, Missing> {
        if self.boot(parameter)?.is_none() {
            return Ok(ParameterEffect::NotGiven);
        }
        match self.built_with(option) {
            Some(true) => Ok(ParameterEffect::Yes),
            Some(false) => Ok(ParameterEffect::No),
            None => Err(Missing::unknown(format!(
                "{parameter} is set, but it is unknown whether the kernel has {option}"
            ))),
        }
    }
}

/// The effect of a parameter on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterEffect {
    /// The parameter is not given.
    NotGiven,
    /// The parameter is given, but the kernel is built without the option that the parameter needs.
    No,
    /// The parameter has an effect.
    Yes,
}
