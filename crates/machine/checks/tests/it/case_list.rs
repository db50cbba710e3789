//! The lists of cases in `tests/cases.txt` and `tests/limits.txt`.

use std::sync::LazyLock;

use punctual_checks::{Request, audit};
use punctual_model::{FactSet, Finding};

use crate::described::{change, file, machine};

/// A case: facts, and the result of one check.
pub(crate) struct Case {
    /// The line of the list, for messages.
    pub(crate) line: &'static str,
    /// The finding.
    pub(crate) id: &'static str,
    /// The changes of the machine, as written.
    pub(crate) changes: Vec<&'static str>,
    pub(crate) facts: FactSet,
    pub(crate) request: Request,
    /// The expected result.
    pub(crate) state: &'static str,
    /// The expected text.
    pub(crate) found: &'static str,
}

impl Case {
    fn read(line: &'static str) -> Self {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, written, state, found] = columns[..] else {
            panic!("not four columns: {line}");
        };
        let changes = written.split("; ").filter(|text| !text.is_empty());
        let changes: Vec<&str> = changes.collect();
        let (mut facts, mut request) = (machine(), Request::default());
        for text in &changes {
            match text.strip_prefix('@') {
                Some(fact) => {
                    let (name, value) = fact.split_once('=').unwrap();
                    change(&mut facts, &mut request, name, value);
                }
                None => file(&mut facts, text),
            }
        }
        Self {
            line,
            id,
            changes,
            facts,
            request,
            state,
            found,
        }
    }

    /// Returns the finding of this case with these facts.
    pub(crate) fn judged(&self, facts: &FactSet) -> Finding {
        found(facts, &self.request, self.id)
    }
}

/// Returns all cases with their findings. All tests share them, because they take seconds.
pub(crate) fn cases() -> &'static [(Case, Finding)] {
    static CASES: LazyLock<Vec<(Case, Finding)>> = LazyLock::new(|| {
        let judged = |case: Case| {
            let finding = case.judged(&case.facts);
            (case, finding)
        };
        read().map(judged).collect()
    });
    &CASES
}

fn read() -> impl Iterator<Item = Case> {
    let lists = [include_str!("../cases.txt"), include_str!("../limits.txt")];
    let lines = lists.into_iter().flat_map(str::lines);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(Case::read)
}

/// Returns a finding of an audit.
pub(crate) fn found(facts: &FactSet, request: &Request, id: &str) -> Finding {
    let audit = audit(facts, request).unwrap();
    let finding = audit.findings.into_iter().find(|finding| finding.id == id);
    finding.unwrap_or_else(|| panic!("no finding {id}"))
}
