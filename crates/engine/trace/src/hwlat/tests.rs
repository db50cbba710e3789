use super::*;
use crate::testing::FakeTracefs;
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const PID: u32 = 4_711;
const OWNER: Owner = Owner {
    pid: PID,
    start: 88,
};

fn machine(tracers: &str) -> (tempfile::TempDir, Arc<FakeTracefs>, Tracefs) {
    let folder = tempfile::tempdir().unwrap();
    let fake = Arc::new(FakeTracefs::new(folder.path(), tracers).unwrap());
    let files = Arc::clone(&fake) as Arc<dyn crate::Files>;
    let tracefs = Tracefs::find_with(folder.path(), files).unwrap();
    (folder, fake, tracefs)
}

fn ask() -> Ask {
    Ask {
        window: Nanos::from_millis(100),
        width: Nanos::from_millis(50),
        threshold: Nanos::from_micros(7),
        cpus: "0-1,33".parse().unwrap(),
    }
}

fn line(sequence: u64) -> String {
    format!(" hwlatd-9 [001] d..1. 5.000001: #{sequence} inner/outer(us): 12/14 ts:7.5 count:1\n")
}

fn read(root: &Path, name: &str) -> String {
    let path = root.join("sys/kernel/tracing").join(name);
    fs::read_to_string(path).unwrap().trim().to_owned()
}

#[test]
fn session_sets_reads_and_restores_hwlat() {
    let (root, fake, tracefs) = machine("hwlat nop");
    let before = fake.in_force().unwrap();
    tracefs.may_start_hwlat().unwrap();
    assert_eq!(fake.in_force().unwrap(), before);

    let mut hwlat = tracefs.start_hwlat(&ask(), OWNER).unwrap();
    let root = root.path();
    assert_eq!(read(root, "hwlat_detector/window"), "100000");
    assert_eq!(read(root, "hwlat_detector/width"), "50000");
    assert_eq!(read(root, "tracing_thresh"), "7");
    assert!(read(root, "hwlat_detector/mode").contains("[round-robin]"));
    let name = "instances/punctual-hwlat-4711-88.1000000.500000.0.per-cpu";
    let own = |file: &str| read(root, &format!("{name}/{file}"));
    assert_eq!(own("current_tracer"), "hwlat");
    assert_eq!(own("tracing_on"), "1");
    assert_eq!(own("trace_clock"), "local global [mono]");
    assert_eq!(own("tracing_cpumask"), "00000002,00000003");

    assert_eq!(hwlat.take().unwrap(), []);
    let (two, three) = (line(2), line(3));
    fake.print(&format!("{}CPU:1 [LOST 2 EVENTS]\n{}", line(1), &two[..40]))
        .unwrap();
    let sequence = |gaps: Vec<Gap>| gaps.iter().map(|gap| gap.sequence).collect::<Vec<_>>();
    assert_eq!(sequence(hwlat.take().unwrap()), [1]);
    fake.print(&format!("{}{three}", &two[40..])).unwrap();
    assert_eq!(sequence(hwlat.take().unwrap()), [2, 3]);

    hwlat.stop().unwrap();
    assert_eq!(fake.in_force().unwrap(), before);
    hwlat.stop().unwrap();
    assert_eq!(hwlat.take().unwrap(), []);
}

#[test]
fn dropped_it_puts_back() {
    let (_root, fake, tracefs) = machine("hwlat nop");
    let before = fake.in_force().unwrap();
    drop(tracefs.start_hwlat(&ask(), OWNER).unwrap());
    assert_eq!(fake.in_force().unwrap(), before);
}

#[test]
fn an_older_kernel_has_no_mode() {
    let (root, fake, tracefs) = machine("hwlat nop");
    let mode = root.path().join("sys/kernel/tracing/hwlat_detector/mode");
    fs::remove_file(&mode).unwrap();
    let mut hwlat = tracefs.start_hwlat(&ask(), OWNER).unwrap();
    assert_eq!(
        fake.instances().unwrap(),
        ["punctual-hwlat-4711-88.1000000.500000.0"]
    );
    hwlat.stop().unwrap();
    assert!(!mode.exists());
}

#[test]
fn previous_threshold_is_restored() {
    let (root, fake, tracefs) = machine("hwlat nop");
    fs::write(root.path().join("sys/kernel/tracing/tracing_thresh"), "250").unwrap();
    let mut hwlat = tracefs.start_hwlat(&ask(), OWNER).unwrap();
    hwlat.stop().unwrap();
    let after = fake.in_force().unwrap();
    assert_eq!(after[1], "tracing_thresh 250");
}

