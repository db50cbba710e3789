//! Loads the BPF programs of this crate and attaches them to their tracepoints.
//!
//! Programs and maps are owned by file descriptors, so they disappear when the process ends, even
//! if it is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;

use aya::maps::{Array, Map, MapData};
use aya::programs::perf_event::{
    PerfEventConfig, PerfEventLinkId, PerfEventScope, SamplePolicy, SoftwareEvent,
};
use aya::programs::tp_btf::BtfTracePointLinkId;
use aya::programs::uprobe::UProbeScope;
use aya::programs::{BtfTracePoint, PerfEvent, ProgramError, UProbe};
use aya::{Btf, Ebpf, EbpfLoader};
use punctual_model::Nanos;

use crate::WatchError;

mod mapped;
mod needs;
mod news;
mod settled;
mod types;

pub(crate) use mapped::Mapped;
pub(crate) use needs::name_missing;
pub(crate) use news::News;
pub(crate) use settled::settled;

/// Returns a name that a program wrote: the bytes before the first NUL, with invalid UTF-8
/// replaced.
pub(crate) fn text(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&name[..end.unwrap_or(name.len())]).into_owned()
}

/// The data that the programs read, if its layout depends on the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reads {
    /// Only types of the kernel, whose layout is described by BTF.
    Types,
    /// Also the registers of threads in system calls. They contain the arguments of the call and,
    /// on return, its number.
    Registers,
}

impl Reads {
    /// Returns whether the layout is known. 32-bit kernels are untested. The known register layouts
    /// are those of `pt_regs___x86` and `pt_regs___arm64`.
    fn is_known_on(self, processor: &str) -> bool {
        match self {
            Self::Types => cfg!(target_pointer_width = "64"),
            Self::Registers => matches!(processor, "x86_64" | "aarch64"),
        }
    }
}

/// Whether other CPUs can see two stores of this processor in another order. x86 keeps them in order.
static REORDERS: u32 = !cfg!(any(target_arch = "x86", target_arch = "x86_64")) as u32;

