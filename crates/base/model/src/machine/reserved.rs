//! The CPUs that a machine keeps free of other work.

use crate::{CpuSet, Fact};

/// The CPUs that a machine keeps free of other work, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedCpus {
    /// The CPUs. Never empty.
    pub cpus: CpuSet,
    /// How they are kept free, with the source of this fact: "they are isolated (...)".
    pub because: String,
}

impl ReservedCpus {
    /// Returns the online CPUs that are isolated, otherwise the online CPUs in `nohz_full`. Returns
    /// `None` if there are none.
    pub fn find(
        isolated: &Fact<CpuSet>,
        nohz_full: &Fact<CpuSet>,
        online: &CpuSet,
    ) -> Option<Self> {
        let kinds = [
            (isolated, "they are isolated"),
            (nohz_full, "they are in nohz_full"),
        ];
        kinds.into_iter().find_map(|(fact, how)| {
            let cpus = fact.get()?.intersection(online);
            (!cpus.is_empty()).then(|| Self {
                cpus,
                because: format!("{how} ({})", fact.source),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_goes_before_nohz_full() {
        let set = |text: &str| -> CpuSet { text.parse().unwrap() };
        let fact = |text: &str| Fact::known(set(text), "file");
        let found = |isolated: &str, nohz_full: &str| {
            ReservedCpus::find(&fact(isolated), &fact(nohz_full), &set("0-3"))
                .map(|found| format!("{} {}", found.cpus, found.because))
        };
        let isolated = Some("2-3 they are isolated (file)".to_owned());
        assert_eq!(found("2-5", "1"), isolated);
        let tickless = Some("1 they are in nohz_full (file)".to_owned());
        assert_eq!(found("8", "1"), tickless);
        assert_eq!(found("", ""), None);
        let unknown = Fact::unknown("file", "not there");
        assert_eq!(ReservedCpus::find(&unknown, &unknown, &set("0")), None);
    }
}
