//! One machine: its state, its series, hardware and system, and its recordings.

use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, PreEscaped, html};
use punctual_model::{Note, Recording, RecordingId, sanitize};
use punctual_report::document::{self, Document};
use punctual_report::plot::{self, PlotOptions};
use punctual_stats::trend::{FactChange, Facts, difference, facts_of};
use punctual_store::{Listed, Machine, Summary, Wanted};
use serde::Deserialize;

use super::recordings::table;
use super::{frame, proven, shown, views};
use crate::fleet::Judge;
use crate::look::{ViewParams, time};
use crate::paths::{encoded, machine_path, recording_path, trend_path};
use crate::problem::Problem;
use crate::state::{App, Inner};
use crate::trends::SeriesOf;
use crate::worse::Judged;

/// The machine to show.
#[derive(Deserialize)]
pub(super) struct PageQuery {
    name: String,
    /// The time span of the pictures, as in [`ViewParams`].
    #[serde(default)]
    from: String,
    #[serde(default)]
    to: String,
}

/// Number of recordings to show. The page with the list has all of them.
const RECORDINGS: usize = 30;
/// Number of changed facts to show, newest first.
const CHANGES: usize = 30;
/// For recordings without a series, the number of changes between them to examine, newest first.
const LOADED: usize = 5;

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<PageQuery>,
) -> Result<Html<String>, Problem> {
    let name = asked.name.clone();
    let body = app
        .work(move |app| {
            time(&asked.from, false)?;
            time(&asked.to, true)?;
            let machines = app.collection.machines()?;
            let machine = machines.into_iter().find(|one| one.name == asked.name);
            let machine = machine.ok_or_else(|| Problem::not_found("no such machine"))?;
            page(app, &machine, &asked)
        })
        .await?;
    Ok(frame(&app, &name, "", &body))
}

fn page(app: &Inner, machine: &Machine, asked: &PageQuery) -> Result<Markup, Problem> {
    let newest = match &machine.latest {
        Some(latest) => Some(app.collection.load(latest.id)?.1),
        None => None,
    };
    let found = app.collection.list(&Wanted {
        machine: Some(machine.name.clone()),
        most: RECORDINGS,
        ..Wanted::default()
    })?;
    let followed = followed(app, &machine.name)?;
    let between = if followed.is_empty() {
        between(app, &found)?
    } else {
        Vec::new()
    };
    let notes = if followed.is_empty() {
        notes_of(app, &machine.name)?
    } else {
        Vec::new()
    };
    let row = Judge::now(app.config.silent_after, &app.worse).row(machine);
    let host = newest.as_ref().map(|recording| &recording.host);
    let all = format!("/recordings?machine={}", encoded(&machine.name));
    Ok(html! {
        (shown(&[document::machine(&row, host)]))
        @if let Some(since) = machine.retired {
            p .warn {
                "Retired since " (since.strftime("%Y-%m-%d %H:%M")) " UTC. "
                code { "punctual-server retire --undo " (sanitize(&machine.name)) }
                " takes it back into service."
            }
        }
        @for (other, since) in app.strangers.named(&machine.name) {
            p .warn {
                "Refused since " (since.strftime("%Y-%m-%d %H:%M")) ": " b { (sanitize(&other)) }
                " uses the token of this machine. Give it a separate token: "
                code { "punctual-server enrol NAME" }
            }
        }
        p .actions {
            a href={ "/compare?machine=" (encoded(&machine.name)) } { "Compare with another machine" }
        }
        @if let Some(recording) = &newest { (verdict(recording)) (audit(recording)) }
        @if !followed.is_empty() { (span_of_time(asked)) }
        @for one in &followed { (series(app, one, asked)?) }
        (notes_list(&notes))
        @if let Some(recording) = &newest { (latest(recording)) }
        h2 { "Recordings" }
        (table(&found))
        @if machine.recordings > found.len() as u64 {
            p { a href=(all) { "All " (machine.recordings) " recordings" } }
        }
        (facts_over_time(&followed, &between))
        @if let Some(recording) = &newest { (facts(recording)) }
    })
}

