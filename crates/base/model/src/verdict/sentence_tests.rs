//! Tests of the texts of a verdict: outcomes, claims, limits and the bound of the maximum.

use super::tests::{require, thread};
use super::*;
use crate::{Claim, JudgedBy, Question};

#[test]
fn outcomes_are_good_bad_open_or_without_requirement() {
    use Outcome::*;
    for (outcome, word, [good, bad, open]) in [
        (Met, "met", [true, false, false]),
        (Held, "held", [true, false, false]),
        (Exceeded, "exceeded", [false, true, false]),
        (Broken, "broken", [false, true, false]),
        (NotDecidable, "not decidable", [false, false, true]),
        (NotProven, "not proven", [false, false, true]),
        (NoRequirement, "no requirement", [false, false, false]),
    ] {
        assert_eq!(outcome.word(), word);
        assert_eq!(
            [outcome.is_good(), outcome.is_bad(), outcome.is_open()],
            [good, bad, open]
        );
        assert_eq!(
            Outcome::ALL.iter().filter(|one| one.0 == outcome).count(),
            1
        );
    }
    let judges = [JudgedBy::Check, JudgedBy::Experiment, JudgedBy::Improve];
    for judge in judges {
        let json = serde_json::to_string(&judge).unwrap();
        assert!(
            judge.name().contains(json.trim_matches('"')),
            "{json} {}",
            judge.name()
        );
    }
}

fn claim(question: Question, outcome: Outcome) -> Claim {
    Claim {
        name: "n".to_owned(),
        question,
        outcome,
        decides: true,
        quantity: "late seconds a day".to_owned(),
        required: "at most 10".to_owned(),
        bound: Some("at most 7".to_owned()),
        measured: Some("without a bound".to_owned()),
        value: Some(7.0),
        limit: 10.0,
        unit: ClaimUnit::SecondsPerDay,
        confidence: Some(0.95),
        condition: Some("if so".to_owned()),
        evidence: "some evidence".to_owned(),
        lacking: Vec::new(),
    }
}

#[test]
fn claim_says_bound_confidence_condition_and_evidence() {
    let statement = |change: fn(&mut Claim)| {
        let mut claim = claim(Question::Machine, Outcome::Held);
        change(&mut claim);
        claim.statement()
    };
    let end = "; required: at most 10; some evidence";
    assert_eq!(
        statement(|_| ()),
        format!("at most 7 late seconds a day (95% confidence, if so){end}")
    );
    assert_eq!(
        statement(|one| one.bound = None),
        format!("late seconds a day without a bound (95% confidence, if so){end}")
    );
    let unknown = format!("late seconds a day unknown{end}");
    assert_eq!(
        statement(|one| (one.bound, one.measured, one.condition) = (None, None, None)),
        unknown
    );
    assert_eq!(
        statement(|one| (one.bound, one.measured, one.confidence) = (None, None, None)),
        unknown
    );
    assert_eq!(
        statement(|one| {
            (one.confidence, one.bound) = (None, None);
            one.lacking = vec!["a".to_owned(), "b".to_owned()];
        }),
        format!("late seconds a day without a bound{end}; a; b")
    );
    for (question, outcome, begin) in [
        (Question::Machine, Outcome::Held, "held: "),
        (Question::Machine, Outcome::NotProven, "not proven: "),
        (Question::Run, Outcome::Met, "met in this run: "),
        (Question::Run, Outcome::Exceeded, "exceeded in this run: "),
        (
            Question::Run,
            Outcome::NotDecidable,
            "not decidable from this run: ",
        ),
    ] {
        let claim = claim(question, outcome);
        assert_eq!(claim.sentence(), format!("{begin}{}", claim.statement()));
    }
    assert_eq!(
        [Question::Run, Question::Machine].map(Question::words),
        ["this run", "the machine"]
    );
}

#[test]
fn void_verdict_keeps_what_is_bad() {
    use Outcome::*;
    for (outcome, void) in [
        (Met, NotDecidable),
        (Held, NotProven),
        (Exceeded, Exceeded),
        (Broken, Broken),
        (NotProven, NotProven),
    ] {
        let mut verdict = require("max", 50).judge(&[thread(&[10], 0)]);
        assert_eq!(verdict.limits[0].held, Some(true));
        verdict.outcome = outcome;
        verdict.claims = vec![claim(Question::Machine, outcome); 2];
        verdict.claims[1].decides = false;
        let said = verdict.sentence.clone();
        verdict.make_void("void: no load".to_owned());
        assert_eq!(verdict.outcome, void);
        let lacking = verdict.limits[0].lacking.as_deref();
        assert_eq!(
            (verdict.limits[0].held, lacking),
            (None, Some("void: no load"))
        );
        assert_eq!(verdict.claims[0].outcome, void);
        assert_eq!(verdict.claims[0].lacking, ["void: no load"]);
        assert_eq!(
            verdict.claims[1],
            Claim {
                decides: false,
                ..claim(Question::Machine, outcome)
            }
        );
        let expected = if outcome.is_bad() {
            format!("{said}; void: no load")
        } else {
            "void: no load".to_owned()
        };
        assert_eq!(verdict.sentence, expected);
    }
    // A limit that was exceeded stays exceeded.
    let mut verdict = require("max", 5).judge(&[thread(&[10], 0)]);
    verdict.make_void("void".to_owned());
    assert_eq!(verdict.limits[0].held, Some(false));
}

