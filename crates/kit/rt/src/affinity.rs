//! CPU affinity of a thread (`sched_setaffinity(2)`).
//!
//! Calls the kernel directly with a mask of the required size, because `cpu_set_t` of the C library
//! is limited to 1024 CPUs.
#![allow(unsafe_code)]

use std::fs;
use std::io;

use libc::c_ulong;

use crate::{Error, ThreadRef};

const BITS: usize = c_ulong::BITS as usize;

/// Larger than NR_CPUS of any kernel (at most 8192 on x86-64 so far). If sysfs is not readable,
/// this limit keeps a mistyped number from allocating a huge mask.
const CEILING: u32 = 65_536;

/// Returns the online CPUs that the calling thread may run on, in ascending order.
///
/// # Errors
/// Returns only [`Error::Os`].
pub fn current() -> Result<Vec<u32>, Error> {
    allowed_cpus(ThreadRef::Current)
}

/// Returns the online CPUs that `thread` may run on, in ascending order.
///
/// # Errors
/// Returns [`Error::NoSuchThread`] if the thread has ended.
pub fn allowed_cpus(thread: impl Into<ThreadRef>) -> Result<Vec<u32>, Error> {
    let thread = thread.into();
    // The kernel requires a mask of at least nr_cpu_ids bits. No call returns that number, so grow
    // the mask until the kernel accepts it.
    let mut mask: Vec<c_ulong> = vec![0; 1024 / BITS];
    loop {
        let bytes = size_of_val(mask.as_slice());
        // SAFETY: the kernel writes at most `bytes` bytes, the size of `mask`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_sched_getaffinity as libc::c_long,
                thread.as_raw(),
                bytes,
                mask.as_mut_ptr(),
            )
        };
        if result >= 0 {
            return Ok(from_mask(&mask));
        }
        let source = io::Error::last_os_error();
        match source.raw_os_error() {
            Some(libc::EINVAL) if mask.len() * BITS < CEILING as usize => {
                let double = mask.len() * 2;
                mask.resize(double, 0);
            }
            Some(libc::ESRCH) => return Err(Error::NoSuchThread { thread }),
            _ => return Err(Error::os("sched_getaffinity", thread.to_string(), source)),
        }
    }
}

/// Restricts `thread` to these CPUs, given in any order, and verifies the result. Afterwards the
/// thread may run on either all of them or, if this fails, the same CPUs as before.
///
/// # Errors
/// [`Error::NoCpus`], [`Error::CpuNotThere`], [`Error::CpuOffline`] and [`Error::CpuOutsideCpuset`]
/// name the CPU that was refused; [`Error::AffinityRefused`], [`Error::AffinityOfDeadlineThread`]
/// and [`Error::NoSuchThread`] name the thread.
pub fn set(thread: impl Into<ThreadRef>, cpus: &[u32]) -> Result<(), Error> {
    let thread = thread.into();
    check(cpus)?;
    let before = allowed_cpus(thread)?;
    if let Err(source) = write_mask(thread, &to_mask(cpus)) {
        return Err(match source.raw_os_error() {
            // All of them are online, so the reason is that none of them is in the cpuset.
            Some(libc::EINVAL) => Error::CpuOutsideCpuset {
                cpu: cpus[0],
                thread,
                granted: "none".to_owned(),
            },
            Some(libc::EPERM) => Error::AffinityRefused { thread },
            Some(libc::EBUSY) => Error::AffinityOfDeadlineThread { thread },
            Some(libc::ESRCH) => Error::NoSuchThread { thread },
            _ => Error::os("sched_setaffinity", thread.to_string(), source),
        });
    }
    // The kernel silently drops CPUs outside the cpuset if at least one is inside.
    let granted = allowed_cpus(thread)?;
    let Some(&cpu) = cpus.iter().find(|cpu| !granted.contains(cpu)) else {
        return Ok(());
    };
    write_mask(thread, &to_mask(&before))
        .map_err(|source| Error::os("sched_setaffinity", thread.to_string(), source))?;
    Err(Error::CpuOutsideCpuset {
        cpu,
        thread,
        granted: to_list(&granted),
    })
}

