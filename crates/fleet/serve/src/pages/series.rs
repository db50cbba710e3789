//! One series on all machines: the machines' figures grouped by a fact, and the facts that
//! distinguish good machines from bad ones.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{Query, State};
use axum::response::Html;
use maud::{Markup, html};
use punctual_model::{Nanos, sanitize};
use punctual_stats::separate::{LEAST_MACHINES, Separation, Separator, separate};
use punctual_stats::trend::{Facts, Run};
use serde::Deserialize;

use super::frame;
use super::spread::{Spread, spread};
use crate::paths::{encoded, trend_path};
use crate::problem::Problem;
use crate::state::{App, Inner};
use crate::trends::SeriesOf;

/// The parameters of the query.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    /// The series. If it is missing, all series are listed.
    name: String,
    /// The fact to group machines by.
    by: String,
    /// The figure: `p99` or `max`.
    figure: String,
    /// The group of runs: load and class of CPUs.
    group: String,
}

/// Number of newest runs that the figure of a machine is computed from.
const RUNS: usize = 20;
/// The facts to offer first.
const USUAL: [&str; 4] = [
    "kernel.release",
    "processor.model",
    "virtualisation.machine",
    "kernel.command_line",
];
/// Maximum number of distinguishing facts to show.
const SHOWN: usize = 12;
/// A p-value below this is significant.
const CHANCE: f64 = 0.05;

/// A machine in a series.
struct Member {
    of: SeriesOf,
    group: String,
    figure: Option<Nanos>,
    runs: usize,
    facts: std::sync::Arc<Facts>,
}

pub(super) async fn get(
    State(app): State<App>,
    Query(asked): Query<PageQuery>,
) -> Result<Html<String>, Problem> {
    let title = match asked.name.as_str() {
        "" => "Series".to_owned(),
        name => name.to_owned(),
    };
    let body = app
        .work(move |app| match asked.name.as_str() {
            "" => listed(app),
            _ => across(app, &asked),
        })
        .await?;
    Ok(frame(&app, &title, "/series", &body))
}

fn all(app: &Inner) -> Result<Vec<SeriesOf>, Problem> {
    match &app.config.trends.0 {
        Some(trends) => trends.series().map_err(Problem::from),
        None => Ok(Vec::new()),
    }
}

/// Returns all series, by name.
fn listed(app: &Inner) -> Result<Markup, Problem> {
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for of in all(app)? {
        *names.entry(of.series).or_default() += 1;
    }
    Ok(html! {
        h1 { "Series" }
        @if names.is_empty() { p { "No series found. Plan a series with punctual monitor." } }
        @else { div .wide { table {
            thead { tr { th { "series" } th .n { "machines" } } }
            tbody { @for (name, machines) in &names { tr {
                td { a href={ "/series?name=" (encoded(name)) } { (sanitize(name)) } }
                td .n { (machines) }
            } } }
        } } }
    })
}

fn across(app: &Inner, asked: &PageQuery) -> Result<Markup, Problem> {
    let trends = app.config.trends.0.as_ref();
    let trends = trends.ok_or_else(|| Problem::not_found("this server has no series"))?;
    let own = all(app)?.into_iter().filter(|of| of.series == asked.name);
    let own: Vec<SeriesOf> = own.collect();
    if own.is_empty() {
        return Err(Problem::not_found("no such series"));
    }
    let by_max = asked.figure == "max";
    let (mut members, mut failed) = (Vec::new(), 0);
    for of in own {
        match trends.runs(&of) {
            Ok(runs) => members.extend(of_machine(&of, &runs, by_max)),
            Err(_) => failed += 1,
        }
    }
    let groups: BTreeSet<String> = members.iter().map(|one| one.group.clone()).collect();
    let group = if groups.contains(&asked.group) {
        asked.group.clone()
    } else {
        groups.first().cloned().unwrap_or_default()
    };
    members.retain(|one| one.group == group);
    let names: BTreeSet<&String> = members.iter().flat_map(|one| one.facts.keys()).collect();
    let by = if names.contains(&asked.by) {
        asked.by.clone()
    } else {
        USUAL[0].to_owned()
    };
    let known = members.iter();
    let known: Vec<(f64, &Facts)> = known
        .filter_map(|one| Some((one.figure?.0 as f64, one.facts.as_ref())))
        .collect();
    let found = separate(&known);
    Ok(html! {
        h1 { (sanitize(&asked.name)) " on " (members.len()) " machines" }
        (filter(asked, &groups, &group, &names, &by))
        p .faint {
            @if by_max { "The figure of a machine is the largest latency of its newest " (RUNS) " runs." }
            @else { "The figure of a machine is the median p99 of its newest " (RUNS) " runs." }
            @if failed > 0 { " Not readable: " (failed) " machines." }
        }
        h2 { "By " (sanitize(&by.replace(['.', '_'], " "))) ", the worst first" }
        (distribution(&members, &by))
        h2 { "Facts that separate the machines" }
        (separators(asked, &found, known.len()))
    })
}

