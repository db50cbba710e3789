//! `check --series`: judges the runs of a sampled series.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use punctual_evidence::{SignedFile, Signer, pdf};
use punctual_history::{ProofQuery, prove};
use punctual_model::{Recording, SeriesProof};
use punctual_report::certificate::{self, Digest};
use punctual_report::junit::{self, CiForm};
use punctual_report::{document, markdown, text};
use punctual_store::{Store, StoreError};

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::signing::Signing;
use crate::options::since;
use crate::output::{self, Output};
use crate::recordings::{exported, file_name};

// Which runs are judged instead of a new measurement.
#[derive(Args)]
pub(super) struct OfSeries {
    /// Judge the runs of a sampled series of punctual monitor; measures nothing
    ///
    /// The runs were at random times of a period, such as a week, so the verdict is about the whole
    /// period. A missing run counts as late.
    #[arg(long, value_name = "SERIES", conflicts_with_all = MEASURING)]
    series: Option<String>,
    /// With --series: the machine, if several have this series
    #[arg(long, value_name = "NAME", requires = "series")]
    host: Option<String>,
    /// With --series: a time in the period to judge [default: the newest one that has ended]
    #[arg(long, value_name = "TIME", value_parser = since, requires = "series")]
    at: Option<Timestamp>,
    #[command(flatten)]
    signing: Signing,
}

/// Options that only a measurement uses.
const MEASURING: [&str; 14] = [
    "hunt",
    "subject",
    "period",
    "budget",
    "misses",
    "cpus",
    "priority",
    "share_cpus",
    "load",
    "duration",
    "until_proven",
    "label",
    "quiet",
    "verbose",
];

type Write = fn(&Proven<'_>) -> Result<Vec<u8>>;

/// The formats of the verdict, by file extension.
const FORMS: [(&str, Write); 9] = [
    ("html", |proven| {
        let (proof, first) = (proven.proof, proven.first()?);
        Ok(certificate::series_html(proof, first.as_ref(), &proven.digest()).into_bytes())
    }),
    ("pdf", |proven| {
        let first = proven.first()?;
        let page = certificate::series_pdf(proven.proof, first.as_ref(), &proven.digest())?;
        let Some(signer) = proven.signing.signer_if_possible()? else {
            return Ok(page);
        };
        let statement = proven.statement(vec![pdf::page(&page)], &signer)?;
        pdf::attach(&page, &statement).context("the statement cannot be attached to this PDF")
    }),
    ("md", |proven| {
        let page = document::series_proof(proven.proof, &TimeZone::UTC);
        Ok(markdown::render(&page).into_bytes())
    }),
    ("xml", |proven| Ok(proven.ci(CiForm::Junit))),
    ("tap", |proven| Ok(proven.ci(CiForm::Tap))),
    ("lava", |proven| Ok(proven.ci(CiForm::Lava))),
    ("kcidb.json", |proven| Ok(proven.ci(CiForm::Kcidb))),
    ("intoto.json", |proven| {
        let statement = proven.statement(Vec::new(), &proven.signing.signer()?)?;
        Ok(format!("{statement}\n").into_bytes())
    }),
    ("json", |proven| Ok(output::json(proven.proof).into_bytes())),
];

/// Returns the format for a file, HTML for stdout and devices.
fn form_of(path: &Path) -> Result<Write, UsageError> {
    if path.extension().is_none() {
        return Ok(FORMS[0].1);
    }
    let name = path.to_string_lossy().to_ascii_lowercase();
    let mut forms = FORMS.iter();
    let found = forms.find(|(ending, _)| name.ends_with(&format!(".{ending}")));
    found.map(|(_, write)| *write).ok_or_else(|| {
        let known = FORMS.map(|(ending, _)| format!(".{ending}"));
        UsageError(format!(
            "{}: unknown file extension: with --series, use one of {}",
            path.display(),
            known.join(", ")
        ))
    })
}

/// A judged series, and what its reports contain besides the verdict.
struct Proven<'a> {
    proof: &'a SeriesProof,
    store: &'a Store,
    /// The options that make the same verdict again.
    host: Option<&'a str>,
    allowed: Option<f64>,
    signing: &'a Signing,
}

