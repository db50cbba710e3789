//! The data that `bpf/profile.bpf.c` exchanges with user space.

use punctual_model::{Comm, Nanos, Registers};

use super::{Doing, RawStack, StackSample, Waker};
use crate::flight::ReleaseCall;

/// Values that are also defined in the BPF programs.
const DEPTH: usize = 32;
const WAKER_WORDS: usize = 128;
const RELEASES: usize = 4;
const ON_CPU: u32 = 0;
const WOKEN_BY_THREAD: u32 = 1;
const WOKEN_BY_INTERRUPT: u32 = 2;
const RUNNABLE: u32 = 3;

/// Number of words in `struct releases`, and the place of the time of the newest lost sample.
pub(super) const RELEASE_WORDS: usize = 2 * RELEASES + RELEASES / 2 + 2;
pub(super) const LOST_AT: usize = RELEASE_WORDS - 1;

/// Number of words in `struct stack`, and before its addresses.
const STACK_WORDS: usize = 7 + 2 * DEPTH;

/// Number of words in `struct head`.
const HEAD_WORDS: usize = 6;

/// Number of words in `struct wait`. The last ones are a copy of the stack.
pub(super) const WAIT_WORDS: usize = HEAD_WORDS + 2 * STACK_WORDS + WAKER_WORDS + 3 * 512;

/// Returns `struct releases`.
pub(super) fn releases(waits: &[ReleaseCall]) -> [u64; RELEASE_WORDS] {
    let mut words = [0; RELEASE_WORDS];
    let mut calls = [[u8::MAX; 4]; RELEASES];
    for (place, wait) in waits.iter().take(RELEASES).enumerate() {
        words[place] = wait.argument;
        words[RELEASES + place] = wait.ignored;
        calls[place] = (wait.id as u32).to_ne_bytes();
    }
    for (word, [first, second]) in words[2 * RELEASES..].iter_mut().zip(calls.as_chunks().0) {
        let [a, b, c, d] = *first;
        let [e, f, g, h] = *second;
        *word = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    }
    words
}

/// Reads `struct head`, `struct on_cpu` or `struct wait`. Returns `None` if its size or kind is unknown.
pub(super) fn sample(bytes: &[u8]) -> Option<StackSample> {
    let words: Vec<u64> = (bytes.as_chunks().0.iter())
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    let (head, stacks) = words.split_at_checked(HEAD_WORDS)?;
    let half = |word: u64, second: bool| {
        let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
        u32::from_ne_bytes(if second { [e, f, g, h] } else { [a, b, c, d] })
    };
    let mut sample = StackSample {
        tid: half(head[2], false),
        from: Nanos(head[0]),
        to: Nanos(head[1]),
        stack: RawStack::default(),
        doing: Doing::Runnable,
    };
    let kind = half(head[2], true);
    if kind == RUNNABLE {
        return Some(sample);
    }
    let (of, rest) = stacks.split_at_checked(STACK_WORDS)?;
    if kind == ON_CPU {
        sample.stack = stack(of, rest)?;
        sample.doing = Doing::Running;
        return Some(sample);
    }
    let (by, rest) = rest.split_at_checked(STACK_WORDS)?;
    let (waker_words, rest) = rest.split_at_checked(WAKER_WORDS)?;
    sample.stack = stack(of, rest)?;
    let by = stack(by, waker_words)?;
    sample.doing = match kind {
        WOKEN_BY_THREAD => Doing::Waiting(Waker::Thread {
            tid: half(head[3], false),
            comm: Comm::new(bytes.get(32..48)?),
            stack: by,
        }),
        WOKEN_BY_INTERRUPT => Doing::Waiting(Waker::Interrupt(by.kernel)),
        _ => return None,
    };
    Some(sample)
}

