//! The kernel's tracers timerlat and osnoise, as used by a probe.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_host::Host;
use punctual_model::{CpuSet, EventKind, Nanos, NoiseReports, TimerlatStack, TraceEvent};
use punctual_probes::{NoisePlan, NoiseTracer, TracerError, UserTimer};
use punctual_trace::{Files, NoiseAsk, NoiseStop, Osnoise, RealFiles, TraceError, UserWait};

use super::{Running, StopError, TracerHandle};
use crate::kernel_trace::KernelTrace;

/// Maximum number of stacks kept for outliers that have not been explained yet. This is more than
/// the number of outliers that one poll explains.
const STACKS: usize = 512;

/// The tracers of this machine.
pub(crate) struct KernelNoise {
    // This field is dropped first, because the trace must end before the tracer.
    trace: Option<RunningTrace>,
    tracer: TracerHandle<Osnoise>,
    /// Timerlat records a stack if its thread is later than this.
    stacks_above: Option<Nanos>,
    stacks: Arc<TimerlatStacks>,
}

/// Ends the trace when dropped, no matter how the run ended.
struct RunningTrace(Arc<KernelTrace>);

impl Drop for RunningTrace {
    fn drop(&mut self) {
        // `KernelNoise::stop` returns the result.
        let _ = self.0.end();
    }
}

impl KernelNoise {
    /// `stacks_above`: outliers above this are explained.
    pub(crate) fn new(
        host: Host,
        stacks_above: Option<Nanos>,
        trace: Option<Arc<KernelTrace>>,
    ) -> Self {
        Self::with_files(host, Arc::new(RealFiles), stacks_above, trace)
    }

    fn with_files(
        host: Host,
        files: Arc<dyn Files>,
        stacks_above: Option<Nanos>,
        trace: Option<Arc<KernelTrace>>,
    ) -> Self {
        Self {
            trace: trace.map(RunningTrace),
            tracer: TracerHandle::with_files(host, files),
            stacks_above,
            stacks: Arc::default(),
        }
    }

    /// Stops the tracer if it runs.
    ///
    /// # Errors
    /// Returns an error, for the reader of the recording, if settings could not be restored.
    pub(crate) fn stop(&self) -> Result<(), StopError> {
        let ended = (self.trace.as_ref()).map_or(Ok(()), |trace| trace.0.end());
        self.tracer.stop()?;
        ended.map_err(StopError)
    }

    fn ask(&self, plan: &NoisePlan) -> NoiseAsk {
        let stop = self.trace.as_ref().map(|trace| trace.0.stop());
        ask(plan, self.stacks_above, stop.unwrap_or_default())
    }

    /// Returns the stacks of timerlat, for the explanation of outliers.
    pub(crate) fn stacks(&self) -> Arc<TimerlatStacks> {
        Arc::clone(&self.stacks)
    }
}

/// Latest stacks of timerlat. The probe's thread reads them from the trace, and another thread uses
/// them to explain outliers.
#[derive(Debug, Default)]
pub(crate) struct TimerlatStacks(Mutex<VecDeque<TimerlatStack>>);

impl TimerlatStacks {
    fn add(&self, new: Vec<TimerlatStack>) {
        let mut stacks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stacks.extend(new);
        let beyond = stacks.len().saturating_sub(STACKS);
        stacks.drain(..beyond);
    }

    /// Returns the stacks as events.
    pub(crate) fn events(&self) -> Vec<TraceEvent> {
        let stacks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let event = |stack: &TimerlatStack| TraceEvent {
            time: stack.time,
            cpu: stack.cpu,
            pid: stack.pid,
            flags: 0,
            preempt_count: 0,
            kind: EventKind::TimerlatStack {
                frames: stack.frames.clone(),
            },
        };
        stacks.iter().map(event).collect()
    }
}

impl Running for Osnoise {
    fn stop(&mut self) -> Result<(), TraceError> {
        Osnoise::stop(self)
    }
}

impl NoiseTracer for KernelNoise {
    fn may_start(&self, plan: &NoisePlan) -> Result<(), TracerError> {
        let tracefs = self.tracer.tracefs()?;
        tracefs
            .may_start_osnoise(&self.ask(plan))
            .map_err(TracerError::refused)
    }

    fn has_user_threads(&self, cpus: &CpuSet) -> Result<bool, TracerError> {
        Ok(self.tracer.tracefs()?.has_user_timerlat(cpus))
    }

    fn start(&self, plan: &NoisePlan) -> Result<(), TracerError> {
        let owner = self.tracer.owner();
        let ask = self.ask(plan);
        self.tracer
            .begin(|tracefs| tracefs.start_osnoise(&ask, owner))?;
        let Some(trace) = &self.trace else {
            return Ok(());
        };
        let switch = self.tracer.ask(|running| Ok(running.switch()))?;
        let tracefs = self.tracer.tracefs()?;
        let own_threads = !matches!(plan, NoisePlan::Timerlat { user: true, .. });
        let machine = (self.tracer.host(), &tracefs);
        trace
            .0
            .start(machine, ask.tracer(), owner, switch, own_threads)
            .map_err(TracerError::refused)
    }

    fn take(&self) -> Result<NoiseReports, TracerError> {
        let mut reports = self.tracer.ask(Osnoise::take)?;
        self.stacks.add(std::mem::take(&mut reports.stacks));
        Ok(reports)
    }

