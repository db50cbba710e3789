//! Delays by other threads: with higher priority, with equal rank, or with a lock.

use std::sync::Arc;

use punctual_model::{Nanos, ShareKind};
use punctual_rt::{Mutex, Policy, Protocol};

use crate::stage::{
    Stage, Truth, fifo, now, settle, sleep_until, soon, spin_noting, spin_until, thread, victim,
};

#[test]
fn higher_priority_thread_is_named() {
    let Some(mut stage) = Stage::set(1) else {
        return;
    };
    let cpu = stage.cpus[0];
    stage.play("a thread of higher priority", |stage| {
        let due = soon();
        let hog = thread("hog", fifo(60), &[cpu], move || {
            sleep_until(due - Nanos::from_millis(1));
            spin_until(due + Nanos::from_millis(2))
        });
        let victim = victim(fifo(50), &[cpu], due, || {});
        let (span, came) = (hog.join().unwrap(), victim.join().unwrap());
        settle();
        let truth = Truth {
            kind: ShareKind::HigherPriority,
            who: "hog-".to_owned(),
            took: span.within(came.due, came.came),
        };
        (stage.explain(&came, cpu), vec![truth])
    });
}

#[test]
fn lower_priority_lock_holder_is_named() {
    let Some(mut stage) = Stage::set(1) else {
        return;
    };
    let cpu = stage.cpus[0];
    stage.play("the holder of a lock", |stage| {
        let due = soon();
        let lock = Arc::new(Mutex::new((), Protocol::Inherit).unwrap());
        let held = Arc::clone(&lock);
        let holder = thread("holder", fifo(10), &[cpu], move || {
            sleep_until(due - Nanos::from_millis(1));
            let guard = held.lock().unwrap();
            let span = spin_until(due + Nanos::from_millis(2));
            drop(guard);
            span
        });
        let (sender, receiver) = std::sync::mpsc::channel();
        let victim = victim(fifo(50), &[cpu], due, move || {
            sender.send(now()).unwrap();
            drop(lock.lock().unwrap());
        });
        let (span, came) = (holder.join().unwrap(), victim.join().unwrap());
        let asked = receiver.recv().unwrap();
        settle();
        let truth = Truth {
            kind: ShareKind::LockHolder,
            who: "holder-".to_owned(),
            took: span.within(asked, came.came),
        };
        (stage.explain(&came, cpu), vec![truth])
    });
}

/// An ordinary thread that must wait for its time slice, because two other threads with a higher
/// weight are spinning on its CPU.
#[test]
fn ordinary_threads_of_equal_rank() {
    let Some(mut stage) = Stage::set(1) else {
        return;
    };
    let cpu = stage.cpus[0];
    stage.play("ordinary threads", |stage| {
        let due = soon();
        let end = due + Nanos::from_millis(40);
        let hogs: Vec<_> = (0..2)
            .map(|_| {
                thread("hog", Policy::Other { nice: -10 }, &[cpu], move || {
                    sleep_until(due - Nanos::from_millis(10));
                    spin_noting(end)
                })
            })
            .collect();
        let (sender, receiver) = std::sync::mpsc::channel();
        let victim = victim(Policy::Other { nice: 19 }, &[cpu], due, move || {
            sender.send(now()).unwrap();
        });
        let came = victim.join().unwrap();
        let spans: Vec<_> = hogs
            .into_iter()
            .flat_map(|hog| hog.join().unwrap())
            .collect();
        receiver.recv().unwrap();
        settle();
        // The timer slack is not attributed to any thread.
        let slack = came.due + Nanos::from_micros(50);
        let took = spans.iter().map(|span| span.within(slack, came.came).0);
        let truth = Truth {
            kind: ShareKind::Competing,
            who: "hog-".to_owned(),
            took: Nanos(took.sum()),
        };
        (stage.explain(&came, cpu), vec![truth])
    });
}
