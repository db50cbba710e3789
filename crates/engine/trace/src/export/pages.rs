//! Converts the pages of one time interval to bytes and back.

use std::sync::Arc;

use crate::flight::RawPage;

/// Size in bytes of the header of a packed page: the CPU and the length, 32 bits each,
/// little-endian. The page follows.
const HEAD: usize = 8;

/// Packs pages into bytes for storage.
pub fn pack_pages(pages: &[RawPage]) -> Vec<u8> {
    let length: usize = pages.iter().map(|page| HEAD + page.bytes.len()).sum();
    let mut packed = Vec::with_capacity(length);
    for page in pages {
        // The length fits into 32 bits, because the largest page has 8 MiB.
        let Ok(length) = u32::try_from(page.bytes.len()) else {
            continue;
        };
        packed.extend(page.cpu.to_le_bytes());
        packed.extend(length.to_le_bytes());
        packed.extend(&*page.bytes);
    }
    packed
}

/// Unpacks pages. Returns `None` if the data is truncated.
pub fn unpack_pages(mut packed: &[u8]) -> Option<Vec<RawPage>> {
    let mut pages = Vec::new();
    while !packed.is_empty() {
        let (cpu, rest) = packed.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        pages.push(RawPage {
            cpu: u32::from_le_bytes(*cpu),
            bytes: Arc::from(bytes),
        });
        packed = rest;
    }
    Some(pages)
}

#[cfg(test)]
#[path = "../../tests/sound/mod.rs"]
mod sound;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{sound, *};
    use crate::Description;
    use crate::export::FormatText;
    use crate::testing::{FakeTracefs, PageBuilder, Piece, Value, layout, record};
    use proptest::prelude::*;

    /// Returns pages with a switch and a wake-up on two CPUs, preceded by their description, in the
    /// form that `sound::pages` reads.
    fn kept() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        FakeTracefs::new(folder.path(), "nop")
            .unwrap()
            .with_events(&[])
            .unwrap();
        let events = folder.path().join("sys/kernel/tracing/events");
        let text = |name: &str| fs::read_to_string(events.join(name)).unwrap();
        let big_endian = cfg!(target_endian = "big");
        let description = Description {
            header_page: text("header_page"),
            header_event: text("header_event"),
            page_bytes: 4_096,
            big_endian,
            trace_clock: "local [mono]".to_owned(),
            clock_offset_ns: 0,
            cpus: 2,
            formats: ["sched/sched_switch", "sched/sched_waking"]
                .map(|name| FormatText {
                    system: "sched".to_owned(),
                    text: text(&format!("{name}/format")),
                })
                .into(),
        };
        let page = |cpu: u32| {
            let mut page = PageBuilder::new(layout(big_endian));
            let (name, number) = (Value::Name, Value::Number);
            let waking = [name("victim"), number(7), number(20), number(0)];
            let switch = [name("stress"), number(9), number(120), number(0)];
            let switch = [&switch[..], &[name("victim"), number(7), number(20)]].concat();
            page.write(&Piece::Event(
                5,
                record("sched/sched_waking", 1, 9, &waking),
            ));
            page.write(&Piece::Extend(1 << 30));
            page.write(&Piece::Event(
                7,
                record("sched/sched_switch", 1, 9, &switch),
            ));
            // Omit the empty rest of a page to keep the seeds short.
            let mut bytes = page.page(1_000 + u64::from(cpu), None);
            bytes.truncate(400);
            RawPage {
                cpu,
                bytes: bytes.into(),
            }
        };
        let json = serde_json::to_vec(&description).unwrap();
        [json, vec![0], pack_pages(&[page(0), page(1), page(1)])].concat()
    }

    /// `PUNCTUAL_UPDATE_SEEDS=1` rewrites the seed.
    #[test]
    fn kept_pages_are_the_fuzz_seed() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/seeds/trace-pages/whole");
        let kept = kept();
        if std::env::var_os("PUNCTUAL_UPDATE_SEEDS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &kept).unwrap();
        }
        for bytes in [kept, fs::read(&path).unwrap()] {
            let file = sound::pages(&bytes).unwrap();
            let named = |name: &[u8]| file.windows(name.len()).any(|at| at == name);
            assert!(named(b"7 victim\n") && named(b"9 stress\n"));
        }
    }

    #[test]
    fn whatever_comes_of_damaged_pages_is_sound() {
        let kept = kept();
        let cut = kept.iter().position(|byte| *byte == 0).unwrap();
        let change = (any::<bool>(), any::<prop::sample::Index>(), any::<u8>());
        let cases = proptest::collection::vec(change, 0..8);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
        let result = runner.run(&cases, |changes| {
            let mut bytes = kept.clone();
            // Half of the changes affect the description, and half affect the pages.
            for (described, place, byte) in changes {
                let (json, pages) = bytes.split_at_mut(cut);
                let part = if described { json } else { pages };
                part[place.index(part.len())] ^= byte;
            }
            let _ = sound::pages(&bytes);
            Ok(())
        });
        result.unwrap();
    }

    proptest! {
        #[test]
        fn pages_come_back(pages in proptest::collection::vec((any::<u32>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..9)) {
            let pages: Vec<RawPage> = pages
                .into_iter()
                .map(|(cpu, bytes)| RawPage { cpu, bytes: bytes.into() })
                .collect();
            let packed = pack_pages(&pages);
            prop_assert_eq!(unpack_pages(&packed), Some(pages));
            if !packed.is_empty() {
                prop_assert_eq!(unpack_pages(&packed[..packed.len() - 1]).is_some(), false);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = unpack_pages(&bytes);
        }
    }
}
