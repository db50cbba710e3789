//! `report`: writes reports of recordings, for people or for continuous integration.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use punctual_evidence::{Signer, pdf};
use punctual_history::Series;
use punctual_model::Recording;
use punctual_report::certificate::{self, Digest};
use punctual_report::document::{Causes, Document};
use punctual_report::html::HtmlOptions;
use punctual_report::junit::CiForm;
use punctual_report::{document, html, junit, markdown, text};
use punctual_store::Store;

use crate::context::Context;
use crate::exit::{Exit, UsageError};
use crate::options::extension;
use crate::options::select::Recordings;
use crate::options::signing::Signing;
use crate::options::span::Span;
use crate::output::{self, Output};
use crate::recordings::{comparison, exported, file_name, timelines};
use crate::verb::{Run, Verb, named};

pub(super) const VERB: Verb = Verb::new::<Report>("report");

type Render = fn(&[Recording], &Context, &Store) -> Result<String>;

/// A format in which a report can be written.
struct Form {
    name: &'static str,
    /// Its file extension.
    ending: &'static str,
    render: Render,
    /// Renders a page about a series; `None` if the format cannot show a series.
    page: Option<fn(&Document, &Context) -> String>,
}

/// All formats. To add one, add an entry here.
static FORMS: [Form; 7] = [
    Form {
        name: "html",
        ending: "html",
        render: |recordings, _, store| {
            let largest = recordings
                .iter()
                .filter_map(|recording| timelines::largest(store, recording).transpose());
            let options = HtmlOptions {
                outliers: largest.collect::<Result<_>>()?,
                compared: comparison::of_two(recordings, store)?,
                ..HtmlOptions::default()
            };
            Ok(html::render(recordings, &options)?)
        },
        page: Some(|page, _| html::page(&page.title, std::slice::from_ref(page))),
    },
    Form {
        name: "markdown",
        ending: "md",
        render: |recordings, _, store| {
            let mut pages: Vec<String> = (recordings.iter())
                .map(|recording| markdown::render(&document::recording(recording)))
                .collect();
            let compared = comparison::of_two(recordings, store)?;
            pages.extend(compared.map(|compared| match compared {
                Ok(comparison) => markdown::render(&document::comparison(&comparison)),
                Err(why) => format!("Not compared: {why}\n"),
            }));
            Ok(pages.join("\n"))
        },
        page: Some(|page, _| markdown::render(page)),
    },
    Form {
        name: "junit",
        ending: "xml",
        render: |recordings, _, _| ci(recordings, CiForm::Junit),
        page: None,
    },
    Form {
        name: "tap",
        ending: "tap",
        render: |recordings, _, _| ci(recordings, CiForm::Tap),
        page: None,
    },
    Form {
        name: "lava",
        ending: "lava",
        render: |recordings, _, _| ci(recordings, CiForm::Lava),
        page: None,
    },
    Form {
        name: "kcidb",
        ending: "kcidb.json",
        render: |recordings, _, _| ci(recordings, CiForm::Kcidb),
        page: None,
    },
    Form {
        name: "text",
        ending: "txt",
        render: |recordings, context, store| {
            let style = context.style();
            let mut pages: Vec<String> = recordings
                .iter()
                .map(|r| text::render(&document::recording(r), &style))
                .collect();
            let compared = comparison::of_two(recordings, store)?;
            pages.extend(compared.map(|compared| match compared {
                Ok(comparison) => text::render(&document::comparison(&comparison), &style),
                Err(why) => format!("Not compared: {why}\n"),
            }));
            Ok(pages.join("\n"))
        },
        page: Some(|page, context| text::render(page, &context.style())),
    },
];

fn ci(recordings: &[Recording], form: CiForm) -> Result<String> {
    Ok(junit::render(&recordings.iter().collect::<Vec<_>>(), form)?)
}

/// Write a report (HTML, Markdown, JUnit, ...) or a certificate
#[derive(Parser)]
struct Report {
    #[command(flatten)]
    selected: Recordings,
    /// Report on a series over time instead of recordings
    #[arg(long, value_name = "SERIES", conflicts_with = "recordings")]
    series: Option<String>,
    /// Write one page for the buyer of a machine: requirement, verdict, machine, settings, load,
    /// histogram, and the digest of the recording [file: .pdf or .html]
    #[arg(long, conflicts_with_all = ["series", "format"])]
    certificate: bool,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    span: Span,
    /// File (.html, .md, .xml, .tap, .lava, .kcidb.json, .txt), - for stdout [default: report-ID.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format [default: by the file extension, else html]
    #[arg(short, long, value_name = "FORMAT")]
    #[arg(value_parser = named(FORMS.iter().map(|form| (form.name, form)).collect()))]
    format: Option<&'static Form>,
}

