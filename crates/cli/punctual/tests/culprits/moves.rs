//! The victim is moved to another CPU.

use punctual_model::{Nanos, ShareKind};
use punctual_rt::affinity;

use crate::stage::{
    Span, Stage, Truth, fifo, now, settle, sleep_until, soon, spin_noting, spin_until, thread,
    victim,
};

/// The victim waits on one CPU, is moved to another CPU by a change of its affinity, and has to
/// wait there again.
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
        // These delays are long compared with the time that the mover needs to look up CPUs and
        // end.
        let first = hog("hog-here", here, due + Nanos::from_millis(6));
        let second = hog("hog-there", there, due + Nanos::from_millis(5));
        let victim = victim(fifo(50), &[here], due, || {});
        let tid = victim.tid();
        let mover = thread("mover", fifo(70), &[there], move || {
            sleep_until(due + Nanos::from_millis(2));
            // On a busy machine, the victim may already have ended. Then this attempt proves
            // nothing.
            let _ = affinity::set(tid, &[there]);
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
    let moved = format!("The thread was moved from CPU {here} to CPU {there}.");
    let Some(played) = played else { return };
    assert!(
        played.blame.sentence().contains(&moved),
        "{}",
        played.blame.sentence()
    );
}

/// The victim is running while it is moved to another CPU, so the delay is the work of the mover.
/// The victim reads the clock continuously, which shows how long it was interrupted.
#[test]
fn a_move_while_it_runs() {
    let Some(mut stage) = Stage::set(2) else {
        return;
    };
    let (here, there) = (stage.cpus[0], stage.cpus[1]);
    let played = stage.play("a move", |stage| {
        let due = soon();
        let (sender, receiver) = std::sync::mpsc::channel();
        let victim = victim(fifo(50), &[here], due, move || {
            let spans = spin_noting(due + Nanos::from_millis(4));
            sender.send(spans).unwrap();
        });
        let tid = victim.tid();
        let mover = thread("mover", fifo(70), &[there], move || {
            sleep_until(due + Nanos::from_millis(1));
            let from = now();
            // As above, the victim may already have ended.
            let _ = affinity::set(tid, &[there]);
            Span { from, to: now() }
        });
        let moving = mover.join().unwrap();
        let came = victim.join().unwrap();
        settle();
        let spans = receiver.recv().unwrap();
        // Gaps caused by the move: each lasts from the last clock reading before it to the first
        // one after it.
        let gaps = spans.windows(2).map(|pair| Span {
            from: pair[0].to,
            to: pair[1].from,
        });
        let away = gaps.filter(|gap| gap.to > moving.from && gap.from < moving.to);
        let truth = Truth {
            kind: ShareKind::Migration,
            who: format!("from CPU {here} to CPU {there}"),
            took: Nanos(away.map(|gap| gap.within(came.due, came.came).0).sum()),
        };
        (stage.explain(&came, there), vec![truth])
    });
    let Some(played) = played else { return };
    let sentence = &played.blame.sentence();
    assert!(sentence.contains("The thread was moved from"), "{sentence}");
}
