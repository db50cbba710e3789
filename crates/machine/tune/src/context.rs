//! The CPUs of a plan.

use punctual_model::CpuSet;

use crate::TuneError;

/// The CPUs that a plan refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Online CPUs.
    pub(crate) online: CpuSet,
    /// CPUs to measure or to run the application on, as requested.
    pub(crate) measured: Option<CpuSet>,
    /// CPUs that the machine already keeps free of other work. They stand for the measured ones if
    /// none are requested.
    pub(crate) reserved: Option<CpuSet>,
    /// CPUs that this plan takes offline.
    pub(crate) leaving: CpuSet,
}

impl Context {
    /// Parses CPUs, given as a list or by one of three words.
    pub(crate) fn cpus(&self, setting: &str, text: &str) -> Result<CpuSet, TuneError> {
        let invalid = |expected: String| TuneError::Invalid {
            setting: setting.to_owned(),
            value: text.to_owned(),
            expected,
        };
        let without = || TuneError::NeedsCpus {
            setting: setting.to_owned(),
            word: text.to_owned(),
        };
        let stay = self.online.difference(&self.leaving);
        let chosen = self.measured.as_ref().or(self.reserved.as_ref());
        let cpus = match text {
            "all" => stay,
            "measured" => chosen.cloned().ok_or_else(without)?,
            "housekeeping" => {
                let measured = chosen.ok_or_else(without)?;
                let rest = stay.difference(measured);
                if rest.is_empty() {
                    return Err(TuneError::Cpus(format!(
                        "{setting}: --cpus {measured} contains all CPUs: leave at least one CPU \
                         for the system"
                    )));
                }
                rest
            }
            list => list.parse::<CpuSet>().map_err(|error| {
                invalid(format!(
                    "{error}; or use one of all, housekeeping, measured"
                ))
            })?,
        };
        let absent = cpus.difference(&self.online);
        if !absent.is_empty() {
            return Err(invalid(format!(
                "CPU {absent} is not online (online CPUs: {})",
                self.online
            )));
        }
        Ok(cpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_cpus() {
        let context = Context {
            online: "0-7".parse().unwrap(),
            measured: Some("2-3".parse().unwrap()),
            leaving: "4-7".parse().unwrap(),
            reserved: Some("7".parse().unwrap()),
        };
        let cpus = |text: &str| context.cpus("x", text).map(|cpus| cpus.to_string());
        assert_eq!(cpus("all").unwrap(), "0-3");
        assert_eq!(cpus("housekeeping").unwrap(), "0-1");
        assert_eq!(cpus("measured").unwrap(), "2-3");
        assert_eq!(cpus("1,5").unwrap(), "1,5");
        assert!(cpus("8").unwrap_err().to_string().contains("not online"));
        assert!(cpus("2-").is_err());
        let reserved = Context {
            measured: None,
            ..context.clone()
        };
        assert_eq!(reserved.cpus("x", "measured").unwrap().to_string(), "7");
        let none = Context::default();
        let error = none.cpus("x", "housekeeping").unwrap_err();
        assert!(error.to_string().contains("--cpus"), "{error}");
    }
}
