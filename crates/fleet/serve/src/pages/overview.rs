//! All machines by state.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};
use punctual_model::sanitize;
use punctual_report::document::{self, Document, MachineRow, MachineState, Section};
use serde::Deserialize;

use super::{frame, shown, unknown};
use crate::listing::Listing;
use crate::paths::encoded;
use crate::problem::Problem;
use crate::state::App;

/// The filter of the page.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    /// Only machines in this state.
    state: String,
    /// Only machines whose name contains this.
    name: String,
    /// Only machines that have recent slots without a recording; empty for all machines.
    missed: String,
    /// The page, from 0.
    page: usize,
}

/// Number of machines per page.
const PAGE: usize = 100;

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
    let all = rows.len();
    let wanted = asked.name.to_lowercase();
    let fits = |row: &&MachineRow| {
        (asked.state.is_empty() || row.state.name() == asked.state)
            && (wanted.is_empty() || row.name.to_lowercase().contains(&wanted))
            && (asked.missed.is_empty() || missed.contains_key(&row.name))
    };
    let rows: Vec<&MachineRow> = rows.iter().filter(fits).collect();
    let found = rows.len();
    let pages = found.div_ceil(PAGE).max(1);
    let page = asked.page.min(pages - 1);
    let some = rows.into_iter().skip(page * PAGE).take(PAGE);
    let some: Vec<MachineRow> = some.cloned().collect();
    let table = Document {
        sections: vec![Section::new(vec![document::machines(&some)])],
        ..Document::default()
    };
    let body = html! {
        h1 { "Machines" }
        (states(counts, &asked, all))
        (attention(&app, &asked, missed.values().sum()))
        form .filter method="get" action="/" role="search" {
            @if !asked.state.is_empty() { input type="hidden" name="state" value=(sanitize(&asked.state)); }
            @if !asked.missed.is_empty() { input type="hidden" name="missed" value=(sanitize(&asked.missed)); }
            label { "Name contains " input type="search" name="name" value=(sanitize(&asked.name)); }
            button { "Filter" }
            @if found < all { span .faint { (found) " of " (all) } }
        }
        @if all == 0 { (how_to_begin(&app)) } @else {
            (shown(&[table]))
            (turn(&asked, page, pages))
        }
    };
    Ok(frame(&app, "Machines", "/", &body))
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
        let [state, name, missed] =
            [&asked.state, &asked.name, &asked.missed].map(|text| encoded(text));
        format!("/?state={state}&name={name}&missed={missed}&page={page}")
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
