//! Gives checks access to the facts, and records the facts that they read as evidence.

mod booted;
mod by_cpu;
mod by_pattern;

pub(crate) use booted::ParameterEffect;

use std::cell::RefCell;
use std::str::FromStr;

use punctual_model::{
    CpuInterference, CpuSet, Fact, FactSet, HostFacts, Nanos, Reading, Setting, TaskFact, marked,
    setting, unmask,
};

use crate::Role;

/// The result of a check. `Err` means that the check could not judge the facts.
pub(crate) type Judged = Result<Verdict, Missing>;

/// A judgement, with a line that describes the current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok(String),
    Warn(String),
    Fail(String),
}

impl Verdict {
    /// Returns *ok* or *fail*.
    pub(crate) fn new(good: bool, found: impl Into<String>) -> Self {
        if good {
            Self::Ok(found.into())
        } else {
            Self::Fail(found.into())
        }
    }

    /// Returns *ok* or *warn*.
    pub(crate) fn mild(good: bool, found: impl Into<String>) -> Self {
        if good {
            Self::Ok(found.into())
        } else {
            Self::Warn(found.into())
        }
    }
}

/// The reason why a check cannot judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The machine has nothing that the check could judge.
    NotApplicable(String),
    /// A required fact could not be read or was not captured.
    Unknown(String),
}

impl Missing {
    pub(crate) fn not_applicable(why: impl Into<String>) -> Self {
        Self::NotApplicable(why.into())
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }
}

/// Maximum number of characters of a file's text to show as evidence, so that the evidence fits on
/// one line.
const SHOWN: usize = 120;

/// Access to the facts of a machine for a single check.
pub(crate) struct FactReader<'a> {
    pub(crate) facts: &'a FactSet,
    pub(crate) role: Role,
    /// CPUs whose latency matters.
    pub(crate) cpus: &'a CpuSet,
    /// The other online CPUs, which can run everything else.
    pub(crate) others: &'a CpuSet,
    /// Path of the check's setting; empty if it has none.
    pub(crate) own: &'static str,
    evidence: RefCell<Vec<Fact<String>>>,
}

impl<'a> FactReader<'a> {
    pub(crate) fn new(
        facts: &'a FactSet,
        role: Role,
        cpus: &'a CpuSet,
        others: &'a CpuSet,
    ) -> Self {
        Self {
            facts,
            role,
            cpus,
            others,
            own: "",
            evidence: RefCell::default(),
        }
    }

    /// Creates a reader for the check that judges this setting.
    pub(crate) fn for_setting(self, name: &str) -> Self {
        let own = setting(name).map_or("", Setting::path);
        Self { own, ..self }
    }

    /// Returns the facts that were read.
    pub(crate) fn into_evidence(self) -> Vec<Fact<String>> {
        self.evidence.into_inner()
    }

