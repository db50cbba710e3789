//! A control group: its CPUs and quota, and what it shares with other CPUs.

use serde::{Deserialize, Serialize};

use crate::{CpuSet, FromJson, Nanos, ProbeRun, ToJson};

/// The resources of the threads in a control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFacts {
    /// Its path, as in /proc/PID/cgroup.
    pub path: String,
    /// The container or unit of the group, such as `docker container 1f2e3d4c5b6a`.
    pub container: Option<String>,
    /// The effective CPUs of its cpuset. Null if no cpuset controller is available.
    pub cpus: Option<CpuSet>,
    /// Whether these CPUs are exclusive to the group. Null if unknown.
    pub exclusive: Option<bool>,
    /// The tightest CPU quota among those of the group and its ancestors.
    pub quota: Option<CpuQuota>,
    /// Whether the quota could be read. If not, an absent quota means unknown, not unlimited.
    pub quota_known: bool,
    /// SMT siblings of the cpuset's CPUs that are not in the cpuset.
    pub shared_cores: CpuSet,
    /// CPUs outside the cpuset that share the last-level cache with it.
    pub shared_cache: CpuSet,
}

/// A CPU quota: an amount of CPU time in each period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuQuota {
    /// The group that sets it: this one or an ancestor.
    pub group: String,
    /// CPU time, summed over all CPUs.
    pub quota_ns: Nanos,
    /// The period.
    pub period_ns: Nanos,
}

impl CpuQuota {
    /// Returns the average number of CPUs that it allows, in thousandths of a CPU.
    pub fn millicpus(&self) -> u64 {
        let quota = u128::from(self.quota_ns.0) * 1_000;
        (quota / u128::from(self.period_ns.0.max(1))) as u64
    }
}

impl ProbeRun {
    /// Name of the run's parameter that contains the [`GroupFacts`] of the measured or watched
    /// control group.
    pub const GROUP: &str = "control_group";

    /// Returns the measured or watched control group. `None` if there was none.
    pub fn group(&self) -> Option<GroupFacts> {
        let known = self.parameters.get(Self::GROUP)?;
        GroupFacts::from_json(known.to_string().as_bytes()).ok()
    }
}

impl GroupFacts {
    /// Returns the facts as a parameter of a run ([`ProbeRun::GROUP`]).
    pub fn to_parameter(&self) -> serde_json::Value {
        self.to_value()
    }

    /// Returns a description: `docker container 1f2e3d4c5b6a: CPU 2-3, quota 20 ms in 100 ms`.
    pub fn describe(&self) -> String {
        let name = match &self.container {
            Some(container) => format!("{container} ({})", self.path),
            None => self.path.clone(),
        };
        let mut parts = Vec::new();
        match &self.cpus {
            Some(cpus) => parts.push(format!("CPU {cpus}")),
            None => parts.push("cpuset unknown".to_owned()),
        }
        match (&self.quota, self.quota_known) {
            (Some(quota), _) => {
                let of = if quota.group == self.path {
                    String::new()
                } else {
                    format!(" of {}", quota.group)
                };
                parts.push(format!(
                    "quota{of} {} in {}",
                    quota.quota_ns, quota.period_ns
                ));
            }
            (None, true) => parts.push("no quota".to_owned()),
            (None, false) => parts.push("quota unknown".to_owned()),
        }
        match self.exclusive {
            Some(true) => parts.push("CPUs exclusive".to_owned()),
            Some(false) if self.cpus.is_some() => {
                parts.push("CPUs shared with other groups".to_owned());
            }
            _ => {}
        }
        if !self.shared_cores.is_empty() {
            parts.push(format!("cores shared with CPU {}", self.shared_cores));
        }
        if !self.shared_cache.is_empty() {
            parts.push(format!("cache shared with CPU {}", self.shared_cache));
        }
        format!("{name}: {}", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_said() {
        let mut facts = GroupFacts {
            path: "/a".to_owned(),
            container: None,
            cpus: None,
            exclusive: None,
            quota: None,
            quota_known: false,
            shared_cores: CpuSet::new(),
            shared_cache: CpuSet::new(),
        };
        assert_eq!(facts.describe(), "/a: cpuset unknown, quota unknown");
        facts.quota_known = true;
        facts.cpus = Some("2-3".parse().unwrap());
        facts.exclusive = Some(false);
        facts.shared_cores = "0-1".parse().unwrap();
        assert_eq!(
            facts.describe(),
            "/a: CPU 2-3, no quota, CPUs shared with other groups, cores shared with CPU 0-1"
        );
        let quota = CpuQuota {
            group: "/".to_owned(),
            quota_ns: Nanos::from_millis(20),
            period_ns: Nanos::from_millis(100),
        };
        assert_eq!(quota.millicpus(), 200);
        facts.quota = Some(quota);
        assert!(facts.describe().contains("quota of / 20.0 ms in 100 ms"));
    }

    #[test]
    fn group_of_a_run_is_read_from_its_parameters() {
        let facts = GroupFacts {
            path: "/a".to_owned(),
            container: None,
            cpus: None,
            exclusive: Some(true),
            quota: Some(CpuQuota {
                group: "/a".to_owned(),
                quota_ns: Nanos::from_millis(25),
                period_ns: Nanos::from_millis(100),
            }),
            quota_known: true,
            shared_cores: CpuSet::new(),
            shared_cache: CpuSet::new(),
        };
        let mut probe = crate::testing::recording(1, 1).probe;
        assert_eq!(probe.group(), None);
        probe
            .parameters
            .insert(ProbeRun::GROUP.to_owned(), facts.to_parameter());
        assert_eq!(probe.group(), Some(facts.clone()));
        probe
            .parameters
            .insert(ProbeRun::GROUP.to_owned(), "no group".into());
        assert_eq!(probe.group(), None);
        let quota = facts.quota.unwrap();
        assert_eq!(quota.millicpus(), 250);
        let none = CpuQuota {
            period_ns: Nanos::ZERO,
            ..quota
        };
        assert_eq!(none.millicpus(), 25_000_000_000);
    }
}
