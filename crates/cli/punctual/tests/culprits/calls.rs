//! Probes with two threads. A third thread delays the receiver.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::Sandbox;
use punctual_model::{Nanos, ShareKind};

use crate::stage::{Span, Stage, Truth, disagreement, fifo, now, sleep_until, spin_until, thread};

/// An outlier is checked only if the third thread caused at least this much of its delay.
const CAUSED: Nanos = Nanos::from_micros(300);

/// A thread with a higher priority than the receiver occupies its CPU for 2 ms in every 20 ms, and
/// records the times. Each outlier that it caused must name the thread, with the time for which it
/// ran between the post and the receipt.
#[test]
fn higher_thread_delaying_receiver_is_named() {
    // Keep this value until the end of the test, because other scenes would compete for the CPUs.
    let Some(stage) = Stage::set(2) else {
        return;
    };
    let (from, to) = (stage.cpus[0], stage.cpus[1]);
    let place = Sandbox::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let over = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&over);
        let hog = thread("hog", fifo(60), &[to], move || {
            let mut spans: Vec<Span> = Vec::new();
            while !end.load(Ordering::Relaxed) {
                let begin = now();
                spans.push(spin_until(begin + Nanos::from_millis(2)));
                sleep_until(begin + Nanos::from_millis(20));
            }
            spans
        });
        place.done(&format!(
            "measure wakeup -q --via futex --pairs neighbours --cpus {from},{to} --priority 50 -i 1ms -D 2s \
             --dma-latency off --explain --threshold 250us"
        ));
        over.store(true, Ordering::Relaxed);
        let spans = hog.join().unwrap();
        let found = place.last().explanation.unwrap();
        for outlier in found.outliers.iter().filter(|o| o.cpu == Some(to)) {
            let (due, came) = (
                outlier.monotonic_ns,
                outlier.monotonic_ns + outlier.latency_ns,
            );
            let took = spans.iter().map(|span| span.within(due, came).0).sum();
            let truth = Truth {
                kind: ShareKind::HigherPriority,
                who: "hog-".to_owned(),
                took: Nanos(took),
            };
            if truth.took >= CAUSED {
                let off = disagreement(&outlier.blame, &truth);
                eprintln!(
                    "{} (truth: {}) {off:?}",
                    outlier.blame.sentence(),
                    truth.took
                );
                seen.push(off);
            }
        }
        let agree = seen.iter().filter(|off| off.is_none()).count();
        if agree > 0 && agree * 2 >= seen.len() {
            return;
        }
    }
    panic!("no post that the hog delayed was explained by it: {seen:?}");
}