/// Returns the figures of a machine, one for each group of its runs.
fn of_machine(of: &SeriesOf, runs: &[Run], by_max: bool) -> Vec<Member> {
    let mut groups: BTreeMap<String, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let name = format!("{}, {} CPUs", run.load, run.cpus);
        groups.entry(name).or_default().push(run);
    }
    let member = |(group, mut runs): (String, Vec<&Run>)| {
        runs.sort_by_key(|run| (run.started, run.recording));
        let newest = &runs[runs.len().saturating_sub(RUNS)..];
        let figures = newest.iter();
        let mut figures: Vec<Nanos> = figures
            .filter_map(|run| if by_max { run.max } else { run.p99 })
            .collect();
        figures.sort_unstable();
        let figure = if by_max {
            figures.last().copied()
        } else {
            figures.get(figures.len() / 2).copied()
        };
        Some(Member {
            of: of.clone(),
            group,
            figure,
            runs: newest.len(),
            facts: std::sync::Arc::clone(&newest.last()?.facts),
        })
    };
    groups.into_iter().filter_map(member).collect()
}

fn filter(
    asked: &PageQuery,
    groups: &BTreeSet<String>,
    group: &str,
    names: &BTreeSet<&String>,
    by: &str,
) -> Markup {
    let others = names.iter().filter(|name| !USUAL.contains(&name.as_str()));
    let offered = USUAL
        .iter()
        .copied()
        .chain(others.map(|name| name.as_str()));
    html! {
        form .filter method="get" action="/series" {
            input type="hidden" name="name" value=(asked.name);
            label { "By "
                select name="by" { @for name in offered {
                    option value=(name) selected[name == by] { (sanitize(&name.replace(['.', '_'], " "))) }
                } }
            }
            label { "Figure "
                select name="figure" {
                    option value="p99" { "p99" }
                    option value="max" selected[asked.figure == "max"] { "max" }
                }
            }
            label { "Runs "
                select name="group" { @for one in groups {
                    option value=(one) selected[one == group] { (sanitize(one)) }
                } }
            }
            button { "Show" }
        }
    }
}

