//! Tests that use the pages in a real browser.

use std::sync::Arc;

use punctual_serve::Running;
use serde_json::json;

use crate::browser::visit;
use crate::client::get;
use crate::devtools::CLICK;
use crate::place::{Sandbox, deliver};
use crate::years::{Nightly, runs};

const TREND: &str = "/trend?series=nightly&machine=board-1";

/// Returns a collector with the `newest` most recent recordings of the first machine.
fn served(place: &Sandbox, newest: usize) -> (Arc<Nightly>, Running) {
    let mut nightly = Nightly::default();
    let of_machine = [("board-1", 1, true), ("board-2", 1_001, false)];
    let all = of_machine.map(|(name, first, worsens)| (name, runs(name, first, worsens)));
    for (name, recordings) in &all {
        nightly.add(name, recordings);
    }
    let (nightly, source) = nightly.source();
    let server = place.serve_as(|config| config.trends = source);
    // The other machine's recordings are not needed, because they are shown only in combined form.
    for one in all[0].1.iter().rev().take(newest) {
        assert_eq!(deliver(server.address, one).status, 201);
    }
    (nightly, server)
}

#[test]
fn a_picture_is_given_as_numbers() {
    let place = Sandbox::new();
    let (_, server) = served(&place, 0);
    let data = get(server.address, &TREND.replace("/trend", "/v1/longterm")).json();
    let runs = data["runs"].as_array().unwrap();
    let edges = data["edges"].as_array().unwrap();
    let levels = data["levels"].as_array().unwrap();
    assert_eq!((runs.len(), levels.len()), (60, 60));
    for level in levels {
        assert_eq!(level.as_str().unwrap().len(), 2 * (edges.len() - 1));
    }
    assert_eq!(
        data["changes"].as_array().unwrap().len(),
        1,
        "{}",
        data["changes"]
    );
    assert_eq!(data["changes"][0]["open"], true);
    assert_eq!(runs[21]["spike"], true);
    let some = "&from=2026-11-10&to=2026-11-12";
    let some = get(
        server.address,
        &format!("/v1/longterm?series=nightly&machine=board-1{some}"),
    );
    assert_eq!(some.json()["runs"].as_array().unwrap().len(), 6);
    for (wrong, status) in [("&from=x", 400), ("&threshold=5", 400), ("&group=9", 404)] {
        let path = format!("/v1/longterm?series=nightly&machine=board-1{wrong}");
        assert_eq!(get(server.address, &path).status, status, "{wrong}");
    }
    // The size of all parts, compressed.
    let mut sent = 0;
    for path in [TREND.to_owned(), TREND.replace("/trend", "/v1/longterm")]
        .into_iter()
        .chain(["style.css", "script.js"].map(|name| format!("/assets/1/{name}")))
    {
        let gzip = [("Accept-Encoding", "gzip")];
        sent += crate::client::send(server.address, "GET", &path, &gzip, b"")
            .body
            .len();
    }
    assert!(sent < 150_000, "{sent} bytes");
}

#[test]
fn somebody_turns_points_and_clicks() {
    let Some((_place, (_, server), mut tab)) = visit(|place| served(place, 60)) else {
        return;
    };
    tab.size(1_200, 900);
    tab.go(&format!("http://{}{TREND}", server.address));
    // Keys and dragging turn the surface, and the URL restores the same view.
    tab.eval("document.querySelector('[data-view=surface]').scrollIntoView()");
    tab.until("document.querySelector('[data-view=surface] canvas + canvas')");
    tab.eval("document.querySelector('[data-view=surface] canvas + canvas').focus()");
    tab.key("ArrowRight");
    tab.key("ArrowUp");
    tab.until("location.search.includes('yaw=30&pitch=40')");
    tab.key(".");
    tab.key(",");
    tab.until("location.search.includes('run=')");
    let says = "document.querySelector('[data-view=surface] .says').textContent";
    let chosen = tab.eval(says);
    assert!(chosen.as_str().unwrap().contains("max"), "{chosen}");
    let url = tab.eval("location.href");
    tab.go(url.as_str().unwrap());
    tab.eval("document.querySelector('[data-view=surface]').scrollIntoView()");
    tab.until("document.querySelector('[data-view=surface] canvas')");
    assert_eq!(tab.eval("location.href"), url);
    // Both plots use the same colours for the same counts, and have a legend. High counts contrast
    // with the background, light or dark.
    tab.eval("document.querySelector('[data-view=heatmap]').scrollIntoView()");
    tab.until("document.querySelectorAll('.colours').length === 2");
    for (dark, [few, many]) in [
        (false, ["253, 231, 37", "68, 1, 84"]),
        (true, ["68, 1, 84", "253, 231, 37"]),
    ] {
        tab.dark(dark);
        let bars =
            "[...document.querySelectorAll('.colours span')].map((one) => one.style.background)";
        let ends = format!(
            "{bars}.every((one) => one.includes('right, rgb({few})') && one.endsWith('rgb({many}))'))"
        );
        tab.until(&ends);
    }
    tab.dark(false);
    let says = tab.eval("document.querySelector('.colours').textContent");
    let says = says.as_str().unwrap();
    assert!(
        says.starts_with("1 period") && says.contains("periods (log scale)"),
        "{says}"
    );
    let script = get(server.address, "/assets/1/script.js").text();
    assert_eq!(
        script.matches("viridis(").count(),
        1,
        "colours beside `ink_of`"
    );
    // The heat map shows details at the pointer, and has links to the recordings.
    tab.eval("document.querySelector('[data-view=heatmap]').scrollIntoView()");
    tab.until("document.querySelector('[data-view=heatmap] canvas')");
    tab.point("[data-view=heatmap] canvas", (0.5, 0.85), &[]);
    tab.until("/ period/.test(document.querySelector('[data-view=heatmap] .says').textContent)");
    tab.point("[data-view=heatmap] canvas", (0.5, 0.85), &CLICK);
    tab.until("location.pathname.startsWith('/recordings/')");
    tab.eval("history.back()");
    tab.until("location.pathname === '/trend'");
    // The trend shows a user's note as text.
    tab.until("document.querySelector('[data-view=trend] canvas')");
    tab.eval("document.querySelector('[data-view=trend] canvas').focus()");
    for _ in 0..30 {
        tab.key("ArrowLeft");
    }
    let noted = tab.eval("document.querySelector('[data-view=trend] .says').textContent");
    assert!(
        noted.as_str().unwrap().contains("kim: <script>alert(3)"),
        "{noted}"
    );
    assert_eq!(tab.console, [""; 0]);
}

