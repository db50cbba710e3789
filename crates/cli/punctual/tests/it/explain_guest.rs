//! Tests of `punctual explain --trace HOST --guest GUEST` with made traces of known truth.
//!
//! The host runs the virtual CPU, and `hog` for 800 µs instead of it. Meanwhile, a thread of the
//! guest with real-time priority waits for its CPU.

use std::fs;

use serde_json::Value;

use crate::common::Sandbox;
use crate::made::{Form, IRQ_ENTRY, IRQ_EXIT, KVM_ENTRY, KVM_EXIT, Thread, USUAL};

pub(crate) const FORM: Form = Form {
    has_kvm: true,
    ..USUAL
};

const VCPU: Thread<'_> = ("CPU 0/KVM", 100, 120);
const HOG: Thread<'_> = ("hog", 50, 120);
const IDLE: Thread<'_> = ("swapper/0", 0, 120);
const LATE: Thread<'_> = ("control", 42, 19);
const OTHER: Thread<'_> = ("batch", 41, 120);

/// Time of the guest's clock on the clock of the host, in ns.
const SHIFT: i64 = 500_000;
/// Begin of the traces on the clock of the host, in µs.
const BEGIN: u64 = 1_000_000;

/// Returns a page with records at these times in µs, on a clock that differs by `shift` ns.
fn page(form: &Form, shift: i64, records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut last = 0;
    let records: Vec<(u64, Vec<u8>)> = records
        .iter()
        .map(|(time, record)| {
            let delta = (time - last) * 1_000;
            last = *time;
            (delta, record.clone())
        })
        .collect();
    let begin = (BEGIN * 1_000).saturating_add_signed(-shift);
    form.page(begin, 0, &records)
}

fn host_options(form: &Form) -> Vec<(u64, Vec<u8>)> {
    vec![form.trace_id(7), form.guest("web", 9, &[VCPU.1])]
}

fn guest_options(form: &Form, shift: i64) -> Vec<(u64, Vec<u8>)> {
    let shift = form.time_shift(7, &[&[(1_000, shift)]]);
    vec![form.trace_id(9), shift]
}

/// Returns the trace of the host.
fn host(form: &Form) -> Vec<u8> {
    let mut irq = vec![form.number(24, 4), b"eth0".to_vec()];
    irq[1].resize(16, 0);
    let ends = [form.numbers(&[(24, 4), (1, 4)])];
    let enters = form.record(KVM_ENTRY, VCPU.1, &[form.number(0, 4)]);
    let exits = form.record(KVM_EXIT, VCPU.1, &[form.number(1, 4)]);
    let records = [
        (0, form.switch_of(IDLE, 0, VCPU)),
        (2, enters.clone()),
        (200, exits.clone()),
        (201, form.switch_of(VCPU, 0, HOG)),
        (1_001, form.switch_of(HOG, 0, VCPU)),
        (1_003, enters.clone()),
        (1_100, exits.clone()),
        (1_101, form.record(IRQ_ENTRY, VCPU.1, &irq)),
        (1_151, form.record(IRQ_EXIT, VCPU.1, &ends)),
        (1_153, enters),
        (1_400, exits),
    ];
    form.file(
        "mono",
        &host_options(form),
        &[vec![page(form, 0, &records)]],
    )
}

/// Returns the trace of the guest. Its file states that its clock differs by `shift` ns.
fn guest(form: &Form, clock: &str, options: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let records = [
        (100, form.switch_of(IDLE, 0, OTHER)),
        (190, form.waking_of(OTHER.1, LATE, 0)),
        (1_010, form.switch_of(OTHER, 0, LATE)),
        (1_060, form.switch_of(LATE, 1, OTHER)),
        (1_300, form.switch_of(OTHER, 1, IDLE)),
    ];
    form.file(clock, options, &[vec![page(form, SHIFT, &records)]])
}

/// Writes both traces, and returns the options that name them.
/// Writes a trace of a host and one of its guest. Returns the options that name them.
pub(crate) fn write_pair(place: &Sandbox, form: &Form) -> String {
    let options = guest_options(form, SHIFT);
    write(place, &host(form), &guest(form, "mono", &options))
}

