//! Tests that readers see exactly the figures that an application counts, and reject anything else.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // also in test helpers

mod sound;

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use punctual_app::buckets::index_of;
use punctual_app::find::{self, Refusal};
use punctual_app::layout::{self, channel, header};
use punctual_app::{ChannelSpec, Error, Figures, Identity, Kind, Reader, Source, Unfit};
use sound::{WRITER, bytes_of, image};

const SPEC: ChannelSpec<'static> = ChannelSpec {
    name: "control",
    kind: Kind::Latency,
    period_ns: 1_000_000,
    budget_ns: 50_000,
};

fn proc() -> &'static Path {
    Path::new("/proc")
}

/// Only one test runs at a time, because each would find the figures of the others in this process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn own() -> Result<find::Found, Refusal> {
    find::of_process(proc(), std::process::id())
}

fn reader() -> Reader<File> {
    own().unwrap().reader
}

#[test]
fn what_is_counted_is_read_from_outside() {
    let _alone = alone();
    let figures = Figures::create("motion", 2).unwrap();
    let mut channel = figures.channel(&SPEC).unwrap();
    let found = own().unwrap();
    assert_eq!(found.reader.name(), "motion");
    let heads = found.reader.channels().unwrap();
    assert_eq!(heads.len(), 1);
    assert_eq!(
        (heads[0].name.as_str(), heads[0].kind),
        ("control", Kind::Latency)
    );
    assert_eq!(heads[0].period_ns, Some(1_000_000));
    assert_eq!(heads[0].budget_ns, Some(50_000));
    for (at, ns) in [
        (1, 700),
        (2, -5),
        (3, 60_000),
        (4, 2_000_000_000_000),
        (5, 700),
    ] {
        channel.record(at, ns);
    }
    channel.account(7, 2, 1);
    let snapshot = found.reader.snapshot(0).unwrap();
    assert!(snapshot.whole);
    let counts = &snapshot.counts;
    assert_eq!((counts.run, counts.early, counts.overflow), (5, 1, 1));
    assert_eq!(
        (counts.min_ns, counts.max_ns),
        (Some(700), 2_000_000_000_000)
    );
    assert_eq!(counts.sum_ns, 2_000_000_061_400);
    assert_eq!((counts.due, counts.missed, counts.late), (7, 2, 1));
    assert_eq!(counts.over_budget, 2);
    assert_eq!(snapshot.buckets[index_of(700).unwrap()], 2);
    assert_eq!(snapshot.buckets.iter().sum::<u64>(), 3);
    // The ring contains each sample that was the largest so far, and the samples above the budget.
    let ring = found.reader.ring(0, 0).unwrap();
    let kept: Vec<u64> = ring.entries.iter().map(|entry| entry.at_ns).collect();
    assert_eq!((kept, ring.dropped, ring.next), (vec![1, 3, 4], 0, 3));
    assert!(found.reader.ring(0, ring.next).unwrap().entries.is_empty());
    assert!(find::is_open(proc(), &found));
    // The figures stay readable after the process has closed them.
    drop((channel, figures));
    assert!(!find::is_open(proc(), &found));
    assert_eq!(found.reader.counts(0).unwrap().run, 5);
    drop(found);
    assert!(matches!(own(), Err(Refusal::NoFigures { .. })));
}

#[test]
fn an_overwritten_ring_counts_what_it_lost() {
    let _alone = alone();
    let figures = Figures::create("motion", 1).unwrap();
    let mut channel = figures.channel(&SPEC).unwrap();
    for at in 0..100 {
        channel.record(at, 60_000);
    }
    let ring = reader().ring(0, 10).unwrap();
    assert_eq!(ring.entries.len(), layout::RING_ENTRIES);
    assert_eq!(ring.entries[0].at_ns, 36);
    assert_eq!((ring.dropped, ring.next), (26, 100));
}

/// A file whose writer continues when the reader has read the first bytes of the channel.
struct Interrupted<F> {
    file: File,
    first: usize,
    then: RefCell<F>,
}

