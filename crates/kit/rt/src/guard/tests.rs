use super::*;
use crate::{Clock, Error, LockedBuffer, MappingRequest};

/// Runs in a separate thread, because a guard belongs to its thread.
fn in_a_thread<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = punctual_testing::thread_of_test().spawn_scoped(scope, test);
        thread.unwrap().join().unwrap()
    })
}

#[test]
fn region_system_calls_are_counted_and_made() {
    in_a_thread(|| {
        let mut guard = match SystemCallGuard::new() {
            Ok(guard) => guard,
            Err(error @ Error::NotSupported { .. }) => {
                punctual_testing::skip!(Kernel, "{error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        // Nothing is counted outside a region, and clock reads inside a region are not counted
        // either.
        let pid = std::process::id();
        let times = guard.region(|| [Clock::Monotonic.now(), Clock::Monotonic.now()]);
        assert!(times[0] <= times[1]);
        assert_eq!(guard.violations(), Violations::default());
        let seen = guard.region(|| (std::process::id(), std::process::id()));
        // The calls were made, with the kernel's results.
        assert_eq!(seen, (pid, pid));
        let violations = guard.violations();
        assert_eq!((violations.count, violations.cut_short), (2, 0));
        let first = violations.kept().next().unwrap();
        assert_eq!(first.number, libc::SYS_getpid as u64);
        assert_ne!(first.address, 0);
        // A call that fails returns the same error as outside a region.
        let missing = guard.region(|| std::fs::metadata("/no/such/file"));
        assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
        let before = guard.violations().count;
        assert!(before > 2);
        // Nothing is counted after the region. If the region makes a call that the handler cannot
        // make on its behalf, the rest of the region is not watched.
        assert_eq!(std::process::id(), pid);
        assert_eq!(guard.violations().count, before);
        guard.region(|| {
            let _ = crate::interrupt::install_interrupt_handler();
            std::thread::spawn(|| {}).join().unwrap();
        });
        assert_eq!(guard.violations().cut_short, 1);
        assert!(SystemCallGuard::new().is_err(), "one at a time");
        drop(guard);
        assert_eq!(std::process::id(), pid);
        drop(SystemCallGuard::new().unwrap());
    });
}

#[test]
fn a_panic_leaves_the_region() {
    in_a_thread(|| {
        let mut guard = match SystemCallGuard::new() {
            Ok(guard) => guard,
            Err(error) => return punctual_testing::skip_refused("system calls", &error),
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            guard.region(|| std::panic::resume_unwind(Box::new(())))
        }));
        assert!(caught.is_err());
        let before = guard.violations().count;
        let _ = std::process::id();
        assert_eq!(guard.violations().count, before);
    });
}

#[test]
fn region_page_faults_count_with_address() {
    in_a_thread(|| {
        let mut guard = match PageFaultGuard::new() {
            Ok(guard) => guard,
            Err(error @ Error::NotSupported { .. }) => {
                punctual_testing::skip!(Kernel, "{error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let mut locked = LockedBuffer::new(64 << 10).ok();
        let mut mapping = crate::Mapping::new(&MappingRequest::untouched(64 << 10)).unwrap();
        let start = mapping.start().as_ptr() as u64;
        let page = rustix::param::page_size() as u64;
        let seen = |guard: &PageFaultGuard, address: u64| {
            let of = |violation: Violation| violation.address / page == address / page;
            guard.violations().kept().any(of)
        };
        // The code of the program may also fault on its first run.
        guard.region(|| mapping.touch_with(3, 1));
        assert!(seen(&guard, start + 3 * page), "{}", guard.violations());
        // A fault outside a region is not counted.
        mapping.touch_with(5, 1);
        assert!(!seen(&guard, start + 5 * page));
        // Locked memory does not fault.
        if let Some(locked) = &mut locked {
            let before = guard.violations().count;
            guard.region(|| locked.fill(1));
            guard.region(|| locked.fill(2));
            let first = locked.as_ptr() as u64;
            assert!(!seen(&guard, first), "{}", guard.violations());
            assert!(guard.violations().count <= before + 2);
        }
    });
}

#[test]
fn non_counting_allocator_is_reported() {
    // The tests of this crate use no counting allocator; `tests/hot_path.rs` does.
    let refused = AllocationGuard::new();
    assert!(matches!(refused, Err(Error::NotSupported { .. })));
}
