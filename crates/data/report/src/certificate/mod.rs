//! A certificate: one page about one recording, for someone who gets a machine and asks whether it
//! keeps time. It states the machine, the settings in force, the load, the requirement, the verdict
//! with its confidence, the histogram, and the digest of the recording.
//!
//! It contains no claim that the recording's verdict does not make, and unknown facts are named. The
//! HTML page has all warnings and limits. The PDF has one page: it shows the first few, with limits
//! that are not kept first, and states how many others there are.
//!
//! A certificate of a sampled series is about a whole period, such as a week ([`series_html`],
//! [`series_pdf`]).

mod series;

use punctual_model::Recording;

use crate::document::{self, Answer, Block, Document, Field, Figure, Section, Tone};
use crate::figures;
use crate::plot::{self, Ink, Plot, PlotOptions, TextRow, Texts};
use crate::{ReportError, html};

pub use series::{series_html, series_pdf};

/// Maximum number of limits, of warnings, and of problems of an audit in a PDF.
const MOST_IN_PDF: usize = 6;

/// Heading of the requirement. Its texts are not shortened, because they are what is certified.
const REQUIREMENT: &str = "Requirement";

/// Facts about the machine, by the names of their rows.
const MACHINE: [&str; 6] = [
    "machine",
    "firmware",
    "hypervisor",
    "CPUs online",
    "memory",
    "distribution",
];

/// Facts about the kernel and its settings, by the names of their rows.
const SETTINGS: [&str; 13] = [
    "version",
    "preemption",
    "command line",
    "isolated",
    "nohz_full",
    "SMT",
    "governor",
    "lowest frequency",
    "highest frequency",
    "idle states",
    "clock source",
    "transparent huge pages",
    "real-time share",
];

/// The digest of an exported recording. With it, the reader of a certificate can check that a
/// recording belongs to the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// SHA-256 of the bytes, in hexadecimal digits.
    pub sha256: String,
    /// The command that prints these bytes.
    pub command: String,
    /// Suggested name of the file that contains these bytes.
    pub file: String,
}