/// Returns the machines grouped by a fact. Machines for which the fact is unknown are the last
/// group.
fn distribution(members: &[Member], by: &str) -> Markup {
    let mut groups: BTreeMap<Option<&str>, Vec<&Member>> = BTreeMap::new();
    for member in members.iter().filter(|one| one.figure.is_some()) {
        let value = member.facts.get(by).and_then(Option::as_deref);
        groups.entry(value).or_default().push(member);
    }
    let unknown = members.iter().filter(|one| one.figure.is_none()).count();
    let mut groups: Vec<(Option<&str>, Vec<&Member>)> = groups.into_iter().collect();
    for (_, members) in &mut groups {
        members.sort_by_key(|one| std::cmp::Reverse(one.figure));
    }
    groups.sort_by_key(|(value, members)| {
        let median = members[members.len() / 2].figure;
        (value.is_none(), std::cmp::Reverse(median))
    });
    let name = |value: Option<&str>| match value {
        None => "not known".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(value) => value.to_owned(),
    };
    let spreads: Vec<Spread> = (groups.iter())
        .map(|(value, members)| Spread {
            name: name(*value),
            figures: members.iter().filter_map(|one| one.figure).collect(),
        })
        .collect();
    html! {
        (spread(&spreads))
        div .wide { table {
            thead { tr {
                th { (sanitize(&by.replace(['.', '_'], " "))) } th .n { "machines" } th .n { "runs" }
                th .n { "median" } th .n { "best" } th .n { "worst" } th { "worst machine" }
            } }
            tbody { @for ((value, members), spread) in groups.iter().zip(&spreads) { tr {
                td { (sanitize(&name(*value))) }
                td .n { (members.len()) }
                td .n { (members.iter().map(|one| one.runs).sum::<usize>()) }
                td .n { (spread.median()) }
                td .n { (spread.at(0.0)) }
                td .n { (spread.at(1.0)) }
                td { a href=(trend_path(&members[0].of)) {
                    (sanitize(members[0].of.machine.as_deref().unwrap_or("(no name)")))
                } }
            } } }
        } }
        @if unknown > 0 { p .faint { "Without this figure: " (unknown) " machines." } }
    }
}

fn separators(asked: &PageQuery, found: &Separation, machines: usize) -> Markup {
    if machines < LEAST_MACHINES {
        return html! { p { "Needs " (LEAST_MACHINES) " machines with figures: there are " (machines) "." } };
    }
    let (clear, rest): (Vec<&Separator>, Vec<&Separator>) =
        found.separators.iter().partition(|one| one.p < CHANCE);
    html! {
        @if clear.is_empty() {
            p { "No fact is significantly correlated with the figure: " (found.separators.len())
                " facts were compared, " (found.left_out) " facts are equal on all machines or \
                    different on each machine." }
        } @else {
            p { "Facts whose values correlate with the figure. This does not show a cause: facts \
                 in one row "
                "divide the machines into the same groups and cannot be distinguished." }
        }
        @if !found.separators.is_empty() { div .wide { table {
            thead { tr {
                th { "fact" } th .n { "explains" } th .n { "p" } th { "values, the worst first" }
                th .n { "not known" }
            } }
            tbody { @for one in clear.iter().chain(&rest).take(SHOWN) { (separator(asked, one)) } }
        } } }
        p .faint {
            "The column 'explains' shows the share of the variance of the machines' ranks that \
             lies between the values. The p value was calculated from "
            (found.permutations) " permutations and adjusted for the number of compared facts (Holm)."
        }
    }
}

/// Maximum number of values of a fact to list.
const VALUES: usize = 6;

fn separator(asked: &PageQuery, one: &Separator) -> Markup {
    let link = |fact: &str| {
        let (name, by) = (encoded(&asked.name), encoded(fact));
        let (figure, group) = (encoded(&asked.figure), encoded(&asked.group));
        format!("/series?name={name}&by={by}&figure={figure}&group={group}")
    };
    html! {
        tr {
            td { @for (place, fact) in one.facts.iter().enumerate() {
                @if place > 0 { br; }
                a href=(link(fact)) { (sanitize(&fact.replace(['.', '_'], " "))) }
            } }
            td .n { (format!("{:.0}%", one.explained * 100.0)) }
            td .n {
                @if one.p < 0.001 { "<0.001" } @else { (format!("{:.3}", one.p)) }
                @if one.p >= CHANCE { br; small .faint { "not significant" } }
            }
            td { ul .shares {
                @for level in one.levels.iter().take(VALUES) { li {
                    (sanitize(&level.values.join("; "))) ": "
                    (Nanos(level.median as u64)) ", "
                    @if level.machines == 1 { "1 machine" } @else { (level.machines) " machines" }
                } }
                @if one.levels.len() > VALUES { li { "and " (one.levels.len() - VALUES) " more" } }
            } }
            td .n { (one.unknown) }
        }
    }
}
