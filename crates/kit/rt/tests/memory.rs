//! Checks of locked memory, in a single test, because locking affects the whole process.
#![allow(clippy::unwrap_used)] // also in test helpers

use std::fs;
use std::hint::black_box;

use punctual_rt::{
    Backing, Error, LockMode, LockedBuffer, Mapping, MappingRequest, MemoryFile, NewMappingMode,
    NewMappings, lock_process_memory, thread_usage,
};

/// Returns a line of `/proc/self/status`, in bytes.
fn status_bytes(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// Touches each page, and returns the number of faults.
fn faults_of_touching(bytes: &mut [u8]) -> u64 {
    let before = thread_usage();
    for page in bytes.chunks_mut(512) {
        page[0] = black_box(1);
    }
    let after = thread_usage();
    (after.minor_faults + after.major_faults) - (before.minor_faults + before.major_faults)
}

#[test]
fn locked_memory_stays_and_is_released() {
    buffers_are_zeroed_locked_and_do_not_fault();
    sizes_that_cannot_be_are_refused();
    the_whole_process_is_locked_and_unlocked();
    on_fault_takes_no_more_than_is_touched();
    each_page_faults_once_unless_it_was_made_to_be_there();
    new_mappings_are_treated_as_asked_and_then_as_before();
    huge_pages_are_whole_or_told_apart();
    mappings_that_cannot_be_are_refused();
    the_counts_are_those_of_getrusage_and_proc();
    threads_share_one_heap();
}

/// A separate heap for a thread would be a mapping of 64 MiB.
fn threads_share_one_heap() {
    punctual_rt::share_heap();
    let mapped = || status_bytes("VmSize:");
    let before = mapped();
    let grown = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            black_box(vec![1_u8; 1 << 10]);
            mapped()
        });
        thread.join().unwrap().saturating_sub(before)
    });
    assert!(grown < 32 << 20, "{grown}");
}

fn buffers_are_zeroed_locked_and_do_not_fault() {
    let mut ordinary = vec![0_u8; 4 << 20];
    assert!(
        faults_of_touching(&mut ordinary) > 0,
        "the test's own measure"
    );

    let mut buffer = match LockedBuffer::new((1 << 20) + 1) {
        Ok(buffer) => buffer,
        Err(error) => {
            assert!(error.is_privilege(), "{error}");
            punctual_testing::skip!(Right, "locked buffer: {error}");
            return;
        }
    };
    assert_eq!(buffer.len(), (1 << 20) + 1);
    assert!(buffer.iter().all(|&byte| byte == 0));
    let locked = status_bytes("VmLck:");
    assert!(locked > 1 << 20);

    let mut fresh = LockedBuffer::new(1 << 20).unwrap();
    assert_eq!(faults_of_touching(&mut fresh), 0);
    assert_eq!(faults_of_touching(&mut buffer), 0);

    drop(buffer);
    drop(fresh);
    assert!(status_bytes("VmLck:") < locked);
}

fn sizes_that_cannot_be_are_refused() {
    for bytes in [0, usize::MAX, usize::MAX / 2 + 1] {
        let error = LockedBuffer::new(bytes).unwrap_err();
        assert!(matches!(error, Error::BufferSize { .. }), "{error}");
    }
    // This size is a valid number, but larger than the address space.
    let error = LockedBuffer::new(1 << 60).unwrap_err();
    assert!(!matches!(error, Error::BufferSize { .. }), "{error}");
}

fn the_whole_process_is_locked_and_unlocked() {
    let before = status_bytes("VmLck:");
    let Some(first) = try_lock(LockMode::Current) else {
        return;
    };
    assert!(status_bytes("VmLck:") > before);
    let second = lock_process_memory(LockMode::CurrentAndFuture).unwrap();
    assert_eq!(second.mode(), LockMode::CurrentAndFuture);
    let buffer = LockedBuffer::new(1 << 20).unwrap();
    drop(first);
    assert!(status_bytes("VmLck:") > 2 << 20, "the second still holds");
    drop(second);
    let locked = status_bytes("VmLck:");
    assert_eq!(locked, before + (1 << 20), "the buffer stays locked");
    drop(buffer);
    assert_eq!(status_bytes("VmLck:"), before);
}

