//! Recordings compared.

use axum::extract::{RawQuery, State};
use axum::response::Html;
use maud::{Markup, html};
use punctual_model::Recording;
use punctual_report::html::{HtmlOptions, overlaid};
use punctual_stats::{Options, compare_runs};

use super::{frame, shown};
use crate::problem::Problem;
use crate::state::App;

/// The most recordings in one picture.
const MOST: usize = 12;

/// The values of `id`, in order. They are selectors: what else they hold fits nothing.
fn ids(query: Option<&str>) -> Vec<String> {
    let pairs = query.unwrap_or_default().split('&');
    pairs
        .filter_map(|pair| pair.strip_prefix("id="))
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
        .collect()
}

pub(super) async fn get(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> Result<Html<String>, Problem> {
    let ids = ids(query.as_deref());
    if ids.len() > MOST {
        let message = format!("choose at most {MOST} recordings");
        return Err(Problem::new(axum::http::StatusCode::BAD_REQUEST, message));
    }
    let form = form(&ids);
    let shown = match ids.len() {
        0 | 1 => {
            html! { p { "Choose at least two recordings: by their IDs here, or in the list." } }
        }
        _ => {
            app.work(move |app| {
                let load = |id: &String| -> Result<Recording, Problem> {
                    let id = app.collection.find(id)?;
                    Ok(app.collection.load(id)?.1)
                };
                let recordings = ids.iter().map(load).collect::<Result<Vec<_>, _>>()?;
                compared(&recordings)
            })
            .await?
        }
    };
    let body = html! { h1 { "Compare" } (form) (shown) };
    Ok(frame(&app, "Compare", "/compare", &body))
}

fn form(ids: &[String]) -> Markup {
    let value = |place: usize| ids.get(place).map_or("", String::as_str);
    html! {
        form .filter method="get" action="/compare" {
            label { "Baseline " input name="id" value=(value(0)) placeholder="ID" size="36"; }
            label { "Candidate " input name="id" value=(value(1)) placeholder="ID" size="36"; }
            @for id in ids.iter().skip(2) { input type="hidden" name="id" value=(id); }
            button { "Compare" }
        }
    }
}

/// All of them in pictures; two are judged.
fn compared(recordings: &[Recording]) -> Result<Markup, Problem> {
    let judged = match recordings {
        [baseline, candidate] => {
            let compared = compare_runs(&[baseline], &[candidate], &Options::default());
            Some(compared.map_err(|error| error.to_string()))
        }
        _ => None,
    };
    let options = HtmlOptions {
        compared: judged,
        ..HtmlOptions::default()
    };
    let documents = overlaid(recordings, &options).map_err(|error| super::cannot_draw(&error))?;
    Ok(shown(&documents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_order() {
        assert_eq!(ids(Some("id=a&x=1&id=&id=b")), ["a", "b"]);
        assert!(ids(None).is_empty());
    }
}