    pub(crate) fn host(&self) -> &'a HostFacts {
        &self.facts.host
    }

    fn keep(&self, fact: Fact<String>) {
        let mut evidence = self.evidence.borrow_mut();
        if !evidence.contains(&fact) {
            evidence.push(fact);
        }
    }

    /// Records the value in `source` as evidence, truncated to one line.
    pub(crate) fn saw(&self, source: impl Into<String>, value: &str) {
        self.keep(Fact::known(line(value), source));
    }

    /// Records the reason why `source` could not be read.
    pub(crate) fn could_not(&self, source: &str, reason: &str) {
        self.keep(Fact::unknown(shown(source), line(reason)));
    }

    /// Returns a file's text without recording it as evidence.
    fn peek(&self, file: &str) -> Result<&'a str, Missing> {
        match self.facts.files.get(file) {
            Some(Reading::Text(text)) => Ok(text),
            Some(Reading::Absent) => Err(Missing::not_applicable(format!(
                "{} does not exist",
                shown(file)
            ))),
            Some(Reading::Unreadable(why)) => {
                Err(Missing::unknown(format!("{}: {why}", shown(file))))
            }
            None => Err(Missing::unknown(format!(
                "the facts do not contain {}",
                shown(file)
            ))),
        }
    }

    /// Returns a file's text.
    pub(crate) fn text(&self, file: &str) -> Result<&'a str, Missing> {
        let text = self.peek(file);
        match (&text, self.facts.files.get(file)) {
            (Ok(text), _) => self.saw(shown(file), text),
            (Err(_), Some(Reading::Unreadable(why))) => self.could_not(file, why),
            (Err(_), Some(_)) => self.could_not(file, "not there"),
            (Err(_), None) => self.could_not(file, "not in the facts"),
        }
        text
    }

    /// Parses a file's text.
    pub(crate) fn value<T: FromStr>(&self, file: &str) -> Result<T, Missing> {
        let text = self.text(file)?;
        let unreadable = |_| Missing::unknown(format!("{file} reads '{}'", line(text)));
        text.parse().map_err(unreadable)
    }

    /// Checks a file that contains a number.
    pub(crate) fn number(&self, file: &str, good: impl Fn(i64) -> bool) -> Judged {
        let number: i64 = self.value(file)?;
        Ok(Verdict::new(good(number), format!("is {number}")))
    }

    /// Checks a file like [`number`](Self::number), but returns *warn* instead of *fail*.
    pub(crate) fn mild_number(&self, file: &str, good: impl Fn(i64) -> bool) -> Judged {
        let number: i64 = self.value(file)?;
        Ok(Verdict::mild(good(number), format!("is {number}")))
    }

    /// Checks that a file contains one of the accepted words.
    pub(crate) fn word(&self, file: &str, good: &[&str]) -> Judged {
        let word = self.text(file)?;
        if word.is_empty() {
            return Err(Missing::unknown(format!("{file} is empty")));
        }
        Ok(Verdict::new(
            good.contains(&word),
            format!("is {}", line(word)),
        ))
    }

    /// Checks that the selected word of a file is one of the accepted words. The selected word is
    /// in brackets: `always [madvise] never`.
    pub(crate) fn choice(&self, file: &str, good: &[&str]) -> Judged {
        let text = self.text(file)?;
        let chosen = marked(text)
            .ok_or_else(|| Missing::unknown(format!("{file} reads '{}'", line(text))))?;
        Ok(Verdict::new(
            good.contains(&chosen),
            format!("is {}", line(chosen)),
        ))
    }

    /// Returns a fact that every recording has.
    pub(crate) fn fact<T: std::fmt::Display>(&self, fact: &'a Fact<T>) -> Result<&'a T, Missing> {
        match (&fact.value, &fact.unknown) {
            (Some(value), _) => {
                self.saw(&fact.source, &value.to_string());
                Ok(value)
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("not known");
                self.could_not(&fact.source, why);
                Err(Missing::unknown(format!("{}: {why}", fact.source)))
            }
        }
    }

    /// Returns the CPUs that are not measured and can therefore run everything else.
    ///
    /// # Errors
    /// Returns *not applicable* if every CPU is measured.
    pub(crate) fn elsewhere(&self) -> Result<&'a CpuSet, Missing> {
        if self.others.is_empty() {
            Err(Missing::not_applicable(
                "all CPUs are measured, so no CPU is left for the system: select fewer CPUs with \
                 --cpus",
            ))
        } else {
            Ok(self.others)
        }
    }

    /// Checks that a hexadecimal CPU mask contains no measured CPU.
    pub(crate) fn mask_elsewhere(&self, file: &str) -> Judged {
        self.elsewhere()?;
        let text = self.text(file)?;
        let cpus = unmask(text)
            .ok_or_else(|| Missing::unknown(format!("{file} reads '{}'", line(text))))?;
        Ok(self.leaves_alone(&cpus))
    }

    /// Checks a CPU list in the same way as [`mask_elsewhere`](Self::mask_elsewhere) checks a mask.
    pub(crate) fn list_elsewhere(&self, file: &str) -> Judged {
        self.elsewhere()?;
        let cpus: CpuSet = self.value(file)?;
        Ok(self.leaves_alone(&cpus))
    }

    /// Returns *ok* if `cpus` contains no measured CPU.
    pub(crate) fn leaves_alone(&self, cpus: &CpuSet) -> Verdict {
        let common = cpus.intersection(self.cpus);
        if common.is_empty() {
            Verdict::Ok(format!("CPU {cpus}"))
        } else {
            Verdict::Fail(format!("CPU {cpus}, including measured CPU {common}"))
        }
    }

    /// Returns the processes and kernel threads.
    pub(crate) fn tasks(&self) -> Result<&'a [TaskFact], Missing> {
        let tasks = &self.facts.tasks;
        match &tasks.value {
            Some(list) => Ok(list),
            None => {
                let why = tasks.unknown.as_deref().unwrap_or("not known");
                self.could_not(&tasks.source, why);
                Err(Missing::unknown(format!("{}: {why}", tasks.source)))
            }
        }
    }

    /// Returns the processes with one of these names.
    pub(crate) fn running(&self, names: &[&str]) -> Result<Vec<&'a TaskFact>, Missing> {
        let tasks = self.tasks()?;
        let found: Vec<&TaskFact> = tasks
            .iter()
            .filter(|task| !task.kernel && names.contains(&task.name.as_str()))
            .collect();
        for task in &found {
            self.saw(format!("/proc/{}/stat", task.pid), &task.name);
        }
        if found.is_empty() {
            self.saw(
                &self.facts.tasks.source,
                &format!("no {}", names.join(", ")),
            );
        }
        Ok(found)
    }

    /// Returns whether a systemd unit starts at boot. `links` is a pattern of the links that
    /// `systemctl enable` makes. Even if the result is false, the unit may be started in another
    /// way.
    pub(crate) fn starts_at_boot(&self, links: &str) -> bool {
        // An entry for the pattern itself means that nothing matched.
        if self.facts.files.contains_key(links) {
            return false;
        }
        let found = self.files(links).unwrap_or_default();
        for (file, _) in &found {
            self.saw(*file, "is enabled");
        }
        !found.is_empty()
    }

    /// Returns the counts of the measured CPUs and the duration of the count.
    pub(crate) fn counted(&self) -> Result<(Vec<&'a CpuInterference>, Nanos), Missing> {
        let sample = self.facts.sample.as_ref().ok_or_else(|| {
            Missing::unknown("nothing was counted: sampling is off, or the facts contain no counts")
        })?;
        let cpus: Vec<&CpuInterference> = sample
            .cpus
            .iter()
            .filter(|cpu| self.cpus.contains(cpu.cpu))
            .collect();
        if cpus.is_empty() || sample.duration_ns == Nanos(0) {
            Err(Missing::unknown(format!("CPU {} has no counts", self.cpus)))
        } else {
            Ok((cpus, sample.duration_ns))
        }
    }

    /// Returns the reason why something was not counted. The reason is recorded together with the
    /// counts.
    pub(crate) fn not_counted(&self, what: &str) -> Missing {
        let reasons = self.facts.sample.iter().flat_map(|s| &s.unknown);
        let reason = reasons.into_iter().find(|line| line.starts_with(what));
        Missing::unknown(reason.map_or_else(|| format!("{what}: not counted"), Clone::clone))
    }

    /// Returns whether this is a PREEMPT_RT kernel.
    pub(crate) fn is_rt(&self) -> Result<bool, Missing> {
        let fact = &self.host().kernel.preempt_rt;
        self.either(fact, "PREEMPT_RT", "not PREEMPT_RT")
    }

    /// Returns a boolean fact, and records it as evidence with the word that describes its value.
    fn either(&self, fact: &'a Fact<bool>, yes: &str, no: &str) -> Result<bool, Missing> {
        match fact.value {
            Some(value) => {
                self.saw(&fact.source, if value { yes } else { no });
                Ok(value)
            }
            None => self.fact(fact).copied(),
        }
    }

    /// Turns *not applicable* into *unknown*. Use this for a file that every machine has: if such a
    /// file is missing, it was not captured.
    pub(crate) fn always<T>(&self, judged: Result<T, Missing>) -> Result<T, Missing> {
        judged.map_err(|missing| match missing {
            Missing::NotApplicable(why) => Missing::Unknown(why),
            other => other,
        })
    }

    /// Turns *not applicable* into *unknown*. Use this for a file in tracefs: if the file is
    /// missing, tracefs is not mounted, and the state of the tracer is unknown.
    pub(crate) fn tracefs<T>(&self, judged: Result<T, Missing>) -> Result<T, Missing> {
        judged.map_err(|missing| match missing {
            Missing::NotApplicable(_) => Missing::unknown(
                "tracefs is not mounted at /sys/kernel/tracing, or is not built into the kernel",
            ),
            other => other,
        })
    }

    /// Turns *not applicable* into *unknown*. Use this for a file in debugfs that every such kernel
    /// has: if the file is missing, debugfs is not mounted or is locked down, and the value is
    /// unknown.
    pub(crate) fn debugfs<T>(&self, judged: Result<T, Missing>) -> Result<T, Missing> {
        judged.map_err(|missing| match missing {
            Missing::NotApplicable(_) => Missing::unknown(
                "debugfs is not mounted at /sys/kernel/debug, is locked down, or is not built into \
                 the kernel",
            ),
            other => other,
        })
    }

    /// Returns the kernel's version as (major, minor).
    pub(crate) fn version(&self) -> Result<(u32, u32), Missing> {
        let release = self.fact(&self.host().kernel.release)?;
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        match (next(), next()) {
            (Some(major), Some(minor)) => Ok((major, minor)),
            _ => Err(Missing::unknown(format!(
                "'{}' is not a version",
                line(release)
            ))),
        }
    }

    /// Returns whether this is a virtual machine.
    pub(crate) fn is_virtual(&self) -> Result<bool, Missing> {
        let fact = &self.host().virtualisation.virtual_machine;
        self.either(fact, "a guest", "no guest")
    }
}