#[test]
fn surface_is_drawn_without_graphics_card() {
    let Some((_place, (_, server), mut tab)) = visit(|place| served(place, 1)) else {
        return;
    };
    let none = "const get = HTMLCanvasElement.prototype.getContext; \
        HTMLCanvasElement.prototype.getContext = function (kind, ...more) { \
        return kind === 'webgl2' ? null : get.call(this, kind, ...more); };";
    tab.command(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({"source": none}),
    );
    tab.go(&format!("http://{}{TREND}", server.address));
    tab.eval("document.querySelector('[data-view=surface]').scrollIntoView()");
    tab.until("document.querySelector('[data-view=surface]').dataset.drawn === '2d'");
    let inked = tab.eval(
        "(() => { const one = document.querySelector('[data-view=surface] canvas + canvas'); \
         const all = one.getContext('2d').getImageData(0, 0, one.width, one.height).data; \
         let inked = 0; for (let i = 3; i < all.length; i += 4) inked += all[i] > 0; \
         return inked / (all.length / 4); })()",
    );
    assert!(inked.as_f64().unwrap() > 0.05, "{inked}");
    assert_eq!(tab.console, [""; 0]);
}

#[test]
fn somebody_compares_and_acknowledges() {
    let Some((_place, (nightly, server), mut tab)) = visit(|place| served(place, 3)) else {
        return;
    };
    let root = format!("http://{}", server.address);
    tab.go(&format!("{root}/recordings"));
    for choice in [0, 2] {
        let box_of = format!("document.querySelectorAll('td input[type=checkbox]')[{choice}]");
        tab.eval(&format!("{box_of}.click()"));
    }
    tab.eval("document.querySelector('form[action=\"/compare\"] > button').click()");
    tab.until("location.pathname === '/compare' && document.querySelector('svg')");
    let text = tab.eval("document.querySelector('main').innerText");
    assert!(text.as_str().unwrap().contains("Facts of"), "{text}");
    // The selected plot is in the URL.
    tab.eval("document.querySelector('select[name=plot]').value = 'percentiles'");
    tab.eval("document.querySelector('form.filter button').click()");
    tab.until(
        "location.search.includes('plot=percentiles') && document.querySelector('figure svg')",
    );
    tab.eval("history.back()");
    tab.until("!location.search.includes('plot=')");
    tab.go(&format!("{root}/changes?show=open"));
    tab.eval("document.querySelector('input[name=why]').value = '<script>alert(4)</script>'");
    tab.eval("document.querySelector('form[method=post] button').click()");
    tab.until("document.querySelector('form[method=post] button')?.textContent === 'Reopen'");
    assert_eq!(nightly.decided.lock().unwrap().len(), 1);
    let text = tab.eval("document.querySelector('main').innerText");
    assert!(
        text.as_str().unwrap().contains("<script>alert(4)</script>"),
        "{text}"
    );
    assert_eq!(tab.console, [""; 0]);
}

#[test]
fn machine_shows_series_facts_and_pictures() {
    let place = Sandbox::new();
    let (_, server) = served(&place, 1);
    let page = get(server.address, "/machine?name=board-1").text();
    for part in [
        "Series <a href=\"/trend?series=nightly",
        "data-view=\"surface\"",
        "Tune in force",
        "microcode",
        "Newest recording",
        "new fan",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    for view in ["trend", "surface", "heatmap"] {
        let path = format!("/trend/{view}.svg?series=nightly&machine=board-1&group=0");
        let image = get(server.address, &path);
        assert_eq!(image.header("content-type"), Some("image/svg+xml"));
        assert!(image.text().starts_with("<svg"), "{}", image.text());
    }
    let id = page
        .split("/recordings/")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let page = get(server.address, &format!("/recordings/{id}")).text();
    let exports = page.matches("/export/").count();
    assert!(exports >= 4, "{exports}");
    for path in page
        .split("href=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
    {
        if path.contains("/export/") || path.ends_with("/report") {
            let answer = get(server.address, path);
            assert_eq!(answer.status, 200, "{path}");
            assert!(!answer.body.is_empty(), "{path}");
        }
    }
    let series = get(server.address, "/series?name=nightly&figure=max").text();
    assert!(
        series.contains("on 2 machines") && series.contains("Needs 6 machines"),
        "{series}"
    );
}
