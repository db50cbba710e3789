//! The rules of the gate: which skips are accepted, how many tests must pass, and how many tests
//! may be disturbed by a busy machine.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

/// Options of the commands of the gate.
#[derive(Args, Default)]
#[group(skip)]
pub(crate) struct Options {
    /// List of the tests that may be skipped here, with the reason; any other skip is a failure
    #[arg(long, value_name = "FILE")]
    skips: Option<PathBuf>,
    /// File that counts tests disturbed by a busy machine over several commands; more than 5 that
    /// passed only when run again (emulated machines count apart), or more than 3 that were skipped,
    /// are a failure
    #[arg(long, value_name = "FILE")]
    disturbed: Option<PathBuf>,
}

/// Maximum number of tests that pass only when run again. If there are more, the gate has no result,
/// because the machine is too busy or a test is unreliable. This is less than one in a thousand tests.
/// Those in emulated machines are counted apart, because they only get the CPU time that the other tests
/// of the gate leave, and run again when these have ended.
const RERUN_LIMIT: usize = 5;

/// Maximum number of tests that are skipped because the machine is not quiet.
const QUIET_LIMIT: usize = 3;

/// The reason of `punctual_testing::Lacks` for which the number of skipped tests is limited.
const QUIET: &str = "quiet";

/// A test that was skipped, as `punctual_testing::skip!` prints it: `test: reason: details`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) test: String,
    lacks: String,
    why: String,
}

impl Skip {
    /// Parses the text after `SKIP `. If the harness runs one test at a time, the name of the
    /// thread is `main`. In that case, `test` is the name of the test.
    pub(crate) fn parse(line: &str, test: &str) -> Self {
        let mut parts = line.splitn(3, ": ").map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let (name, lacks, why) = (next(), next(), next());
        let name = match name.as_str() {
            "main" => test.to_owned(),
            _ => name,
        };
        Self {
            test: name,
            lacks,
            why,
        }
    }
}

/// The results of a test program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ran {
    /// Name of the program: `crate/file`, or `machine:crate/file` on an emulated machine.
    pub(crate) program: String,
    pub(crate) passed: usize,
    pub(crate) skips: Vec<Skip>,
}

impl Ran {
    /// Returns the number of tests that passed without a skip.
    fn whole(&self) -> usize {
        let skipped: BTreeSet<&str> = self.skips.iter().map(|skip| &*skip.test).collect();
        self.passed.saturating_sub(skipped.len())
    }
}

/// The lines of a list: `program test reason`, or `program >= passes`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    /// Accepted skips: program, test (`*` for every test), reason.
    listed: BTreeSet<[String; 3]>,
    /// Minimum number of tests of a program that must pass without a skip.
    least: BTreeMap<String, usize>,
}

impl Rules {
    fn parse(text: &str) -> Result<Self> {
        let mut rules = Self::default();
        for line in text.lines() {
            let rule = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = rule.split_whitespace().collect();
            match words[..] {
                [] => {}
                [program, ">=", passes] => {
                    let passes = passes.parse().with_context(|| line.to_owned())?;
                    rules.least.insert(program.to_owned(), passes);
                }
                [program, test, lacks] => {
                    let words = [program, test, lacks].map(str::to_owned);
                    rules.listed.insert(words);
                }
                _ => bail!("'{line}' is neither 'program test reason' nor 'program >= passes'"),
            }
        }
        Ok(rules)
    }

    fn lists(&self, program: &str, skip: &Skip) -> bool {
        let lists = |test: &str| {
            let words = [program, test, &skip.lacks].map(str::to_owned);
            self.listed.contains(&words)
        };
        lists(&skip.test) || lists("*")
    }
}

/// The rules for one command of the gate.
pub(crate) struct Gate {
    /// Rules from the list. If there is no list, any skip is accepted.
    rules: Option<Rules>,
    /// Reasons that are accepted for any test.
    accepted: &'static [&'static str],
    /// Whether each program for which the list contains a number of passes must have run.
    complete: bool,
    disturbed: Option<PathBuf>,
}

/// Tests that were disturbed by a busy machine.
#[derive(Default)]
struct Disturbed {
    rerun: Vec<String>,
    quiet: Vec<String>,
}

