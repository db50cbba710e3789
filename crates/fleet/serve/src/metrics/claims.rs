//! The claims of the newest recording of each machine, as metrics.

use std::sync::Arc;

use punctual_metrics::{Family, Kind, Sample, Value};
use punctual_model::{Claim, ClaimUnit, percent};

/// A machine, and the claims of its newest recording or over the runs of a series.
pub(super) type Claimed<'a> = (&'a str, Arc<Vec<Claim>>);

/// Returns the bounds or values of all claims, and their limits. The labels have the other parts.
pub(super) fn families(claims: &[Claimed<'_>]) -> Vec<Family> {
    let samples = |value: &dyn Fn(&Claim) -> Option<f64>| -> Vec<Sample> {
        let each =
            (claims.iter()).flat_map(|(name, claims)| claims.iter().map(move |one| (name, one)));
        each.filter_map(|(name, claim)| {
            Some(Sample {
                labels: labels(name, claim),
                value: Value::Number(value(claim)?),
            })
        })
        .collect()
    };
    let family = |name, help, samples| Family {
        name,
        help,
        kind: Kind::Gauge,
        samples,
    };
    vec![
        family(
            "punctual_claim",
            "1 for each claim of the newest verdict, with all its parts as labels.",
            samples(&|_| Some(1.0)),
        ),
        family(
            "punctual_claim_value",
            "Bound of the claim, or else the measured value, in seconds, periods, or seconds a day.",
            samples(&|claim| Some(in_unit(claim.unit, claim.value?))),
        ),
        family(
            "punctual_claim_limit",
            "Largest value that the requirement allows, in the same unit.",
            samples(&|claim| Some(in_unit(claim.unit, claim.limit))),
        ),
    ]
}

fn in_unit(unit: ClaimUnit, value: f64) -> f64 {
    match unit {
        ClaimUnit::Nanoseconds => value / 1e9,
        ClaimUnit::Periods | ClaimUnit::SecondsPerDay => value,
    }
}

fn labels(machine: &str, claim: &Claim) -> Vec<(&'static str, String)> {
    let bound = claim.bound.as_ref().or(claim.measured.as_ref());
    vec![
        ("machine", machine.to_owned()),
        ("claim", claim.name.clone()),
        ("question", claim.question.words().to_owned()),
        ("outcome", claim.outcome.word().to_owned()),
        ("decides", claim.decides.to_string()),
        ("quantity", claim.quantity.clone()),
        ("found", bound.cloned().unwrap_or_default()),
        ("required", claim.required.clone()),
        (
            "confidence",
            claim.confidence.map(percent).unwrap_or_default(),
        ),
        ("condition", claim.condition.clone().unwrap_or_default()),
        ("evidence", claim.evidence.clone()),
        ("lacking", claim.lacking.join("; ")),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The metrics have each part of a claim.
    #[test]
    fn metrics_drop_no_part_of_a_claim() {
        let mut recording = punctual_model::testing::recording(1, 60);
        recording.requirement.confidence = Some(0.6);
        recording.requirement.limits[0].metric = punctual_model::Metric::Percentile(50.0);
        recording.verdict = recording.judge();
        let claims = recording.claims();
        let families = families(&[("board", Arc::new(claims.clone()))]);
        let (_, text) = punctual_metrics::encode(None, &families);
        let text = String::from_utf8(text).unwrap();
        let claim = &claims[0];
        for part in [
            "machine=\"board\"",
            "question=\"the machine\"",
            claim.outcome.word(),
            &claim.required,
            claim.measured.as_deref().unwrap(),
            "confidence=\"60%\"",
            claim.condition.as_deref().unwrap(),
            &claim.evidence,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.lines()
                .any(|line| line.starts_with("punctual_claim_limit{") && line.ends_with(" 2e-4")),
            "{text}"
        );
    }
}
