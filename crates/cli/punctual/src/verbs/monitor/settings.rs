//! Checks before a run whether the settings that are enabled for each boot are in force.

use punctual_host::Host;
use punctual_tune::{BootError, BootTune, Verified, verify_enabled};

/// Verifies the settings, and applies them again if they are not in force. Returns a text for the
/// slot, or `None` if no settings are enabled or all of them are in force.
pub(super) fn before_run(host: &Host) -> Option<String> {
    if matches!(
        BootTune::read(host.root()),
        Err(BootError::NotEnabled { .. })
    ) {
        return None;
    }
    match crate::context::tune_places() {
        Ok(places) => words(verify_enabled(host, &places)),
        Err(error) => Some(unknown(&error.to_string())),
    }
}

fn words(verified: Result<Verified, BootError>) -> Option<String> {
    match verified {
        Ok(Verified::Holds) => None,
        Ok(Verified::NotApplied) => {
            Some("the settings enabled for each boot are not applied".to_owned())
        }
        Ok(Verified::Again(lost, _, applied)) => {
            let again = format!(
                "settings were not in force and are applied again: {}",
                lost.join(", ")
            );
            let refused = applied.refused.iter().map(|one| one.setting.as_str());
            let refused: Vec<&str> = refused.collect();
            Some(if refused.is_empty() {
                again
            } else {
                format!("{again}; refused: {}", refused.join(", "))
            })
        }
        Err(error) => Some(unknown(&error.to_string())),
    }
}

fn unknown(why: &str) -> String {
    format!("the settings enabled for each boot are not verified: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_reports_settings_not_in_force() {
        assert_eq!(words(Ok(Verified::Holds)), None);
        let none = words(Ok(Verified::NotApplied)).unwrap_or_default();
        assert!(none.contains("not applied"), "{none}");
        let damaged = BootError::Damaged {
            path: "/etc/punctual/boot.toml".into(),
            why: "no table".to_owned(),
        };
        let unknown = words(Err(damaged)).unwrap_or_default();
        assert!(unknown.contains("not verified"), "{unknown}");
        assert!(unknown.contains("boot.toml is damaged"), "{unknown}");
    }
}
