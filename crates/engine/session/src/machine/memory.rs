//! Limits the memory of a run: its workers are reduced to fit before any of it is touched.

use punctual_probes::{RecorderSlot, WorkerSpec};

use crate::SessionError;

/// Maximum total size of all rings if there are many fast workers.
const RINGS: u64 = 1 << 30;

/// Memory of a worker in addition to its ring: histograms, its part of the time series, and a thread
/// with its stack.
const BESIDE: u64 = 232 << 10;

/// A ring may shrink to its usual size divided by this number. It then holds the samples of a
/// quarter of a second. It is emptied ten times per second.
const LEAST: u64 = 5;

/// Shortens the rings if there are very many fast workers.
///
/// # Errors
/// [`SessionError::Memory`] if the workers would use more than half of the `available` memory (in
/// bytes; `None` if unknown).
pub(crate) fn fit(
    workers: &mut [&mut WorkerSpec],
    available: Option<u64>,
) -> Result<(), SessionError> {
    let rings = |workers: &[&mut WorkerSpec]| {
        let bytes = workers
            .iter()
            .map(|worker| RecorderSlot::ring_bytes(worker.rate_hz));
        bytes.fold(0, u64::saturating_add)
    };
    let count = workers.len() as u64;
    if rings(workers) > RINGS {
        let rate = RecorderSlot::rate_within(RINGS / count.max(1));
        for worker in workers.iter_mut() {
            worker.rate_hz = worker.rate_hz.min(rate.max(worker.rate_hz / LEAST));
        }
    }
    let needed = rings(workers).saturating_add(count.saturating_mul(BESIDE));
    match available {
        Some(available) if needed > available / 2 => Err(SessionError::Memory {
            threads: count,
            needed_mib: needed >> 20,
            available_mib: available >> 20,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{Policy, Scheduling};

    use super::*;

    const GIB: u64 = 1 << 30;

    fn workers(count: usize, rate_hz: u64) -> Vec<WorkerSpec> {
        let worker = WorkerSpec {
            label: None,
            cpu: Some(0),
            from_cpu: None,
            scheduling: Scheduling {
                policy: Policy::Other,
                priority: 0,
            },
            rate_hz,
        };
        vec![worker; count]
    }

    fn fitted(workers: &mut [WorkerSpec], available: Option<u64>) -> Result<(), SessionError> {
        let mut all: Vec<&mut WorkerSpec> = workers.iter_mut().collect();
        fit(&mut all, available)
    }

    fn bytes(workers: &[WorkerSpec]) -> u64 {
        workers
            .iter()
            .map(|worker| RecorderSlot::ring_bytes(worker.rate_hz))
            .sum()
    }

    #[test]
    fn thousands_of_threads_need_under_6_gib() {
        let mut many = workers(4_096, 50_000);
        assert!(bytes(&many) > 5 * GIB, "{}", bytes(&many));
        fitted(&mut many, Some(24 * GIB)).unwrap();
        assert!(bytes(&many) <= 2 * GIB, "{}", bytes(&many));
        // Each ring still holds the samples of a quarter of a second.
        assert!(many.iter().all(|worker| worker.rate_hz >= 50_000 / 5));
        let error = fitted(&mut workers(4_096, 50_000), Some(3 * GIB)).unwrap_err();
        assert!(error.is_usage());
        let error = error.to_string();
        assert!(error.contains("4096 threads at this rate need"), "{error}");
        assert!(error.contains("half of the 3072 MiB"), "{error}");
        fitted(&mut workers(4_096, 50_000), None).unwrap();
    }

    #[test]
    fn usual_runs_keep_their_rings() {
        for (count, rate) in [(1, 1_000_000), (8, 50_000), (256, 10_000), (0, 0)] {
            let mut usual = workers(count, rate);
            fitted(&mut usual, Some(2 * GIB)).unwrap();
            assert_eq!(usual, workers(count, rate));
        }
    }
}