impl<F: FnMut()> Source for Interrupted<F> {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset != (layout::HEADER_WORDS * layout::WORD) as u64 {
            return self.file.read_at(buffer, offset);
        }
        let (first, rest) = buffer.split_at_mut(self.first);
        self.file.read_at(first, offset)?;
        (self.then.borrow_mut())();
        self.file.read_at(rest, offset + first.len() as u64)
    }
}

/// `cargo xtask loom` tries all orders of the reads and writes.
#[test]
fn entry_overwritten_while_it_is_read_is_dropped() {
    let _alone = alone();
    let figures = Figures::create("motion", 1).unwrap();
    let mut channel = figures.channel(&SPEC).unwrap();
    for at in 0..layout::RING_ENTRIES as u64 {
        channel.record(at, 60_000);
    }
    let path = format!("/proc/self/fd/{}", own().unwrap().fd);
    let source = Interrupted {
        file: File::open(path).unwrap(),
        // Up to the sequence number of the first entry.
        first: (channel::RING + 1) * layout::WORD,
        then: RefCell::new(|| channel.record(1_000, 70_000)),
    };
    let reader = Reader::new(source, &Identity::new(proc(), std::process::id()).unwrap()).unwrap();
    let ring = reader.ring(0, 0).unwrap();
    assert!(ring.entries.iter().all(|entry| entry.ns == 60_000));
    assert_eq!(ring.entries.len(), layout::RING_ENTRIES - 1);
    assert_eq!((ring.dropped, ring.next), (1, 64));
}

#[test]
fn the_largest_of_each_second_is_kept() {
    let _alone = alone();
    let figures = Figures::create("motion", 1).unwrap();
    let mut channel = figures
        .channel(&ChannelSpec {
            budget_ns: 0,
            ..SPEC
        })
        .unwrap();
    let second = 1_000_000_000;
    for (at, ns) in [(0, 5), (1, 9), (2, 7), (second, 3), (second + 5, 4)] {
        channel.record(second + at, ns);
    }
    let entries = reader().ring(0, 0).unwrap().entries;
    let kept: Vec<u64> = entries.iter().map(|entry| entry.ns).collect();
    assert_eq!(kept, [5, 9, 3, 4]);
}

#[test]
fn numbers_of_channels_are_checked() {
    let _alone = alone();
    for channels in [0, layout::MAX_CHANNELS + 1, usize::MAX] {
        assert!(matches!(
            Figures::create("x", channels),
            Err(Error::Channels { .. })
        ));
    }
    let figures = Figures::create("x", 1).unwrap();
    let _lane = figures.channel(&SPEC).unwrap();
    assert!(matches!(
        figures.channel(&SPEC),
        Err(Error::NoChannelLeft { channels: 1 })
    ));
}

#[test]
fn threads_record_in_own_channels_during_reads() {
    const EACH: u64 = 20_000;
    let _alone = alone();
    let figures = Figures::create("motion", 2).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut channel = figures.channel(&SPEC).unwrap();
                for at in 0..EACH {
                    channel.record(at, (at % 5_000) as i64);
                }
            });
        }
        let reader = reader();
        let mut last = 0;
        while last < EACH {
            std::thread::yield_now();
            if reader.channels().unwrap().is_empty() {
                continue;
            }
            let snapshot = reader.snapshot(0).unwrap();
            let sum: u64 = snapshot.buckets.iter().sum();
            assert!(!snapshot.whole || sum == snapshot.counts.run);
            assert!(snapshot.counts.run >= last);
            last = snapshot.counts.run;
        }
    });
    let reader = reader();
    for number in 0..2 {
        assert_eq!(reader.snapshot(number).unwrap().counts.run, EACH);
    }
}

