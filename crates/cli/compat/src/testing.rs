//! Test helpers that read back the files that a tool wrote.

use punctual_formats::{CountSamples, JsonHead, Source, recognise, write_rt_tests_json};
use punctual_model::{Histogram, Nanos, Recording, SignedNanos, testing};
use serde::Serialize;

/// Returns a recording of two threads, each with early samples.
pub(crate) fn with_early_samples() -> Recording {
    let mut recording = testing::recording(2, 0);
    for (place, thread) in recording.threads.iter_mut().enumerate() {
        thread.histogram = Histogram::new();
        for latency in [-2_500, 1_200, 3_900, -1, 45_000] {
            thread.histogram.record(SignedNanos(latency));
        }
        let account = &mut thread.accounting;
        account.recorded = 5;
        account.early = 2;
        account.overflow = 0;
        account.missed = place as u64;
        account.expected = account.recorded + account.missed + account.warm_up;
        assert!(account.balances());
    }
    recording
}

/// Returns the file that the tool writes, both as JSON and as the importer reads it.
pub(crate) fn read_back<B: Serialize>(
    tool: &str,
    recording: &Recording,
    body: &B,
) -> (String, Recording) {
    let head = JsonHead {
        command_line: tool,
        start_time: "Tue, 03 Nov 2026 08:15:30 +0000".to_owned(),
        end_time: "Tue, 03 Nov 2026 08:15:40 +0000".to_owned(),
        return_code: 0,
        host: &recording.host,
    };
    let mut bytes = Vec::new();
    write_rt_tests_json(&head, body, &mut bytes).unwrap();
    let mut source = Source::new("file", bytes.as_slice());
    let import = recognise("file", &source.head().unwrap()).unwrap();
    let read = (import.read)(&mut source, &mut CountSamples::default()).unwrap();
    (String::from_utf8_lossy(&bytes).into_owned(), read)
}

/// Asserts that both the early samples and the other samples match the recording.
pub(crate) fn assert_same_account(read: &Recording, recording: &Recording) {
    assert_eq!(read.threads.len(), recording.threads.len());
    for (read, known) in read.threads.iter().zip(&recording.threads) {
        let account = |thread: &punctual_model::ThreadRecord| {
            let account = thread.accounting;
            (
                (account.expected, account.recorded, account.missed),
                (account.early, account.warm_up),
                (thread.histogram.count(), thread.histogram.early()),
                (thread.histogram.min(), thread.histogram.max()),
            )
        };
        assert_eq!(account(read), account(known));
        assert_eq!(known.histogram.min(), Some(Nanos(1_200)));
    }
}