impl Run for Report {
    fn run(self, context: &Context) -> Result<Exit> {
        if self.certificate {
            return self.certificate(&context.store_to_read()?);
        }
        if self.signing.is_requested() {
            let text = "--ssh-key needs --certificate: other reports contain no statement";
            return Err(UsageError(text.to_owned()).into());
        }
        let form: &Form = match self.format {
            Some(form) => form,
            None => of_extension(self.output.as_deref())?,
        };
        let store = context.store_to_read()?;
        if let Some(name) = &self.series {
            return self.of_series(name, form, &store, context);
        }
        self.refuse_span()?;
        let mut recordings = self.selected.load(&store)?;
        recordings.iter_mut().for_each(punctual_culprit::complete);
        let path = self.output.unwrap_or_else(|| {
            let id = recordings
                .first()
                .map_or_else(String::new, |first| first.id.short());
            format!("report-{id}.{}", form.ending).into()
        });
        let output = Output::open(&path)?;
        output.put((form.render)(&recordings, context, &store)?.as_bytes())?;
        if path != Path::new("-") {
            output::note(&format!("report written to {}", path.display()));
        }
        Ok(Exit::Done)
    }
}

impl Report {
    fn refuse_span(&self) -> Result<(), UsageError> {
        let span = &self.span;
        if span.since.is_some() || span.host.is_some() || span.threshold.is_some() {
            let text = "--since, --host and --threshold need --series";
            return Err(UsageError(text.to_owned()));
        }
        Ok(())
    }

    /// Writes the certificate of one recording.
    fn certificate(self, store: &Store) -> Result<Exit> {
        self.refuse_span()?;
        let mut recordings = self.selected.load(store)?;
        let [recording] = recordings.as_mut_slice() else {
            let text = "a certificate is about one recording: pass a single ID";
            return Err(UsageError(text.to_owned()).into());
        };
        let usual = || format!("certificate-{}.pdf", recording.id.short()).into();
        let path = self.output.clone().unwrap_or_else(usual);
        let is_page = extension::extension_of(&path) == "html";
        if is_page && self.signing.is_requested() {
            let text =
                "only the PDF of a certificate contains a signed statement: write a .pdf file";
            return Err(UsageError(text.to_owned()).into());
        }
        if !is_page && path != Path::new("-") && extension::extension_of(&path) != "pdf" {
            return Err(extension::unknown(&path, &["pdf", "html"]).into());
        }
        let (bytes, command) = exported::json(store, recording)?;
        let digest = Digest {
            sha256: exported::sha256(&bytes),
            command,
            file: format!("recording-{}.json", recording.id.short()),
        };
        // The statement is about the recording as it is stored.
        let stored = recording.clone();
        punctual_culprit::complete(recording);
        let bytes = if is_page {
            certificate::html(recording, &digest)?.into_bytes()
        } else {
            let page = certificate::pdf(recording, &digest)?;
            match self.signing.signer_if_possible()? {
                Some(signer) => signed(&page, &stored, &signer)?,
                None => page,
            }
        };
        Output::open(&path)?.put(&bytes)?;
        if path != Path::new("-") {
            output::note(&format!("certificate written to {}", path.display()));
        }
        Ok(Exit::Done)
    }

    /// Writes the page of a series. It shows the verdict, the trend, plots, changes, causes, and
    /// the slots without a recording.
    fn of_series(&self, name: &str, form: &Form, store: &Store, context: &Context) -> Result<Exit> {
        let Some(page) = form.page else {
            let text = format!(
                "a series has no {} report: use html, markdown or text; the verdict of a sampled \
                 series is written by punctual check --series {name} -o FILE.{}",
                form.name, form.ending
            );
            return Err(UsageError(text).into());
        };
        let query = self.span.query();
        let series = Series::load(store, Some(name), &query)?;
        let trend = series.trend(&query);
        let own: BTreeSet<_> = series.runs.iter().map(|run| run.recording).collect();
        let mut causes = Causes::default();
        for id in own {
            causes.add(&store.load(id)?);
        }
        let document = document::monthly(&trend, &series.runs, &causes)?;
        let usual = || format!("report-{}.{}", file_name(name), form.ending).into();
        let path = self.output.clone().unwrap_or_else(usual);
        let output = Output::open(&path)?;
        output.put(page(&document, context).as_bytes())?;
        if path != Path::new("-") {
            output::note(&format!("report written to {}", path.display()));
        }
        Ok(Exit::Done)
    }
}

/// Attaches a signed statement to a page.
fn signed(page: &[u8], recording: &Recording, signer: &Signer) -> Result<Vec<u8>> {
    let files = vec![pdf::page(page)];
    let statement = punctual_evidence::sign(recording, files, signer)?;
    pdf::attach(page, &statement).context("the statement cannot be attached to this PDF")
}

fn of_extension(path: Option<&Path>) -> Result<&'static Form> {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else {
        return Ok(&FORMS[0]);
    };
    let name = path.to_string_lossy().to_ascii_lowercase();
    FORMS
        .iter()
        .find(|form| name.ends_with(&format!(".{}", form.ending)))
        .ok_or_else(|| {
            let endings: Vec<&str> = FORMS.iter().map(|form| form.ending).collect();
            UsageError(format!(
                "{}: unknown file extension (known: .{}): change it, or give --format",
                path.display(),
                endings.join(", .")
            ))
            .into()
        })
}
