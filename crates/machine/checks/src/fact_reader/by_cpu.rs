//! Access to files that exist once per CPU.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, POLICY_CPUS};

use super::{FactReader, Judged, Missing, Verdict, line, shown};

impl<'a> FactReader<'a> {
    /// Returns the frequency policy of a CPU.
    fn policy_of(&self, cpu: u32) -> Option<u32> {
        let policies = self.files(POLICY_CPUS).unwrap_or_default();
        let served = |text: &str| text.split(' ').any(|served| served.parse() == Ok(cpu));
        let (file, _) = policies.into_iter().find(|(_, text)| served(text))?;
        let (start, end) = POLICY_CPUS.split_once('#')?;
        file.strip_prefix(start)?.strip_suffix(end)?.parse().ok()
    }

    /// Returns the text of a file for each measured CPU. `#` is replaced by the number of the CPU
    /// or of its frequency policy. CPUs whose files have the same text share one piece of evidence.
    pub(crate) fn each_cpu(&self, pattern: &str) -> Result<Vec<(u32, &'a str)>, Missing> {
        let mut by_text: BTreeMap<&str, CpuSet> = BTreeMap::new();
        let mut found = Vec::new();
        let mut without = CpuSet::new();
        let mut refused = None;
        for cpu in self.cpus.iter() {
            let instance = if pattern.contains("/policy#/") {
                self.policy_of(cpu)
            } else {
                Some(cpu)
            };
            let Some(instance) = instance else {
                without.insert(cpu);
                continue;
            };
            let file = pattern.replacen('#', &instance.to_string(), 1);
            match self.peek(&file) {
                Ok(text) => {
                    by_text.entry(text).or_default().insert(instance);
                    found.push((cpu, text));
                }
                Err(Missing::Unknown(why)) if self.facts.files.contains_key(&file) => {
                    refused = Some(why);
                }
                Err(_) => without.insert(cpu),
            }
        }
        for (text, instances) in by_text {
            self.saw(on(pattern, &instances), text);
        }
        if let Some(why) = refused {
            self.could_not(pattern, &why);
            return Err(Missing::Unknown(why));
        }
        if found.is_empty() {
            // The reason why no CPU has the file is in the entry for the pattern itself.
            return Err(match self.text(pattern) {
                Err(missing) => missing,
                Ok(_) => Missing::unknown(format!("{pattern} is not a file")),
            });
        }
        if !without.is_empty() {
            return Err(Missing::unknown(format!(
                "CPU {without} has no {}",
                shown(pattern)
            )));
        }
        Ok(found)
    }

    /// Checks a file of each measured CPU, and lists the CPUs whose file is not good.
    pub(crate) fn every_cpu(&self, pattern: &str, good: impl Fn(&str) -> bool) -> Judged {
        let all = self.each_cpu(pattern)?;
        let bad: CpuSet = all
            .iter()
            .filter(|(_, text)| !good(text))
            .map(|(cpu, _)| *cpu)
            .collect();
        let mut values: Vec<&str> = all
            .iter()
            .filter(|(cpu, _)| bad.is_empty() || bad.contains(*cpu))
            .map(|(_, text)| *text)
            .collect();
        values.sort_unstable();
        values.dedup();
        let values = line(&values.join(", "));
        Ok(if bad.is_empty() {
            Verdict::Ok(format!("is {values}"))
        } else {
            Verdict::Fail(format!("is {values} on CPU {bad}"))
        })
    }
}

/// Inserts CPUs into a path: returns `/sys/…/cpu2-3/…` for `/sys/…/cpu#/…` and the CPUs 2 and 3.
fn on(pattern: &str, cpus: &CpuSet) -> String {
    pattern.replacen('#', &cpus.to_string(), 1)
}