impl Gate {
    /// Reads the list of skips.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read or contains an invalid line.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let read = |file: &PathBuf| {
            let text = std::fs::read_to_string(file);
            let rules = text
                .map_err(Into::into)
                .and_then(|text| Rules::parse(&text));
            rules.with_context(|| file.display().to_string())
        };
        Ok(Self {
            rules: options.skips.as_ref().map(read).transpose()?,
            accepted: &[],
            complete: false,
            disturbed: options.disturbed.clone(),
        })
    }

    /// Returns the rules for a run of all programs, in which each number of passes is compared.
    pub(crate) fn of_all(self) -> Self {
        Self {
            complete: true,
            ..self
        }
    }

    /// Returns the rules for an ordinary user, who lacks privileges: any test may be skipped for
    /// that reason, and numbers of passes are not compared.
    pub(crate) fn of_ordinary_user(mut self) -> Self {
        if let Some(rules) = &mut self.rules {
            rules.least.clear();
        }
        Self {
            accepted: &["right", "user", "program"],
            ..self
        }
    }

    /// Prints the violations of the rules, and returns whether there are none. `again` lists the
    /// tests that passed only when run again, as `program test`.
    ///
    /// # Errors
    /// Returns an error if the file of disturbed tests cannot be read or written.
    pub(crate) fn accepts(&self, ran: &[Ran], again: &[String]) -> Result<bool> {
        let wrong = self.wrong(ran, again)?;
        for what in &wrong {
            println!("{what}");
        }
        Ok(wrong.is_empty())
    }

    fn wrong(&self, ran: &[Ran], again: &[String]) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        let mut disturbed = Disturbed {
            rerun: again.to_vec(),
            quiet: Vec::new(),
        };
        for one in ran {
            for skip in &one.skips {
                let listed = self
                    .rules
                    .as_ref()
                    .is_none_or(|r| r.lists(&one.program, skip));
                let Skip { test, lacks, why } = skip;
                let what = format!("{} {test}: {lacks}: {why}", one.program);
                if lacks == QUIET && !(listed && self.rules.is_some()) {
                    disturbed.quiet.push(what);
                } else if !listed && !self.accepted.contains(&lacks.as_str()) {
                    wrong.push(format!("skipped, but expected to run: {what}"));
                }
            }
        }
        if let Some(rules) = &self.rules {
            wrong.extend(self.too_few(rules, ran));
        }
        wrong.extend(disturbed.beyond_limit(self.disturbed.as_deref())?);
        Ok(wrong)
    }

    fn too_few(&self, rules: &Rules, ran: &[Ran]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (program, least) in &rules.least {
            let whole = match ran.iter().find(|one| one.program == *program) {
                Some(one) => one.whole(),
                None if self.complete => 0,
                None => continue,
            };
            if whole < *least {
                wrong.push(format!(
                    "too few: {program} has {whole} tests that pass and skip nothing, and needs {least}"
                ));
            }
        }
        wrong
    }
}

impl Disturbed {
    /// Appends these tests to the file, and returns them together with those of earlier commands of
    /// this gate.
    fn with_earlier(mut self, file: &Path) -> Result<Self> {
        let path = || file.display().to_string();
        let mut open = std::fs::File::options();
        let mut out = (open.create(true).append(true).open(file)).with_context(path)?;
        for (kind, tests) in [("again", &self.rerun), ("quiet", &self.quiet)] {
            for test in tests {
                writeln!(out, "{kind} {test}").with_context(path)?;
            }
        }
        (self.rerun, self.quiet) = (Vec::new(), Vec::new());
        for line in std::fs::read_to_string(file).with_context(path)?.lines() {
            match line.split_once(' ') {
                Some(("again", test)) => self.rerun.push(test.to_owned()),
                Some((_, test)) => self.quiet.push(test.to_owned()),
                None => {}
            }
        }
        Ok(self)
    }

