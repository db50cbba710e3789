//! How a check reads the facts: what it reads is kept as evidence.

mod booted;
mod by_cpu;

pub(crate) use booted::Obeyed;

use std::cell::RefCell;
use std::str::FromStr;

use punctual_model::{
    CpuInterference, CpuSet, Fact, FactSet, HostFacts, Nanos, Reading, Setting, TaskFact, marked,
    path_matches, setting, unmask,
};

use crate::Role;

/// What a check makes of the facts. An `Err` is what keeps it from judging.
pub(crate) type Judged = Result<Verdict, Missing>;

/// A judgement, with what was found in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok(String),
    Warn(String),
    Fail(String),
}

impl Verdict {
    /// *Ok* or *fail*.
    pub(crate) fn of(good: bool, found: impl Into<String>) -> Self {
        match good {
            true => Self::Ok(found.into()),
            false => Self::Fail(found.into()),
        }
    }

    /// *Ok* or *warn*.
    pub(crate) fn mild(good: bool, found: impl Into<String>) -> Self {
        match good {
            true => Self::Ok(found.into()),
            false => Self::Warn(found.into()),
        }
    }
}

/// What keeps a check from judging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The machine has nothing of the kind.
    NotApplicable(String),
    /// What is needed could not be read, or is not among the facts.
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

/// The words that are shown of a file: evidence is a line, not a page.
const SHOWN: usize = 120;

