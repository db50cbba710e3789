//! The kernel's detector of hardware latency, lent to a probe.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_host::Host;
use punctual_probes::{HardwareTracer, KernelGap, TracerPlan};
use punctual_trace::{Ask, Files, Gap, Hwlat, RealFiles, TraceError, Tracefs};

/// The detector of this machine. Stopped or dropped, its settings are as they
/// were.
#[derive(Debug)]
pub(crate) struct KernelTracer {
    host: Host,
    files: Arc<dyn Files>,
    running: Mutex<Option<Hwlat>>,
}

impl KernelTracer {
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
        let Some(mut hwlat) = self.lock().take() else {
            return Ok(());
        };
        hwlat
            .stop()
            .map_err(|error| format!("{error}; the next command of punctual tries again"))
    }

    fn tracefs(&self) -> Result<Tracefs, String> {
        Tracefs::find_with(self.host.root(), Arc::clone(&self.files)).map_err(text)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Hwlat>> {
        // What stands in tracefs is the truth, also after a panic.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HardwareTracer for KernelTracer {
    fn may_start(&self) -> Result<(), String> {
        self.tracefs()?.may_start_hwlat().map_err(text)
    }

    fn start(&self, plan: &TracerPlan) -> Result<(), String> {
        let tracefs = self.tracefs()?;
        let mut running = self.lock();
        if running.is_some() {
            return Err("it was started already: a defect of ours".to_owned());
        }
        let ask = Ask {
            window: plan.window,
            width: plan.width,
            threshold: plan.threshold,
            cpus: plan.cpus.clone(),
        };
        let hwlat = tracefs.start_hwlat(&ask, std::process::id());
        *running = Some(hwlat.map_err(text)?);
        Ok(())
    }

    fn take(&self) -> Result<Vec<KernelGap>, String> {
        let mut running = self.lock();
        let hwlat = running.as_mut().ok_or("it was not started")?;
        let gaps = hwlat.take().map_err(text)?;
        Ok(gaps.into_iter().map(told).collect())
    }
}

fn told(gap: Gap) -> KernelGap {
    KernelGap {
        sequence: gap.sequence,
        cpu: gap.cpu,
        at: gap.at,
        inner: gap.inner,
        outer: gap.outer,
        count: gap.count,
        nmi_total: gap.nmi_total,
        nmi_count: gap.nmi_count,
    }
}

fn text(error: TraceError) -> String {
    error.to_string()
}

/// Ends the detector where a killed program left it spinning, and puts its
/// settings back. Returns the trace instances that were removed. Where there is
/// no tracefs, or it may not be looked at, there is nothing that this program
/// could have left or could undo.
///
/// # Errors
/// What could not be put back.
pub fn recover_tracer(host: &Host) -> Result<Vec<PathBuf>, String> {
    recover(host, Arc::new(RealFiles))
}

pub(crate) fn recover(host: &Host, files: Arc<dyn Files>) -> Result<Vec<PathBuf>, String> {
    let Ok(tracefs) = Tracefs::find_with(host.root(), files) else {
        return Ok(Vec::new());
    };
    // Called before anything is started: what bears our number was another's.
    let alive = |pid, start: Option<u64>| {
        let now = host.process_start(pid);
        let same = start.is_none() || start == now;
        pid != std::process::id() && now.is_some() && same
    };
    let removed = tracefs.clear_left_behind(alive).map_err(text)?;
    let instances = tracefs.path().join("instances");
    Ok(removed.iter().map(|name| instances.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::Nanos;
    use punctual_trace::testing::FakeTracefs;

    fn machine() -> (tempfile::TempDir, Arc<FakeTracefs>, KernelTracer) {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(FakeTracefs::new(folder.path(), "hwlat nop").unwrap());
        let host = Host::new(folder.path());
        let tracer = KernelTracer::with(host, Arc::clone(&fake) as Arc<dyn Files>);
        (folder, fake, tracer)
    }

    fn plan() -> TracerPlan {
        TracerPlan {
            window: Nanos::from_millis(10),
            width: Nanos::from_millis(5),
            threshold: Nanos::from_micros(20),
            cpus: "0".parse().unwrap(),
        }
    }

    #[test]
    fn what_the_kernel_prints_reaches_the_probe() {
        let (_folder, fake, tracer) = machine();
        let before = fake.in_force().unwrap();
        assert_eq!(tracer.may_start(), Ok(()));
        assert!(tracer.take().unwrap_err().contains("not started"));
        tracer.start(&plan()).unwrap();
        assert!(tracer.start(&plan()).unwrap_err().contains("already"));
        let line = "hwlatd-9 [003] d..1. 5.000001: #1 inner/outer(us): 30/24 ts:7.5 count:2 \
                    nmi-total:4 nmi-count:1\n";
        assert_eq!(fake.print(line).unwrap(), 1);
        let us = Nanos::from_micros;
        assert_eq!(
            tracer.take().unwrap(),
            [KernelGap {
                sequence: 1,
                cpu: Some(3),
                at: Some(us(5_000_001)),
                inner: us(30),
                outer: us(24),
                count: Some(2),
                nmi_total: Some(us(4)),
                nmi_count: 1,
            }]
        );
        tracer.stop().unwrap();
        tracer.stop().unwrap();
        assert_eq!(fake.in_force().unwrap(), before);
    }

    #[test]
    fn what_a_killed_run_left_is_undone() {
        let (folder, fake, tracer) = machine();
        let before = fake.in_force().unwrap();
        tracer.start(&plan()).unwrap();
        std::mem::forget(tracer);
        assert_ne!(fake.in_force().unwrap(), before);
        let host = Host::new(folder.path());
        let files = || Arc::clone(&fake) as Arc<dyn Files>;
        let removed = recover(&host, files()).unwrap();
        assert!(removed[0].starts_with(folder.path()), "{removed:?}");
        assert_eq!(fake.in_force().unwrap(), before);
        assert!(recover(&host, files()).unwrap().is_empty());
    }

    #[test]
    fn where_there_is_no_tracefs_it_says_so_and_nothing_is_recovered() {
        let empty = tempfile::tempdir().unwrap();
        let host = Host::new(empty.path());
        let error = KernelTracer::new(host.clone()).may_start().unwrap_err();
        assert!(error.contains("not mounted"), "{error}");
        assert!(recover_tracer(&host).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_put_back_is_told() {
        let (_folder, fake, tracer) = machine();
        tracer.start(&plan()).unwrap();
        fake.refuse(1, usize::MAX / 2);
        let error = tracer.stop().unwrap_err();
        assert!(error.contains("tries again"), "{error}");
        assert!(error.contains("hwlat_detector"), "{error}");
    }
}
