//! Reads memory that a BPF program on another CPU may be writing.

#[cfg(all(test, loom))]
use loom::sync::atomic::fence;
use std::sync::atomic::Ordering;
#[cfg(not(all(test, loom)))]
use std::sync::atomic::fence;

/// Returns what `read` returns, or `None` if a program wrote at the same time. `sequence` reads a
/// number that the program sets to 0 before it writes, and to a new number afterwards, with `barrier`
/// of `bpf/barrier.h` between these stores and the others.
pub(crate) fn settled<T>(sequence: impl Fn() -> u64, read: impl FnOnce() -> T) -> Option<T> {
    let before = sequence();
    if before == 0 {
        return None;
    }
    fence(Ordering::Acquire);
    let found = read();
    fence(Ordering::Acquire);
    (sequence() == before).then_some(found)
}

/// Tries each order of the accesses that the memory model allows.
#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;

    use super::*;

    #[derive(Default)]
    struct Record {
        sequence: AtomicU64,
        content: [AtomicU64; 2],
    }

    /// Writes a record as the programs do, but with weaker fences.
    fn write(record: &Record, number: u64) {
        let barrier = || fence(Ordering::AcqRel);
        record.sequence.store(0, Ordering::Relaxed);
        barrier();
        for word in &record.content {
            word.store(10 * number, Ordering::Relaxed);
        }
        barrier();
        record.sequence.store(number, Ordering::Relaxed);
    }

    #[test]
    fn no_order_mixes_two_records() {
        loom::model(|| {
            let record = Arc::new(Record::default());
            let writer = loom::thread::spawn({
                let record = Arc::clone(&record);
                move || (1..=2).for_each(|number| write(&record, number))
            });
            let number = || record.sequence.load(Ordering::Relaxed);
            let read = || {
                let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
                (number(), record.content.each_ref().map(word))
            };
            if let Some((number, content)) = settled(number, read) {
                assert_eq!(content, [10 * number; 2]);
            }
            writer.join().unwrap();
            assert_eq!(settled(number, read), Some((2, [20; 2])));
        });
    }
}