/// Formats a path for users: `N` stands for a number, `/GROUP` for the control group of the process
/// that captured the facts, and `/GROUPS` for that group and all groups above it.
pub(crate) fn shown(path: &str) -> String {
    path.replace('#', "N")
        .replace("{cgroup}", "/GROUP")
        .replace("{cgroup:cpu}", "/GROUP")
        .replace("{cgroup:cpuset}", "/GROUP")
        .replace("{cgroups}", "/GROUPS")
        .replace("{cgroups:cpu}", "/GROUPS")
        .replace("{cgroups:cpuset}", "/GROUPS")
}

/// Joins the lines of a text into one, and truncates it if it is long.
pub(crate) fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    if text.chars().count() <= SHOWN {
        return text;
    }
    let cut: String = text.chars().take(SHOWN - 1).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn evidence_is_a_line() {
        assert_eq!(line(" a\n b\t c"), "a b c");
        assert_eq!(line(&"x".repeat(500)).chars().count(), SHOWN);
    }

    #[test]
    fn line_is_cut_after_120_characters() {
        let fits = "é".repeat(SHOWN);
        assert_eq!(line(&fits), fits);
        assert_eq!(
            line(&"é".repeat(SHOWN + 1)),
            format!("{}…", "é".repeat(SHOWN - 1))
        );
        assert_eq!(line("  "), "");
    }

    #[test]
    fn placeholders_of_paths_are_shown_as_words() {
        for (path, text) in [
            ("/sys/cpu#/x", "/sys/cpuN/x"),
            ("/a{cgroup}/x", "/a/GROUP/x"),
            ("/a{cgroup:cpu}/x", "/a/GROUP/x"),
            ("/a{cgroup:cpuset}/x", "/a/GROUP/x"),
            ("/a{cgroups}/x", "/a/GROUPS/x"),
            ("/a{cgroups:cpu}/x", "/a/GROUPS/x"),
            ("/a{cgroups:cpuset}/x", "/a/GROUPS/x"),
        ] {
            assert_eq!(shown(path), text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,300}") {
            let _ = line(&text);
        }
    }
}