/// Returns the verdict of the newest recording, with all parts of each claim.
fn verdict(recording: &Recording) -> Markup {
    shown(&[Document {
        sections: vec![document::verdict(recording)],
        ..Document::default()
    }])
}

/// Returns the findings of the audit that was made before the newest recording.
fn audit(recording: &Recording) -> Markup {
    let section = document::stored_audit(recording.audit.as_ref());
    shown(&[Document {
        sections: vec![section],
        ..Document::default()
    }])
}

/// Returns the series of the machine with their verdicts.
fn followed(app: &Inner, machine: &str) -> Result<Vec<Judged>, Problem> {
    let Some(trends) = &app.config.trends.0 else {
        return Ok(Vec::new());
    };
    let all = trends.series()?;
    let own = all
        .into_iter()
        .filter(|of| of.machine.as_deref() == Some(machine));
    let last = app.worse.last();
    let judge = |of: SeriesOf| {
        let mut known = last.iter().flat_map(|look| &look.all);
        let known = known.find(|known| known.of == of);
        known.map_or_else(|| Judged::new(trends.as_ref(), of), Judged::clone)
    };
    Ok(own.map(judge).collect())
}

/// Returns the form for the time span of all pictures of series.
fn span_of_time(asked: &PageQuery) -> Markup {
    let PageQuery { name, from, to } = asked;
    html! {
        form .filter method="get" action="/machine" {
            input type="hidden" name="name" value=(sanitize(name));
            label { "Pictures from " input name="from" value=(sanitize(from)) placeholder="2026-11-03" size="12"; }
            label { "To " input name="to" value=(sanitize(to)) placeholder="2026-11-30" size="12"; }
            button { "Show" }
            @if !(from.is_empty() && to.is_empty()) { a href=(machine_path(name)) { "All times" } }
        }
    }
}

fn series(app: &Inner, judged: &Judged, asked: &PageQuery) -> Result<Markup, Problem> {
    let of = &judged.of;
    let look = ViewParams {
        series: of.series.clone(),
        machine: of.machine.clone().unwrap_or_default(),
        from: asked.from.clone(),
        to: asked.to.clone(),
        ..ViewParams::default()
    };
    let is_limited = !(look.from.is_empty() && look.to.is_empty());
    let limited = (judged.trend.is_ok() && is_limited).then(|| look.judged(app));
    let limited = limited.transpose()?.map(|(trend, _)| trend);
    Ok(html! {
        h2 { "Series " a href=(trend_path(of)) { (sanitize(&of.series)) } }
        (proven(judged))
        @match &judged.trend {
            Err(why) => p .warn { (sanitize(&why.to_string())) },
            Ok(trend) => {
                p { (sanitize(&trend.sentence)) }
                (noted(trend.notes.iter().map(|note| (note.at, &*note.who, &*note.text))))
                details open {
                    summary { "Pictures" }
                    @let shown = limited.as_ref().unwrap_or(trend);
                    (views::all(&look, shown))
                    @if is_limited && shown.groups.is_empty() { p { "No runs in this time." } }
                }
            }
        }
    })
}

/// Returns notes about the machine. This is for a machine without series, whose page would not show
/// them otherwise.
fn notes_of(app: &Inner, machine: &str) -> Result<Vec<Note>, Problem> {
    let mut all = app.collection.notes()?;
    all.retain(|note| note.machine.as_deref() == Some(machine));
    Ok(all)
}

fn notes_list(notes: &[Note]) -> Markup {
    let each = notes.iter();
    html! { @if !notes.is_empty() {
        h2 { "Notes" }
        (noted(each.map(|note| (note.at, &*note.author, &*note.text))))
    } }
}

/// Returns a list of notes, each with its time, author and text.
fn noted<'a>(notes: impl ExactSizeIterator<Item = (jiff::Timestamp, &'a str, &'a str)>) -> Markup {
    html! { @if notes.len() > 0 { ul {
        @for (at, who, text) in notes {
            li { (day(at)) ", " (sanitize(who)) ": " (sanitize(text)) }
        }
    } } }
}

