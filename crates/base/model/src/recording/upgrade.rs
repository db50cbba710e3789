//! Converts the JSON of recordings with earlier schemas.

use serde_json::{Map, Value};

/// Converts the object of a recording from one schema to the next one. An absent key is no error,
/// because a store keeps parts of a recording elsewhere.
type Step = fn(&mut Map<String, Value>);

/// The steps from schema 1 to 2, from 2 to 3, and so on.
const STEPS: [Step; super::SCHEMA_VERSION as usize - 1] = [
    // The outcomes of schema 1 have aliases, and the verdict is computed again in any case.
    |_| {},
    |_| {},
    |_| {},
    name_top_samples,
];

/// Schemas 1 to 4 wrote causes in forms that no longer exist. The figures do not depend on them.
fn name_top_samples(recording: &mut Map<String, Value>) {
    let mut had_causes = false;
    if let Some(mut samples) = recording.remove("worst") {
        for sample in samples.as_array_mut().into_iter().flatten() {
            let blame = sample.as_object_mut().and_then(|one| one.remove("blame"));
            had_causes |= blame.is_some_and(|blame| !blame.is_null());
        }
        recording.insert("top_samples".to_owned(), samples);
    }
    let explanation = recording.remove("explanation");
    had_causes |= explanation.is_some_and(|one| !one.is_null());
    if had_causes && let Some(Value::Array(warnings)) = recording.get_mut("warnings") {
        warnings.push(WITHOUT_CAUSES.into());
    }
}

const WITHOUT_CAUSES: &str = "an older version of punctual wrote the causes of the outliers in a \
                              form that this version cannot read; they are left out";

/// Converts a recording of an earlier schema to the current one. The key `schema` stays, because
/// [`bring_up_to_date`](super::Recording::bring_up_to_date) needs it.
pub(super) fn upgrade(found: u64, recording: &mut Value) {
    let done = usize::try_from(found.saturating_sub(1)).unwrap_or(usize::MAX);
    if let Value::Object(recording) = recording {
        for step in STEPS.iter().skip(done) {
            step(recording);
        }
    }
}
