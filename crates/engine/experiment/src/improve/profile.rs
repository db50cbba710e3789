//! Converts the settings that help into a profile for `punctual tune`.

use punctual_model::Improvement;

use crate::analysis::times;

/// Returns the settings that help as a profile for `punctual tune`; `None` if there are none.
/// `date`: when they were measured.
pub fn profile(improvement: &Improvement, date: &str) -> Option<String> {
    let kept = || improvement.tried.iter().filter(|one| one.accepted);
    kept().next()?;
    let effect = improvement
        .proof
        .as_ref()
        .map_or_else(String::new, |proof| {
            let pairs = proof.pairs;
            match (proof.ratio, proof.low, proof.high) {
                (Some(ratio), Some(low), Some(high)) => {
                    let [ratio, low, high] = [ratio, low, high].map(times);
                    format!(
                        "# Together, in {pairs} pairs of blocks on fresh data: rate of late slots \
                     {ratio} (95%: {low} to {high}), {date}\n"
                    )
                }
                _ => format!("# Together: no late slot with them in {pairs} blocks, {date}\n"),
            }
        });
    let mut text = format!(
        "# Made by punctual improve on {date}; prove it once more after a reboot.\n{effect}\
         summary = \"Settings that punctual improve has proven to help on this machine\"\n\n\
         [settings]\n"
    );
    for one in kept() {
        let (name, value) = one
            .assignment
            .split_once('=')
            .unwrap_or((&one.assignment, ""));
        text.push_str(&format!("\"{name}\" = \"{value}\"\n"));
    }
    Some(text)
}
