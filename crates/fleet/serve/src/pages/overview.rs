//! All machines by state.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::response::Html;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use punctual_model::{Nanos, sanitize};
use punctual_report::document::{self, MachineState};
use serde::Deserialize;

use super::{frame, strip, unknown};
use crate::listing::{Listing, OverviewRow};
use crate::paths::{encoded, trend_path};
use crate::problem::Problem;
use crate::state::App;
use crate::worse::LastChange;

/// The filter of the page.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    /// Only machines in this state.
    state: String,
    /// Only machines whose name contains this.
    name: String,
    /// Only machines of this model.
    model: String,
    /// Only machines that have recent slots without a recording; empty for all machines.
    missed: String,
    /// The page, from 0.
    page: usize,
}

/// Number of machines per page.
const PAGE: usize = 1_000;

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<PageQuery>,
) -> Result<Html<String>, Problem> {
    let is_state = |name: &str| MachineState::ALL.iter().any(|state| state.name() == name);
    if !asked.state.is_empty() && !is_state(&asked.state) {
        return Err(unknown("state", &asked.state));
    }
    let listing = app.listings.newest().await?;
    let Listing {
        rows,
        counts,
        missed,
    } = listing.as_ref();
    let is_empty = rows.is_empty();
    let retired = counts.get(&MachineState::Retired).copied();
    let all = rows.len() - retired.unwrap_or_default();
    let wanted = asked.name.to_lowercase();
    let fits = |row: &&OverviewRow| {
        let is_wanted = match asked.state.as_str() {
            "" => row.machine.state != MachineState::Retired,
            state => row.machine.state.name() == state,
        };
        is_wanted
            && (wanted.is_empty() || row.machine.name.to_lowercase().contains(&wanted))
            && (asked.model.is_empty() || row.model() == Some(&*asked.model))
            && (asked.missed.is_empty() || missed.contains_key(&row.machine.name))
    };
    let models = models(rows);
    let rows: Vec<&OverviewRow> = rows.iter().filter(fits).collect();
    let found = rows.len();
    let pages = found.div_ceil(PAGE).max(1);
    let page = asked.page.min(pages - 1);
    let some: Vec<&OverviewRow> = rows.into_iter().skip(page * PAGE).take(PAGE).collect();
    let body = html! {
        h1 { "Machines" }
        (states(counts, &asked, all))
        (attention(&app, &asked, missed.values().sum()))
        form .filter method="get" action="/" role="search" {
            @if !asked.state.is_empty() { input type="hidden" name="state" value=(sanitize(&asked.state)); }
            @if !asked.missed.is_empty() { input type="hidden" name="missed" value=(sanitize(&asked.missed)); }
            label { "Name contains " input type="search" name="name" value=(sanitize(&asked.name)); }
            @if models.len() > 1 {
                label { "Model " select name="model" {
                    option value="" { "all" }
                    @for (model, count) in &models {
                        option value=(sanitize(model)) selected[asked.model == **model] {
                            (sanitize(model)) " (" (count) ")"
                        }
                    }
                } }
            }
            button { "Filter" }
            @if found < all { span .faint { (found) " of " (all) } }
        }
        @if is_empty { (how_to_begin(&app)) } @else {
            (table(&some))
            (turn(&asked, page, pages))
        }
    };
    Ok(frame(&app, "Machines", "/", &body))
}

/// Returns the models of the machines, with the number of machines of each.
fn models(rows: &[OverviewRow]) -> BTreeMap<&str, usize> {
    let mut models = BTreeMap::new();
    for model in rows.iter().filter_map(OverviewRow::model) {
        *models.entry(model).or_default() += 1;
    }
    models
}

/// Returns the machines, one line each.
fn table(rows: &[&OverviewRow]) -> Markup {
    let today = TimeZone::UTC.to_datetime(Timestamp::now()).date();
    html! {
        @if rows.is_empty() { p { "no machines" } } @else {
            (strip::legend())
            div .wide { table .stacked .machines {
                thead { tr {
                    th { "machine" } th { "state" } th { "last days" } th .n { "p99" } th .n { "max" }
                    th { "usual max" } th { "last change" } th { "last seen (UTC)" }
                } }
                tbody { @for row in rows { (line(row, today)) } }
            } }
        }
    }
}