#[test]
fn the_memory_is_sealed_against_all_others() {
    let _alone = alone();
    let _figures = Figures::create("motion", 1).unwrap();
    let path = format!("/proc/self/fd/{}", own().unwrap().fd);
    let file = File::options().read(true).write(true).open(path).unwrap();
    assert!(file.set_len(0).is_err());
    assert!(file.set_len(1 << 30).is_err());
    assert!(std::os::unix::fs::FileExt::write_at(&file, &[1], 0).is_err());
}

/// A file of another program that merely has the same name.
#[test]
fn unsealed_file_is_refused() {
    let _alone = alone();
    let script = "import os, sys\n\
                  fd = os.memfd_create('punctual-app')\n\
                  os.write(fd, b'PUNCTAPP' + b'\\0' * 100000)\n\
                  print(flush=True)\n\
                  sys.stdin.read()";
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        punctual_testing::skip!(Program, "no python3");
        return;
    };
    let mut line = [0];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let refusal = find::of_process(proc(), child.id()).unwrap_err();
    drop(child.stdin.take());
    child.wait().unwrap();
    let text = refusal.to_string();
    assert!(
        matches!(
            refusal,
            Refusal::Unfit {
                why: Unfit::NotSealed,
                ..
            }
        ),
        "{text}"
    );
    assert!(text.contains("not sealed"), "{text}");
}

#[test]
fn absent_process_is_named() {
    let refusal = find::of_process(proc(), u32::MAX).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        format!("there is no process {}", u32::MAX)
    );
}

#[test]
fn each_damage_is_named() {
    let whole = bytes_of(&image());
    assert!(Reader::new(&whole[..], &WRITER).is_ok());
    let with = |place: usize, value: u64| {
        let mut words = image();
        words[place] = value;
        let bytes = bytes_of(&words);
        Reader::new(&bytes[..], &WRITER).map(drop).unwrap_err()
    };
    assert!(matches!(with(header::MAGIC, 0), Unfit::Magic));
    assert_eq!(
        with(header::ABI, 7).to_string(),
        "the figures have ABI version 7, but this program reads version 1: use a newer punctual"
    );
    for place in [
        header::TOTAL_BYTES,
        header::CHANNEL_BYTES,
        header::CHANNELS,
        header::BUCKETS,
        header::RING_ENTRIES,
        header::CLOCK,
    ] {
        for value in [0, 2, u64::MAX] {
            let error = with(place, value);
            assert!(
                matches!(error, Unfit::Layout { .. }),
                "{place} {value}: {error}"
            );
        }
    }
    for place in [header::BOOT_ID, header::BOOT_ID + 1, header::START_TICKS] {
        assert!(matches!(with(place, 9), Unfit::OtherProcess));
    }
    for bytes in [&whole[..100], &whole[..whole.len() - 8]] {
        assert!(Reader::new(bytes, &WRITER).is_err());
    }
    let mut words = image();
    words[header::CHANNELS_USED] = u64::MAX;
    let bytes = bytes_of(&words);
    assert!(
        Reader::new(&bytes[..], &WRITER)
            .unwrap()
            .channels()
            .is_err()
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Regardless of what a process writes into its figures, a reader finishes after a bounded
    /// number of reads.
    #[test]
    fn no_content_makes_the_reader_fail(
        words in prop::collection::vec((0..channel::WORDS as u32, any::<u64>()), 0..40),
        head in prop_oneof![any::<u64>(), 0..200_u64],
        rest in prop::collection::vec(any::<u8>(), 0..11),
    ) {
        let first = layout::HEADER_WORDS as u32;
        let head = (channel::RING_HEAD as u32, head);
        let patches = words.into_iter().chain([head]).flat_map(|(place, value)| {
            let place = (first + place).to_le_bytes();
            place.into_iter().chain(value.to_le_bytes()).collect::<Vec<u8>>()
        });
        sound::figures(&patches.chain(rest).collect::<Vec<u8>>());
    }

    /// A file with arbitrary bytes is rejected.
    #[test]
    fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Reader::new(&bytes[..], &WRITER).is_err());
        sound::figures(&bytes);
    }
}
