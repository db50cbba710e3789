//! Runs a writer and a reader of a channel in every order that the memory model allows.

use std::io;
use std::sync::Arc;

use super::Figures;
use crate::atomic::Ordering;
use crate::layout::WORD;
use crate::memory::Memory;
use crate::{Channel, ChannelSpec, Identity, Kind, Reader, Source};

/// The words in ascending order, as the kernel copies them for `pread`. Loads of x86 processors are
/// acquire loads.
struct Copied(Arc<Memory>);

impl Source for Copied {
    fn bytes(&self) -> io::Result<u64> {
        Ok((self.0.words().len() * WORD) as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let words = self.0.words().iter().skip(offset as usize / WORD);
        for (bytes, word) in buffer.chunks_exact_mut(WORD).zip(words) {
            bytes.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes());
        }
        Ok(())
    }
}

/// A channel, whose ring is full after two samples, and its reader.
fn channel() -> (Channel, Reader<Copied>) {
    let figures = Figures::create("model", 1).unwrap();
    let spec = ChannelSpec {
        name: "loop",
        kind: Kind::Latency,
        period_ns: 0,
        budget_ns: 0,
    };
    let channel = figures.channel(&spec).unwrap();
    let source = Copied(Arc::clone(&figures.memory));
    (
        channel,
        Reader::new(source, &Identity::own().unwrap()).unwrap(),
    )
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    // Two switches are enough: the reader begins, the writer overwrites, the reader continues.
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn no_order_mixes_two_entries_of_the_ring() {
    explore(|| {
        let (mut channel, reader) = channel();
        for ns in 1..=2 {
            channel.record(10 * ns, ns as i64);
        }
        let writer = loom::thread::spawn(move || channel.record(30, 3));
        let ring = reader.ring(0, 0).unwrap();
        for entry in ring.entries {
            assert_eq!(entry.at_ns, 10 * entry.ns, "{entry:?}");
        }
        writer.join().unwrap();
    });
}

#[test]
fn whole_snapshot_is_of_one_instant() {
    explore(|| {
        let (mut channel, reader) = channel();
        channel.record(10, 1);
        let writer = loom::thread::spawn(move || channel.record(20, 2));
        let snapshot = reader.snapshot(0).unwrap();
        if snapshot.whole {
            let expected = match snapshot.counts.run {
                1 => (1, 1, vec![0, 1, 0, 0]),
                _ => (3, 2, vec![0, 1, 1, 0]),
            };
            let counts = snapshot.counts;
            assert_eq!((counts.sum_ns, counts.max_ns, snapshot.buckets), expected);
        }
        writer.join().unwrap();
    });
}
