//! A program's file is untrusted: regardless of its contents, functions are either named or
//! unknown.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test helpers are part of the tests

mod sound;

use proptest::prelude::*;

/// A small program with two functions.
fn elf() -> Vec<u8> {
    std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../fuzz/seeds/program-code/tiny"
    ))
    .unwrap()
}

#[test]
fn a_whole_program_is_read() {
    sound::program(&elf());
}

proptest! {
    /// The file is a real program in which some bytes are altered and the end may be missing.
    #[test]
    fn a_damaged_program_is_survived(
        patches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = elf();
        for (place, value) in patches {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        if cut {
            bytes.truncate(length.index(bytes.len()));
        }
        sound::program(&bytes);
    }

    #[test]
    fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        sound::program(&bytes);
    }
}