/// Checks that all of these CPUs exist and are online. [`set`] does this itself; a command line can
/// use it to fail early. If sysfs is not readable, only CPU numbers that no kernel supports are
/// refused.
///
/// # Errors
/// Returns [`Error::NoCpus`], [`Error::CpuNotThere`] or [`Error::CpuOffline`].
#[expect(clippy::disallowed_methods, reason = "the kernel limits these files")]
pub fn check(cpus: &[u32]) -> Result<(), Error> {
    if cpus.is_empty() {
        return Err(Error::NoCpus);
    }
    let list = |name: &str| fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).ok();
    check_against(cpus, list("possible").as_deref(), list("online").as_deref())
}

fn check_against(cpus: &[u32], possible: Option<&str>, online: Option<&str>) -> Result<(), Error> {
    for &cpu in cpus {
        match possible {
            Some(possible) if !list_contains(possible, cpu) => {
                return Err(Error::CpuNotThere {
                    cpu,
                    possible: possible.trim().to_owned(),
                });
            }
            None if cpu >= CEILING => {
                return Err(Error::CpuNotThere {
                    cpu,
                    possible: format!("below {CEILING}"),
                });
            }
            _ => {}
        }
        if let Some(online) = online
            && !list_contains(online, cpu)
        {
            return Err(Error::CpuOffline {
                cpu,
                online: online.trim().to_owned(),
            });
        }
    }
    Ok(())
}

/// Returns whether the kernel's list (`0-3,8`) contains `cpu`.
fn list_contains(list: &str, cpu: u32) -> bool {
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&cpu),
            _ => false,
        }
    })
}

/// Formats ascending CPU numbers as a kernel list.
fn to_list(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    parts
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn to_mask(cpus: &[u32]) -> Vec<c_ulong> {
    let highest = cpus.iter().copied().max().unwrap_or(0) as usize;
    let mut mask = vec![0; highest / BITS + 1];
    for &cpu in cpus {
        mask[cpu as usize / BITS] |= 1 << (cpu as usize % BITS);
    }
    mask
}

fn from_mask(mask: &[c_ulong]) -> Vec<u32> {
    (0..mask.len() * BITS)
        .filter(|cpu| mask[cpu / BITS] & (1 << (cpu % BITS)) != 0)
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

fn write_mask(thread: ThreadRef, mask: &[c_ulong]) -> io::Result<()> {
    // SAFETY: the kernel reads at most the given number of bytes, the size of `mask`. Bits beyond
    // that count as zero.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sched_setaffinity as libc::c_long,
            thread.as_raw(),
            size_of_val(mask),
            mask.as_ptr(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_cpu_is_set_and_read_back() {
        // Runs in a separate thread, so that the thread of the test harness is not pinned.
        std::thread::spawn(|| {
            let all = current().unwrap();
            for &cpu in &all {
                set(ThreadRef::Current, &[cpu]).unwrap();
                assert_eq!(current().unwrap(), [cpu]);
            }
            set(ThreadRef::Current, &all).unwrap();
            assert_eq!(current().unwrap(), all);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn absent_cpu_is_named_without_changes() {
        let before = current().unwrap();
        for cpu in [8_000, u32::MAX] {
            let error = set(ThreadRef::Current, &[before[0], cpu]).unwrap_err();
            assert!(
                matches!(error, Error::CpuNotThere { cpu: named, .. } if named == cpu),
                "{error}"
            );
        }
        assert!(matches!(set(ThreadRef::Current, &[]), Err(Error::NoCpus)));
        assert_eq!(current().unwrap(), before);
    }

    #[test]
    fn absent_and_offline_are_told_apart() {
        let check = |cpu| check_against(&[cpu], Some("0-7\n"), Some("0-2,4\n"));
        assert!(check(4).is_ok());
        assert!(matches!(check(3), Err(Error::CpuOffline { cpu: 3, .. })));
        assert!(matches!(check(8), Err(Error::CpuNotThere { cpu: 8, .. })));
        assert!(check_against(&[70_000], None, None).is_err());
        assert!(check_against(&[2_000], None, None).is_ok());
    }

    proptest! {
        #[test]
        fn masks_hold_any_cpus(cpus in proptest::collection::btree_set(0..CEILING, 1..50)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(from_mask(&to_mask(&cpus)), cpus);
        }

        #[test]
        fn lists_contain_what_they_were_made_of(cpus in proptest::collection::btree_set(0..300_u32, 1..50)) {
            let sorted: Vec<u32> = cpus.iter().copied().collect();
            let list = to_list(&sorted);
            for cpu in 0..310 {
                prop_assert_eq!(list_contains(&list, cpu), cpus.contains(&cpu), "{} in {}", cpu, list);
            }
        }
    }
}
