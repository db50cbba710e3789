//! An audit for a terminal, what matters first.

use punctual_model::{Audit, Fact, Finding, FindingState, Nanos, Severity, grouped};

use crate::clean::{clean, shorten};
use crate::text::{TextStyle, Tone, wrap};

/// How much is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditDetail {
    /// Also what is ok and what does not apply, and each reason and source.
    pub all: bool,
}

/// The audit as text: a line of summary, what fails, what is to be looked at,
/// what is unknown, the rest as counts.
pub fn text(audit: &Audit, detail: AuditDetail, style: &TextStyle) -> String {
    let mut page = Page {
        out: String::new(),
        style: *style,
        width: style.columns(),
    };
    page.head(audit);
    let grave = |f: &&Finding| f.is_problem() && f.severity >= Severity::Medium;
    let minor = |f: &&Finding| f.is_problem() && f.severity < Severity::Medium;
    for finding in audit.findings.iter().filter(grave) {
        page.finding(finding, detail.all);
    }
    if audit.findings.iter().any(|f| minor(&f)) {
        page.heading("Of less severity");
        for finding in audit.findings.iter().filter(minor) {
            match detail.all {
                true => page.finding(finding, true),
                false => page.brief(finding),
            }
        }
    }
    page.unknown(audit, detail.all);
    if detail.all {
        for (state, title) in [
            (FindingState::Ok, "Ok"),
            (FindingState::NotApplicable, "Not applicable"),
        ] {
            page.heading(title);
            for finding in audit.findings.iter().filter(|f| f.state == state) {
                page.brief(finding);
            }
        }
    }
    page.foot(audit, detail);
    page.out
}

struct Page {
    out: String,
    style: TextStyle,
    width: usize,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn heading(&mut self, text: &str) {
        let text = self.style.paint(Tone::Heading, text);
        self.line("");
        self.line(&text);
    }

    /// Wrapped text behind a label; both within the page.
    fn labelled(&mut self, label: &str, text: &str, tone: Tone) {
        const LABEL: usize = 10;
        let lines = wrap(&clean(text), self.width.saturating_sub(LABEL + 2).max(20));
        for (index, line) in lines.iter().enumerate() {
            let label = if index == 0 { label } else { "" };
            let label = self.style.paint(Tone::Faint, &format!("{label:<LABEL$}"));
            let line = self.style.paint(tone, line);
            self.line(&format!("  {label}{line}"));
        }
    }

    fn head(&mut self, audit: &Audit) {
        let host = &audit.host;
        let name = host.hostname.as_deref().unwrap_or("this machine");
        let rest: Vec<&str> = [&host.processor, &host.kernel, &host.distribution]
            .into_iter()
            .filter_map(|text| text.as_deref())
            .collect();
        let title = self.style.paint(Tone::Heading, &clean(name));
        let rest = format!("{name}  {}", clean(&rest.join(" · ")));
        let rest = shorten(&rest, self.width);
        let rest: String = rest.chars().skip(name.chars().count()).collect();
        self.line(&format!("{title}{rest}"));
        let cpus = match audit.cpus.is_empty() {
            true => String::new(),
            false => format!("; CPU {} ({})", audit.cpus, audit.cpus_because),
        };
        self.wrapped(&format!(
            "role {} ({}){cpus}",
            audit.role, audit.role_meaning
        ));
        self.line("");
        let tone = match (
            audit.is_grave(),
            audit.findings.iter().any(Finding::is_problem),
        ) {
            (true, _) => Tone::Bad,
            (_, true) => Tone::Warning,
            _ => Tone::Good,
        };
        for line in wrap(&audit.summary(), self.width) {
            let line = self.style.paint(tone, &line);
            self.line(&line);
        }
        if !audit.cpus.is_empty() {
            self.expectation(audit);
        }
    }

