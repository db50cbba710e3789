//! Output of the result of an experiment: options, and the formats of a report.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use punctual_report::document::Document;
use punctual_report::{html, markdown, text};

use crate::context::Context;
use crate::exit::UsageError;
use crate::options::extension;
use crate::output::Output;

/// Options of the output.
#[derive(Args, Clone, Debug)]
pub(super) struct OutputOptions {
    /// Name of the experiment [default: the compared conditions]
    #[arg(long, value_name = "TEXT", value_parser = crate::options::select::label)]
    pub(super) label: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write a report: .html, .md or .txt
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Exit with 3 if a condition is proven worse
    #[arg(long)]
    pub(super) fail_on_worse: bool,
    /// Show no progress, only the result
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// The format of a report.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    Html,
    Markdown,
    Text,
}

/// Returns the report format for a file's extension; HTML for stdout.
pub(super) fn form(path: &Path) -> Result<Form> {
    match extension::extension_of(path).as_str() {
        "html" | "htm" => Ok(Form::Html),
        "md" => Ok(Form::Markdown),
        "txt" => Ok(Form::Text),
        _ if path == Path::new("-") => Ok(Form::Html),
        _ => Err(UsageError(format!(
            "{}: unknown file extension: use .html, .md or .txt",
            path.display()
        ))
        .into()),
    }
}

/// Opens the file of the report, so that an unwritable file is reported before the measurement.
pub(super) fn opened(output: &OutputOptions) -> Result<Option<(Form, Output)>> {
    let Some(path) = &output.output else {
        return Ok(None);
    };
    let (form, file) = (form(path)?, Output::open(path)?);
    if file.is_stdout() && output.json {
        let text = "only one format can go to stdout: pass a file for the others";
        return Err(UsageError(text.to_owned()).into());
    }
    Ok(Some((form, file)))
}

/// Returns a page, or the text for a terminal, in a format.
pub(super) fn rendered(form: Form, [page, screen]: [&Document; 2], context: &Context) -> String {
    match form {
        Form::Html => html::page(&page.title, std::slice::from_ref(page)),
        Form::Markdown => markdown::render(page),
        Form::Text => text::render(screen, &context.style()),
    }
}
