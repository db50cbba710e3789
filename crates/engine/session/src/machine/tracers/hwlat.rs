//! The kernel's detector of hardware latency, as used by a probe.

use punctual_probes::{HardwareTracer, KernelGap, TracerError, TracerPlan};
use punctual_trace::{Ask, Gap, Hwlat, TraceError};

use super::{Running, TracerHandle};

/// Detector of this machine.
pub(crate) type KernelTracer = TracerHandle<Hwlat>;

impl Running for Hwlat {
    fn stop(&mut self) -> Result<(), TraceError> {
        Hwlat::stop(self)
    }
}

impl HardwareTracer for KernelTracer {
    fn may_start(&self) -> Result<(), TracerError> {
        self.tracefs()?
            .may_start_hwlat()
            .map_err(TracerError::refused)
    }

    fn start(&self, plan: &TracerPlan) -> Result<(), TracerError> {
        let ask = Ask {
            window: plan.window,
            width: plan.width,
            threshold: plan.threshold,
            cpus: plan.cpus.clone(),
        };
        let owner = self.owner();
        self.begin(|tracefs| tracefs.start_hwlat(&ask, owner))
    }

    fn take(&self) -> Result<Vec<KernelGap>, TracerError> {
        let gaps = self.ask(Hwlat::take)?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_host::Host;
    use punctual_model::Nanos;
    use punctual_trace::Files;
    use punctual_trace::testing::FakeTracefs;

    use super::super::{recover, recover_tracer};
    use super::*;

    fn machine() -> (tempfile::TempDir, Arc<FakeTracefs>, KernelTracer) {
        let folder = tempfile::tempdir().unwrap();
        let fake = Arc::new(FakeTracefs::new(folder.path(), "hwlat nop").unwrap());
        let host = Host::new(folder.path());
        let tracer = KernelTracer::with_files(host, Arc::clone(&fake) as Arc<dyn Files>);
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
        tracer.may_start().unwrap();
        assert!(matches!(tracer.take(), Err(TracerError::NotStarted)));
        tracer.start(&plan()).unwrap();
        let again = tracer.start(&plan());
        assert!(matches!(again, Err(TracerError::AlreadyStarted)));
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
    fn missing_tracefs_is_reported_without_recovery() {
        let empty = tempfile::tempdir().unwrap();
        let host = Host::new(empty.path());
        let error = KernelTracer::new(host.clone()).may_start().unwrap_err();
        let error = error.to_string();
        assert!(error.contains("not mounted"), "{error}");
        assert!(recover_tracer(&host).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_put_back_is_told() {
        let (_folder, fake, tracer) = machine();
        tracer.start(&plan()).unwrap();
        fake.refuse(1, usize::MAX / 2);
        let error = tracer.stop().unwrap_err().to_string();
        assert!(error.contains("tries again"), "{error}");
        assert!(error.contains("hwlat_detector"), "{error}");
    }
}
