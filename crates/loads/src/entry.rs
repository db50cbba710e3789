//! What a load is: an entry that says all about it, and the trait it follows.

use std::ffi::OsString;
use std::str::FromStr;
use std::time::Instant;

use punctual_model::{
    Achieved, ArgumentError, Arguments, CpuSet, CpuSetError, LoadRecord, Nanos, Parameter,
};

use crate::LOADS;
use crate::apart::Apart;
use crate::process::find_program;

/// The parameter that every load has beside its own: the CPUs it runs on. A
/// load whose whole text is its parameter is set by
/// [`LoadRequest::on_cpus`] alone.
const CPUS: &str = "cpus";

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
    /// A program that must be installed.
    pub needs: Option<&'static str>,
    /// What it is made of.
    pub kind: LoadKind,
    /// Makes one that is set to these arguments.
    pub build: fn(&Arguments) -> Box<dyn Load>,
}

/// What a load is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// Threads of the process that starts it, unless it is started
    /// [apart](LoadRequest::apart).
    Threads,
    /// Processes of its own.
    Processes,
}

/// Something that disturbs the machine.
pub trait Load: Send {
    /// Starts it on these CPUs, of which there is at least one.
    ///
    /// # Errors
    /// What it needs cannot be had. Nothing of it is left then.
    fn start(&mut self, cpus: &[u32]) -> Result<(), LoadError>;

    /// How it ended, if it ended before it was stopped.
    fn ended_early(&mut self) -> Option<Ended>;

    /// CPU time used so far, as far as it can be known; the whole once it has
    /// stopped.
    fn cpu_time(&mut self) -> Option<Nanos>;

    /// What it has done, once it has stopped; empty: it cannot tell.
    fn achieved(&mut self) -> Vec<Achieved>;

    /// Stops it, and returns when nothing of it is left.
    fn stop(&mut self);
}

/// The end of a load that was not stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How, as a sentence without its end.
    pub how: String,
    /// Whether it failed: an exit status other than 0, a signal, an error.
    pub failed: bool,
    /// The last lines that it wrote to stderr; empty: none.
    pub stderr: String,
}

impl Ended {
    /// A failure that wrote nothing.
    pub(crate) fn failure(how: impl Into<String>) -> Self {
        Self {
            how: how.into(),
            failed: true,
            stderr: String::new(),
        }
    }
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
    /// The CPUs it shall run on.
    #[error("load {load}: {source}")]
    Cpus {
        /// The load.
        load: &'static str,
        /// What is wrong.
        source: CpuSetError,
    },
    /// A program it runs is not there.
    #[error("load {load} needs {program}, which is not in PATH: install it")]
    NotInstalled {
        /// The load.
        load: &'static str,
        /// The program.
        program: &'static str,
    },
    /// What it is asked for does not fit this machine.
    #[error("load {load}: {why}")]
    Unfit {
        /// The load.
        load: &'static str,
        /// Why, and what to do.
        why: String,
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

impl LoadError {
    pub(crate) fn start(
        load: &'static str,
        what: impl Into<String>,
        source: std::io::Error,
    ) -> Self {
        Self::Start {
            load,
            what: what.into(),
            source,
        }
    }
}

/// A load that is asked for: `command:'make -j8'`.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    entry: &'static LoadEntry,
    arguments: Arguments,
    cpus: Option<CpuSet>,
    text: String,
    apart: Option<Vec<OsString>>,
}

/// Reads `NAME`, `NAME:text` or `NAME:parameter=value,…`. One of the parameters
/// can be `cpus=LIST`, with commas within the list.
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
        let mut cpus: Option<String> = None;
        let given: Vec<(&str, &str)> = match (entry.bare, rest) {
            (_, None) => Vec::new(),
            (Some(parameter), Some(rest)) => vec![(parameter, rest)],
            (None, Some(rest)) => own_parameters(rest, &mut cpus),
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
        let cpus = cpus.map(|list| chosen(entry.name, &list)).transpose()?;
        Ok(Self {
            entry,
            arguments,
            cpus,
            text: text.to_owned(),
            apart: None,
        })
    }
}

/// Splits a load's text into its own parameters, and takes `cpus` out of it. A
/// part that begins with a digit and has no name goes on with the CPU list
/// before it.
fn own_parameters<'a>(text: &'a str, cpus: &mut Option<String>) -> Vec<(&'a str, &'a str)> {
    let mut own = Vec::new();
    let mut in_list = false;
    for part in text.split(',') {
        match (part.split_once('='), &mut *cpus) {
            (Some((CPUS, list)), _) => {
                *cpus = Some(list.to_owned());
                in_list = true;
            }
            (None, Some(list)) if in_list && part.starts_with(|c: char| c.is_ascii_digit()) => {
                list.push(',');
                list.push_str(part);
            }
            (pair, _) => {
                own.push(pair.unwrap_or((part, "")));
                in_list = false;
            }
        }
    }
    own
}

fn chosen(load: &'static str, list: &str) -> Result<CpuSet, LoadError> {
    let cpus: CpuSet = list
        .parse()
        .map_err(|source| LoadError::Cpus { load, source })?;
    match cpus.is_empty() {
        true => Err(LoadError::Unfit {
            load,
            why: "cpus: no CPU was given".to_owned(),
        }),
        false => Ok(cpus),
    }
}

/// A load that runs. Dropping it stops it.
pub struct Running {
    request: LoadRequest,
    load: Box<dyn Load>,
    started: Instant,
    ended_early: Option<Ended>,
    stopped: bool,
}

