//! The data that `bpf/profile.bpf.c` exchanges with user space.

use punctual_model::{Comm, Nanos};

use super::{Doing, RawStack, StackSample, Waker};
use crate::flight::ReleaseCall;

/// Values that are also defined in the BPF programs.
const DEPTH: usize = 32;
const TOP_WORDS: usize = 48;
const RELEASES: usize = 4;
const ON_CPU: u32 = 0;
const WOKEN_BY_THREAD: u32 = 1;
const WOKEN_BY_INTERRUPT: u32 = 2;
const RUNNABLE: u32 = 3;

/// Number of words in `struct releases`, and the place of the time of the newest lost sample.
pub(super) const RELEASE_WORDS: usize = 2 * RELEASES + RELEASES / 2 + 2;
pub(super) const LOST_AT: usize = RELEASE_WORDS - 1;

/// Number of words in `struct stack`.
const STACK_WORDS: usize = 3 + 2 * DEPTH + TOP_WORDS;

/// Number of words in `struct wait`.
#[cfg(test)]
pub(super) const WAIT_WORDS: usize = 1 + STACK_WORDS;

/// Number of words in `struct sample` before its stacks.
const HEAD_WORDS: usize = 6;

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

/// Reads `struct sample`. Returns `None` if its size or kind is unknown.
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
    let (of, by) = stacks.split_at_checked(STACK_WORDS)?;
    sample.stack = stack(of)?;
    sample.doing = match kind {
        ON_CPU => Doing::Running,
        WOKEN_BY_THREAD => Doing::Waiting(Waker::Thread {
            tid: half(head[3], false),
            comm: Comm::new(bytes.get(32..48)?),
            stack: stack(by)?,
        }),
        WOKEN_BY_INTERRUPT => Doing::Waiting(Waker::Interrupt(stack(by)?.kernel)),
        _ => return None,
    };
    Some(sample)
}

fn stack(words: &[u64]) -> Option<RawStack> {
    let (sizes, words) = words.split_at_checked(3)?;
    let (kernel, words) = words.split_at_checked(DEPTH)?;
    let (user, words) = words.split_at_checked(DEPTH)?;
    let top = words.get(..TOP_WORDS)?;
    let first = |all: &[u64], bytes: u64| {
        let count = usize::try_from(bytes / 8).unwrap_or(usize::MAX);
        all[..count.min(all.len())].to_vec()
    };
    Some(RawStack {
        kernel: first(kernel, sizes[0]),
        user: first(user, sizes[1]),
        words: first(top, sizes[2]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(kind: u32) -> Vec<u8> {
        let mut words = vec![0_u64; HEAD_WORDS + 2 * STACK_WORDS];
        (words[0], words[1]) = (5, 9);
        (words[HEAD_WORDS], words[HEAD_WORDS + 1]) = (8, 16);
        words[HEAD_WORDS + 3] = 0x11;
        (words[HEAD_WORDS + 3 + DEPTH], words[HEAD_WORDS + 4 + DEPTH]) = (0x21, 0x22);
        // More than fits.
        words[HEAD_WORDS + STACK_WORDS] = u64::MAX;
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
        let Doing::Waiting(Waker::Thread { tid, comm, stack }) = read.doing else {
            panic!("{read:?}");
        };
        assert_eq!((tid, comm.to_string().as_str()), (8, "other"));
        assert_eq!(stack.kernel.len(), DEPTH);
        let on_cpu = &bytes(ON_CPU)[..8 * (HEAD_WORDS + STACK_WORDS)];
        assert_eq!(sample(on_cpu).unwrap().doing, Doing::Running);
        let head = &bytes(RUNNABLE)[..8 * HEAD_WORDS];
        assert_eq!(sample(head).unwrap().doing, Doing::Runnable);
        assert!(matches!(
            sample(&bytes(WOKEN_BY_INTERRUPT)).unwrap().doing,
            Doing::Waiting(Waker::Interrupt(_))
        ));
        assert_eq!(sample(&bytes(4)), None);
        for length in 0..8 * (HEAD_WORDS + STACK_WORDS) {
            assert_eq!(sample(&waits[..length]), None);
        }
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