fn write(place: &Sandbox, host: &[u8], guest: &[u8]) -> String {
    let (of_host, of_guest) = (place.path("host.dat"), place.path("guest.dat"));
    fs::write(&of_host, host).unwrap();
    fs::write(&of_guest, guest).unwrap();
    format!(
        "--trace {} --guest {}",
        of_host.display(),
        of_guest.display()
    )
}

#[test]
fn host_thread_explains_the_guests_gap() {
    for version in [6, 7] {
        let place = Sandbox::new();
        let form = Form { version, ..FORM };
        let files = write_pair(&place, &form);
        let found: Value =
            serde_json::from_str(&place.done(&format!("explain --json {files}"))).unwrap();
        let outliers = found["outliers"].as_array().unwrap();
        assert_eq!(outliers.len(), 1, "{found}");
        let outlier = &outliers[0]["outlier"];
        assert_eq!(outlier["latency_ns"], 820_000, "{outlier}");
        let shares = outlier["blame"]["shares"].as_array().unwrap();
        let sum: u64 = shares
            .iter()
            .map(|share| share["ns"].as_u64().unwrap())
            .sum();
        assert_eq!(sum, 820_000);
        let of = |who: &str| -> u64 {
            let named = shares.iter().filter(|share| share["who"] == who);
            named.map(|share| share["ns"].as_u64().unwrap()).sum()
        };
        assert_eq!(of("the host: hog-50 running"), 800_000, "{shares:#?}");
        // From the exit to the switch, and from the switch to the entry.
        assert_eq!(of("the host: the vCPU's thread outside guest mode"), 3_000);
        let stolen = shares.iter().filter(|share| share["kind"] == "stolen");
        assert_eq!(stolen.count(), 2, "{shares:#?}");
        let joined = &found["explanation"]["trace"]["host"];
        assert_eq!(joined["guest"], "web");
        assert_eq!(
            (&joined["away_ns"], &joined["unknown_ns"]),
            (&803_000.into(), &0.into())
        );
        let shown = place.done(&format!("explain {files}"));
        assert!(
            shown.contains("stolen: the host: hog-50 running"),
            "{shown}"
        );
        assert!(shown.contains("the trace of the host of web"), "{shown}");
        let perfetto = place.path("both.pftrace");
        place.done(&format!("explain {files} -o {}", perfetto.display()));
        assert!(fs::metadata(perfetto).unwrap().len() > 0);
    }
}

#[test]
fn traces_that_do_not_match_are_refused() {
    let form = FORM;
    let place = Sandbox::new();
    let options = guest_options(&form, SHIFT);
    let right = guest(&form, "mono", &options);
    let shifted = |shift: i64| guest(&form, "mono", &guest_options(&form, shift));
    let bare = Form {
        has_kvm: false,
        ..form
    };
    let without_kvm = bare.file("mono", &host_options(&bare), &[vec![]]);
    let unshifted = guest(&form, "mono", &options[..1]);
    let other = guest(&form, "mono", &[form.trace_id(10), options[1].clone()]);
    let other_clock = guest(&form, "boot", &options);
    for (of_host, of_guest, expected) in [
        (host(&form), guest(&form, "mono", &[]), "no trace ID"),
        (host(&form), other, "were not recorded together"),
        (host(&form), unshifted, "no time shift"),
        (
            host(&form),
            other_clock,
            "the clock mono and the guest's file boot",
        ),
        (right.clone(), host(&form), "swap the two"),
        (without_kvm, right.clone(), "no events of kvm:kvm_entry"),
        (
            host(&form),
            shifted(SHIFT + 400_000),
            "so the time shift in",
        ),
        (
            host(&form),
            shifted(SHIFT + 10_000_000_000),
            "end before those of the guest begin",
        ),
    ] {
        let files = write(&place, &of_host, &of_guest);
        let told = place.refused(&format!("explain {files}"), 1);
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(expected), "{told}");
        assert!(told.contains("host.dat"), "{told}");
    }
    let files = write(&place, &host(&form), &right);
    let stdin = files.split_once(" --guest ").unwrap().0;
    let told = place.refused(&format!("explain {stdin} --guest -"), 2);
    assert!(told.contains("must be a file"), "{told}");
}