fn on_fault_takes_no_more_than_is_touched() {
    let growth = |mode| {
        let lock = try_lock(mode)?;
        let before = status_bytes("VmRSS:");
        let untouched = black_box(Vec::<u8>::with_capacity(64 << 20));
        let after = status_bytes("VmRSS:");
        drop(untouched);
        drop(lock);
        Some(after.saturating_sub(before))
    };
    if let Some(growth) = growth(LockMode::OnFault) {
        assert!(growth < 32 << 20, "{growth}");
    }
    if let Some(growth) = growth(LockMode::CurrentAndFuture) {
        assert!(growth >= 64 << 20, "{growth}");
    }
}

fn try_lock(mode: LockMode) -> Option<punctual_rt::MemoryLock> {
    match lock_process_memory(mode) {
        Ok(lock) => Some(lock),
        Err(error) => {
            assert!(error.is_privilege(), "{error}");
            punctual_testing::skip!(Right, "locking with {mode:?}: {error}");
            None
        }
    }
}

/// Returns the number of faults on the first touch of each page.
fn faults_of_first_touch(mapping: &mut Mapping) -> u64 {
    let before = thread_usage();
    for page in 0..mapping.pages() {
        mapping.touch(page);
    }
    let after = thread_usage();
    (after.minor_faults + after.major_faults) - (before.minor_faults + before.major_faults)
}

fn skip_without_right(what: &str, error: &Error) {
    assert!(error.is_privilege(), "{error}");
    punctual_testing::skip!(Right, "{what}: {error}");
}

const PAGES: usize = 64;

