//! Audits of a machine in the formats of code scanning (SARIF) and continuous integration (JUnit
//! and TAP). For output that people read, see [`document`](crate::document::audit).

mod junit;
mod sarif;

pub use junit::{junit, tap};
pub use sarif::sarif;
pub(crate) use sarif::{level as sarif_level, run as sarif_run, uri};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use punctual_model::{
        AUDIT_SCHEMA, Audit, AuditedHost, Expectation, Fact, Finding, FindingState, Nanos, Severity,
    };

    use super::*;
    use crate::document::{self, AuditDetail};
    use crate::text::{self, TextStyle};

    fn text(audit: &Audit, all: bool) -> String {
        let audit = document::audit(audit, AuditDetail { all });
        text::render(&audit, &TextStyle::default())
    }

    /// Returns an audit with `text` in every text field, because captured facts can contain
    /// arbitrary text.
    fn audit_of(text: &str) -> Audit {
        use FindingState::*;
        let states = [Ok, Warn, Fail, Unknown, NotApplicable];
        let severities = [Severity::Info, Severity::High, Severity::Fatal];
        let all = states
            .iter()
            .flat_map(|state| severities.map(|severity| (*state, severity)));
        let findings = all.map(|(state, severity)| Finding {
            id: text.to_owned(),
            topic: text.to_owned(),
            subject: text.to_owned(),
            title: text.to_owned(),
            state,
            severity,
            found: text.to_owned(),
            expected: text.to_owned(),
            evidence: vec![
                Fact::known(text.to_owned(), text),
                Fact::unknown(text, text),
            ],
            why: text.to_owned(),
            source: text.to_owned(),
            role_note: Some(text.to_owned()),
            now: vec![text.to_owned()],
            remedies: Vec::new(),
            reboot: Some(text.to_owned()),
        });
        Audit {
            schema: AUDIT_SCHEMA,
            program: text.to_owned(),
            role: text.to_owned(),
            role_meaning: text.to_owned(),
            host: AuditedHost {
                hostname: Some(text.to_owned()),
                kernel: Some(text.to_owned()),
                distribution: None,
                processor: Some(text.to_owned()),
                fingerprint: text.to_owned(),
            },
            cpus: [2, 3].into_iter().collect(),
            cpus_because: text.to_owned(),
            findings: findings.collect(),
            expectation: Expectation {
                frequency_khz: Some(Fact::known(2_400_000, text)),
                max_ns: Some(Nanos(41_666)),
                measured: None,
                not_measured: None,
            },
            sample: None,
        }
    }

    #[test]
    fn each_finding_is_in_each_form() {
        let audit = audit_of("a word");
        let all = text(&audit, true);
        assert!(
            all.contains("FAIL fatal") && all.contains("2.40 GHz"),
            "{all}"
        );
        let shown = document::audit(&audit, AuditDetail { all: true });
        let markdown = crate::markdown::render(&shown);
        assert!(
            markdown.contains("## FAIL fatal: a word (a word)"),
            "{markdown}"
        );
        let html = crate::html::page("audit", &[shown]);
        assert!(
            html.contains(r#"<span class="badge broken">FAIL fatal</span> a word"#),
            "{html}"
        );
        let sarif = sarif(&audit);
        let results = sarif["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.len(), audit.findings.len());
        let kinds: BTreeSet<&str> = results.iter().filter_map(|r| r["kind"].as_str()).collect();
        assert_eq!(
            kinds.into_iter().collect::<Vec<_>>(),
            ["fail", "notApplicable", "open", "pass"]
        );
        let xml = junit(&audit);
        assert_eq!(xml.matches("<failure").count(), 2);
        assert_eq!(xml.matches("<skipped").count(), 6);
    }

    #[test]
    fn non_file_source_has_name_without_uri() {
        let first_place =
            |text: &str| sarif(&audit_of(text))["runs"][0]["results"][0]["locations"][0].clone();
        let file = first_place("/proc/cmdline (since the boot)");
        let uri = &file["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(uri, "file:///proc/cmdline");
        let named = first_place("ethtool -c eth0");
        let name = &named["logicalLocations"][0]["fullyQualifiedName"];
        assert_eq!(name, "ethtool -c eth0");
        assert!(named.get("physicalLocation").is_none());
    }

    proptest! {
        #[test]
        fn no_text_gets_out_of_its_place(word in "\\PC{0,40}|[\\x00-\\x1f<&\"\u{202e}]{0,20}|<img src=x>") {
            let audit = audit_of(&word);
            for all in [false, true] {
                let page = text(&audit, all);
                prop_assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", page);
                let shown = document::audit(&audit, AuditDetail { all });
                let page = crate::markdown::render(&shown);
                prop_assert!(!page.contains('<') && !page.chars().any(|c| c != '\n' && c.is_control()));
                let page = crate::html::page(&word, &[shown]);
                prop_assert!(!page.contains("<img") && !page.chars().any(|c| c != '\n' && c.is_control()));
            }
            let xml = junit(&audit);
            let mut reader = quick_xml::Reader::from_str(&xml);
            loop {
                match reader.read_event() {
                    Ok(quick_xml::events::Event::Eof) => break,
                    Ok(_) => {}
                    Err(error) => prop_assert!(false, "{error}: {xml}"),
                }
            }
            let _ = sarif(&audit).to_string();
        }
    }
}
