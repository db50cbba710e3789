//! The kernel's tracers timerlat and osnoise, lent to a probe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_host::Host;
use punctual_model::{CpuSet, NoiseReports};
use punctual_probes::{NoisePlan, NoiseTracer, UserTimer};
use punctual_trace::{Files, NoiseAsk, Osnoise, Owner, RealFiles, TraceError, Tracefs, UserWait};

/// These tracers of this machine. Stopped or dropped, their settings are as
/// they were.
#[derive(Debug)]
pub(crate) struct KernelNoise {
    host: Host,
    files: Arc<dyn Files>,
    running: Mutex<Option<Osnoise>>,
}

impl KernelNoise {
    pub(crate) fn new(host: Host) -> Self {
        Self::with(host, Arc::new(RealFiles))
    }

    fn with(host: Host, files: Arc<dyn Files>) -> Self {
        Self {
            host,
            files,
            running: Mutex::new(None),
        }
    }

    /// Ends it, if it runs.
    ///
    /// # Errors
    /// What could not be put back, for the reader of the recording.
    pub(crate) fn stop(&self) -> Result<(), String> {
        let Some(mut running) = self.lock().take() else {
            return Ok(());
        };
        running
            .stop()
            .map_err(|error| format!("{error}; the next command of punctual tries again"))
    }

    fn tracefs(&self) -> Result<Tracefs, String> {
        Tracefs::find_with(self.host.root(), Arc::clone(&self.files)).map_err(text)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Osnoise>> {
        // What stands in tracefs is the truth, also after a panic.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NoiseTracer for KernelNoise {
    fn may_start(&self, plan: &NoisePlan) -> Result<(), String> {
        let tracefs = self.tracefs()?;
        tracefs.may_start_osnoise(&ask(plan)).map_err(text)
    }

    fn has_user_threads(&self, cpus: &CpuSet) -> Result<bool, String> {
        Ok(self.tracefs()?.has_user_timerlat(cpus))
    }

    fn start(&self, plan: &NoisePlan) -> Result<(), String> {
        let tracefs = self.tracefs()?;
        let mut running = self.lock();
        if running.is_some() {
            return Err("it was started already: a defect of ours".to_owned());
        }
        let pid = std::process::id();
        let owner = Owner {
            pid,
            start: self.host.process_start(pid).unwrap_or_default(),
        };
        let started = tracefs.start_osnoise(&ask(plan), owner);
        *running = Some(started.map_err(text)?);
        Ok(())
    }

    fn take(&self) -> Result<NoiseReports, String> {
        let mut running = self.lock();
        let running = running.as_mut().ok_or("it was not started")?;
        running.take().map_err(text)
    }

    fn user_wait(&self, cpu: u32) -> Result<Box<dyn UserTimer>, String> {
        let running = self.lock();
        let running = running.as_ref().ok_or("it was not started")?;
        let wait = running.user_wait(cpu).map_err(text)?;
        Ok(Box::new(Wait(wait)))
    }
}

struct Wait(UserWait);

impl UserTimer for Wait {
    fn wait(&mut self) -> Result<(), String> {
        self.0.wait().map_err(text)
    }
}

fn ask(plan: &NoisePlan) -> NoiseAsk {
    match plan.clone() {
        NoisePlan::Timerlat { cpus, period, user } => NoiseAsk::Timerlat { cpus, period, user },
        NoisePlan::Osnoise {
            cpus,
            period,
            runtime,
            threshold,
        } => NoiseAsk::Osnoise {
            cpus,
            period,
            runtime,
            threshold,
        },
    }
}

fn text(error: TraceError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::{Nanos, TimerlatContext};
    use punctual_trace::testing::{FakeTracefs, Paper, Piece, layout, timerlat_record};

    fn machine(tracers: &str) -> (tempfile::TempDir, Arc<FakeTracefs>, KernelNoise) {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(FakeTracefs::new(folder.path(), tracers).unwrap());
        fake.with_events(&[]).unwrap();
        let host = Host::new(folder.path());
        let noise = KernelNoise::with(host, Arc::clone(&fake) as Arc<dyn Files>);
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
        assert_eq!(noise.may_start(&plan(true)), Ok(()));
        assert_eq!(noise.has_user_threads(&"0".parse().unwrap()), Ok(true));
        assert_eq!(noise.has_user_threads(&"0-1".parse().unwrap()), Ok(false));
        assert!(noise.take().unwrap_err().contains("not started"));
        assert!(noise.user_wait(0).is_err());
        noise.start(&plan(true)).unwrap();
        assert!(noise.start(&plan(true)).unwrap_err().contains("already"));
        noise.user_wait(0).unwrap().wait().unwrap();
        let mut paper = Paper::new(layout(cfg!(target_endian = "big")));
        paper.write(&Piece::Event(0, timerlat_record(9, 4, 1, 700)));
        fake.put_page(&paper.page(77, None)).unwrap();
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
    fn what_a_killed_run_left_is_undone() {
        let (folder, fake, noise) = machine("timerlat osnoise nop");
        let before = fake.in_force().unwrap();
        noise.start(&plan(false)).unwrap();
        std::mem::forget(noise);
        assert_ne!(fake.in_force().unwrap(), before);
        let host = Host::new(folder.path());
        let files = Arc::clone(&fake) as Arc<dyn Files>;
        let removed = crate::tracer::recover(&host, files).unwrap();
        assert_eq!(removed.len(), 1);
        assert_eq!(fake.in_force().unwrap(), before);
    }

    #[test]
    fn a_kernel_without_them_says_so() {
        let (_folder, _fake, noise) = machine("hwlat nop");
        let error = noise.may_start(&plan(false)).unwrap_err();
        assert!(error.contains("no tracer 'timerlat'"), "{error}");
        let empty = tempfile::tempdir().unwrap();
        let noise = KernelNoise::new(Host::new(empty.path()));
        let error = noise.may_start(&plan(false)).unwrap_err();
        assert!(error.contains("not mounted"), "{error}");
    }
}