fn request(backing: Backing<'_>) -> MappingRequest<'_> {
    MappingRequest {
        backing,
        pages: PAGES,
        populate: false,
        locked: false,
    }
}

fn each_page_faults_once_unless_it_was_made_to_be_there() {
    let file = MemoryFile::new(PAGES).unwrap();
    assert_eq!(file.pages(), PAGES);
    for backing in [Backing::Anonymous, Backing::File(&file)] {
        let plain = request(backing);
        let mut mapping = Mapping::new(&plain).unwrap();
        assert_eq!(faults_of_first_touch(&mut mapping), PAGES as u64);
        assert_eq!(faults_of_first_touch(&mut mapping), 0, "the second touch");
        for there in [
            MappingRequest {
                populate: true,
                ..plain
            },
            MappingRequest {
                locked: true,
                ..plain
            },
        ] {
            match Mapping::new(&there) {
                Ok(mut mapping) => {
                    assert_eq!(faults_of_first_touch(&mut mapping), 0, "{there:?}");
                }
                Err(error) => skip_without_right("MAP_LOCKED", &error),
            }
        }
        let mut mapping = Mapping::new(&plain).unwrap();
        mapping.populate().unwrap();
        assert_eq!(
            faults_of_first_touch(&mut mapping),
            0,
            "MADV_POPULATE_WRITE"
        );
        let mut mapping = Mapping::new(&plain).unwrap();
        let locked = status_bytes("VmLck:");
        match mapping.lock() {
            Ok(()) => {
                assert!(status_bytes("VmLck:") > locked);
                assert_eq!(faults_of_first_touch(&mut mapping), 0, "mlock");
            }
            Err(error) => skip_without_right("mlock", &error),
        }
        drop(mapping);
        assert_eq!(status_bytes("VmLck:"), locked);
    }
}

fn new_mappings_are_treated_as_asked_and_then_as_before() {
    let populate = MappingRequest {
        populate: true,
        ..request(Backing::Anonymous)
    };
    let faults = |request: &MappingRequest| {
        // The guards affect the whole process.
        faults_of_first_touch(&mut Mapping::new(request).unwrap())
    };
    let plain = request(Backing::Anonymous);
    let Some(held) = try_lock(LockMode::OnFault) else {
        return;
    };
    let locked = status_bytes("VmLck:");
    assert_eq!(faults(&populate), PAGES as u64, "populates only on fault");
    let usual = NewMappings::treat(NewMappingMode::Usual).unwrap();
    assert!(status_bytes("VmLck:") >= locked, "what is locked stays so");
    assert_eq!(faults(&populate), 0);
    assert_eq!(faults(&plain), PAGES as u64);
    usual.restore().unwrap();
    assert_eq!(faults(&populate), PAGES as u64, "as before");
    let all = NewMappings::treat(NewMappingMode::Locked).unwrap();
    assert_eq!(faults(&plain), 0);
    drop(all);
    assert_eq!(faults(&plain), PAGES as u64, "as before");
    drop(held);
    assert_eq!(status_bytes("VmLck:"), 0);
    assert_eq!(faults(&populate), 0, "nothing is held");
    let all = NewMappings::treat(NewMappingMode::Locked).unwrap();
    assert_eq!(faults(&plain), 0);
    all.restore().unwrap();
    assert_eq!(faults(&plain), PAGES as u64);
    assert_eq!(status_bytes("VmLck:"), 0);
}

fn huge_pages_are_whole_or_told_apart() {
    let advised = MappingRequest {
        pages: 2,
        ..request(Backing::HugeAdvised)
    };
    let mut mapping = match Mapping::new(&advised) {
        Ok(mapping) => mapping,
        Err(error) => {
            punctual_testing::skip_refused("huge pages", &error);
            return;
        }
    };
    assert_eq!(faults_of_first_touch(&mut mapping), 2);
    // Either result is valid: it depends on the memory of the machine.
    for page in 0..2 {
        mapping.is_whole(page).unwrap();
    }
    assert!(mapping.is_whole(2).is_err());
    let small = Mapping::new(&request(Backing::Anonymous)).unwrap();
    assert!(!small.is_whole(0).unwrap(), "not touched yet");
}

fn mappings_that_cannot_be_are_refused() {
    for pages in [0, usize::MAX, usize::MAX / 4096, 1 << 50] {
        for backing in [Backing::Anonymous, Backing::HugePool, Backing::HugeAdvised] {
            let wanted = MappingRequest {
                pages,
                ..request(backing)
            };
            assert!(Mapping::new(&wanted).is_err(), "{wanted:?}");
        }
    }
    let file = MemoryFile::new(PAGES - 1).unwrap();
    assert!(Mapping::new(&request(Backing::File(&file))).is_err());
}

/// Returns the minor and major faults of the calling thread: fields 10 and 12 of `/proc/PID/stat`
/// (`proc_pid_stat(5)`), counted after the name, because the name may contain any character.
fn faults_of_stat() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    (fields[7].parse().unwrap(), fields[9].parse().unwrap())
}

fn the_counts_are_those_of_getrusage_and_proc() {
    std::thread::spawn(|| {
        let mut mapping = Mapping::new(&MappingRequest {
            backing: Backing::Anonymous,
            pages: 200,
            populate: false,
            locked: false,
        })
        .unwrap();
        faults_of_stat();
        // Reading the file can fault as well, so the getrusage value is between two readings, one
        // before and one after.
        let mut both = [(0, 0); 2];
        for (round, seen) in both.iter_mut().enumerate() {
            let before = faults_of_stat();
            let usage = thread_usage();
            let after = faults_of_stat();
            assert!((before.0..=after.0).contains(&usage.minor_faults));
            assert!((before.1..=after.1).contains(&usage.major_faults));
            *seen = after;
            if round == 0 {
                (0..200).for_each(|page| mapping.touch(page));
            }
        }
        let more = both[1].0 - both[0].0;
        assert!((200..220).contains(&more), "{more} faults of 200 touches");
    })
    .join()
    .unwrap();
}
