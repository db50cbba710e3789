//! All machines by state.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::response::Html;
use jiff::Timestamp;
use maud::{Markup, html};
use punctual_report::document::{self, Document, MachineRow, MachineState, Section};
use serde::Deserialize;

use super::{encoded, frame, shown};
use crate::fleet;
use crate::problem::Problem;
use crate::state::App;

/// Which machines are shown.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Asked {
    /// Only in this state.
    state: String,
    /// Only those whose name contains this.
    name: String,
    /// Which page, from 0 on.
    page: usize,
}

/// Machines of a page.
const PAGE: usize = 100;

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<Asked>,
) -> Result<Html<String>, Problem> {
    let machines = app.stored(|all| all.machines()).await?;
    let now = Timestamp::now();
    let silent_after = app.config.silent_after;
    let mut rows: Vec<MachineRow> = (machines.iter())
        .map(|machine| fleet::row(machine, now, silent_after))
        .collect();
    let mut counts: BTreeMap<MachineState, usize> = BTreeMap::new();
    for row in &rows {
        *counts.entry(row.state).or_default() += 1;
    }
    let all = rows.len();
    let wanted = asked.name.to_lowercase();
    rows.retain(|row| {
        (asked.state.is_empty() || row.state.name() == asked.state)
            && row.name.to_lowercase().contains(&wanted)
    });
    // The worst first, then those that were heard of last.
    rows.sort_by(|a, b| {
        (a.state.cmp(&b.state))
            .then(b.last_seen.cmp(&a.last_seen))
            .then(a.name.cmp(&b.name))
    });
    let found = rows.len();
    let pages = found.div_ceil(PAGE).max(1);
    let page = asked.page.min(pages - 1);
    let some: Vec<MachineRow> = rows.into_iter().skip(page * PAGE).take(PAGE).collect();
    let table = Document {
        sections: vec![Section::new(vec![document::machines(&some)])],
        ..Document::default()
    };
    let body = html! {
        h1 { "Machines" }
        (states(&counts, &asked.state, all))
        form .filter method="get" action="/" role="search" {
            @if !asked.state.is_empty() { input type="hidden" name="state" value=(asked.state); }
            label { "Name contains " input type="search" name="name" value=(asked.name); }
            button { "Filter" }
            @if found < all { span .faint { (found) " of " (all) } }
        }
        (shown(&[table]))
        (turn(&asked, page, pages))
    };
    Ok(frame(&app, "Machines", "/", &body))
}

/// How many machines are in each state, each a link to these.
fn states(counts: &BTreeMap<MachineState, usize>, chosen: &str, all: usize) -> Markup {
    html! {
        ul .states {
            li { a href="/" aria-current=[chosen.is_empty().then_some("true")] {
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

const fn tone(state: MachineState) -> &'static str {
    match state.tone() {
        document::Tone::Bad => "bad",
        document::Tone::Warning => "warn",
        document::Tone::Good => "good",
        _ => "plain",
    }
}

fn turn(asked: &Asked, page: usize, pages: usize) -> Markup {
    let to = |page: usize| {
        let (state, name) = (encoded(&asked.state), encoded(&asked.name));
        format!("/?state={state}&name={name}&page={page}")
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
