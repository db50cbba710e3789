//! Tests of the command line and of the output of osnoise and hwnoise.

use punctual_model::{Cell, Nanos, Recording, Table, testing};

use super::noise_table;
use super::osnoise::divided;
use super::tests::{LENGTH, import, try_read};

#[test]
fn osnoise_options_are_read() {
    let settings = try_read("rtla osnoise hist", "-p 500000 -T 5 -s 30 -b 50 -E 40").unwrap();
    assert_eq!(
        (settings.period_us, settings.runtime_us()),
        (500_000, 500_000)
    );
    assert_eq!((settings.threshold_us, settings.stop_us), (5, 30));
    let auto = try_read("rtla hwnoise", "-a 7 -q").unwrap();
    assert_eq!(
        (auto.stop_us, auto.threshold_us, auto.runtime_us()),
        (7, 1, 750_000)
    );
    let total = try_read("rtla osnoise top", "-S 5").unwrap();
    assert_eq!((total.stop_us, total.stop_total_us), (0, 5));
    for (line, reason) in [
        ("-r 99", "100"),
        ("-r 1000000 -p 500000", "longer than the period"),
        ("-p 10000001", "10000000"),
        ("-u", "invalid option -- 'u'"),
    ] {
        let error = try_read("rtla osnoise top", line).unwrap_err().to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn long_spins_are_divided() {
    assert_eq!(divided(1_000_000, 1_000_000), (100_000, 90_000));
    assert_eq!(divided(1_000_000, 750_000), (100_000, 75_000));
    assert_eq!(divided(1_000_000, 50_000), (1_000_000, 50_000));
    assert_eq!(divided(10_000, 10_000), (10_000, 9_000));
}

fn add_table(recording: &mut Recording, name: &str, keys: &[&str], rows: &[Vec<Cell>]) {
    let columns: Vec<(&str, &str)> = keys.iter().map(|key| (*key, *key)).collect();
    let mut table = Table::new(name, "", &columns);
    for row in rows {
        table.push(row.clone());
    }
    recording.tables.push(table);
}

fn with_table(name: &str, keys: &[&str], rows: &[Vec<Cell>]) -> Recording {
    let mut recording = testing::recording(2, 0);
    for (cpu, thread) in (0..).zip(&mut recording.threads) {
        thread.cpu = Some(cpu);
        thread.accounting.recorded = 50;
    }
    add_table(&mut recording, name, keys, rows);
    recording
}

fn counts(numbers: &[u64]) -> Vec<Cell> {
    numbers.iter().map(|number| Cell::Count(*number)).collect()
}

#[test]
fn kernels_noise_is_read_by_importers() {
    const ORIGINAL: &str =
        include_str!("../../../../data/formats/tests/fixtures/rtla-osnoise-top-live.txt");
    const HARDWARE: &str =
        include_str!("../../../../data/formats/tests/fixtures/rtla-6.18-hwnoise.txt");
    let row = |cpu| {
        let figures = [
            58,
            52_200_000_000,
            1_031_000,
            91_000,
            60_000,
            0,
            0,
            52_285,
            0,
            101,
        ];
        counts(&[&[cpu][..], &figures].concat())
    };
    let recording = with_table("osnoise", &noise_table::KERNEL_KEYS, &[row(0), row(1)]);
    let all = noise_table::of_kernel(&recording);
    let text = noise_table::top(&all, false, Nanos::from_secs(60));
    let (_, last) = ORIGINAL.rsplit_once("\n\n").unwrap();
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().take(4);
        lines.map(|line| line.trim_end().to_owned()).collect()
    };
    // The file was typed: its rows have other widths.
    let words = |text: &str| {
        lines(text)[3]
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    let words: [Vec<String>; 2] = [words(&text), words(last)];
    assert_eq!(words[0], words[1]);
    assert_eq!(lines(&text)[..3], lines(last)[..3]);
    let read = import(&text);
    assert_eq!(read.origin.as_ref().unwrap().format, "rtla-osnoise-top");
    assert_eq!(
        read.threads[1].histogram.max(),
        Some(Nanos::from_micros(91))
    );

    let text = noise_table::top(&all, true, Nanos::from_secs(600));
    assert_eq!(lines(&text)[..3], lines(HARDWARE)[..3]);
    let width = |text: &str| text.lines().nth(3).unwrap().len();
    assert_eq!(width(&text), width(HARDWARE));
    assert_eq!(import(&text).origin.unwrap().format, "rtla-hwnoise");
}

#[test]
fn unknown_noise_of_own_threads_stays_unknown() {
    let keys = ["cpu", "spun_ns", "most_ns"];
    let spun = [counts(&[0, 9_000_000_000, 170_000])];
    let mut recording = with_table("spinning", &keys, &spun);
    let keys = ["cpu", "cause", "count", "total_ns", "max_ns"];
    let gap = |cause: &str, count, total, max| {
        let mut row = counts(&[0, 0, count, total, max]);
        row[1] = Cell::from(cause);
        row
    };
    let gaps = [
        gap("unaccounted", 3, 30_000, 15_000),
        gap("steal", 1, 4_000, 4_000),
        gap("interrupt", 5, 50_000, 20_000),
        gap("preemption", 2, 90_000, 50_000),
        gap("unknown", 7, 7_000, 1_000),
        gap("below the threshold", 99, 9_000, 900),
    ];
    add_table(&mut recording, "gaps", &keys, &gaps);
    let [noise] = &noise_table::of_threads(&recording, false)[..] else {
        panic!()
    };
    assert_eq!(noise.counts, [Some(4), None, Some(5), None, Some(2)]);
    let figures = (noise.noise, noise.max_noise, noise.max_single);
    assert_eq!(figures, (181, Some(170), 50));
    let [hardware] = &noise_table::of_threads(&recording, true)[..] else {
        panic!()
    };
    let figures = (hardware.noise, hardware.max_noise, hardware.max_single);
    assert_eq!(figures, (34, None, 15));
    for (noise, is_hardware) in [(noise, false), (hardware, true)] {
        let text = noise_table::top(std::slice::from_ref(noise), is_hardware, LENGTH);
        let read = import(&text);
        let row = &read.tables[0].rows[0];
        assert_eq!(
            (&row[1], &row[7]),
            (&Cell::Count(50), &Cell::Unknown),
            "{text}"
        );
    }
}

#[test]
fn noise_histogram_has_the_form_of_the_original() {
    const ORIGINAL: &str =
        include_str!("../../../../data/formats/tests/fixtures/rtla-6.1-osnoise-hist.txt");
    let beyond = [counts(&[0, 26_150_000, 221]), counts(&[1, 32_250_000, 160])];
    let rows = (ORIGINAL.lines().skip(4)).take_while(|line| !line.starts_with("over"));
    let rows: Vec<Vec<Cell>> = rows
        .flat_map(|line| {
            let figures = line.split_whitespace().map(|word| word.parse().unwrap());
            let [from, first, second] = figures.collect::<Vec<u64>>()[..] else {
                panic!("{line}");
            };
            [(0, first), (1, second)].map(|(cpu, gaps)| counts(&[cpu, from * 1_000 + 1_700, gaps]))
        })
        .chain(beyond)
        .filter(|row| row[2] != Cell::Count(0))
        .collect();
    let recording = with_table("osnoise_gap_lengths", &["cpu", "from_ns", "gaps"], &rows);
    let settings = try_read("rtla osnoise hist", "-b 50 -E 40").unwrap();
    let lengths = noise_table::lengths_of_kernel(&recording);
    let text = noise_table::histogram(&lengths, &settings.rows, Nanos::from_secs(4));
    let lines = |text: &str| -> Vec<String> {
        // Version 6.1 rounds the mean.
        let lines = text.lines().filter(|line| !line.starts_with("avg:"));
        lines.map(|line| line.trim_end().to_owned()).collect()
    };
    assert_eq!(lines(&text), lines(ORIGINAL));
    assert_eq!(import(&text).threads[0].histogram.count(), 772_982);

    let turns = [
        counts(&[0, 20, 900_000]),
        counts(&[0, 4_990, 1]),
        counts(&[0, 5_000, 2]),
    ];
    let recording = with_table("turn_lengths", &["cpu", "from_ns", "turns"], &turns);
    let lengths = noise_table::lengths_of_threads(&recording, 5);
    assert_eq!(lengths, [(0, vec![(5_000, 2)])].into());
    let beyond = try_read("rtla osnoise hist", "-E 10 -b 1").unwrap();
    let lengths = [(0, vec![(50_000, 3)])].into();
    let text = noise_table::histogram(&lengths, &beyond.rows, LENGTH);
    let figures = ["over:         3", "count:        3", "max:         50"];
    assert!(figures.iter().all(|figure| text.contains(figure)), "{text}");
    let empty = noise_table::histogram(&Default::default(), &settings.rows, LENGTH);
    let end = "over: 0\ncount: 0\nmin: 0\navg: 0\nmax: 0\n";
    assert!(empty.ends_with(end), "{empty}");
    // Rows without a title have no lines with one, also without noise.
    let bare = try_read("rtla osnoise hist", "--no-index --with-zeros").unwrap();
    let empty = noise_table::histogram(&Default::default(), &bare.rows, LENGTH);
    assert!(
        !empty.contains("count:") && !empty.contains("over:"),
        "{empty}"
    );
}
