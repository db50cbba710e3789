use punctual_model::{ApplicationChange, ChangeKind, NumberEffect};

use super::*;

struct Nobody;

impl Watcher for Nobody {
    fn begin(&mut self, _: &punctual_model::Recording) {}
    fn progress(&mut self, _: &punctual_session::Snapshot) {}
    fn end(&mut self) {}
}

/// Compares two conditions that the command knows from its environment.
fn run(command: &str, change: fn(&mut NumbersRequest)) -> Result<NumbersExperiment, String> {
    let arm = |name: &str, action: ArmAction| Arm {
        name: name.to_owned(),
        action,
    };
    let mut asked = NumbersRequest {
        meter: Meter::Command {
            command: command.to_owned(),
            deadline: Nanos::from_secs(300),
        },
        higher_is_better: false,
        margin: 0.01,
        arms: vec![
            arm("a", ArmAction::Unchanged),
            arm("b", ArmAction::Unchanged),
        ],
        wash_out: Nanos::ZERO,
        deadline: None,
        rounds: Some(8),
        time: Nanos::from_secs(600),
        seed: 5,
        label: None,
        command_line: Vec::new(),
    };
    change(&mut asked);
    let folder = tempfile::tempdir().unwrap();
    let bench = NumbersBench {
        host: &Host::new(folder.path()),
        store: None,
        journal: None,
        stop: &AtomicBool::new(false),
        view: &mut Nobody,
        say: &mut |_| {},
        alive: &|| {},
    };
    let ran = run_numbers(&asked, bench).map_err(|error| error.to_string())?;
    assert_eq!(ran.id, None);
    Ok(ran.experiment)
}

/// The noise depends on the block, and is larger than the effect.
const NOISY: &str = r#"
    echo noise >&2
    noise=$(( (${PUNCTUAL_BLOCK#pilot} + 0) * 37 % 11 ))
    [ "$PUNCTUAL_SIDE" = b ] && effect=3 || effect=0
    echo "time $(( 100 + noise + effect )) ms"
    echo "same 7"
"#;

#[test]
fn worse_and_equal_numbers_are_told_apart() {
    let found = run(NOISY, |_| {}).unwrap();
    assert_eq!(found.blocks.len(), 16);
    let [same, time] = found.results.as_slice() else {
        panic!("{:?}", found.results);
    };
    assert_eq!(
        (time.name.as_str(), time.effect),
        ("time", NumberEffect::Worse)
    );
    assert_eq!(same.effect, NumberEffect::Equivalent, "{same:?}");
    let [low, high] = [time.low, time.high].map(Option::unwrap);
    assert!(
        low > 0.0 && low < time.difference && time.difference < high,
        "{time:?}"
    );
    assert!(
        found.sentence.contains("b: time is worse: +2."),
        "{}",
        found.sentence
    );
    let higher = run(NOISY, |asked| asked.higher_is_better = true).unwrap();
    assert_eq!(higher.results[1].effect, NumberEffect::Better);
    // The order depends only on the seed.
    let order = |one: &NumbersExperiment| -> Vec<u32> {
        one.blocks.iter().map(|block| block.arm).collect()
    };
    assert_eq!(order(&found), order(&higher));
    assert!(order(&found) != [0, 1].repeat(8));
}

#[test]
fn commands_without_numbers_fail_with_their_output() {
    for (command, parts) in [
        (
            "echo done; echo why >&2",
            &["'done' is neither", "done"][..],
        ),
        (
            "echo 1; echo 2",
            &["2 numbers were printed where one is due"],
        ),
        ("true", &["no number was printed"]),
        (
            "echo 1; echo it is broken >&2; exit 7",
            &["exit status 7", "it is broken"],
        ),
        ("echo 1; kill -9 $$", &["ended by a signal"]),
        // The first numbers would be missing.
        (
            "seq 20000 | sed 's/.*/n& 1/'",
            &["more than 65536 bytes", "print fewer numbers"],
        ),
        (
            r#"[ "$PUNCTUAL_SIDE" = b ] && echo "b 1" || echo "a 1""#,
            &["the first run printed other numbers (a)", "b 1"],
        ),
    ] {
        let error = run(command, |_| {}).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{command}: {error}");
        }
        assert!(error.contains("the command '"), "{error}");
    }
}

#[test]
fn hanging_command_is_ended_at_its_deadline() {
    let error = run("echo started; sleep 600", |asked| {
        if let Meter::Command { deadline, .. } = &mut asked.meter {
            *deadline = Nanos::from_millis(200);
        }
    })
    .unwrap_err();
    assert!(
        error.contains("had not ended after 200 ms") && error.contains("started"),
        "{error}"
    );
}

#[test]
fn too_few_pairs_are_refused() {
    let error = run("echo 1", |asked| asked.rounds = Some(5)).unwrap_err();
    assert!(error.contains("pass --pairs 6 or more"), "{error}");
    let error = run("echo 1; sleep 0.1", |asked| {
        asked.rounds = None;
        asked.time = Nanos::from_millis(500);
    })
    .unwrap_err();
    assert!(
        error.contains("at least 6 are needed: pass --duration"),
        "{error}"
    );
}

/// A number that is 0 in some runs has no ratio.
#[test]
fn differences_of_numbers_with_zero_are_absolute() {
    let command = r#"[ "$PUNCTUAL_SIDE" = b ] && echo 4 || echo 0"#;
    let found = run(command, |_| {}).unwrap();
    let one = &found.results[0];
    assert_eq!((one.relative, one.difference), (false, 4.0));
    assert_eq!(one.effect, NumberEffect::Worse);
}

/// Fewer jobs are stated before the share of late ones.
#[test]
fn different_number_of_jobs_is_stated_first() {
    let mut found = run("echo 5", |_| {}).unwrap();
    let answered = |found: &NumbersExperiment| answer(found, &found.results);
    for block in &mut found.blocks {
        let jobs = if block.arm == 0 { 100.0 } else { 97.0 };
        block.values.insert(meter::JOBS.to_owned(), jobs);
    }
    assert!(
        answered(&found).starts_with("b: the number"),
        "{}",
        answered(&found)
    );
    for block in found.blocks.iter_mut().filter(|block| block.arm == 1) {
        block.values.insert(meter::JOBS.to_owned(), 88.0);
    }
    let change = |kind, text: &str| ApplicationChange {
        kind,
        text: text.to_owned(),
    };
    // The text of a change does not matter, only its kind.
    let restart = |text| change(ChangeKind::Restarted, text);
    found.blocks[3].notes = vec![restart("the processes restarted after 3.00 s")];
    found.blocks[4].notes = vec![
        restart("after 5.00 s, the processes restarted"),
        change(ChangeKind::Joined, "new processes joined"),
    ];
    let restarted = "in 2 of 16 blocks, which went on, the processes restarted after 3.00 s; in 1 of 16 \
                     blocks, which went on, new processes joined; ";
    let answer = answered(&found);
    let answer = answer.strip_prefix(restarted).unwrap_or_default();
    let first = "b handled 12% fewer jobs (100.0 a second, then 88.0); b: the number";
    assert!(answer.starts_with(first), "{}", answered(&found));
}