/// The loaded programs and their maps. Dropping this value unloads them.
pub(crate) struct Programs {
    programs: Ebpf,
    /// The attachment of each running program, by the program's name.
    links: BTreeMap<String, BtfTracePointLinkId>,
    /// The attachments of the running programs for software events, by the program's name.
    software: BTreeMap<&'static str, Vec<PerfEventLinkId>>,
    /// The kernel's tracepoint types, kept only while programs are being attached.
    types: Option<Btf>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Programs {
    /// Loads an object file and creates its maps. `settings` sets its constants and map sizes.
    ///
    /// # Errors
    /// Returns an error if the kernel has no BTF or rejects the object (because of missing
    /// privileges, lockdown or its version), or if the programs do not support the processor.
    pub(crate) fn load<'a>(
        object: &[u8],
        reads: Reads,
        settings: impl FnOnce(&mut EbpfLoader<'a>),
    ) -> Result<Self, WatchError> {
        if !reads.is_known_on(std::env::consts::ARCH) {
            return Err(WatchError::Processor(std::env::consts::ARCH));
        }
        // The loader parses all types of the kernel (20 MB) again for each object, because it
        // offers no other way to be created.
        let mut loader = EbpfLoader::new();
        // Objects that write nothing for other CPUs have no barriers.
        loader.override_global("reorders", &REORDERS, false);
        settings(&mut loader);
        let programs = loader.load(object).map_err(|error| match types::read() {
            Ok(_) => WatchError::refused(&error),
            Err(missing) => WatchError::NoBtf(missing),
        })?;
        Ok(Self {
            programs,
            links: BTreeMap::new(),
            software: BTreeMap::new(),
            types: None,
        })
    }

    /// Attaches a program to a tracepoint.
    ///
    /// # Errors
    /// Returns an error if the kernel does not have this tracepoint or rejects the program.
    pub(crate) fn attach(&mut self, name: &str, tracepoint: &str) -> Result<(), WatchError> {
        let types = match &mut self.types {
            Some(types) => types,
            none => none.insert(types::of_tracepoints().map_err(WatchError::NoBtf)?),
        };
        program(&mut self.programs, name)?
            .load(tracepoint, types)
            .map_err(|error| WatchError::refused(&error))?;
        self.resume(name)
    }

    /// Detaches a program but keeps it loaded, so that [`resume`](Self::resume) is fast.
    ///
    /// # Errors
    /// Returns an error if the object has no program of this name.
    pub(crate) fn pause(&mut self, name: &str) -> Result<(), WatchError> {
        let Some(link) = self.links.remove(name) else {
            return Ok(());
        };
        let stopped = program(&mut self.programs, name)?.detach(link);
        stopped.map_err(|error| WatchError::refused(&error))
    }

    /// Attaches a loaded program unless it is already attached.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the program.
    pub(crate) fn resume(&mut self, name: &str) -> Result<(), WatchError> {
        if self.links.contains_key(name) {
            return Ok(());
        }
        let link = program(&mut self.programs, name)?
            .attach()
            .map_err(|error| WatchError::refused(&error))?;
        self.links.insert(name.to_owned(), link);
        Ok(())
    }

    /// Runs a program at each occurrence of software events, on all CPUs. Does nothing if the
    /// program is already running.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the program or does not have the events.
    pub(crate) fn run_at(
        &mut self,
        name: &'static str,
        events: &[SoftwareEvent],
    ) -> Result<(), WatchError> {
        if self.software.contains_key(name) {
            return Ok(());
        }
        let refused = |error: ProgramError| WatchError::refused(&error);
        let cpus = aya::util::online_cpus()
            .map_err(|(_, error)| WatchError::Refused(format!("the online CPUs: {error}")))?;
        let program = perf_program(&mut self.programs, name)?;
        let mut links = Vec::new();
        let places = cpus
            .iter()
            .flat_map(|cpu| events.iter().map(move |event| (*cpu, *event)));
        for (cpu, event) in places {
            let link = program.attach(
                PerfEventConfig::Software(event),
                PerfEventScope::AllProcessesOneCpu { cpu },
                SamplePolicy::Period(1),
                false,
            );
            match link {
                Ok(link) => links.push(link),
                Err(error) => {
                    // On CPUs without these events, page faults would seem to have no end.
                    for link in links {
                        let _ = program.detach(link);
                    }
                    return Err(refused(error));
                }
            }
        }
        self.software.insert(name, links);
        Ok(())
    }

    /// Stops a program that runs at software events.
    ///
    /// # Errors
    /// Returns an error if the object has no program of this name.
    pub(crate) fn stop_at(&mut self, name: &'static str) -> Result<(), WatchError> {
        let refused = |error: ProgramError| WatchError::refused(&error);
        let Some(links) = self.software.remove(name) else {
            return Ok(());
        };
        let program = perf_program(&mut self.programs, name)?;
        for link in links {
            program.detach(link).map_err(refused)?;
        }
        Ok(())
    }

    /// Runs a program at equal intervals of the CPU time of a thread, until
    /// [`stop_sampling`](Self::stop_sampling).
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the program, or if the thread has ended.
    pub(crate) fn sample(
        &mut self,
        name: &str,
        tid: u32,
        interval: Nanos,
    ) -> Result<PerfEventLinkId, WatchError> {
        let program = perf_program(&mut self.programs, name)?;
        let link = program.attach(
            PerfEventConfig::Software(SoftwareEvent::CpuClock),
            PerfEventScope::OneProcess {
                pid: tid,
                cpu: None,
            },
            SamplePolicy::Period(interval.0),
            false,
        );
        link.map_err(|error| WatchError::refused(&error))
    }

    /// Stops sampling a thread, which may have ended.
    pub(crate) fn stop_sampling(&mut self, name: &str, link: PerfEventLinkId) {
        if let Ok(program) = perf_program(&mut self.programs, name) {
            let _ = program.detach(link);
        }
    }

    /// Runs a program whenever a process enters a function, which begins at an offset in the file.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the program, or has no uprobes.
    pub(crate) fn attach_to_function(
        &mut self,
        name: &str,
        process: NonZeroU32,
        file: &Path,
        offset: u64,
    ) -> Result<(), WatchError> {
        let refused = |error: ProgramError| WatchError::refused(&error);
        let program = self.programs.program_mut(name);
        let program: &mut UProbe = program
            .ok_or_else(|| missing("program", name))?
            .try_into()
            .map_err(refused)?;
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => {}
            Err(error) => return Err(refused(error)),
        }
        // The attachment ends with the program.
        let link = program.attach(offset, file, UProbeScope::OneProcess(process));
        link.map(drop).map_err(refused)
    }