    fn wrapped(&mut self, text: &str) {
        for line in wrap(&clean(text), self.width) {
            let line = self.style.paint(Tone::Faint, &line);
            self.line(&line);
        }
    }

    fn expectation(&mut self, audit: &Audit) {
        let expectation = &audit.expectation;
        let mut text = match (&expectation.frequency_khz, expectation.worst_ns) {
            (
                Some(Fact {
                    value: Some(khz), ..
                }),
                Some(worst),
            ) => format!(
                "A tuned machine of {} can be expected to stay near {worst} (100,000 clock cycles, a rule of thumb of the OSADL).",
                gigahertz(*khz)
            ),
            _ => "What worst case to expect cannot be said: the clock frequency is not known."
                .to_owned(),
        };
        match (&expectation.measured, &expectation.not_measured) {
            (Some(measured), _) => text.push_str(&format!(
                " Last measured with these settings: {} at most in {} samples of {} ({}, {}).",
                measured.max_ns,
                grouped(measured.samples),
                measured.headline,
                measured.recording,
                measured.started.strftime("%Y-%m-%d"),
            )),
            (None, Some(why)) => text.push_str(&format!(
                " No recording here is comparable ({why}): punctual measure timer."
            )),
            (None, None) => {
                text.push_str(" Nothing was measured here yet: punctual measure timer.")
            }
        }
        self.wrapped(&text);
    }

    /// A problem in full.
    fn finding(&mut self, finding: &Finding, all: bool) {
        let (word, tone) = mark(finding);
        let (title, id) = (clean(&finding.title), clean(&finding.id));
        let length = MARK + 2 + title.chars().count() + 2 + id.chars().count();
        let word = self.style.paint(tone, &word);
        let title = self.style.paint(Tone::Heading, &title);
        self.line("");
        // Titles that name an option of the kernel are long.
        if length <= self.width {
            let id = self.style.paint(Tone::Faint, &id);
            self.line(&format!("{word}  {title}  {id}"));
        } else {
            self.line(&format!("{word}  {title}"));
            self.labelled("name", &id, Tone::Faint);
        }
        self.labelled("expected", &finding.expected, Tone::Plain);
        self.labelled("why", &finding.why, Tone::Plain);
        if let Some(note) = &finding.role_note {
            self.labelled("role", note, Tone::Plain);
        }
        for command in &finding.now {
            self.command(command);
        }
        if let Some(reboot) = &finding.reboot {
            self.labelled("permanent", reboot, Tone::Plain);
        }
        let shown = if all { usize::MAX } else { 3 };
        for fact in finding.evidence.iter().take(shown) {
            self.evidence(fact);
        }
        if finding.evidence.len() > shown {
            let more = format!("and {} more: --all", finding.evidence.len() - shown);
            self.labelled("", &more, Tone::Faint);
        }
        self.labelled("source", &finding.source, Tone::Faint);
    }

    /// A command stands on one line, whole: it is to be copied.
    fn command(&mut self, command: &str) {
        let label = self.style.paint(Tone::Faint, &format!("{:<10}", "now"));
        let command = self.style.paint(Tone::Good, &clean(command));
        self.line(&format!("  {label}{command}"));
    }

    fn evidence(&mut self, fact: &Fact<String>) {
        let value = match (&fact.value, &fact.unknown) {
            (Some(value), _) if value.is_empty() => "(empty)".to_owned(),
            (Some(value), _) => value.clone(),
            (None, why) => format!("({})", why.as_deref().unwrap_or("not known")),
        };
        self.labelled("read", &format!("{}: {value}", fact.source), Tone::Faint);
    }

    /// A finding in a line or two.
    fn brief(&mut self, finding: &Finding) {
        let (word, tone) = mark(finding);
        let word = self.style.paint(tone, &word);
        let lines = wrap(
            &clean(&finding.line()),
            self.width.saturating_sub(MARK + 2).max(20),
        );
        for (index, line) in lines.iter().enumerate() {
            match index {
                0 => self.line(&format!("{word}  {line}")),
                _ => self.line(&format!("{:MARK$}  {line}", "")),
            }
        }
    }

