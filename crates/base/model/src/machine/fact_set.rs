//! The state of a machine as a set of readings, which an audit can judge on any machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CpuSet, Fact, HostFacts, Interference, Interruptions};

/// The version of [`FactSet`] as JSON.
pub const FACT_SET_SCHEMA: u32 = 1;

/// The result of reading a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The text of the file, without surrounding white space.
    Text(String),
    /// The file does not exist.
    Absent,
    /// The file exists but could not be read, with the reason (permission, lockdown).
    Unreadable(String),
}

/// The facts about one thread that an audit uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFact {
    /// Its process ID.
    pub pid: u32,
    /// Its comm.
    pub name: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// The kernel's number of the scheduling policy (sched(7)): 0 other, 1 fifo, 2 rr, 3 batch, 5
    /// idle, 6 deadline.
    pub policy: u32,
    /// Its real-time priority. 0 if it has none.
    pub priority: u32,
    /// The CPU on which it last ran.
    pub last_cpu: u32,
    /// The CPUs on which it may run. `None` if they could not be read.
    pub allowed: Option<CpuSet>,
    /// Whether the kernel has bound the thread permanently (`PF_NO_SETAFFINITY`).
    pub bound: bool,
}

/// The state of a machine: all facts that an audit reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactSet {
    /// Version of this JSON form, [`FACT_SET_SCHEMA`].
    pub schema: u32,
    /// Version of the program that captured the facts.
    pub program: String,
    /// Time of the capture.
    pub captured: jiff::Timestamp,
    /// The facts that a recording also contains.
    pub host: HostFacts,
    /// The whole text of the kernel's configuration.
    pub kernel_config: Fact<String>,
    /// Contents of files by path. If no file matches a pattern, the pattern itself is listed, with
    /// the reason. Facts that are not in a file are listed under the command that shows them:
    /// `ethtool -c eth0`.
    pub files: BTreeMap<String, Reading>,
    /// The processes and kernel threads.
    pub tasks: Fact<Vec<TaskFact>>,
    /// Counts of other activity on the CPUs over some time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sample: Option<Interference>,
    /// Events recorded during the same time, or the reason why they were not recorded. `None` if
    /// nothing was counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interruptions: Option<Fact<Interruptions>>,
}

/// Error while reading a set of facts.
#[derive(Debug, thiserror::Error)]
pub enum FactSetError {
    /// The text is not JSON of this form.
    #[error(
        "not a set of facts: {0}; create one with 'punctual machine facts capture -o FILE' on the machine"
    )]
    Json(#[from] serde_json::Error),
    /// A later version of the program wrote it.
    #[error(
        "the facts have version {found}, but this program reads only versions up to \
         {FACT_SET_SCHEMA}: use a newer punctual"
    )]
    Newer {
        /// The schema version of the set.
        found: u32,
    },
}

impl FactSet {
    /// Reads the JSON form.
    ///
    /// # Errors
    /// Fails if the text is not a complete set of facts, or if its version is newer.
    pub fn from_json(text: &str) -> Result<Self, FactSetError> {
        /// Read only the version, because the program does not know the rest of a newer form.
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let Version { schema } = serde_json::from_str(text)?;
        if schema > FACT_SET_SCHEMA {
            return Err(FactSetError::Newer { found: schema });
        }
        Ok(serde_json::from_str(text)?)
    }
}

/// Returns whether `path` matches `pattern`. `*` matches any characters except `/`, and `#` matches
/// a number.
pub fn path_matches(pattern: &str, path: &str) -> bool {
    let (mut patterns, mut paths) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), paths.next()) {
            (None, None) => return true,
            (Some(pattern), Some(name)) if name_matches(pattern.as_bytes(), name.as_bytes()) => {}
            _ => return false,
        }
    }
}

/// Matches one component of [`path_matches`]. Backtracks only to the last wildcard, so the cost is
/// at most the product of both lengths.
pub fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'#') => {
                let digits = name[n..].iter().take_while(|b| b.is_ascii_digit()).count();
                if digits > 0 {
                    (p, n) = (p + 1, n + digits);
                    continue;
                }
            }
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
                continue;
            }
            Some(byte) if *byte == name[n] => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            _ => {}
        }
        match &mut retry {
            Some((star, from)) => {
                *from += 1;
                (p, n) = (*star + 1, *from);
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wildcards_stay_within_a_name() {
        for (pattern, path, whether) in [
            ("/a/cpu#/x", "/a/cpu12/x", true),
            ("/a/cpu#/x", "/a/cpufreq/x", false),
            ("/a/cpu#/x", "/a/cpu/x", false),
            ("/a/*/x", "/a/b/x", true),
            ("/a/*/x", "/a/b/c/x", false),
            ("/a/rx-*", "/a/rx-", true),
            ("/a/*.conf", "/a/99-rt.conf", true),
            ("/a/*.conf", "/a/99.conf.bak", false),
            ("/a", "/a/b", false),
            ("/a/b", "/a", false),
        ] {
            assert_eq!(path_matches(pattern, path), whether, "{pattern} {path}");
        }
    }

    #[test]
    fn invalid_fact_set_is_refused() {
        assert!(FactSet::from_json("").is_err());
        assert!(FactSet::from_json("[]").is_err());
        assert!(FactSet::from_json("{\"schema\": 1}").is_err());
        let newer = FactSet::from_json("{\"schema\": 99, \"other\": []}").unwrap_err();
        assert!(newer.to_string().contains("version 99"), "{newer}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,80}", pattern in "[a#*/]{0,12}", path in "[a1/]{0,12}") {
            let _ = FactSet::from_json(&text);
            let _ = path_matches(&pattern, &path);
        }

        #[test]
        fn a_path_without_wildcards_matches_itself_only(a in "[a-z/]{0,12}", b in "[a-z/]{0,12}") {
            prop_assert_eq!(path_matches(&a, &b), a == b);
        }
    }
}
