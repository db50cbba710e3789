//! Resources of the machine, other than CPUs, that a probe uses. They are created on demand, and
//! undone at the end of the phase.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::sync::Arc;

use punctual_host::Host;
use punctual_probes::{HardwareTracer, Iterations, NoiseTracer, Resources, Settings};

use super::settings::MachineSettings;
use super::tracers::{KernelNoise, KernelTracer};
use crate::Request;

/// Resources that a probe may request, created on demand.
pub(crate) struct Machine<'a> {
    request: &'a Request,
    host: &'a Host,
    settings: OnceCell<Arc<MachineSettings>>,
    tracer: OnceCell<Arc<KernelTracer>>,
    noise: OnceCell<Arc<KernelNoise>>,
}

/// Resources that a probe has requested.
#[derive(Default)]
pub(crate) struct Used {
    pub(crate) settings: Option<Arc<MachineSettings>>,
    tracer: Option<Arc<KernelTracer>>,
    pub(crate) noise: Option<Arc<KernelNoise>>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(request: &'a Request, host: &'a Host) -> Self {
        Self {
            request,
            host,
            settings: OnceCell::new(),
            tracer: OnceCell::new(),
            noise: OnceCell::new(),
        }
    }

    /// Creates the settings with these names.
    fn change(&self, names: &'static [&'static str]) -> Arc<MachineSettings> {
        let journal = self.request.machine.journal.clone();
        Arc::new(MachineSettings::new(self.host.clone(), journal, names))
    }

    /// Returns the resources that the probe requested, and those that the run itself changes.
    pub(crate) fn used(self) -> Used {
        let idle = self
            .request
            .machine
            .deepest_idle_state
            .map(|_| self.change(&[]));
        Used {
            settings: self.settings.into_inner().or(idle),
            tracer: self.tracer.into_inner(),
            noise: self.noise.into_inner(),
        }
    }
}

impl Resources for Machine<'_> {
    fn settings(&self, names: &'static [&'static str]) -> Option<Arc<dyn Settings>> {
        let settings = self.settings.get_or_init(|| self.change(names));
        Some(Arc::clone(settings) as Arc<dyn Settings>)
    }

    fn hardware_tracer(&self) -> Option<Arc<dyn HardwareTracer>> {
        let make = || Arc::new(KernelTracer::new(self.host.clone()));
        Some(Arc::clone(self.tracer.get_or_init(make)) as Arc<dyn HardwareTracer>)
    }

    fn noise_tracer(&self) -> Option<Arc<dyn NoiseTracer>> {
        let above = self.request.explain.as_ref().map(|asked| asked.threshold);
        let trace = &self.request.kernel_trace;
        let make = || Arc::new(KernelNoise::new(self.host.clone(), above, trace.clone()));
        Some(Arc::clone(self.noise.get_or_init(make)) as Arc<dyn NoiseTracer>)
    }

    fn partner(&self) -> Option<&[OsString]> {
        self.request.partner.as_deref()
    }

    fn iterations(&self) -> Iterations {
        Iterations::clone(&self.request.iterations)
    }
}

impl Used {
    /// Stops the tracers and restores the settings.
    pub(crate) fn undo(&self, warnings: &mut Vec<String>) {
        if let Some(settings) = &self.settings {
            warnings.extend(settings.revert());
        }
        if let Some(tracer) = &self.tracer {
            warnings.extend(tracer.stop().err().map(|error| error.to_string()));
        }
        if let Some(noise) = &self.noise {
            warnings.extend(noise.stop().err().map(|error| error.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::Arguments;

    #[test]
    fn only_what_was_asked_for_is_used() {
        let probe = punctual_probes::probe("timer").unwrap();
        let mut request = Request::new(probe, Arguments::default(), Vec::new());
        let host = Host::live();
        let used = Machine::new(&request, &host).used();
        assert!(used.settings.is_none() && used.tracer.is_none() && used.noise.is_none());
        let machine = Machine::new(&request, &host);
        assert!(machine.partner().is_none());
        let tracer = machine.noise_tracer().unwrap();
        let used = machine.used();
        assert!(used.settings.is_none() && used.tracer.is_none());
        // The probe uses the same tracer that is stopped at the end.
        assert_eq!(Arc::strong_count(&tracer), 2);
        drop(used);
        assert_eq!(Arc::strong_count(&tracer), 1);
        // The run itself can change settings even if the probe changes none.
        request.machine.deepest_idle_state = Some(0);
        assert!(Machine::new(&request, &host).used().settings.is_some());
    }
}