#[test]
fn refused_write_changes_nothing() {
    let (_root, fake, tracefs) = machine("hwlat nop");
    let before = fake.in_force().unwrap();
    fake.refuse(usize::MAX, 0);
    let hwlat = tracefs.start_hwlat(&ask(), OWNER).unwrap();
    let writes = fake.written();
    drop(hwlat);
    assert!(writes >= 9, "{writes}");
    for refused in 0..writes {
        fake.refuse(refused, 1);
        let error = tracefs.start_hwlat(&ask(), OWNER).unwrap_err();
        assert!(matches!(error, TraceError::Write { .. }), "{error}");
        assert!(error.to_string().contains("lockdown"), "{error}");
        assert_eq!(fake.in_force().unwrap(), before, "write {refused}");
    }
}

#[test]
fn reused_process_number_does_not_prevent_clearing() {
    let (root, fake, tracefs) = machine("hwlat nop");
    let before = fake.in_force().unwrap();
    std::mem::forget(tracefs.start_hwlat(&ask(), OWNER).unwrap());
    let runs = |now: u64| {
        move |pid, start: Option<u64>| pid == PID && start.is_none_or(|start| start == now)
    };
    assert_eq!(tracefs.clear_left_behind(runs(88)).unwrap(), [""; 0]);
    let removed = tracefs.clear_left_behind(runs(99)).unwrap();
    assert_eq!(removed, ["punctual-hwlat-4711-88.1000000.500000.0.per-cpu"]);
    assert_eq!(fake.in_force().unwrap(), before);

    // The name of an instance of an earlier version contains only the process ID of its owner.
    let mut hwlat = tracefs.start_hwlat(&ask(), OWNER).unwrap();
    let instances = root.path().join("sys/kernel/tracing/instances");
    let old = "punctual-hwlat-4711.1000000.500000.0.per-cpu";
    fs::rename(&hwlat.folder, instances.join(old)).unwrap();
    hwlat.over = true;
    assert_eq!(tracefs.clear_left_behind(runs(99)).unwrap(), [""; 0]);
    assert_eq!(tracefs.clear_left_behind(|_, _| false).unwrap(), [old]);
    assert_eq!(fake.in_force().unwrap(), before);
}

#[test]
fn failed_restore_is_reported_and_retried_next() {
    let (_root, fake, tracefs) = machine("hwlat nop");
    let before = fake.in_force().unwrap();
    fake.refuse(usize::MAX, 0);
    drop(tracefs.start_hwlat(&ask(), OWNER).unwrap());
    let all = fake.written();
    // The first write at the end of a session is to tracing_on.
    for refused in 1..6 {
        let mut hwlat = tracefs.start_hwlat(&ask(), OWNER).unwrap();
        fake.refuse(refused, usize::MAX / 2);
        let error = hwlat.stop().unwrap_err();
        assert!(matches!(error, TraceError::NotRestored { .. }), "{error}");
        std::mem::forget(hwlat);
        assert_ne!(fake.in_force().unwrap(), before);
        fake.refuse(usize::MAX, 0);
        assert_eq!(tracefs.clear_left_behind(|_, _| true).unwrap(), [""; 0]);
        assert_eq!(
            tracefs
                .clear_left_behind(|pid, _| pid != PID)
                .unwrap()
                .len(),
            1
        );
        assert_eq!(fake.in_force().unwrap(), before, "write {refused} of {all}");
    }
}

#[test]
fn killed_session_is_undone_at_any_point() {
    let (_root, fake, tracefs) = machine("hwlat nop");
    let before = fake.in_force().unwrap();
    for ended in 0..10 {
        // From this point on, all writes fail, as if the process had been killed.
        fake.refuse(ended, usize::MAX / 2);
        match tracefs.start_hwlat(&ask(), OWNER) {
            Ok(hwlat) => std::mem::forget(hwlat),
            Err(error) => assert!(ended < 9, "{error}"),
        }
        fake.refuse(usize::MAX, 0);
        tracefs.clear_left_behind(|_, _| false).unwrap();
        assert_eq!(fake.in_force().unwrap(), before, "after {ended} writes");
    }
}

#[test]
fn others_instances_are_left_alone() {
    let (root, fake, tracefs) = machine("hwlat nop");
    let theirs = root.path().join("sys/kernel/tracing/instances/theirs");
    crate::Files::make_folder(&*fake, &theirs).unwrap();
    fs::write(theirs.join("current_tracer"), "hwlat").unwrap();
    let before = fake.in_force().unwrap();
    let error = tracefs.start_hwlat(&ask(), OWNER).unwrap_err();
    assert!(matches!(error, TraceError::Busy { .. }), "{error}");
    assert_eq!(tracefs.clear_left_behind(|_, _| false).unwrap(), [""; 0]);
    assert_eq!(fake.in_force().unwrap(), before);
}