fn stack(head: &[u64], copy: &[u64]) -> Option<RawStack> {
    let ([kernel_bytes, user_bytes, word_bytes, ip, sp, fp, lr], chains) =
        head.split_first_chunk()?;
    let (kernel, user) = chains.split_at_checked(DEPTH)?;
    let first = |all: &[u64], bytes: u64| {
        let count = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        all[..count.min(all.len())].to_vec()
    };
    Some(RawStack {
        kernel: first(kernel, *kernel_bytes),
        user: first(user, *user_bytes),
        registers: Registers {
            ip: *ip,
            sp: *sp,
            fp: *fp,
            lr: *lr,
        },
        words: first(copy, *word_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The copy of the stack has three words.
    fn bytes(kind: u32) -> Vec<u8> {
        let stacks = if kind == ON_CPU { 1 } else { 2 };
        let waker_words = (stacks - 1) * WAKER_WORDS;
        let mut words = vec![0_u64; HEAD_WORDS + stacks * STACK_WORDS + waker_words];
        words.extend([0x31, 0x32, 0x33]);
        (words[0], words[1]) = (5, 9);
        let of = &mut words[HEAD_WORDS..];
        of[..7].copy_from_slice(&[8, 16, 24, 0x21, 0x1000, 0x1008, 0x22]);
        of[7] = 0x11;
        (of[7 + DEPTH], of[8 + DEPTH]) = (0x21, 0x22);
        if stacks == 2 {
            // More than fits.
            of[STACK_WORDS] = u64::MAX;
            of[STACK_WORDS + 2] = 16;
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes[16..20].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&kind.to_ne_bytes());
        bytes[24..28].copy_from_slice(&8_u32.to_ne_bytes());
        bytes[32..37].copy_from_slice(b"other");
        bytes
    }

    #[test]
    fn samples_are_read_as_they_are_written() {
        let waits = bytes(WOKEN_BY_THREAD);
        let read = sample(&waits).unwrap();
        assert_eq!((read.tid, read.from, read.to), (7, Nanos(5), Nanos(9)));
        assert_eq!(read.stack.kernel, [0x11]);
        assert_eq!(read.stack.user, [0x21, 0x22]);
        assert_eq!(read.stack.words, [0x31, 0x32, 0x33]);
        let registers = Registers {
            ip: 0x21,
            sp: 0x1000,
            fp: 0x1008,
            lr: 0x22,
        };
        assert_eq!(read.stack.registers, registers);
        let Doing::Waiting(Waker::Thread { tid, comm, stack }) = read.doing else {
            panic!("{read:?}");
        };
        assert_eq!((tid, comm.to_string().as_str()), (8, "other"));
        assert_eq!((stack.kernel.len(), stack.words.len()), (DEPTH, 2));
        let on_cpu = sample(&bytes(ON_CPU)).unwrap();
        assert_eq!(on_cpu.doing, Doing::Running);
        assert_eq!(on_cpu.stack.words, [0x31, 0x32, 0x33]);
        let head = &bytes(RUNNABLE)[..8 * HEAD_WORDS];
        assert_eq!(sample(head).unwrap().doing, Doing::Runnable);
        assert!(matches!(
            sample(&bytes(WOKEN_BY_INTERRUPT)).unwrap().doing,
            Doing::Waiting(Waker::Interrupt(_))
        ));
        assert_eq!(sample(&bytes(4)), None);
        let before_copy = 8 * (HEAD_WORDS + 2 * STACK_WORDS + WAKER_WORDS);
        for length in 0..before_copy {
            assert_eq!(sample(&waits[..length]), None);
        }
        // Only a part of the stack was sent.
        let cut = sample(&waits[..before_copy + 12]).unwrap();
        assert_eq!(cut.stack.words, [0x31]);
    }

    #[test]
    fn missing_releases_match_no_call() {
        let wait = ReleaseCall {
            id: 230,
            argument: 1,
            ignored: 6,
        };
        let words = releases(&[wait]);
        assert_eq!((words[0], words[RELEASES]), (1, 6));
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let calls = &bytes[16 * RELEASES..];
        assert_eq!(calls[..4], 230_u32.to_ne_bytes());
        assert_eq!(calls[4..16], [u8::MAX; 12]);
        assert_eq!(calls[16..], [0; 16]);
    }
}