    fn user_wait(&self, cpu: u32) -> Result<Box<dyn UserTimer>, TracerError> {
        let wait = self.tracer.ask(|running| running.user_wait(cpu))?;
        Ok(Box::new(Wait(wait)))
    }
}

struct Wait(UserWait);

impl UserTimer for Wait {
    fn wait(&mut self) -> Result<(), TracerError> {
        self.0.wait().map_err(TracerError::refused)
    }
}

fn ask(plan: &NoisePlan, stacks_above: Option<Nanos>, stop: NoiseStop) -> NoiseAsk {
    match plan.clone() {
        NoisePlan::Timerlat { cpus, period, user } => NoiseAsk::Timerlat {
            cpus,
            period,
            user,
            // The kernel prints no stacks for user-space threads.
            stacks_above: stacks_above.filter(|_| !user),
        },
        NoisePlan::Osnoise {
            cpus,
            period,
            runtime,
            threshold,
            report_above,
            interrupts,
        } => NoiseAsk::Osnoise {
            cpus,
            period,
            runtime,
            threshold,
            told_above: report_above,
            interrupts,
            stop,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use punctual_model::TimerlatContext;
    use punctual_trace::testing::{
        FakeTracefs, PageBuilder, Piece, Value, layout, record, timerlat_record,
    };

    use super::*;

    fn machine(tracers: &str) -> (tempfile::TempDir, Arc<FakeTracefs>, KernelNoise) {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(FakeTracefs::new(folder.path(), tracers).unwrap());
        fake.with_events(&[]).unwrap();
        let host = Host::new(folder.path());
        let noise = KernelNoise::with_files(
            host,
            Arc::clone(&fake) as Arc<dyn Files>,
            Some(Nanos::from_micros(50)),
            None,
        );
        (folder, fake, noise)
    }

    fn plan(user: bool) -> NoisePlan {
        NoisePlan::Timerlat {
            cpus: "0".parse().unwrap(),
            period: Nanos::from_millis(1),
            user,
        }
    }

    #[test]
    fn what_the_kernel_records_reaches_the_probe() {
        let (_folder, fake, noise) = machine("timerlat osnoise nop");
        let before = fake.in_force().unwrap();
        noise.may_start(&plan(true)).unwrap();
        assert!(noise.has_user_threads(&"0".parse().unwrap()).unwrap());
        assert!(!noise.has_user_threads(&"0-1".parse().unwrap()).unwrap());
        assert!(matches!(noise.take(), Err(TracerError::NotStarted)));
        assert!(matches!(noise.user_wait(0), Err(TracerError::NotStarted)));
        noise.start(&plan(true)).unwrap();
        let again = noise.start(&plan(true));
        assert!(matches!(again, Err(TracerError::AlreadyStarted)));
        noise.user_wait(0).unwrap().wait().unwrap();
        let mut page = PageBuilder::new(layout(cfg!(target_endian = "big")));
        page.write(&Piece::Event(0, timerlat_record(9, 4, 1, 700)));
        fake.put_page(&page.page(77, None)).unwrap();
        let told = noise.take().unwrap().timerlat[0];
        assert_eq!(
            (told.time, told.pid, told.context),
            (Nanos(77), 9, TimerlatContext::Thread)
        );
        noise.stop().unwrap();
        noise.stop().unwrap();
        assert_eq!(fake.in_force().unwrap(), before);
    }

    #[test]
    fn stacks_go_to_who_explains() {
        let (_folder, fake, noise) = machine("timerlat osnoise nop");
        noise.start(&plan(false)).unwrap();
        let mut page = PageBuilder::new(layout(cfg!(target_endian = "big")));
        page.write(&Piece::Event(0, timerlat_record(9, 4, 1, 700)));
        let stack = [2, 0x30, 0x20].map(Value::Number);
        let stack = record("ftrace/kernel_stack", 0, 9, &stack);
        page.write(&Piece::Event(5, stack));
        fake.put_page(&page.page(77, None)).unwrap();
        assert_eq!(noise.take().unwrap().stacks, []);
        let stacks = noise.stacks().events();
        assert_eq!(
            (stacks.len(), stacks[0].time, stacks[0].pid),
            (1, Nanos(82), 9)
        );
        assert_eq!(stacks[0].kind.frames(), [0x30, 0x20]);
        noise.stop().unwrap();
    }

    #[test]
    fn what_a_killed_run_left_is_undone() {
        let (folder, fake, noise) = machine("timerlat osnoise nop");
        let before = fake.in_force().unwrap();
        noise.start(&plan(false)).unwrap();
        std::mem::forget(noise);
        assert_ne!(fake.in_force().unwrap(), before);
        let host = Host::new(folder.path());
        let files = Arc::clone(&fake) as Arc<dyn Files>;
        let removed = super::super::recover(&host, files).unwrap();
        assert_eq!(removed.len(), 1);
        assert_eq!(fake.in_force().unwrap(), before);
    }

    #[test]
    fn a_kernel_without_them_says_so() {
        let (_folder, _fake, noise) = machine("hwlat nop");
        let error = noise.may_start(&plan(false)).unwrap_err();
        let typed = error.source().and_then(|error| error.downcast_ref());
        assert!(matches!(typed, Some(TraceError::NoTracer { .. })));
        let error = error.to_string();
        assert!(error.contains("no tracer 'timerlat'"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        let noise = KernelNoise::new(Host::new(empty.path()), None, None);
        let error = noise.may_start(&plan(false)).unwrap_err().to_string();
        assert!(error.contains("not mounted"), "{error}");
    }
}