/// The content of a certificate.
struct Content {
    title: String,
    answer: Answer,
    confidence: Option<String>,
    warnings: Vec<String>,
    /// Named groups of fields.
    groups: Vec<(&'static str, Vec<Field>)>,
}

/// Returns the certificate as one HTML page.
///
/// # Errors
/// Returns an error if the plot cannot be drawn.
pub fn html(recording: &Recording, digest: &Digest) -> Result<String, ReportError> {
    let content = content(recording, digest, usize::MAX);
    let mut answer = vec![Block::Answer(content.answer)];
    answer.extend(content.confidence.map(|text| Block::faint(text + ".")));
    let mut document = Document {
        title: content.title,
        sections: vec![Section::new(answer)],
        ..Document::default()
    };
    if !content.warnings.is_empty() {
        document.push(Section::new(vec![Block::Warnings(content.warnings)]));
    }
    let mut groups = content.groups.into_iter();
    let push = |document: &mut Document, (heading, fields): (&str, Vec<Field>)| {
        document.push(Section::titled(heading, vec![Block::Fields(fields)]));
    };
    for group in groups.by_ref().take(2) {
        push(&mut document, group);
    }
    if let Some(plot) = drawn(recording, &PlotOptions::default())? {
        let figure = Figure {
            plot,
            caption: format!(
                "Number of samples by {}. Dots mark the maxima.",
                recording.probe.quantity()
            ),
        };
        document.push(Section::new(vec![Block::Figure(Box::new(figure))]));
    }
    groups.for_each(|group| push(&mut document, group));
    let title = document.title.clone();
    Ok(html::page(&title, &[document]))
}

/// Returns the certificate as a PDF document of one A4 page. Texts that are too long for the page
/// are shortened, and the page states this.
///
/// # Errors
/// Returns an error if the plot cannot be drawn, or if the PDF writer fails.
pub fn pdf(recording: &Recording, digest: &Digest) -> Result<Vec<u8>, ReportError> {
    let texts = content(recording, digest, MOST_IN_PDF).into_texts();
    plot::certificate(&texts, |options| drawn(recording, options))?.pdf()
}

impl Content {
    fn into_texts(self) -> Texts {
        let rows = |heading: &str, fields: Vec<Field>| {
            let row = |field: Field| TextRow {
                name: field.name,
                text: field.text,
                ink: ink(field.tone),
                least: if heading == REQUIREMENT { 4 } else { 1 },
            };
            fields.into_iter().map(row).collect()
        };
        let groups = self.groups.into_iter();
        let Answer {
            tone, sign, word, ..
        } = self.answer;
        Texts {
            title: self.title,
            badge: (ink(tone), format!("{sign} {word}").trim().to_owned()),
            answer: self.answer.text,
            remark: self.confidence.map(|text| text + "."),
            warnings: self.warnings,
            groups: groups
                .map(|(heading, fields)| (heading, rows(heading, fields)))
                .collect(),
        }
    }
}

const fn ink(tone: Tone) -> Ink {
    match tone {
        Tone::Plain | Tone::Heading => Ink::Plain,
        Tone::Faint => Ink::Faint,
        Tone::Good => Ink::Good,
        Tone::Warning => Ink::Warning,
        Tone::Bad => Ink::Bad,
    }
}

/// Draws the plot that suits the probe, without the heading, which repeats the page. Returns `None`
/// if the recording has no latencies.
fn drawn(recording: &Recording, options: &PlotOptions) -> Result<Option<Plot>, ReportError> {
    let options = PlotOptions {
        heading: plot::Heading::None,
        ..options.clone()
    };
    match plot::default_for(recording, &options) {
        Ok(plot) => Ok(Some(plot)),
        Err(ReportError::NoLatencies { .. } | ReportError::NotThisKind { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the content, with at most `most` limits, warnings and problems.
fn content(recording: &Recording, digest: &Digest, most: usize) -> Content {
    let verdict = &recording.verdict;
    let mut groups = vec![
        (REQUIREMENT, requirement(recording, most)),
        ("Measurement", measurement(recording)),
        ("Machine", machine(recording)),
        ("Settings in force", settings(recording, most)),
        ("Recording", identity(recording, digest)),
    ];
    groups.retain(|(_, fields)| !fields.is_empty());
    Content {
        title: format!("Certificate of {}", recording.headline()),
        answer: document::answer(recording),
        confidence: verdict.confidence(),
        warnings: at_most(most, figures::warnings(recording), "warning", |text| text),
        groups,
    }
}

/// Returns the first few texts, and the number of the others.
fn at_most<T>(most: usize, mut all: Vec<T>, word: &str, from_text: impl Fn(String) -> T) -> Vec<T> {
    let further = all.len().saturating_sub(most);
    if further > 0 {
        all.truncate(most);
        let plural = if further == 1 { "" } else { "s" };
        let text = format!("{further} further {word}{plural}: see the full report");
        all.push(from_text(text));
    }
    all
}

fn requirement(recording: &Recording, most: usize) -> Vec<Field> {
    let mut limits = document::claims(recording);
    limits.sort_by_key(|limit| limit.tone == Tone::Good);
    limits.sort_by_key(|limit| limit.tone != Tone::Bad);
    let mut fields: Vec<Field> = (recording.periodic())
        .map(|asked| Field::new("loop", figures::asked_text(asked)))
        .into_iter()
        .collect();
    fields.extend(at_most(most, limits, "limit", |text| Field::new("", text)));
    if fields.is_empty() {
        fields.push(match &recording.judgement {
            None => Field::new("limits", "none: this run was not judged"),
            Some(judgement) => Field::new(judgement.by.name(), &judgement.sentence),
        });
    }
    fields
}

fn measurement(recording: &Recording) -> Vec<Field> {
    let mut fields = vec![Field::new("run", figures::run_text(recording))];
    fields.extend(figures::source_text(recording).map(|text| Field::new("source", text)));
    let max = recording.all_latencies().max();
    let largest = format!("largest {}", recording.probe.quantity());
    fields.extend(max.map(|max| Field::new(largest, max.to_string())));
    fields.push(Field::new("samples", figures::account_of(recording)));
    fields.push(Field::new("load", figures::loads_text(recording)));
    fields.extend(held_idle_states(recording).map(|text| Field::new("idle states", text)));
    fields.push(Field::new("program", recording.probe.program.clone()));
    let command = recording.probe.command_line.join(" ");
    if !command.is_empty() {
        fields.push(Field::new("command line", command));
    }
    fields
}

/// Returns how the measurement itself limited the idle states. Without this limit, the machine may
/// react later.
fn held_idle_states(recording: &Recording) -> Option<String> {
    let set = |name: &str| recording.probe.parameters.get(name)?.as_i64();
    let latency = set("dma_latency_us").map(|us| format!("with an exit latency above {us} µs"));
    let depth = set("deepest_idle_state").map(|state| match state {
        -1 => "all".to_owned(),
        state => format!("deeper than state {state}"),
    });
    let states: Vec<String> = latency.into_iter().chain(depth).collect();
    (!states.is_empty()).then(|| format!("disabled during the run: {}", states.join("; ")))
}

fn machine(recording: &Recording) -> Vec<Field> {
    let mut fields = vec![Field::new("host", figures::host_line(recording))];
    fields.extend(document::chosen_facts(&recording.host, &MACHINE));
    fields
}

fn settings(recording: &Recording, most: usize) -> Vec<Field> {
    let mut fields = document::chosen_facts(&recording.host, &SETTINGS);
    match &recording.audit {
        None => fields.push(Field::toned(
            "audit",
            Tone::Faint,
            "unknown: this recording was made without an audit",
        )),
        Some(audit) => {
            fields.push(Field::new("audit", audit.summary()));
            let problems = audit.findings.iter().filter(|one| one.is_problem());
            let problems = problems.map(|one| Field::new("", &one.title)).collect();
            fields.extend(at_most(most, problems, "problem", |text| {
                Field::new("", text)
            }));
        }
    }
    fields
}

fn identity(recording: &Recording, digest: &Digest) -> Vec<Field> {
    let of_sender = figures::sender_verdict_text(recording);
    let mut fields = vec![Field::new("id", recording.id.to_string())];
    fields.extend(digest.fields());
    fields.extend(of_sender.map(|text| Field::new("received verdict", text)));
    fields
}

impl Digest {
    fn fields(&self) -> Vec<Field> {
        let command = |name: &str, text: String| Field {
            is_command: true,
            ..Field::new(name, text)
        };
        vec![
            command("exported by", format!("{} > {}", self.command, self.file)),
            Field::new("SHA-256", &self.sha256),
            command("checked by", format!("sha256sum {}", self.file)),
        ]
    }
}
