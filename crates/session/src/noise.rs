//! The kernel's tracers timerlat and osnoise, as a probe uses them.

use punctual_model::{CpuSet, NoiseReports};
use punctual_probes::{NoisePlan, NoiseTracer, UserTimer};
use punctual_trace::{NoiseAsk, Osnoise, TraceError, UserWait};

use crate::tracer_handle::{Running, TracerHandle, text};

/// These tracers of this machine.
pub(crate) type KernelNoise = TracerHandle<Osnoise>;

impl Running for Osnoise {
    fn stop(&mut self) -> Result<(), TraceError> {
        Osnoise::stop(self)
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
        let owner = self.owner();
        self.begin(|tracefs| tracefs.start_osnoise(&ask(plan), owner))
    }

    fn take(&self) -> Result<NoiseReports, String> {
        self.ask(Osnoise::take)
    }

    fn user_wait(&self, cpu: u32) -> Result<Box<dyn UserTimer>, String> {
        let wait = self.ask(|running| running.user_wait(cpu))?;
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
            report_above,
        } => NoiseAsk::Osnoise {
            cpus,
            period,
            runtime,
            threshold,
            told_above: report_above,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_host::Host;
    use punctual_model::{Nanos, TimerlatContext};
    use punctual_trace::Files;
    use punctual_trace::testing::{FakeTracefs, PageBuilder, Piece, layout, timerlat_record};

    use super::*;

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
    fn what_a_killed_run_left_is_undone() {
        let (folder, fake, noise) = machine("timerlat osnoise nop");
        let before = fake.in_force().unwrap();
        noise.start(&plan(false)).unwrap();
        std::mem::forget(noise);
        assert_ne!(fake.in_force().unwrap(), before);
        let host = Host::new(folder.path());
        let files = Arc::clone(&fake) as Arc<dyn Files>;
        let removed = crate::tracer_handle::recover(&host, files).unwrap();
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
