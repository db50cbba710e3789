//! What a load is: an entry that says all about it, and the trait it follows.

use std::str::FromStr;

use punctual_model::{ArgumentError, Arguments, LoadRecord, Nanos, Parameter};

use crate::LOADS;

/// All there is to know of a load without running it.
#[derive(Clone, Copy, Debug)]
pub struct LoadEntry {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does to the machine, in half a sentence.
    pub summary: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// The parameter that takes the whole text after the colon
    /// (`command:'make -j8'`), where there is such a one.
    pub bare: Option<&'static str>,
    /// Makes one that is set to these arguments.
    pub build: fn(&Arguments) -> Box<dyn Load>,
}

/// Something that disturbs the machine.
pub trait Load: Send {
    /// Starts it.
    ///
    /// # Errors
    /// What it needs cannot be had.
    fn start(&mut self) -> Result<(), LoadError>;

    /// How it ended, if it ended before it was stopped.
    fn ended_early(&mut self) -> Option<String>;

    /// CPU time used so far, as far as it can be known.
    fn cpu_time(&mut self) -> Option<Nanos>;

    /// Stops it, and returns when nothing of it is left.
    fn stop(&mut self);
}

/// Why a load cannot disturb.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No such load.
    #[error("there is no load '{name}': one of {known}, or none")]
    NoSuchLoad {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// A parameter of it.
    #[error("load {load}: {source}")]
    Argument {
        /// The load.
        load: &'static str,
        /// What is wrong.
        source: ArgumentError,
    },
    /// It could not be started.
    #[error("load {load}: {what}: {source}")]
    Start {
        /// The load.
        load: &'static str,
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// A load that is asked for: `command:'make -j8'`.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    entry: &'static LoadEntry,
    arguments: Arguments,
}

/// Reads `NAME`, `NAME:text` or `NAME:parameter=value,…`.
impl FromStr for LoadRequest {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, rest) = text
            .split_once(':')
            .map_or((text, None), |(name, rest)| (name, Some(rest)));
        let entry = LOADS
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| LoadError::NoSuchLoad {
                name: name.to_owned(),
                known: LOADS.iter().map(|l| l.name).collect::<Vec<_>>().join(", "),
            })?;
        let given: Vec<(&str, &str)> = match (entry.bare, rest) {
            (_, None) => Vec::new(),
            (Some(parameter), Some(rest)) => vec![(parameter, rest)],
            (None, Some(rest)) => rest
                .split(',')
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .collect(),
        };
        let argument = |source| LoadError::Argument {
            load: entry.name,
            source,
        };
        // A load whose whole text is its parameter is nothing without it.
        if let (Some(bare), true) = (entry.bare, given.is_empty())
            && let Some(parameter) = entry.parameters.iter().find(|p| p.name == bare)
        {
            return Err(argument(ArgumentError::Required {
                name: parameter.name,
                help: parameter.help,
            }));
        }
        let arguments = Arguments::check(entry.parameters, given).map_err(argument)?;
        Ok(Self { entry, arguments })
    }
}

/// A load that runs. Dropping it stops it.
pub struct Running {
    request: LoadRequest,
    load: Box<dyn Load>,
    ended_early: Option<String>,
    stopped: bool,
}

impl LoadRequest {
    /// Starts the load.
    ///
    /// # Errors
    /// What it needs cannot be had.
    pub fn start(self) -> Result<Running, LoadError> {
        let mut load = (self.entry.build)(&self.arguments);
        load.start()?;
        Ok(Running {
            request: self,
            load,
            ended_early: None,
            stopped: false,
        })
    }

    /// How it is kept in a recording before it has run.
    pub fn record(&self) -> LoadRecord {
        LoadRecord {
            name: self.entry.name.to_owned(),
            parameters: self.arguments.to_json(self.entry.parameters),
            cpu_time_ns: None,
            ended_early: None,
        }
    }
}

impl Running {
    /// What was asked for.
    pub fn request(&self) -> &LoadRequest {
        &self.request
    }

    /// Looks after it: how it ended, the first time that is seen.
    pub fn check(&mut self) -> Option<&str> {
        if self.ended_early.is_some() {
            return None;
        }
        self.ended_early = self.load.ended_early();
        self.ended_early.as_deref()
    }

    /// Stops it and says what became of it.
    pub fn stop(mut self) -> LoadRecord {
        self.check();
        let cpu_time_ns = self.load.cpu_time();
        self.load.stop();
        self.stopped = true;
        LoadRecord {
            cpu_time_ns,
            ended_early: self.ended_early.take(),
            ..self.request.record()
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.stopped {
            self.load.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request: LoadRequest = "command:make -j8, all".parse().unwrap();
        assert_eq!(
            serde_json_like(&request),
            r#"{"command": String("make -j8, all")}"#
        );
    }

    fn serde_json_like(request: &LoadRequest) -> String {
        format!("{:?}", request.record().parameters)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| text.parse::<LoadRequest>().unwrap_err().to_string();
        assert_eq!(
            error("storm"),
            "there is no load 'storm': one of command, or none"
        );
        assert!(error("command").contains("command must be given"));
        assert!(error("command:").contains("nothing was given"));
    }
}