impl Proven<'_> {
    /// Returns the signed statement about the runs and these files.
    fn statement(&self, files: Vec<SignedFile>, signer: &Signer) -> Result<String> {
        let mut runs = Vec::new();
        for id in self.proof.runs.iter().filter_map(|run| run.recording) {
            match self.store.load(id) {
                Ok(recording) => runs.push((id, punctual_evidence::digest(&recording))),
                // A deleted recording is counted as late.
                Err(StoreError::NoSuch { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let signed = punctual_evidence::sign_series(self.proof, &runs, files, signer);
        Ok(signed?)
    }

    /// Returns the recording of the first run that was measured.
    fn first(&self) -> Result<Option<Recording>> {
        let mut runs = self.proof.runs.iter().filter(|run| run.lacking.is_none());
        let id = runs.find_map(|run| run.recording);
        Ok(id.map(|id| self.store.load(id)).transpose()?)
    }

    fn ci(&self, form: CiForm) -> Vec<u8> {
        junit::series(self.proof, form).into_bytes()
    }

    /// Returns the digest of the JSON of the verdict, and the command that prints it.
    fn digest(&self) -> Digest {
        let (name, from) = (&self.proof.series, self.proof.from);
        let mut command = format!("punctual check --series {} --at {from}", quoted(name));
        if let Some(host) = self.host {
            command.push_str(&format!(" --host {}", quoted(host)));
        }
        if let Some(allowed) = self.allowed {
            command.push_str(&format!(" --max-late-seconds-per-day {allowed}"));
        }
        Digest {
            sha256: exported::sha256(output::json(self.proof).as_bytes()),
            command: format!("{command} --json"),
            file: format!("{}-{}.json", file_name(name), from.strftime("%F")),
        }
    }
}

/// Quotes a word for a shell if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-:@".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl OfSeries {
    /// Refuses a signature without a file that contains it.
    fn signs(&self, page: Option<&Path>) -> Result<(), UsageError> {
        let name = page.map(|page| page.to_string_lossy().to_ascii_lowercase());
        let signed = [".pdf", ".intoto.json"];
        if name.is_some_and(|name| signed.iter().any(|end| name.ends_with(end)))
            || !self.signing.is_requested()
        {
            return Ok(());
        }
        let text =
            "--ssh-key needs --series and a .pdf or .intoto.json file, which contain a statement";
        Err(UsageError(text.to_owned()))
    }

    /// Judges the series, if one was given. `allowed` is the tolerated number of late seconds per
    /// day, if the command line has one. `page` is the file to write.
    pub(super) fn run(
        &self,
        allowed: Option<f64>,
        (json, page): (bool, Option<&Path>),
        context: &Context,
    ) -> Result<Option<Exit>> {
        let Some(name) = &self.series else {
            self.signs(None)?;
            return Ok(None);
        };
        self.signs(page)?;
        let write = page.map(form_of).transpose()?;
        let page = page.map(Output::open).transpose()?;
        let page_on_stdout = page.as_ref().is_some_and(Output::is_stdout);
        if json && page_on_stdout {
            return Err(super::one_format().into());
        }
        let store = context.store_to_read()?;
        let query = ProofQuery {
            host: self.host.clone(),
            at: self.at,
            now: Timestamp::now(),
            max_late_seconds_per_day: allowed,
        };
        let proof = prove(&store, name, &query)?;
        let exit = match proof.outcome {
            outcome if outcome.is_bad() => Exit::Broken,
            outcome if outcome.is_good() => Exit::Done,
            _ => Exit::NotProven,
        };
        context.ends_with(exit);
        if json {
            output::print(&output::json(&proof))?;
        } else if !page_on_stdout {
            let shown = document::series_proof(&proof, &TimeZone::system());
            output::print(&text::render(&shown, &context.style()))?;
        }
        if let (Some(page), Some(write)) = (page, write) {
            page.put(&write(&Proven {
                proof: &proof,
                store: &store,
                host: self.host.as_deref(),
                allowed,
                signing: &self.signing,
            })?)?;
        }
        Ok(Some(exit))
    }
}
