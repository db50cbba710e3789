//! A requested load, and a running load.

use std::ffi::OsString;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use punctual_model::{ArgumentError, Arguments, CpuSet, LoadRecord, Nanos, ToJson};

use crate::LOADS;
use crate::entry::{Ended, Load, LoadEntry, LoadError, LoadKind};
use crate::outside::Outside;
use crate::process::find_program;
use crate::subprocess::{LOOK_WHILE_RUNNING, RECORD, REFUSED, STARTED, Subprocess};

/// The parameter for CPUs, which every load has in addition to its own parameters. If a load takes
/// the whole text as one parameter, its CPUs can only be set by [`LoadRequest::on_cpus`].
const CPUS: &str = "cpus";

/// The parameter for the phase, which loads with a period have.
pub(crate) const PHASE: &str = "phase";

/// A requested load, for example `command:'make -j8'`.
#[derive(Clone, Debug)]
pub struct LoadRequest {
    entry: &'static LoadEntry,
    arguments: Arguments,
    cpus: Option<CpuSet>,
    text: String,
    subprocess: Option<Vec<OsString>>,
    outside: Option<Outside>,
}

/// Parses `NAME`, `NAME:text` or `NAME:parameter=value,…`. `cpus=LIST` is a parameter of every
/// load; the list may contain commas.
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
        // A parameter that takes the whole text is required.
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
            subprocess: None,
            outside: None,
        })
    }
}

/// Splits a load's text into its own parameters and `cpus`. A part that starts with a digit and has
/// no name continues the CPU list before it.
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
    if cpus.is_empty() {
        Err(LoadError::Unfit {
            load,
            why: "cpus: the list is empty".to_owned(),
        })
    } else {
        Ok(cpus)
    }
}

/// A running load. Dropping it stops it.
pub struct Running {
    request: LoadRequest,
    load: Box<dyn Load>,
    started: Instant,
    ended_early: Option<Ended>,
    stopped: bool,
}

impl LoadRequest {
    /// Sets the CPUs of the load (`--load-cpus`) unless the request already names some. An empty
    /// set changes nothing.
    pub fn on_cpus(mut self, cpus: &CpuSet) -> Self {
        if self.cpus.is_none() && !cpus.is_empty() {
            self.cpus = Some(cpus.clone());
        }
        self
    }

    /// Runs the threads of the load in a subprocess. `command`, with the request as one more
    /// argument, must call [`crate::serve`] with that request.
    ///
    /// Threads in the measuring process would disturb it in ways that no other program can: they
    /// contend for its address space (page faults wait for each other's mappings, and an unmap
    /// interrupts every CPU that runs another thread of the process), their memory is locked
    /// together with that of the process, and their CPU time counts as the observer's. Loads that
    /// consist of processes are not affected.
    pub fn subprocess(mut self, command: Vec<OsString>) -> Self {
        self.subprocess = Some(command);
        self
    }

    /// Runs the load outside the control group of this process. Requires
    /// [`subprocess`](Self::subprocess); loads of both kinds are then started in the subprocess.
    pub fn outside(mut self, outside: &Outside) -> Self {
        self.outside = Some(outside.clone());
        self
    }

    /// Returns the request as it was given on the command line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the load works at a fixed phase of its period.
    pub fn has_phase(&self) -> bool {
        self.arguments.duration(PHASE).is_some()
    }