#[test]
fn what_another_program_set_meanwhile_stays() {
    let (root, fake, tracefs) = machine("hwlat nop");
    fake.meanwhile(3_000_000);
    let error = tracefs.start_hwlat(&ask(), OWNER).unwrap_err();
    assert!(matches!(error, TraceError::Busy { .. }), "{error}");
    assert_eq!(read(root.path(), "hwlat_detector/window"), "3000000");
    assert_eq!(fake.instances().unwrap(), [""; 0]);
    drop(tracefs.start_hwlat(&ask(), OWNER).unwrap());
    assert_eq!(read(root.path(), "hwlat_detector/window"), "3000000");
}

#[test]
fn what_is_not_there_is_named() {
    let (_root, fake, tracefs) = machine("function nop");
    let before = fake.in_force().unwrap();
    for error in [
        tracefs.may_start_hwlat().unwrap_err(),
        tracefs.start_hwlat(&ask(), OWNER).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("no tracer 'hwlat'"), "{text}");
        assert!(text.contains("function, nop"), "{text}");
    }
    assert_eq!(fake.in_force().unwrap(), before);
    let empty = tempfile::tempdir().unwrap();
    let error = Tracefs::find(empty.path()).unwrap_err();
    assert!(matches!(error, TraceError::NotMounted { .. }), "{error}");
}

#[test]
fn it_is_found_within_debugfs_too() {
    let root = tempfile::tempdir().unwrap();
    let tracing = root.path().join("sys/kernel/debug/tracing");
    fs::create_dir_all(&tracing).unwrap();
    fs::write(tracing.join("available_tracers"), "blk nop\n").unwrap();
    let tracefs = Tracefs::find(root.path()).unwrap();
    assert_eq!(tracefs.path(), tracing);
    assert_eq!(tracefs.available_tracers().unwrap(), ["blk", "nop"]);
}

#[test]
fn this_machine_says_whether_it_can() {
    match Tracefs::find(Path::new("/")).and_then(|tracefs| tracefs.may_start_hwlat()) {
        Ok(()) => punctual_testing::skip!(
            Kernel,
            "this kernel has hwlat and therefore refuses \
            nothing"
        ),
        Err(error) => {
            let text = error.to_string();
            let expected = ["not mounted", "no tracer 'hwlat'", "cannot read"];
            assert!(expected.iter().any(|part| text.contains(part)), "{text}");
        }
    }
}

#[test]
fn request_without_pause_is_refused() {
    let (_root, fake, tracefs) = machine("hwlat nop");
    let us = Nanos::from_micros;
    for (window, width, threshold) in [
        (us(5), us(5), us(1)),
        (us(5), Nanos(999), us(1)),
        (us(5), us(1), Nanos(999)),
    ] {
        let ask = Ask {
            window,
            width,
            threshold,
            ..ask()
        };
        let error = tracefs.start_hwlat(&ask, OWNER).unwrap_err();
        assert!(matches!(error, TraceError::Ask { .. }), "{error}");
    }
    assert_eq!(fake.written(), 0);
}

proptest! {
    #[test]
    fn any_window_is_set_and_put_back(
        window in 2_u64..10_000_000, part in 0.0_f64..1.0, threshold in 1_u64..100_000,
    ) {
        let (root, fake, tracefs) = machine("hwlat nop");
        let before = fake.in_force().unwrap();
        let width = ((window as f64 * part) as u64).clamp(1, window - 1);
        let ask = Ask {
            window: Nanos::from_micros(window),
            width: Nanos::from_micros(width),
            threshold: Nanos::from_micros(threshold),
            cpus: CpuSet::from_iter([0]),
        };
        let mut hwlat = tracefs.start_hwlat(&ask, OWNER).unwrap();
        prop_assert_eq!(read(root.path(), "hwlat_detector/window"), window.to_string());
        prop_assert_eq!(read(root.path(), "hwlat_detector/width"), width.to_string());
        hwlat.stop().unwrap();
        prop_assert_eq!(fake.in_force().unwrap(), before);
    }

    #[test]
    fn no_bytes_panic(parts in proptest::collection::vec(
        proptest::collection::vec(any::<u8>(), 0..200), 0..30)
    ) {
        let (mut rest, mut gaps) = (Vec::new(), Vec::new());
        for part in parts {
            rest.extend(part);
            cut_lines(&mut rest, &mut gaps);
        }
    }
}