fn day(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d").to_string()
}

/// Returns the default plot of the newest recording.
fn latest(recording: &Recording) -> Markup {
    let drawn = plot::default_for(recording, &PlotOptions::default());
    html! {
        h2 { "Newest recording: " a href=(recording_path(recording.id)) { (sanitize(&recording.headline())) } }
        // A recording without samples has no plot.
        @if let Ok(plot) = drawn { figure { (PreEscaped(super::plain_svg(&plot))) } }
    }
}

/// Returns changes between the listed recordings, found by their fingerprints. This is for machines
/// without series. Only few recordings are loaded.
fn between(app: &Inner, found: &[Listed]) -> Result<Vec<FactChange>, Problem> {
    let facts = |id: RecordingId| -> Result<Facts, Problem> {
        let (_, recording) = app.collection.load(id)?;
        let mut facts = facts_of(&recording.host);
        facts.insert("tune".to_owned(), recording.tune);
        Ok(facts)
    };
    let pairs = found
        .windows(2)
        .map(|pair| (&pair[0].summary, &pair[1].summary));
    let changed = pairs.filter(|(newer, older)| {
        let known = [newer, older].iter().all(|one| !one.fingerprint.is_empty());
        known && newer.fingerprint != older.fingerprint
    });
    let change = |(newer, older): (&Summary, &Summary)| {
        Ok(FactChange {
            recording: newer.id,
            at: newer.started,
            facts: difference(&facts(older.id)?, &facts(newer.id)?),
        })
    };
    changed.take(LOADED).map(change).collect()
}

fn facts_over_time(followed: &[Judged], between: &[FactChange]) -> Markup {
    let trends = followed.iter().filter_map(|one| one.trend.as_ref().ok());
    let mut changes: Vec<&FactChange> = (trends.flat_map(|trend| &trend.facts))
        .chain(between)
        .collect();
    changes.sort_by_key(|change| std::cmp::Reverse((change.at, change.recording)));
    changes.dedup_by_key(|change| change.recording);
    html! { @if !changes.is_empty() {
        h2 { "Changes of facts" }
        div .wide { table {
            thead { tr { th { "first run (UTC)" } th { "recording" } th { "what changed" } } }
            tbody { @for change in changes.iter().take(CHANGES) { tr {
                td .whole { (day(change.at)) }
                td { a href=(recording_path(change.recording)) { (change.recording.short()) } }
                td { @for fact in &change.facts { (sanitize(&fact.sentence())) br; } }
            } } }
        } }
    } }
}

/// Returns all facts and settings of the newest recording.
fn facts(recording: &Recording) -> Markup {
    let facts = facts_of(&recording.host);
    let unknown: Vec<String> = (facts.iter())
        .filter(|(_, value)| value.is_none())
        .map(|(name, _)| name.replace(['.', '_'], " "))
        .collect();
    // The facts by topic, which is the first word of a name.
    let known: Vec<(&str, &str, &str)> = (facts.iter())
        .filter_map(|(name, value)| {
            let (topic, rest) = name.split_once('.').unwrap_or(("", name));
            Some((topic, rest, value.as_deref()?))
        })
        .collect();
    html! {
        h2 { "Facts and settings" }
        p {
            "Tune in force: "
            @match recording.tune.as_deref() {
                None => "not known",
                Some(Recording::NO_TUNE) => "none",
                Some(tune) => (sanitize(tune)),
            }
        }
        div .wide { table { tbody { @for of_topic in known.chunk_by(|a, b| a.0 == b.0) {
            tr .topic { th colspan="2" scope="colgroup" { (sanitize(of_topic[0].0)) } }
            @for (_, name, value) in of_topic { tr {
                td .whole { (sanitize(&name.replace('_', " "))) }
                td { @if value.is_empty() { "(empty)" } @else { (sanitize(value)) } }
            } }
        } } } }
        @if !unknown.is_empty() { p .faint { "Not known: " (sanitize(&unknown.join(", "))) } }
    }
}
