//! A certificate about a period, by the runs of a sampled series.

use jiff::tz::TimeZone;
use punctual_model::{Recording, SeriesProof};

use super::{Content, Digest, MOST_IN_PDF, REQUIREMENT, at_most, machine, settings};
use crate::document::{self, Answer, Block, Document, Field, Section};
use crate::figures;
use crate::plot;
use crate::{ReportError, html};

/// Returns the page of a series with all its runs, the machine, and the digest of the verdict.
/// `first` is the recording of the first run: the machine did not change between the runs, or the
/// verdict states what changed.
pub fn series_html(proof: &SeriesProof, first: Option<&Recording>, digest: &Digest) -> String {
    let mut document: Document = document::series_proof(proof, &TimeZone::UTC);
    document.title = title(proof);
    for (heading, fields) in about_machine(first, digest, usize::MAX) {
        document.push(Section::titled(heading, vec![Block::Fields(fields)]));
    }
    html::page(&document.title.clone(), &[document])
}

/// Returns the certificate as a PDF document of one A4 page. Texts that are too long for the page
/// are shortened, and the page states this.
///
/// # Errors
/// Returns an error if the PDF writer fails.
pub fn series_pdf(
    proof: &SeriesProof,
    first: Option<&Recording>,
    digest: &Digest,
) -> Result<Vec<u8>, ReportError> {
    let texts = content(proof, first, digest).into_texts();
    plot::certificate(&texts, |_| Ok(None))?.pdf()
}

fn title(proof: &SeriesProof) -> String {
    match &proof.host {
        Some(host) => format!("Certificate of {host}, series {}", proof.series),
        None => format!("Certificate of series {}", proof.series),
    }
}

fn content(proof: &SeriesProof, first: Option<&Recording>, digest: &Digest) -> Content {
    let asked = &proof.asked;
    // The only claim is the answer at the top.
    let requirement = vec![Field::new("loop", figures::asked_text(asked))];
    let mut groups = vec![(REQUIREMENT, requirement), ("Runs", runs(proof))];
    groups.extend(about_machine(first, digest, MOST_IN_PDF));
    let missing = proof.runs.iter().filter_map(|run| {
        let why = run.lacking.as_ref()?;
        Some(format!("run {} counts as late: {why}", run.number))
    });
    let warnings = proof.refused.iter().cloned().chain(missing).collect();
    Content {
        title: title(proof),
        answer: Answer {
            sign: figures::outcome_sign(proof.outcome),
            word: figures::outcome_word(proof.outcome),
            ..Answer::new(
                document::outcome_tone(proof.outcome),
                proof.sentence.as_str(),
            )
        },
        confidence: None,
        warnings: at_most(MOST_IN_PDF, warnings, "warning", |text| text),
        groups,
    }
}

fn runs(proof: &SeriesProof) -> Vec<Field> {
    let minute = |time: jiff::Timestamp| time.strftime("%F %H:%M").to_string();
    let mut fields = vec![Field::new(
        "period",
        format!("{} to {}", minute(proof.from), minute(proof.until)),
    )];
    fields.extend(proof.asked.sample.map(|sample| {
        let text = format!("{sample}, epoch {}, seed {}", proof.epoch, proof.seed);
        Field::new("random times", text)
    }));
    let loads = match proof.loads.as_slice() {
        [] => "none".to_owned(),
        loads => loads.join(", "),
    };
    fields.push(Field::new("load", loads));
    fields
}

/// Returns the machine, its settings, and the digest.
fn about_machine(
    first: Option<&Recording>,
    digest: &Digest,
    most: usize,
) -> Vec<(&'static str, Vec<Field>)> {
    let mut groups = Vec::new();
    if let Some(first) = first {
        groups.push(("Machine", machine(first)));
        groups.push(("Settings in force at the first run", settings(first, most)));
    }
    groups.push(("Verdict", digest.fields()));
    groups
}
