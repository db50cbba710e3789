//! Resource usage of a thread or the process.
#![allow(unsafe_code)]

use std::fs;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::clock;

/// Counts since a thread began (`getrusage(2)`, RUSAGE_THREAD).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// Page faults served without reading from disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Context switches because the thread blocked.
    pub voluntary_switches: u64,
    /// Context switches because the thread was preempted or its time slice ended.
    pub involuntary_switches: u64,
    /// CPU time, user and system, with nanosecond precision (`CLOCK_THREAD_CPUTIME_ID`; the times
    /// of `getrusage` may be rounded to ticks).
    pub cpu_time: Duration,
}

/// Counts since the process began (`getrusage(2)`, RUSAGE_SELF).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Page faults served without reading from disk.
    pub minor_faults: u64,
    /// Page faults that read from disk.
    pub major_faults: u64,
    /// Context switches because a thread blocked.
    pub voluntary_switches: u64,
    /// Context switches because a thread was preempted or its time slice ended.
    pub involuntary_switches: u64,
    /// CPU time of all threads, user and system, with nanosecond precision
    /// (`CLOCK_PROCESS_CPUTIME_ID`).
    pub cpu_time: Duration,
    /// Peak resident memory in bytes: `VmHWM` of `/proc/self/status`, or `ru_maxrss` if that is not
    /// readable. The latter includes the process that called `exec`, if it was larger.
    pub peak_memory_bytes: u64,
}

/// Returns the usage of the calling thread so far. Makes two system calls.
pub fn thread_usage() -> ThreadUsage {
    let usage = usage_of(libc::RUSAGE_THREAD);
    ThreadUsage {
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        cpu_time: Duration::from_nanos(clock::read(libc::CLOCK_THREAD_CPUTIME_ID)),
    }
}

/// Returns the usage of this process so far. Reads a file, so do not call it in a real-time loop.
#[expect(clippy::disallowed_methods, reason = "the kernel limits this file")]
pub fn process_usage() -> ProcessUsage {
    let usage = usage_of(libc::RUSAGE_SELF);
    let peak_of_status = fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| peak_kib(&status));
    let peak_kib = peak_of_status.unwrap_or_else(|| count(usage.ru_maxrss));
    ProcessUsage {
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
        cpu_time: Duration::from_nanos(clock::read(libc::CLOCK_PROCESS_CPUTIME_ID)),
        peak_memory_bytes: peak_kib.saturating_mul(1024),
    }
}

/// `VmHWM:     1234 kB` (`proc_pid_status(5)`; its kB are KiB).
fn peak_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn usage_of(who: libc::c_int) -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes to `usage`; all zero bytes are a valid rusage if the call fails (it
    // does not for these two).
    unsafe {
        libc::getrusage(who as _, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn count(value: libc::c_long) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_cpu_time_sleep_costs_switch() {
        std::thread::spawn(|| {
            let before = thread_usage();
            let mut sum = 0_u64;
            while thread_usage().cpu_time < before.cpu_time + Duration::from_millis(5) {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
            std::thread::sleep(Duration::from_millis(2));
            let after = thread_usage();
            assert!(after.cpu_time >= before.cpu_time + Duration::from_millis(5));
            assert!(after.voluntary_switches > before.voluntary_switches);
            assert!(process_usage().cpu_time >= after.cpu_time);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn touching_memory_faults_and_raises_the_peak() {
        std::thread::spawn(|| {
            let (thread, process) = (thread_usage(), process_usage());
            let bytes = 32 << 20;
            let block = std::hint::black_box(vec![1_u8; bytes]);
            assert!(thread_usage().minor_faults > thread.minor_faults);
            let after = process_usage();
            assert!(after.minor_faults > process.minor_faults);
            assert!(after.peak_memory_bytes >= bytes as u64);
            drop(block);
            assert!(process_usage().peak_memory_bytes >= bytes as u64);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_peak_is_read_from_status() {
        assert_eq!(
            peak_kib("VmPeak:\t 9 kB\nVmHWM:\t    1234 kB\n"),
            Some(1234)
        );
        assert_eq!(peak_kib("Name:\tkthread\n"), None);
        assert_eq!(peak_kib("VmHWM:\tmany kB\n"), None);
    }
}
