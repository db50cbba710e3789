//! Joins generated traces of a host and of a guest.

use punctual_tracefile::{JoinError, TraceHead, join};

use crate::made::{Form, USUAL};

type Options = Vec<(u64, Vec<u8>)>;

/// A measured difference of clocks.
const SAMPLE: &[(u64, i64)] = &[(1_000, 500)];

fn head(form: &Form, clock: &str, options: &Options) -> TraceHead {
    let page = form.page(2_000, 0, &[(0, form.switch(1, 2))]);
    let file = form.file(clock, options, &[vec![page]]);
    crate::sound::any(&file).expect("a trace").1
}

fn host(form: &Form) -> Options {
    let other = form.guest("db", 8, &[50]);
    vec![form.trace_id(7), other, form.guest("web", 9, &[100, 101])]
}

fn guest(form: &Form) -> Options {
    let shift = form.time_shift(7, &[SAMPLE, SAMPLE]);
    vec![form.trace_id(9), shift]
}

#[test]
fn guest_is_found_in_each_layout() {
    for version in [6, 7] {
        for is_big in [false, true] {
            let form = Form {
                version,
                is_big,
                ..USUAL
            };
            let host = head(&form, "mono", &host(&form));
            let found = join(&host, &head(&form, "mono", &guest(&form))).unwrap();
            assert_eq!((found.name.as_str(), found.id), ("web", 9));
            assert_eq!(found.vcpus, [(0, 100), (1, 101)].into(), "{form:?}");
        }
    }
}

#[test]
fn traces_apart_name_the_reason() {
    let form = USUAL;
    let without = |id: u64| -> Options {
        let mut options = guest(&form);
        options.retain(|(option, _)| *option != id);
        options
    };
    let with = |option: (u64, Vec<u8>)| -> Options {
        let mut options = without(option.0);
        options.push(option);
        options
    };
    let calibrated = |multiplier| (14, form.numbers(&[(multiplier, 4), (24, 4), (0, 8)]));
    let both = |guest: Options| {
        join(
            &head(&form, "mono", &host(&form)),
            &head(&form, "mono", &guest),
        )
    };
    let plain = Vec::new();
    for (joined, expected) in [
        (
            join(
                &head(&form, "mono", &plain),
                &head(&form, "mono", &guest(&form)),
            ),
            "names no guest",
        ),
        (
            join(
                &head(&form, "mono", &guest(&form)),
                &head(&form, "mono", &host(&form)),
            ),
            "swap the two",
        ),
        (both(plain.clone()), "no trace ID"),
        (
            both(with(form.trace_id(10))),
            "0xa, and the host's file names db (0x8), web (0x9)",
        ),
        (
            both(with(form.time_shift(6, &[SAMPLE, SAMPLE]))),
            "of the trace 0x6, but the host's file has the trace ID 0x7",
        ),
        (
            both(without(12)),
            "has no time shift (option TIME_SHIFT), so",
        ),
        (
            both(with(form.time_shift(7, &[&[], &[]]))),
            "has no time shift (option TIME_SHIFT), so",
        ),
        (
            both(with(form.time_shift(7, &[SAMPLE, &[]]))),
            "has no time shift (option TIME_SHIFT) for CPU 1, so",
        ),
        (
            both(with(form.time_shift(7, &[SAMPLE]))),
            "has no time shift (option TIME_SHIFT) for CPU 1, so",
        ),
        (
            both(with((7, b"5\0".to_vec()))),
            "5 ns to those of the guest's file",
        ),
        (
            join(
                &head(&form, "mono", &host(&form)),
                &head(&form, "boot", &guest(&form)),
            ),
            "clock mono and the guest's file boot",
        ),
        (
            both(with(calibrated(5))),
            "clock mono and the guest's file mono (x 5 >> 24)",
        ),
    ] {
        let error = joined.expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!matches!(error, JoinError::NoShift(ref cpus) if cpus.len() > 1));
    }
}

#[test]
fn one_calibrated_counter_has_two_names() {
    let form = USUAL;
    let calibration = (14, form.numbers(&[(5_368_709, 4), (24, 4), (0, 8)]));
    let (mut of_host, mut of_guest) = (host(&form), guest(&form));
    of_host.push(calibration.clone());
    of_guest.push(calibration);
    let host = head(&form, "tsc2nsec", &of_host);
    let found = join(&host, &head(&form, "x86-tsc", &of_guest)).unwrap();
    assert_eq!(found.name, "web");
}

#[test]
fn damaged_identity_is_skipped() {
    let form = USUAL;
    for (id, damaged) in [
        (11, vec![1, 2]),
        (13, b"no end".to_vec()),
        (13, {
            let mut option = form.guest("web", 9, &[100]).1;
            let end = option.len() - 12;
            option[end..end + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            option
        }),
    ] {
        let head = head(&form, "mono", &vec![(id, damaged)]);
        assert!(head.session.guests.is_empty() && head.session.id.is_none());
        let told = format!("skipped option {id}: ");
        assert!(
            head.warnings.iter().any(|text| text.starts_with(&told)),
            "{:?}",
            head.warnings
        );
    }
}