    fn beyond_limit(self, file: Option<&Path>) -> Result<Vec<String>> {
        let all = match file {
            Some(file) => self.with_earlier(file)?,
            None => self,
        };
        // The name of a test in an emulated machine is `machine:program test`.
        let is_emulated = |name: &String| name.split(' ').next().unwrap_or(name).contains(':');
        let (emulated, rerun) = all.rerun.into_iter().partition(is_emulated);
        let mut wrong = Vec::new();
        for (what, tests, limit) in [
            ("passed only when run again", rerun, RERUN_LIMIT),
            (
                "in emulated machines passed only when run again",
                emulated,
                RERUN_LIMIT,
            ),
            (
                "were skipped for want of a quiet moment",
                all.quiet,
                QUIET_LIMIT,
            ),
        ] {
            if tests.len() > limit {
                wrong.push(format!("{} tests {what}, more than {limit}:", tests.len()));
                wrong.extend(tests.iter().map(|test| format!("  {test}")));
            }
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# those of this machine\n\
                        a/t   one  right  # no right\n\n\
                        a/t busy quiet\n\
                        b * kernel\n\
                        a/t >= 2";

    fn gate(list: &str) -> Gate {
        Gate {
            rules: Some(Rules::parse(list).unwrap()),
            accepted: &[],
            complete: false,
            disturbed: None,
        }
    }

    fn ran(program: &str, passed: usize, skips: &[&str]) -> Ran {
        Ran {
            program: program.to_owned(),
            passed,
            skips: skips.iter().map(|line| Skip::parse(line, "")).collect(),
        }
    }

    fn wrong(gate: &Gate, ran: Ran) -> String {
        gate.wrong(&[ran], &[]).unwrap().join("\n")
    }

    #[test]
    fn a_skip_of_another_type_fails() {
        let gate = gate(LIST);
        let listed = ["one: right: no right: to it", "one: right: nor to that"];
        assert_eq!(wrong(&gate, ran("a/t", 3, &listed)), "");
        assert_eq!(wrong(&gate, ran("b", 3, &["any: kernel: no BTF"])), "");
        for (program, skip) in [
            ("a/t", "one: kernel: no right"),
            ("a/t", "two: right: no right"),
            ("a/t", "one: no right"),
            ("a/t", "one"),
            ("b", "any: right: no right"),
            ("c", "one: right: no right"),
        ] {
            let wrong = wrong(&gate, ran(program, 9, &[skip]));
            assert!(
                wrong.starts_with("skipped, but expected"),
                "{skip}: {wrong}"
            );
            assert!(wrong.contains(skip), "{wrong}");
        }
    }

    #[test]
    fn ordinary_user_may_lack_only_rights() {
        let gate = gate(LIST).of_ordinary_user();
        let lacking = ["x: right: .", "x: user: .", "x: program: ."];
        assert_eq!(wrong(&gate, ran("a/t", 0, &lacking)), "");
        assert_eq!(wrong(&gate, ran("b", 0, &["x: kernel: ."])), "");
        assert_ne!(wrong(&gate, ran("a/t", 9, &["x: kernel: ."])), "");
        assert_ne!(wrong(&gate, ran("a/t", 9, &["x: hardware: ."])), "");
    }

    #[test]
    fn too_few_passes_fail() {
        let gate = gate(LIST);
        assert_eq!(wrong(&gate, ran("a/t", 2, &[])), "");
        assert!(wrong(&gate, ran("a/t", 1, &[])).starts_with("too few: a/t has 1"));
        // A test that skips two of its parts counts as one skipped test.
        let skips = ["one: right: .", "one: right: ."];
        assert_eq!(wrong(&gate, ran("a/t", 3, &skips)), "");
        assert!(wrong(&gate, ran("a/t", 2, &skips)).starts_with("too few: a/t has 1"));
        // A run of selected programs may lack `a/t`. A run of all programs must contain it.
        assert_eq!(wrong(&gate, ran("c", 1, &[])), "");
        let all = gate.of_all();
        assert!(wrong(&all, ran("c", 1, &[])).starts_with("too few: a/t has 0"));
    }

    #[test]
    fn too_many_disturbed_tests_fail() {
        let gate = gate(LIST);
        let again = |count| vec!["a/t x".to_owned(); count];
        assert!(gate.wrong(&[], &again(5)).unwrap().is_empty());
        assert!(gate.wrong(&[], &again(6)).unwrap()[0].starts_with("6 tests passed only"));
        let mut both = again(5);
        both.extend(vec!["plain:a/t x::y".to_owned(); 5]);
        assert_eq!(gate.wrong(&[], &both).unwrap(), [""; 0]);
        both.push("probes: all of it".to_owned());
        let wrong_in_machines = &gate.wrong(&[], &both).unwrap()[0];
        assert!(wrong_in_machines.starts_with("6 tests in emulated machines"));
        let quiet = |count| ran("a/t", 9, &vec!["x: quiet: crowded (load 7.1)"; count]);
        assert_eq!(wrong(&gate, quiet(3)), "");
        assert!(wrong(&gate, quiet(4)).starts_with("4 tests were skipped"));
        // Skips that the list accepts are not counted.
        let listed = ran("a/t", 9, &["busy: quiet: events lost"; 9]);
        assert_eq!(wrong(&gate, listed), "");
    }

    #[test]
    fn the_commands_of_a_gate_count_together() {
        let file = std::env::temp_dir().join(format!("disturbed-{}", std::process::id()));
        let gate = Gate {
            disturbed: Some(file.clone()),
            ..gate(LIST)
        };
        let five = ["v", "w", "x", "y", "z"].map(|test| format!("a/t {test}"));
        let first = gate.wrong(&[ran("c", 1, &["z: quiet: ."])], &five);
        let second = gate.wrong(&[], &five);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(first.unwrap(), [""; 0]);
        assert!(second.unwrap()[0].starts_with("10 tests passed only"));
    }

    #[test]
    fn invalid_rule_line_is_refused() {
        for line in ["a/t one", "a/t one right left", "a/t >= many", "a/t"] {
            let error = Rules::parse(line).unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn exclusive_test_has_its_own_name() {
        let skip = Skip::parse("main: right: no right", "one");
        assert_eq!((skip.test.as_str(), skip.lacks.as_str()), ("one", "right"));
        assert_eq!(Skip::parse("two: right: .", "one").test, "two");
    }

    /// Appends the text of all sources below a folder.
    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }

    /// Each list must be valid, and must not contain a test that was removed or renamed.
    #[test]
    fn gate_lists_name_existing_tests() {
        let mut text = String::new();
        sources(&crate::paths::repository().join("crates"), &mut text);
        for name in ["skips", "skips-vm"] {
            let file = crate::paths::repository().join(".ci").join(name);
            let rules = Rules::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
            assert!(rules.least.values().all(|least| *least > 0), "{name}");
            assert!(!rules.least.is_empty(), "{name}");
            for [_, test, _] in rules.listed.iter().filter(|[_, test, _]| test != "*") {
                let function = format!("fn {}(", test.rsplit("::").next().unwrap());
                assert!(
                    text.contains(&function),
                    "{name} lists {test}, but no test has this name"
                );
            }
        }
    }
}