/// The facts of a machine, read by one check.
pub(crate) struct FactReader<'a> {
    pub(crate) facts: &'a FactSet,
    pub(crate) role: Role,
    /// The CPUs that latency matters on.
    pub(crate) cpus: &'a CpuSet,
    /// The other ones that are online: where everything else can go.
    pub(crate) others: &'a CpuSet,
    /// The path of the check's setting; empty where it has none.
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

    /// For the check of this setting.
    pub(crate) fn of(self, name: &str) -> Self {
        let own = setting(name).map_or("", Setting::path);
        Self { own, ..self }
    }

    /// What was looked at.
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

    /// Keeps what was seen in `source`, cut to a line.
    pub(crate) fn saw(&self, source: impl Into<String>, value: &str) {
        self.keep(Fact::known(line(value), source));
    }

    /// Keeps why `source` could not be read.
    pub(crate) fn could_not(&self, source: &str, reason: &str) {
        self.keep(Fact::unknown(shown(source), line(reason)));
    }

    /// A file without keeping it as evidence.
    fn peek(&self, file: &str) -> Result<&'a str, Missing> {
        match self.facts.files.get(file) {
            Some(Reading::Text(text)) => Ok(text),
            Some(Reading::Absent) => Err(Missing::not_applicable(format!(
                "{} is not there",
                shown(file)
            ))),
            Some(Reading::Unreadable(why)) => {
                Err(Missing::unknown(format!("{}: {why}", shown(file))))
            }
            None => Err(Missing::unknown(format!(
                "{} is not among the facts",
                shown(file)
            ))),
        }
    }

    /// A file's text.
    pub(crate) fn text(&self, file: &str) -> Result<&'a str, Missing> {
        let text = self.peek(file);
        match (&text, self.facts.files.get(file)) {
            (Ok(text), _) => self.saw(shown(file), text),
            (Err(_), Some(Reading::Unreadable(why))) => self.could_not(file, why),
            (Err(_), Some(_)) => self.could_not(file, "not there"),
            (Err(_), None) => self.could_not(file, "not among the facts"),
        }
        text
    }

    /// A file's text as a value.
    pub(crate) fn value<T: FromStr>(&self, file: &str) -> Result<T, Missing> {
        let text = self.text(file)?;
        let unreadable = |_| Missing::unknown(format!("{file} reads '{}'", line(text)));
        text.parse().map_err(unreadable)
    }

    /// Whether a file's number is good.
    pub(crate) fn number(&self, file: &str, good: impl Fn(i64) -> bool) -> Judged {
        let number: i64 = self.value(file)?;
        Ok(Verdict::of(good(number), format!("is {number}")))
    }

    /// As [`number`](Self::number), but what is not good is a *warn*.
    pub(crate) fn mild_number(&self, file: &str, good: impl Fn(i64) -> bool) -> Judged {
        let number: i64 = self.value(file)?;
        Ok(Verdict::mild(good(number), format!("is {number}")))
    }

    /// Whether a file's word is one of those that are good.
    pub(crate) fn word(&self, file: &str, good: &[&str]) -> Judged {
        let word = self.text(file)?;
        if word.is_empty() {
            return Err(Missing::unknown(format!("{file} is empty")));
        }
        Ok(Verdict::of(
            good.contains(&word),
            format!("is {}", line(word)),
        ))
    }

    /// Whether the word in brackets, `always [madvise] never`, is one of those
    /// that are good.
    pub(crate) fn choice(&self, file: &str, good: &[&str]) -> Judged {
        let text = self.text(file)?;
        let chosen = marked(text)
            .ok_or_else(|| Missing::unknown(format!("{file} reads '{}'", line(text))))?;
        Ok(Verdict::of(
            good.contains(&chosen),
            format!("is {}", line(chosen)),
        ))
    }

    /// A fact every recording has.
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

    /// The files of a pattern, or why there are none. Not kept as evidence:
    /// say what mattered with [`saw`](Self::saw).
    pub(crate) fn files(&self, pattern: &str) -> Result<Vec<(&'a str, &'a str)>, Missing> {
        let start = pattern.find(['*', '#']).unwrap_or(pattern.len());
        let prefix = &pattern[..start];
        let mut found = Vec::new();
        let mut refused = None;
        for (file, reading) in self.facts.files.range(prefix.to_owned()..) {
            if !file.starts_with(prefix) {
                break;
            }
            if file == pattern || !path_matches(pattern, file) {
                continue;
            }
            match reading {
                Reading::Text(text) => found.push((file.as_str(), text.as_str())),
                Reading::Unreadable(why) => refused = Some(format!("{file}: {why}")),
                Reading::Absent => {}
            }
        }
        match (found.is_empty(), refused) {
            (false, _) => Ok(found),
            (true, Some(why)) => {
                self.could_not(pattern, &why);
                Err(Missing::Unknown(why))
            }
            // What stands under the pattern itself says why there are none.
            (true, None) => Err(match self.text(pattern) {
                Ok(_) => Missing::unknown(format!("{pattern} is no file")),
                Err(missing) => missing,
            }),
        }
    }

    /// The CPUs for everything else.
    ///
    /// # Errors
    /// *Not applicable* where every CPU is measured.
    pub(crate) fn elsewhere(&self) -> Result<&'a CpuSet, Missing> {
        match self.others.is_empty() {
            true => Err(Missing::not_applicable(
                "all CPUs are measured, so no other is left: name the measured ones with --cpus",
            )),
            false => Ok(self.others),
        }
    }

    /// Whether the CPUs of a hexadecimal mask leave the measured ones alone.
    pub(crate) fn mask_elsewhere(&self, file: &str) -> Judged {
        self.elsewhere()?;
        let text = self.text(file)?;
        let cpus = unmask(text)
            .ok_or_else(|| Missing::unknown(format!("{file} reads '{}'", line(text))))?;
        Ok(self.leaves_alone(&cpus))
    }

    /// As [`mask_elsewhere`](Self::mask_elsewhere), for a CPU list.
    pub(crate) fn list_elsewhere(&self, file: &str) -> Judged {
        self.elsewhere()?;
        let cpus: CpuSet = self.value(file)?;
        Ok(self.leaves_alone(&cpus))
    }

    /// *Ok* where `cpus` has none of the measured ones.
    pub(crate) fn leaves_alone(&self, cpus: &CpuSet) -> Verdict {
        let common = cpus.intersection(self.cpus);
        match common.is_empty() {
            true => Verdict::Ok(format!("CPU {cpus}")),
            false => Verdict::Fail(format!("CPU {cpus}, including measured CPU {common}")),
        }
    }

    /// The processes and threads of the kernel.
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

    /// The processes with one of these names.
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

    /// Whether a unit of systemd is to start with the machine: a pattern of the
    /// links that `systemctl enable` makes. Where there is none, nothing is said:
    /// the unit may be started otherwise.
    pub(crate) fn starts_at_boot(&self, links: &str) -> bool {
        // What stands under the pattern itself says that nothing matched.
        if self.facts.files.contains_key(links) {
            return false;
        }
        let found = self.files(links).unwrap_or_default();
        for (file, _) in &found {
            self.saw(*file, "is enabled");
        }
        !found.is_empty()
    }

    /// What was counted on the measured CPUs, and for how long.
    pub(crate) fn counted(&self) -> Result<(Vec<&'a CpuInterference>, Nanos), Missing> {
        let sample = self.facts.sample.as_ref().ok_or_else(|| {
            Missing::unknown("nothing was counted: sampling is off, or the facts hold no counts")
        })?;
        let cpus: Vec<&CpuInterference> = sample
            .cpus
            .iter()
            .filter(|cpu| self.cpus.contains(cpu.cpu))
            .collect();
        match cpus.is_empty() || sample.duration_ns == Nanos(0) {
            true => Err(Missing::unknown(format!(
                "CPU {} is not among what was counted",
                self.cpus
            ))),
            false => Ok((cpus, sample.duration_ns)),
        }
    }

    /// Why something was not counted, as the counters say it themselves.
    pub(crate) fn not_counted(&self, what: &str) -> Missing {
        let reasons = self.facts.sample.iter().flat_map(|s| &s.unknown);
        let reason = reasons.into_iter().find(|line| line.starts_with(what));
        Missing::unknown(reason.map_or_else(|| format!("{what}: not counted"), Clone::clone))
    }

    /// Whether it is a PREEMPT_RT kernel.
    pub(crate) fn is_rt(&self) -> Result<bool, Missing> {
        let fact = &self.host().kernel.preempt_rt;
        self.either(fact, "PREEMPT_RT", "not PREEMPT_RT")
    }

    /// A fact of two values, with words for both.
    fn either(&self, fact: &'a Fact<bool>, yes: &str, no: &str) -> Result<bool, Missing> {
        match fact.value {
            Some(value) => {
                self.saw(&fact.source, if value { yes } else { no });
                Ok(value)
            }
            None => self.fact(fact).copied(),
        }
    }

    /// Of a file that every machine has: where it is not there, it was not
    /// captured.
    pub(crate) fn always<T>(&self, judged: Result<T, Missing>) -> Result<T, Missing> {
        judged.map_err(|missing| match missing {
            Missing::NotApplicable(why) => Missing::Unknown(why),
            other => other,
        })
    }

    /// A file of tracefs. Where it is not there, tracefs is not mounted, and
    /// what a tracer does is not known.
    pub(crate) fn tracefs<T>(&self, judged: Result<T, Missing>) -> Result<T, Missing> {
        judged.map_err(|missing| match missing {
            Missing::NotApplicable(_) => {
                Missing::unknown("tracefs is not mounted at /sys/kernel/tracing, or not built in")
            }
            other => other,
        })
    }

    /// A file of debugfs that every such kernel has. Where it is not there,
    /// debugfs is not mounted or locked, and what it holds is not known.
    pub(crate) fn debugfs<T>(&self, judged: Result<T, Missing>) -> Result<T, Missing> {
        judged.map_err(|missing| match missing {
            Missing::NotApplicable(_) => Missing::unknown(
                "debugfs is not mounted at /sys/kernel/debug, locked, or not built in",
            ),
            other => other,
        })
    }

    /// The kernel's version as (major, minor).
    pub(crate) fn version(&self) -> Result<(u32, u32), Missing> {
        let release = self.fact(&self.host().kernel.release)?;
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        let mut next = || numbers.next()?.parse().ok();
        match (next(), next()) {
            (Some(major), Some(minor)) => Ok((major, minor)),
            _ => Err(Missing::unknown(format!(
                "'{}' is no version",
                line(release)
            ))),
        }
    }

    /// Whether the machine is a virtual one.
    pub(crate) fn is_virtual(&self) -> Result<bool, Missing> {
        let fact = &self.host().virtualisation.virtual_machine;
        self.either(fact, "a guest", "no guest")
    }
}

/// A path as people read it: `N` for a number, `/GROUP` for the control group
/// of the process that was asked, `/GROUPS` for that and those above it.
pub(crate) fn shown(path: &str) -> String {
    path.replace('#', "N")
        .replace("{cgroup}", "/GROUP")
        .replace("{cgroup:cpu}", "/GROUP")
        .replace("{cgroup:cpuset}", "/GROUP")
        .replace("{cgroups}", "/GROUPS")
        .replace("{cgroups:cpu}", "/GROUPS")
        .replace("{cgroups:cpuset}", "/GROUPS")
}

/// A text on one line, cut where it is long.
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

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,300}") {
            let _ = line(&text);
        }
    }
}