fn line(row: &OverviewRow, today: Date) -> Markup {
    let machine = &row.machine;
    let name = if machine.name.is_empty() {
        "(no name)"
    } else {
        &machine.name
    };
    let (headline, path, p99, max) = machine.latest.clone().unwrap_or_default();
    let limit = row.newest.as_ref().and_then(|newest| newest.limit);
    let figure = |value: Option<Nanos>| value.map_or_else(|| "-".to_owned(), |ns| ns.to_string());
    let usual = strip::usual(&row.days);
    let usual = usual.map(|(low, high)| format!("{low} to {high}"));
    html! { tr {
        th scope="row" { a href=(machine.path) title=(sanitize(name)) { (sanitize(name)) } }
        // Most machines of a fleet without requirements would show the same words.
        td .whole { @if machine.state != MachineState::NotJudged {
            span .{ "badge " (badge(machine.state)) } { (machine.state.title()) }
        } }
        td .whole .days { (strip::strip(&row.days, limit, today)) }
        td .n data-title="p99" { (figure(p99)) }
        td .n data-title="max" {
            @if path.is_empty() { (figure(max)) } @else {
                a href=(path) title=(sanitize(&headline)) { (figure(max)) }
            }
        }
        td .whole data-title="usual max" { (usual.unwrap_or_default()) }
        td data-title="last change" { @if let Some(change) = &row.change { (changed(change)) } }
        td .whole data-title="last seen" { (document::minutes(machine.last_seen)) }
    } }
}

fn changed(change: &LastChange) -> Markup {
    let at = change.at.strftime("%Y-%m-%d").to_string();
    let class = change.is_worse.then_some("bad");
    html! {
        a href=(trend_path(&change.of)) { (at) }
        " " span class=[class] { (sanitize(&change.what)) }
    }
}

const fn badge(state: MachineState) -> &'static str {
    match state.tone() {
        document::Tone::Bad => "broken",
        document::Tone::Warning => "not-proven",
        document::Tone::Good => "held",
        _ => "none",
    }
}

/// Returns how to get the first recordings into an empty store.
fn how_to_begin(app: &App) -> Markup {
    let needs_token = app.config.needs_login();
    html! {
        section {
            p { "The store is empty. Recordings arrive in one of these ways:" }
            ul {
                li {
                    "From another machine: "
                    @if needs_token {
                        "create its token here with " code { "punctual-server enrol NAME" }
                        ", store the token in a file on the machine, and run there "
                        code { "punctual push --to URL --token-file FILE" }
                    } @else {
                        "start this server on an address that the machine can reach ("
                        code { "punctual-server run --listen ADDRESS --tls CERT KEY" } ")"
                    }
                }
                li {
                    "From this machine: measure into the store of this server, for example with "
                    code { "punctual measure timer -D 60s" }
                }
            }
        }
    }
}

/// Returns the number of machines in each state, with a link to them.
fn states(counts: &BTreeMap<MachineState, usize>, asked: &PageQuery, all: usize) -> Markup {
    let chosen = asked.state.as_str();
    let is_all = chosen.is_empty() && asked.missed.is_empty();
    html! {
        ul .states {
            li { a href="/" aria-current=[is_all.then_some("true")] {
                b { (all) } " all"
            } }
            @for state in MachineState::ALL { @if let Some(count) = counts.get(&state) {
                li .{ "tone-" (tone(state)) } {
                    a href={ "/?state=" (state.name()) }
                        aria-current=[(chosen == state.name()).then_some("true")] {
                        b { (count) } " " (state.title())
                    }
                }
            } }
        }
    }
}

/// Returns the number of open regressions, and of slots without a recording. A server without
/// series has neither.
fn attention(app: &App, asked: &PageQuery, missed: usize) -> Markup {
    let tone = |count: usize, tone| if count > 0 { tone } else { "tone-good" };
    html! { @if app.config.trends.0.is_some() {
        ul .states {
            @match app.worse.open() {
                None => li .tone-plain { a href="/changes" { "series are not judged yet" } },
                Some(open) => li .(tone(open, "tone-bad")) {
                    a href="/changes?show=open" {
                        b { (open) } " " (plural(open, "change")) " not acknowledged"
                    }
                },
            }
            li .(tone(missed, "tone-warn")) {
                a href="/?missed=24h" aria-current=[(!asked.missed.is_empty()).then_some("true")] {
                    b { (missed) } " " (plural(missed, "slot")) " missed in 24 h"
                }
            }
        }
    } }
}

fn plural(count: usize, word: &str) -> String {
    match count {
        1 => word.to_owned(),
        _ => format!("{word}s"),
    }
}

const fn tone(state: MachineState) -> &'static str {
    match state.tone() {
        document::Tone::Bad => "bad",
        document::Tone::Warning => "warn",
        document::Tone::Good => "good",
        _ => "plain",
    }
}

fn turn(asked: &PageQuery, page: usize, pages: usize) -> Markup {
    let to = |page: usize| {
        let [state, name, model, missed] =
            [&asked.state, &asked.name, &asked.model, &asked.missed].map(|text| encoded(text));
        format!("/?state={state}&name={name}&model={model}&missed={missed}&page={page}")
    };
    html! {
        @if pages > 1 {
            nav .turn aria-label="Pages of the list" {
                @if page > 0 { a rel="prev" href=(to(page - 1)) { "Previous" } }
                span { "Page " (page + 1) " of " (pages) }
                @if page + 1 < pages { a rel="next" href=(to(page + 1)) { "Next" } }
            }
        }
    }
}