impl LoadRequest {
    /// Lets it run on these CPUs, unless it names its own (`--load-cpus`). The
    /// empty set changes nothing.
    pub fn on_cpus(mut self, cpus: &CpuSet) -> Self {
        if self.cpus.is_none() && !cpus.is_empty() {
            self.cpus = Some(cpus.clone());
        }
        self
    }

    /// Runs its threads in a process of their own: `command`, with the request
    /// as one more argument, must call [`crate::serve`] with that.
    ///
    /// Threads of the measuring process disturb it in ways that no other
    /// program can: they take turns at its address space (page faults wait for
    /// each other's mappings, and what one unmaps interrupts every CPU that
    /// runs another), their memory is locked with its own, and their CPU time
    /// counts as the observer's. Loads made of processes start as ever.
    pub fn apart(mut self, command: Vec<OsString>) -> Self {
        self.apart = Some(command);
        self
    }

    /// The load's entry in the table.
    pub fn entry(&self) -> &'static LoadEntry {
        self.entry
    }

    /// Starts the load.
    ///
    /// # Errors
    /// What it needs cannot be had: a program, memory, room on the disk, the
    /// CPUs.
    pub fn start(self) -> Result<Running, LoadError> {
        let name = self.entry.name;
        if let Some(program) = self.entry.needs
            && find_program(program).is_none()
        {
            return Err(LoadError::NotInstalled {
                load: name,
                program,
            });
        }
        let refused =
            |error| LoadError::start(name, "cannot have its CPUs", std::io::Error::other(error));
        let cpus = match &self.cpus {
            Some(cpus) => cpus.iter().collect(),
            None => punctual_rt::affinity::current().map_err(refused)?,
        };
        punctual_rt::affinity::check(&cpus).map_err(refused)?;
        let mut load: Box<dyn Load> = match (&self.apart, self.entry.kind) {
            (Some(command), LoadKind::Threads) => Apart::load(name, command, &self.text),
            _ => (self.entry.build)(&self.arguments),
        };
        load.start(&cpus)?;
        Ok(Running {
            request: self,
            load,
            started: Instant::now(),
            ended_early: None,
            stopped: false,
        })
    }

    /// How it is kept in a recording before it has run.
    pub fn record(&self) -> LoadRecord {
        let mut parameters = self.arguments.to_json(self.entry.parameters);
        if let Some(cpus) = &self.cpus {
            parameters.insert(CPUS.to_owned(), cpus.to_string().into());
        }
        LoadRecord {
            name: self.entry.name.to_owned(),
            parameters,
            ..LoadRecord::default()
        }
    }
}

impl Running {
    /// What was asked for.
    pub fn request(&self) -> &LoadRequest {
        &self.request
    }

    /// Looks after it: how it ended, the first time that is seen.
    pub fn check(&mut self) -> Option<&Ended> {
        if self.ended_early.is_some() {
            return None;
        }
        let after = Nanos::from(self.started.elapsed());
        self.ended_early = self.load.ended_early().map(|ended| Ended {
            how: format!("{} after {after}", ended.how),
            ..ended
        });
        self.ended_early.as_ref()
    }

    /// Stops it and says what became of it.
    pub fn stop(mut self) -> LoadRecord {
        self.check();
        self.load.stop();
        self.stopped = true;
        let ended = self.ended_early.take();
        let failed = ended.as_ref().filter(|ended| ended.failed);
        LoadRecord {
            cpu_time_ns: self.load.cpu_time(),
            achieved: self.load.achieved(),
            failed: failed.is_some(),
            stderr: failed
                .map(|ended| ended.stderr.clone())
                .filter(|stderr| !stderr.is_empty()),
            ended_early: ended.map(|ended| ended.how),
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
        assert!(error("storm").starts_with("there is no load 'storm': one of "));
        assert!(error("storm").contains("command, "));
        assert!(error("command").contains("command must be given"));
        assert!(error("command:").contains("nothing was given"));
        assert!(error("cpu:color=red").contains("no parameter 'color'"));
        assert!(error("cpu:cpus=").contains("no CPU was given"));
        assert!(error("cpu:cpus=3-1").contains("runs backwards"));
        let far = "cpu:cpus=8000".parse::<LoadRequest>().unwrap();
        let refused = far.start().err().unwrap().to_string();
        assert!(refused.contains("8000"), "{refused}");
    }

    #[test]
    fn cpus_are_common_to_all() {
        let cpus = |text: &str| text.parse::<LoadRequest>().unwrap().cpus;
        let list = |list: &str| Some(list.parse::<CpuSet>().unwrap());
        assert_eq!(cpus("cpu"), None);
        assert_eq!(cpus("cpu:cpus=0,2-3,threads=2"), list("0,2-3"));
        assert_eq!(cpus("cpu:threads=2,cpus=1"), list("1"));
        let all = "0-7".parse().unwrap();
        let with = |text: &str| text.parse::<LoadRequest>().unwrap().on_cpus(&all);
        assert_eq!(with("cpu").cpus, list("0-7"));
        assert_eq!(with("cpu:cpus=1").cpus, list("1"));
        assert_eq!(with("command:make").record().parameters["cpus"], "0-7");
        // A number elsewhere is no CPU.
        assert!("cpu:threads=2,3".parse::<LoadRequest>().is_err());
        assert!("cpu:cpus=0,threads=2,3".parse::<LoadRequest>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(cpu|command|disk|build|x)?:?[a-z0-9=,:-]{0,30}") {
            let _ = text.parse::<LoadRequest>();
        }
    }
}