    /// Frees the memory of the types, because no further program will be attached for some time.
    pub(crate) fn forget_types(&mut self) {
        self.types = None;
        // The freed blocks are small and lie below blocks that stay allocated, so the allocator
        // would not return their memory by itself. No measurement is running yet.
        punctual_rt::release_heap();
    }

    /// Detaches a program, which can be attached again later.
    pub(crate) fn detach(&mut self, name: &str) {
        self.links.remove(name);
        // The kernel detaches the program when its last descriptor is closed.
        if let Ok(program) = program(&mut self.programs, name) {
            let _ = program.unload();
        }
    }

    /// Returns a map for reading.
    ///
    /// # Errors
    /// Returns an error if the object has no map of this name.
    pub(crate) fn map(&self, name: &str) -> Result<&Map, WatchError> {
        let map = self.programs.map(name);
        map.ok_or_else(|| missing("map", name))
    }

    /// Returns a map, which then belongs to the caller.
    ///
    /// # Errors
    /// Returns an error if the object has no map of this name.
    pub(crate) fn take_map(&mut self, name: &str) -> Result<Map, WatchError> {
        let map = self.programs.take_map(name);
        map.ok_or_else(|| missing("map", name))
    }

    /// Returns a map for writing.
    ///
    /// # Errors
    /// Returns an error if the object has no map of this name.
    pub(crate) fn map_mut(&mut self, name: &str) -> Result<&mut Map, WatchError> {
        let map = self.programs.map_mut(name);
        map.ok_or_else(|| missing("map", name))
    }

    /// Returns an array whose memory can be mapped.
    ///
    /// # Errors
    /// Returns an error if the object has no map of this name.
    pub(crate) fn array(&self, name: &str) -> Result<&MapData, WatchError> {
        match self.map(name)? {
            Map::Array(data) => Ok(data),
            _ => Err(missing("array", name)),
        }
    }

    /// Replaces the threads in a set, which is an array of words with one bit per thread ID.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses to change the map.
    pub(crate) fn replace_threads(
        &mut self,
        set: &str,
        before: &BTreeSet<u32>,
        now: &BTreeSet<u32>,
    ) -> Result<(), WatchError> {
        let mut words: BTreeMap<u32, u64> = before.iter().map(|tid| (tid / 64, 0)).collect();
        for tid in now {
            *words.entry(tid / 64).or_default() |= 1 << (tid % 64);
        }
        let mut map: Array<&mut MapData, u64> = self.map_mut(set)?.try_into()?;
        for (place, bits) in words {
            if place < map.len() {
                map.set(place, bits, 0)?;
            }
        }
        Ok(())
    }
}

fn program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut BtfTracePoint, WatchError> {
    let program = programs.program_mut(name);
    let program = program.ok_or_else(|| missing("program", name))?;
    program
        .try_into()
        .map_err(|error: ProgramError| WatchError::refused(&error))
}

/// Returns a program for events of perf, loaded.
fn perf_program<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut PerfEvent, WatchError> {
    let refused = |error: ProgramError| WatchError::refused(&error);
    let program = programs.program_mut(name);
    let program: &mut PerfEvent = program
        .ok_or_else(|| missing("program", name))?
        .try_into()
        .map_err(refused)?;
    match program.load() {
        Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(program),
        Err(error) => Err(refused(error)),
    }
}

fn missing(what: &str, name: &str) -> WatchError {
    WatchError::Refused(format!("the {what} {name} is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_other_processors_are_not_guessed() {
        for (processor, known) in [("x86_64", true), ("aarch64", true), ("riscv64", false)] {
            assert_eq!(
                Reads::Registers.is_known_on(processor),
                known,
                "{processor}"
            );
        }
        assert!(Reads::Types.is_known_on("riscv64"));
        assert!(
            WatchError::Processor("arm")
                .to_string()
                .ends_with("this processor is arm")
        );
    }

    /// The loader ignores a constant that an object does not have, so another name would turn the
    /// barriers off without an error.
    #[test]
    fn objects_with_barriers_have_the_constant_that_turns_them_on() {
        for object in [
            crate::jobs::OBJECT,
            crate::late::OBJECT,
            crate::steal::OBJECT,
            crate::stops::OBJECT,
        ] {
            let name = b"\0reorders\0";
            assert!(object.windows(name.len()).any(|part| part == name));
        }
    }
}
