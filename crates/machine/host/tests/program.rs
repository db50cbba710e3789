//! A program's file is untrusted: regardless of its contents, functions are either named or
//! unknown.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // test helpers are part of the tests

mod sound;

use proptest::prelude::*;
use punctual_model::Registers;

/// Two small programs: one with two functions, and one with the forms of rules in .eh_frame
/// (`sound/callers.s`).
const ELFS: [&str; 2] = ["tiny", "callers"];

fn elf(name: &str) -> Vec<u8> {
    let seeds = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../fuzz/seeds/program-code"
    );
    std::fs::read(std::path::Path::new(seeds).join(name)).unwrap()
}

#[test]
fn whole_programs_are_read() {
    for name in ELFS {
        sound::program(&elf(name));
    }
}

/// Addresses of the program `callers`: its functions, their return addresses, and the linker's entry
/// for `inner`.
const INNER: u64 = 0x1205;
const IN_OUTER: u64 = 0x1203;
const IN_BEGIN: u64 = 0x11f5;
const LINKAGE: u64 = 0x11d0;

/// The first address of the stack.
const SP: u64 = 0x7000_0000;

/// Returns the callers of a place in the program `callers`.
fn callers(ip: u64, fp: u64, words: &[u64], chain: &[u64]) -> (Vec<u64>, bool) {
    let (_folder, mut code) = sound::code(&elf("callers"));
    let registers = Registers {
        ip,
        sp: SP,
        fp,
        lr: 0,
    };
    code.unwind(&registers, words, chain)
}

#[test]
fn callers_are_found_without_frame_pointers() {
    // The frame of `outer` is at the end: four words, the frame pointer, and the return address.
    let outer = |before: &[u64]| {
        let own = [&[IN_OUTER, 0, 0, 0, 0], &[0xbad][..], &[IN_BEGIN]].concat();
        [before, &own].concat()
    };
    let fp = |before: u64| SP + 8 * (before + 5);
    let whole = |ip| (vec![ip, IN_OUTER, IN_BEGIN], true);
    // At the first instruction, the return address is at the top of the stack.
    assert_eq!(callers(INNER, fp(0), &outer(&[]), &[]), whole(INNER));
    let after = INNER + 4;
    let words = outer(&[1, 2, 3]);
    assert_eq!(callers(after, fp(3), &words, &[]), whole(after));
    // The frame and the frame pointer are saved on the stack.
    let described = INNER + 0xe;
    let words = outer(&[1, fp(4), SP + 40, 4]);
    assert_eq!(callers(described, 0, &words, &[]), whole(described));
    for (offset, before) in [(0, &[][..]), (0xb, &[7])] {
        let ip = LINKAGE + offset;
        let words = outer(before);
        assert_eq!(callers(ip, fp(before.len() as u64), &words, &[]), whole(ip));
    }
}

#[test]
fn callers_that_are_not_known_are_not_claimed() {
    let after = INNER + 4;
    // The return address is outside of the copy.
    assert_eq!(callers(after, 0, &[1, 2, 3], &[]), (vec![after], false));
    // Frame pointers show the rest.
    let words = [1, 2, 3, IN_OUTER];
    let found = callers(after, SP, &words, &[after, IN_OUTER, IN_BEGIN, 8]);
    assert_eq!(found, (vec![after, IN_OUTER, IN_BEGIN], false));
    // The address is outside of the code.
    let words = [1, 2, 3, 0x77];
    assert_eq!(callers(after, 0, &words, &[]), (vec![after], false));
    // An expression with an endless loop.
    let looping = INNER + 0xf;
    assert_eq!(
        callers(looping, 0, &[IN_OUTER; 9], &[]),
        (vec![looping], false)
    );
    // The frame of `outer` is lower than that of the function that it called.
    let words = [1, 2, 3, IN_OUTER, 5, 6];
    assert_eq!(
        callers(after, SP - 64, &words, &[]),
        (vec![after, IN_OUTER], false)
    );
}

proptest! {
    /// The file is a real program in which some bytes are altered and the end may be missing.
    #[test]
    fn a_damaged_program_is_survived(
        patches in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
        name in prop::sample::select(ELFS.to_vec()),
    ) {
        let mut bytes = elf(name);
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
