//! The victim's CPU is taken from under it.

use punctual_model::{Nanos, ShareKind};
use punctual_rt::affinity;

use crate::stage::{
    Span, Stage, TIMES, Truth, fifo, now, settle, sleep_until, soon, spin_until, thread, victim,
};

/// It waits on one CPU, is moved to another by a change of its affinity, and
/// waits there again.
#[test]
fn affinity_moved_away_to_a_busy_cpu() {
    let Some(mut stage) = Stage::set(2) else {
        return;
    };
    let (here, there) = (stage.cpus[0], stage.cpus[1]);
    let played = stage.play("affinity moved away", |stage| {
        let due = soon();
        let hog = |name: &'static str, cpu: u32, until: Nanos| {
            thread(name, fifo(60), &[cpu], move || {
                sleep_until(due - Nanos::from_millis(1));
                spin_until(until)
            })
        };
        // Long beside what the mover itself takes: to look CPUs up, and to end.
        let first = hog("hog-here", here, due + Nanos::from_millis(6));
        let second = hog("hog-there", there, due + Nanos::from_millis(5));
        let victim = victim(fifo(50), &[here], due, || {});
        let tid = victim.tid();
        let mover = thread("mover", fifo(70), &[there], move || {
            sleep_until(due + Nanos::from_millis(2));
            affinity::set(tid, &[there]).unwrap();
            now()
        });
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        let (moved, came) = (mover.join().unwrap(), victim.join().unwrap());
        settle();
        let before = Span {
            to: moved.min(first.to),
            ..first
        };
        let after = Span {
            from: moved,
            ..second
        };
        let truths = vec![
            Truth {
                kind: ShareKind::HigherPriority,
                who: "hog-here-".to_owned(),
                took: before.within(came.due, came.came),
            },
            Truth {
                kind: ShareKind::HigherPriority,
                who: "hog-there-".to_owned(),
                took: after.within(came.due, came.came),
            },
        ];
        (stage.explain(&came, there), truths)
    });
    let moved = format!("It was moved from CPU {here} to CPU {there}.");
    let Some(played) = played else { return };
    assert!(
        played.blame.sentence.contains(&moved),
        "{}",
        played.blame.sentence
    );
}

/// It runs, and is carried to another CPU: the mover's own work is the delay.
#[test]
fn a_move_while_it_runs() {
    let Some(mut stage) = Stage::set(2) else {
        return;
    };
    let (here, there) = (stage.cpus[0], stage.cpus[1]);
    // The mover may come late itself: then there was no move, and it is tried
    // again.
    for _ in 0..TIMES {
        let due = soon();
        let victim = victim(fifo(50), &[here], due, move || {
            spin_until(due + Nanos::from_millis(4));
        });
        let tid = victim.tid();
        let mover = thread("mover", fifo(70), &[there], move || {
            sleep_until(due + Nanos::from_millis(1));
            affinity::set(tid, &[there]).is_ok()
        });
        let moved = mover.join().unwrap();
        let came = victim.join().unwrap();
        settle();
        let played = stage.explain(&came, there);
        let on: Vec<u32> = played.segments.iter().map(|segment| segment.cpu).collect();
        let sentence = &played.blame.sentence;
        if moved && on.contains(&here) && on.contains(&there) {
            assert!(sentence.contains("It was moved from"), "{sentence}");
            return;
        }
    }
    panic!("no move was seen in {TIMES} times");
}
