//! A check-up as the first section of an HTML page.

use maud::{Markup, html};
use punctual_model::Checkup;

use super::{asked_line, cause_line, condition_line, condition_name, hardware_line, lacking};
use crate::clean::clean;
use crate::html::badge;

/// The section.
pub(crate) fn section(checkup: &Checkup) -> Markup {
    html! {
        section {
            p .verdict { (badge(checkup.outcome)) " " (clean(&checkup.sentence)) }
            p .faint { (asked_line(checkup)) }
            h2 { "Conditions" }
            ul { @for condition in &checkup.conditions {
                li {
                    (badge(condition.outcome)) " " (clean(&condition_name(condition))) ": "
                    (clean(&condition_line(condition)))
                }
            } }
            @if let Some(line) = hardware_line(checkup) { p { "Hardware: " (line) } }
            @if !checkup.causes.is_empty() {
                h2 { "Causes" }
                ol { @for cause in &checkup.causes { li { (clean(&cause_line(cause))) } } }
            }
            @if !checkup.findings.is_empty() {
                h2 { "Findings" }
                ul { @for finding in &checkup.findings { li {
                    (finding.state) " (" (finding.severity) ") " (clean(&finding.title)) ": "
                    (clean(&finding.found)) "; recommended: " (clean(&finding.expected))
                } } }
            }
            @let lacking = lacking(checkup);
            @if !lacking.is_empty() {
                h2 { "What the verdict lacks" }
                ul .warnings { @for why in &lacking { li { (clean(why)) } } }
            }
            @if !checkup.next.is_empty() {
                h2 { "Next" }
                ul { @for command in &checkup.next { li { code { (clean(command)) } } } }
            }
        }
    }
}
