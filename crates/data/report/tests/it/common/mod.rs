//! Shared code of the tests of this crate.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) mod samples;

use punctual_model::{Histogram, Recording, SignedNanos};
use punctual_report::certificate::{self, Digest};
use punctual_report::document::{self, ListRow};
use punctual_report::html::{self, HtmlOptions};
use punctual_report::junit::CiForm;
use punctual_report::plot::{self, CellFigure, Kind, Plot, PlotOptions};
use punctual_report::text::{self, TextStyle};
use punctual_report::{ReportError, junit, markdown};
use quick_xml::Reader;
use quick_xml::events::Event;

/// Returns a recording as text.
pub(crate) fn summary(recording: &Recording, style: &TextStyle) -> String {
    text::render(&document::recording(recording), style)
}

/// Returns a list as text.
pub(crate) fn list(rows: &[ListRow], style: &TextStyle) -> String {
    text::render(&document::list(rows), style)
}

/// Returns a recording as Markdown.
pub(crate) fn markdown_of(recording: &Recording) -> String {
    markdown::render(&document::recording(recording))
}

/// Returns all text formats of one recording, by name.
pub(crate) fn all_texts(recording: &Recording) -> Vec<(&'static str, String)> {
    let plain = |width| TextStyle {
        colour: false,
        width,
    };
    let mut list = vec![
        ("text 80", summary(recording, &plain(80))),
        ("text 0", summary(recording, &plain(0))),
        ("list", list(&[ListRow::from(recording)], &plain(80))),
        ("markdown", markdown_of(recording)),
        ("junit", junit::render(&[recording], CiForm::Junit).unwrap()),
        ("tap", junit::render(&[recording], CiForm::Tap).unwrap()),
        ("lava", junit::render(&[recording], CiForm::Lava).unwrap()),
        ("kcidb", junit::render(&[recording], CiForm::Kcidb).unwrap()),
        ("html", page(recording)),
        (
            "certificate",
            certificate::html(recording, &digest()).unwrap(),
        ),
    ];
    list.extend(plots(recording).into_iter().map(|p| ("svg", p.svg())));
    list
}

/// Returns a digest for a certificate.
pub(crate) fn digest() -> Digest {
    Digest {
        sha256: "0123456789abcdef".repeat(4),
        command: "punctual export ID --format json".to_owned(),
        file: "recording-ID.json".to_owned(),
    }
}

/// Returns a page with the same recording twice.
pub(crate) fn page(recording: &Recording) -> String {
    let twice = [recording.clone(), recording.clone()];
    html::render(&twice, &HtmlOptions::default()).unwrap()
}

/// Returns all plots of one recording, with each kind of axis. Checks that plots are rejected only
/// if they would be empty.
pub(crate) fn plots(recording: &Recording) -> Vec<Plot> {
    type Draw = fn(&[&Recording], &PlotOptions) -> Result<Plot, ReportError>;
    let draws: [(Kind, Draw); 5] = [
        (Kind::Latency, plot::latency),
        (Kind::Percentiles, plot::percentiles),
        (Kind::Bars, plot::bars),
        (Kind::Timeline, |r, options| plot::timeline(r[0], options)),
        (Kind::Matrix, |r, options| plot::matrix(r[0], options)),
    ];
    let mut list = Vec::new();
    for latency_scale in [plot::Scale::Auto, plot::Scale::Linear, plot::Scale::Log] {
        let options = PlotOptions {
            latency_scale,
            ..PlotOptions::default()
        };
        for (kind, draw) in draws {
            for recordings in [&[recording][..], &[recording, recording][..]] {
                let drawn = draw(recordings, &options);
                assert_eq!(drawn.is_ok(), kind.shows(recording, None), "{drawn:?}");
                list.extend(drawn);
            }
        }
        if Kind::Matrix.shows(recording, None) {
            let figures = CellFigure::ALL.iter();
            list.extend(figures.map(|(f, _)| plot::matrix_of(recording, *f, &options).unwrap()));
        }
    }
    list
}

/// Returns the names of all elements and the text of a document. Panics if it is not well-formed.
pub(crate) fn parse_xml(xml: &str) -> (Vec<String>, String) {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_end_names = true;
    let mut names = Vec::new();
    let mut text = String::new();
    let mut depth = 0i32;
    loop {
        let event = reader.read_event().expect(xml);
        if let Event::Start(tag) | Event::Empty(tag) = &event {
            names.push(tag.name().as_ref().to_owned());
            for attribute in tag.attributes() {
                let attribute = attribute.expect(xml);
                text.push_str(&quick_xml::escape::unescape(&attribute.value).expect(xml));
                text.push('\n');
            }
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Text(part) => text.push_str(&part),
            Event::GeneralRef(reference) => {
                let entity = format!("&{};", &*reference);
                text.push_str(&quick_xml::escape::unescape(&entity).expect(xml));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0, "an element is not closed");
    (names, text)
}

/// Returns a histogram of these latencies, in ns.
pub(crate) fn histogram(latencies: &[i64]) -> Histogram {
    let mut histogram = Histogram::new();
    for latency in latencies {
        histogram.record(SignedNanos(*latency));
    }
    histogram
}

/// Gives a thread of a recording these latencies, and updates its accounting and the single row of
/// its series.
pub(crate) fn measure(recording: &mut Recording, thread: usize, latencies: &[i64]) {
    let samples = histogram(latencies);
    let record = &mut recording.threads[thread];
    record.accounting.recorded = samples.recorded();
    record.accounting.early = samples.early();
    record.accounting.overflow = samples.overflow();
    record.accounting.expected =
        samples.recorded() + record.accounting.missed + record.accounting.warm_up;
    recording
        .series
        .rows
        .retain(|row| row.thread != thread as u32);
    recording.series.rows.push(punctual_model::IntervalRow {
        thread: thread as u32,
        start_ns: punctual_model::Nanos::from_secs(1),
        count: samples.recorded(),
        early: samples.early(),
        missed: record.accounting.missed,
        min_ns: samples.min(),
        max_ns: samples.max(),
        sum_ns: samples.sum(),
        histogram: samples.buckets(),
    });
    record.histogram = samples;
    record.missed_histogram = None;
    recording.verdict = recording.judge();
    recording
        .top_samples
        .retain(|sample| sample.thread != thread as u32);
}
