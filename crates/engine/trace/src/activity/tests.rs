use std::sync::Arc;

use super::*;
use crate::testing::{FakeTracefs, PageBuilder, Piece, Value, layout, record};
use crate::{Files, Lost};

struct Kernel {
    _folder: tempfile::TempDir,
    fake: Arc<FakeTracefs>,
    tracefs: Tracefs,
}

/// Returns a kernel without these events.
fn kernel(without: &[&str]) -> Kernel {
    let folder = tempfile::tempdir().unwrap();
    let fake = Arc::new(FakeTracefs::new(folder.path(), "nop").unwrap());
    fake.with_events(without).unwrap();
    let files = Arc::clone(&fake) as Arc<dyn Files>;
    Kernel {
        tracefs: Tracefs::find_with(folder.path(), files).unwrap(),
        _folder: folder,
        fake,
    }
}

impl Kernel {
    fn watch(&self, kind: ActivityKind) -> Result<ActivityWatch, TraceError> {
        let owner = Owner { pid: 9, start: 4 };
        let names = ActivityNames {
            thread: Box::new(|_| None),
            symbol: Box::new(|_| None),
        };
        ActivityWatch::start(&self.tracefs, owner, kind, 4, names)
    }

    fn enabled(&self) -> Vec<String> {
        let all = self.fake.switched_on().unwrap();
        all.iter()
            .map(|event| event.trim_end_matches(" none").to_owned())
            .collect()
    }
}

#[test]
fn each_kind_enables_only_its_events() {
    let kernel = kernel(&[]);
    for (kind, expected) in [
        (
            ActivityKind::Softirq,
            &["irq:softirq_entry", "irq:softirq_exit", "irq:softirq_raise"][..],
        ),
        (
            ActivityKind::Napi,
            &[
                "irq:softirq_entry vec == 3",
                "irq:softirq_exit vec == 3",
                "napi:napi_poll",
            ],
        ),
        (
            ActivityKind::Irq,
            &[
                "ipi:ipi_entry",
                "ipi:ipi_exit",
                "irq:irq_handler_entry",
                "irq:irq_handler_exit",
                "irq_vectors:local_timer_entry",
                "irq_vectors:local_timer_exit",
                "irq_vectors:reschedule_entry",
                "irq_vectors:reschedule_exit",
            ],
        ),
    ] {
        let watch = kernel.watch(kind).unwrap();
        assert_eq!(kernel.enabled(), expected, "{kind:?}");
        watch.stop().unwrap();
        assert_eq!(kernel.fake.instances().unwrap(), [""; 0]);
    }
}

#[test]
fn pages_of_the_kernel_are_counted() {
    let kernel = kernel(&[]);
    let mut watch = kernel.watch(ActivityKind::Irq).unwrap();
    let fields = [Value::Number(27), Value::Name("eth0")];
    let mut page = PageBuilder::new(layout(cfg!(target_endian = "big")));
    for (after, bytes) in [
        (0, record("irq/irq_handler_entry", 0, 3, &fields)),
        (50, record("irq_vectors/local_timer_entry", 0, 3, &[])),
        (100, record("irq_vectors/local_timer_exit", 0, 3, &[])),
        (
            150,
            record(
                "irq/irq_handler_exit",
                0,
                3,
                &[Value::Number(27), Value::Number(1)],
            ),
        ),
    ] {
        page.write(&Piece::Event(after, bytes));
    }
    // The page begins after the start of the watch, and long enough before the read.
    let begin = monotonic().0;
    std::thread::sleep(crate::HELD_BACK * 2);
    let put = |page: &[u8]| assert_eq!(kernel.fake.put_page(page).unwrap(), 1);
    put(&page.page(begin, None));
    let seen = watch.read().unwrap();
    assert_eq!((seen.of, seen.events_lost), (ActivityKind::Irq, 0));
    let rows: Vec<_> = (seen.rows.iter())
        .map(|row| (row.source.name.as_deref(), row.count, row.run.sum_ns))
        .collect();
    assert_eq!(
        rows,
        [(Some("eth0"), 1, 300), (Some("local_timer"), 1, 100)]
    );
    let empty = PageBuilder::new(layout(cfg!(target_endian = "big")));
    put(&empty.page(begin, Some(Lost::Count(8))));
    let seen = watch.read().unwrap();
    assert_eq!(seen.events_lost, 8);
    assert_eq!(seen.missing, [""; 0]);
}

#[test]
fn missing_events_are_reported() {
    let kernel = kernel(&["napi:napi_poll", "irq:softirq_raise", "ipi:ipi_send_cpu"]);
    let error = kernel.watch(ActivityKind::Napi).unwrap_err();
    assert!(error.to_string().contains("no trace event napi_poll"));
    let mut watch = kernel.watch(ActivityKind::Softirq).unwrap();
    assert_eq!(watch.read().unwrap().missing, ["softirq_raise"]);
    drop(watch);
    let mut watch = kernel.watch(ActivityKind::Ipi).unwrap();
    assert_eq!(watch.read().unwrap().missing, ["ipi_send_cpu"]);
}

#[test]
fn refused_watch_leaves_nothing_behind() {
    let kernel = kernel(&[]);
    for first in 0..12 {
        kernel.fake.refuse(first, 100);
        let refused = kernel.watch(ActivityKind::Softirq);
        assert!(refused.is_err(), "{first}");
        assert_eq!(kernel.fake.instances().unwrap(), [""; 0], "{first}");
    }
}
