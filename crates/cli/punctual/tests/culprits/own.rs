//! Delays that the victim causes itself.

use punctual_model::{Nanos, ShareKind};
use punctual_rt::{Mapping, MappingRequest};

use crate::stage::{Span, Stage, Truth, fifo, now, settle, soon, tid, victim};

/// The first access to memory causes a fault for each page.
#[test]
fn its_own_page_faults() {
    let Some(mut stage) = Stage::set(1) else {
        return;
    };
    let cpu = stage.cpus[0];
    stage.play("page faults", |stage| {
        let due = soon();
        let (sender, receiver) = std::sync::mpsc::channel();
        let pages = 400;
        let mut memory = Mapping::new(&MappingRequest::untouched(pages * 4_096)).unwrap();
        let victim = victim(fifo(50), &[cpu], due, move || {
            let from = now();
            (0..memory.pages()).for_each(|page| memory.touch(page));
            sender.send(Span { from, to: now() }).unwrap();
        });
        stage.flight.watch(&[tid(victim.tid())]).unwrap();
        let came = victim.join().unwrap();
        let span = receiver.recv().unwrap();
        settle();
        let truth = Truth {
            kind: ShareKind::PageFault,
            who: String::new(),
            took: span.within(came.due, came.came),
        };
        let played = stage.explain(&came, cpu);
        assert!(played.window.latency() >= span.within(Nanos::ZERO, came.came));
        (played, vec![truth])
    });
}
