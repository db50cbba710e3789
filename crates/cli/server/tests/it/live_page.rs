//! Shows a running measurement in a browser. The page is served from its store.

// The code that controls a browser is shared with the tests of the dashboard.
#[allow(dead_code)]
#[path = "../../../../fleet/serve/tests/fleet/devtools.rs"]
mod devtools;

use std::process::Stdio;

use crate::place::{Sandbox, Server, signal};
use devtools::{Tab, browser};

#[test]
fn a_measurement_is_watched_until_its_verdict() {
    let Some(browser) = browser() else {
        return;
    };
    let place = Sandbox::new();
    place.measured("measure timer -q --policy other --dma-latency off -D 200ms --cpus 0");
    let server = Server::start(place.server("run --listen 127.0.0.1:0"));
    let mut tab = Tab::open(browser, &place.path("profile"));
    tab.go(&format!("{}/live", server.url));
    tab.until("document.querySelector('main').innerText.includes('No measurement is running')");
    let line = "measure timer -q --policy other --dma-latency off --cpus 0 -D 10min";
    let mut measure = place.machine(line).stdout(Stdio::null()).spawn().unwrap();
    tab.until("(location.reload(), document.querySelector('[data-live]'))");
    let tile = |field: &str| format!("document.querySelector('[data-field={field}]')?.textContent");
    tab.until(&format!("/[1-9]/.test({})", tile("recorded")));
    let before = tab.eval(&tile("recorded"));
    tab.until(&format!("{} !== {before}", tile("recorded")));
    tab.until(&format!("/ (ns|µs|ms|s)$/.test({})", tile("max_ns")));
    let inked = "(() => { const one = document.querySelector('.live canvas'); \
        const all = one.getContext('2d').getImageData(0, 0, one.width, one.height).data; \
        return all.some((value, place) => place % 4 === 3 && value > 0); })()";
    tab.until(inked);
    // The page of the measurement changes to the report when the run ends.
    tab.eval("document.querySelector('h2 a').click()");
    tab.until("location.pathname.startsWith('/recordings/')");
    tab.until(&format!("/[1-9]/.test({})", tile("recorded")));
    signal(&measure, "INT");
    measure.wait().unwrap();
    tab.until("!document.querySelector('[data-live]') && document.querySelector('figure svg')");
    let text = tab.eval("document.querySelector('main').innerText");
    assert!(text.as_str().unwrap().contains("stopped"), "{text}");
    assert_eq!(tab.console, [""; 0]);
    server.end();
}