fn bound() -> Bound {
    Bound {
        exceeded_ns: Nanos(120_000),
        late_seconds_per_day: Some(71.25),
        episodes_per_day: None,
        confidence: 0.95,
        measured_ns: Nanos::from_secs(60),
        thread: None,
        doubt: None,
        phase: None,
    }
}

#[test]
fn bound_of_the_maximum_is_said_with_its_condition() {
    let said = |change: fn(&mut Bound)| {
        let mut bound = bound();
        change(&mut bound);
        bound.sentence()
    };
    let end = "(95%, if the rest of the day is like these 60.0 s";
    assert_eq!(
        said(|_| ()),
        format!("at most 72 seconds a day have a latency above 120 µs {end})")
    );
    assert_eq!(
        said(|one| (one.thread, one.phase) = (Some("CPU 3".to_owned()), Some("disk".to_owned()))),
        format!(
            "at most 72 seconds a day have a latency above 120 µs on CPU 3 {end} of phase disk)"
        )
    );
    assert_eq!(
        said(|one| (one.late_seconds_per_day, one.episodes_per_day) = (None, Some(0.32))),
        format!("at most 0.4 episodes a day exceed 120 µs {end})")
    );
    assert_eq!(
        said(|one| one.late_seconds_per_day = None),
        "no bound is known"
    );
    assert_eq!(
        said(|one| one.doubt = Some("why".to_owned())),
        "no bound: why"
    );
    assert_eq!(
        said(|one| one.measured_ns = Nanos(2_999_999_999)),
        "too short for a bound: 3.00 s measured, but 3 s are needed"
    );
    assert!(said(|one| one.measured_ns = SHORTEST).starts_with("at most 72 seconds"));
    assert_eq!(
        said(|one| one.late_seconds_per_day = Some(86_400.0)),
        "no bound: too many periods are of unknown latency"
    );
    // A minute with nothing unknown: -ln(0.05) in 60 s.
    let found = Bound::new(Nanos(5), Nanos::from_secs(60), 0, None).unwrap();
    assert_eq!(found.late_seconds_per_day, Some(4_313.854_5));
    assert_eq!((found.exceeded_ns, found.confidence), (Nanos(5), 0.95));
    assert_eq!(found.measured_ns, Nanos::from_secs(60));
    let most = Bound::new(Nanos(5), Nanos::from_secs(60), 100_000, None).unwrap();
    assert_eq!(most.late_seconds_per_day, Some(86_400.0));
    assert_eq!(Bound::new(Nanos(5), Nanos::ZERO, 0, None), None);
}

#[test]
fn confidence_is_that_of_the_maximum_unless_a_check_up_has_a_bound() {
    let mut verdict = require("max", 50).judge(&[thread(&[10], 0)]);
    verdict.bound = None;
    assert_eq!(verdict.confidence(), None);
    verdict.bound = Some(bound());
    assert_eq!(verdict.confidence(), Some(bound().sentence()));
    verdict.claims.push(claim(Question::Machine, Outcome::Held));
    assert_eq!(verdict.confidence(), None);
}

/// Rates are rounded up, so that a bound stays a bound.
#[test]
fn rates_are_rounded_up() {
    for (rate, text) in [
        (12_345.1, "12,346"),
        (10.0, "10"),
        (10.01, "11"),
        (9.99, "10.0"),
        (9.81, "9.9"),
        (0.1, "0.1"),
        (0.099_91, "0.1000"),
        (0.012_31, "0.0124"),
        (0.0, "0.0000"),
    ] {
        assert_eq!(number(rate), text);
    }
    assert_eq!(rounded_up(1.000_01), 1.0001);
}

#[test]
fn limit_is_said_with_value_place_and_reason() {
    let threads = [thread(&[10], 0)];
    let said = |metric: &str, measured, held, lacking: Option<&str>| {
        let result = LimitResult {
            limit: require(metric, 50_000).limits[0],
            measured,
            thread: Some(0),
            held,
            periods: None,
            lacking: lacking.map(str::to_owned),
            above: None,
        };
        let is_warning = metric == "warn";
        assert_eq!(result.is_warn_level(), is_warning);
        assert_eq!(
            result.is_reached_warn_level(),
            is_warning && held == Some(false)
        );
        result.sentence(&threads)
    };
    for (metric, measured, held, text) in [
        (
            "max",
            Some(20_000),
            Some(true),
            "max is 20.0 µs on CPU 1, limit 50.0 µs",
        ),
        (
            "p99",
            Some(20_000),
            None,
            "p99 is 20.0 µs on CPU 1, limit 50.0 µs (why)",
        ),
        (
            "max",
            None,
            None,
            "max could not be measured on CPU 1, limit 50.0 µs (why)",
        ),
        (
            "warn",
            Some(60_000),
            Some(false),
            "max is 60.0 µs on CPU 1, warn level 50.0 µs",
        ),
        (
            "warn",
            Some(20_000),
            Some(true),
            "max is 20.0 µs on CPU 1, warn level 50.0 µs",
        ),
    ] {
        let lacking = held.is_none().then_some("why");
        assert_eq!(said(metric, measured, held, lacking), text);
    }
}
