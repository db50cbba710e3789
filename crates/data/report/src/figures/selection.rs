//! A text about the late reactions in another tool's trace: how many there are, and which are
//! explained.

use punctual_model::{Explanation, TraceSummary, counted, grouped};

/// Returns how many reactions were found, and which are explained.
pub(super) fn selection(explanation: &Explanation, trace: &TraceSummary) -> String {
    let whose = if trace.real_time_only {
        "of real-time threads"
    } else {
        "of all selected threads"
    };
    let kept = explanation.outliers.len() as u64;
    if explanation.jobs.is_some() {
        let (jobs, budget) = (
            counted(explanation.seen, "job", "jobs"),
            explanation.threshold_ns,
        );
        let mut text = format!("{jobs} above {budget}");
        if explanation.seen > kept {
            text.push_str(&format!(
                "; {} of the longest were explained",
                grouped(kept)
            ));
        }
        return text;
    }
    let reactions = counted(explanation.seen, "reaction", "reactions");
    let (count, threshold) = (grouped(kept), explanation.threshold_ns);
    let mut text = match (explanation.threshold_ns.0, explanation.seen) {
        (0, 0) => format!("no reaction {whose}"),
        (0, seen) if seen > kept => format!(
            "{reactions} {whose}; the {count} longest were \
            explained"
        ),
        (0, _) => format!("{reactions} {whose}; all were explained"),
        (_, seen) if seen > kept => {
            format!("{reactions} {whose} above {threshold}; the {count} longest were explained")
        }
        _ => format!("{reactions} {whose} above {threshold}"),
    };
    if let (1.., Some(longest)) = (trace.ordinary, trace.ordinary_max_ns) {
        let others = counted(trace.ordinary, "reaction", "reactions");
        text.push_str(&format!(
            "; {others} of ordinary threads were omitted, the longest {longest} (select threads \
             with --pid or --comm)"
        ));
    }
    text
}