    /// Returns the load's entry in the table.
    pub fn entry(&self) -> &'static LoadEntry {
        self.entry
    }

    /// Starts the load.
    ///
    /// # Errors
    /// Returns an error if a resource is not available, such as a program, memory, disk space or
    /// the CPUs.
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
            |error| LoadError::start(name, "cannot set its CPUs", std::io::Error::other(error));
        // If the load leaves the control group, the limits of this group do not apply to it. The
        // subprocess then checks the CPUs.
        let own = self.cpus.as_ref().filter(|_| self.outside.is_none());
        let cpus = match own {
            Some(cpus) => cpus.iter().collect(),
            None => punctual_rt::affinity::current().map_err(refused)?,
        };
        punctual_rt::affinity::check(&cpus).map_err(refused)?;
        let mut load: Box<dyn Load> = match (&self.subprocess, self.entry.kind, &self.outside) {
            (Some(command), _, Some(outside)) => {
                let cpus = self.cpus.as_ref().unwrap_or(&outside.cpus).clone();
                let outside = Outside {
                    cpus,
                    ..outside.clone()
                };
                Subprocess::load(name, command, &self.text, outside)
            }
            (None, _, Some(_)) => {
                return Err(LoadError::Unfit {
                    load: name,
                    why: "it cannot leave the control group: the file of this program was deleted"
                        .to_owned(),
                });
            }
            (Some(command), LoadKind::Threads, None) => {
                Subprocess::load(name, command, &self.text, Outside::default())
            }
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

    /// Returns the record of the load for a recording, before the load has run.
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
    /// Returns the request.
    pub fn request(&self) -> &LoadRequest {
        &self.request
    }

    /// Checks whether the load has ended early. Returns how it ended, but only once.
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

    /// Stops the load and returns its record.
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

/// Runs one load in this process until SIGTERM, for the program that started this process with
/// [`LoadRequest::subprocess`]. If the request names no CPUs, the load runs on `cpus`, or, if these
/// are empty, on the CPUs of this process. Reports the result on `output`.
///
/// # Errors
/// If SIGTERM cannot be handled, or `output` is closed.
pub fn serve(request: &str, cpus: &CpuSet, output: &mut dyn Write) -> io::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop))?;
    let mut say = |line: &str, text: &str| {
        // The protocol has one line per event, so line breaks in the text are replaced.
        writeln!(output, "{line}{}", text.replace('\n', " "))?;
        output.flush()
    };
    let started = request.parse::<LoadRequest>();
    let started = started.and_then(|request| request.on_cpus(cpus).start());
    let mut running = match started {
        Ok(running) => running,
        Err(error) => return say(REFUSED, &error.to_string()),
    };
    say(STARTED, "")?;
    while !stop.load(Ordering::Relaxed) && running.check().is_none() {
        thread::sleep(LOOK_WHILE_RUNNING);
    }
    say(RECORD, &running.stop().to_json())
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
        assert!(error("storm").starts_with("unknown load 'storm': choose one of "));
        assert!(error("storm").contains("command, "));
        assert!(error("command").contains("command must be given"));
        assert!(error("command:").contains("nothing was given"));
        assert!(error("cpu:color=red").contains("unknown parameter 'color'"));
        assert!(error("cpu:cpus=").contains("the list is empty"));
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
        // A number that follows another parameter is not a CPU.
        assert!("cpu:threads=2,3".parse::<LoadRequest>().is_err());
        assert!("cpu:cpus=0,threads=2,3".parse::<LoadRequest>().is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(cpu|command|disk|build|x)?:?[a-z0-9=,:-]{0,30}") {
            let _ = text.parse::<LoadRequest>();
        }
    }

    #[test]
    fn what_cannot_start_is_reported() {
        let mut said = Vec::new();
        serve("cache:size=1048576", &CpuSet::new(), &mut said).unwrap();
        let said = String::from_utf8(said).unwrap();
        assert!(said.starts_with("load: refused load cache: "), "{said}");
        assert_eq!(said.lines().count(), 1);
    }

    #[test]
    fn load_confined_to_its_group_is_refused() {
        let cpu: LoadRequest = "cpu".parse().unwrap();
        let refused = cpu.outside(&Outside::default()).start().err().unwrap();
        let refused = refused.to_string();
        assert!(
            refused.contains("cannot leave the control group"),
            "{refused}"
        );
        let nowhere = Outside {
            groups: vec!["/no/such/cgroup.procs".into()],
            ..Outside::default()
        };
        let cpu: LoadRequest = "cpu".parse().unwrap();
        let refused = cpu
            .subprocess(vec!["true".into()])
            .outside(&nowhere)
            .start();
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("/no/such/cgroup.procs"), "{refused}");
    }
}