    /// What is unknown, grouped by the reason: one missing right is one thing.
    fn unknown(&mut self, audit: &Audit, all: bool) {
        let mut groups: Vec<(&str, Vec<&Finding>)> = Vec::new();
        for finding in audit
            .findings
            .iter()
            .filter(|f| f.state == FindingState::Unknown)
        {
            match groups.iter_mut().find(|(why, _)| *why == finding.found) {
                Some((_, findings)) => findings.push(finding),
                None => groups.push((&finding.found, vec![finding])),
            }
        }
        if groups.is_empty() {
            return;
        }
        self.heading("Unknown");
        for (why, findings) in groups {
            // What matters most is first; the rest is the same, over and over.
            let shown = if all { usize::MAX } else { 5 };
            let mut titles: Vec<String> = findings
                .iter()
                .take(shown)
                .map(|finding| format!("{} ({})", finding.title, finding.severity))
                .collect();
            if findings.len() > shown {
                titles.push(format!("and {} more", findings.len() - shown));
            }
            let width = self.width.saturating_sub(2);
            for (index, line) in wrap(&clean(&titles.join("; ")), width).iter().enumerate() {
                let mark = if index == 0 { "?" } else { " " };
                let mark = self.style.paint(Tone::Warning, mark);
                self.line(&format!("{mark} {line}"));
            }
            for line in wrap(&clean(why), width.saturating_sub(2)) {
                let line = self.style.paint(Tone::Faint, &line);
                self.line(&format!("    {line}"));
            }
        }
    }

    fn foot(&mut self, audit: &Audit, detail: AuditDetail) {
        self.line("");
        if audit.cpus.is_empty() {
            if !detail.all {
                self.wrapped("All findings: --all.");
            }
            return;
        }
        let counted = match &audit.sample {
            Some(sample) => format!(
                "Interrupts were counted for {}. ",
                short(sample.duration_ns)
            ),
            None => "Nothing was counted (--sample 1s does). ".to_owned(),
        };
        let more = match detail.all {
            true => "",
            false => "All findings: --all. ",
        };
        self.wrapped(&format!(
            "{counted}{more}To change settings: punctual tune plan --from-doctor; as a script: --fix-script."
        ));
    }
}

/// The width of a mark.
const MARK: usize = 11;

/// A finding's state and severity in a word, and its colour.
fn mark(finding: &Finding) -> (String, Tone) {
    let (word, tone) = match (finding.state, finding.severity) {
        (FindingState::Fail, Severity::Fatal) => ("FAIL fatal", Tone::Bad),
        (FindingState::Fail, Severity::High) => ("FAIL high", Tone::Bad),
        (FindingState::Fail, Severity::Medium) => ("fail medium", Tone::Warning),
        (FindingState::Fail, Severity::Info) => ("fail info", Tone::Plain),
        (FindingState::Warn, Severity::Fatal) => ("warn fatal", Tone::Warning),
        (FindingState::Warn, Severity::High) => ("warn high", Tone::Warning),
        (FindingState::Warn, Severity::Medium) => ("warn medium", Tone::Warning),
        (FindingState::Warn, Severity::Info) => ("warn info", Tone::Plain),
        (FindingState::Unknown, _) => ("?", Tone::Warning),
        (FindingState::Ok, _) => ("ok", Tone::Good),
        (FindingState::NotApplicable, _) => ("-", Tone::Faint),
    };
    (format!("{word:<MARK$}"), tone)
}

fn gigahertz(khz: u64) -> String {
    format!("{}.{:02} GHz", khz / 1_000_000, khz % 1_000_000 / 10_000)
}

/// Without the digits that a length of watching does not have.
fn short(duration: Nanos) -> String {
    format!("{:.1} s", duration.0 as f64 / 1e9)
}
