//! No page may be cut off horizontally at any of three widths, light or dark. With
//! PUNCTUAL_SHOTS=FOLDER, images of the pages are written there for inspection.

use punctual_serve::Running;

use crate::browser::visit;
use crate::devtools::Tab;
use crate::many::{enrol, fifty};
use crate::place::{Sandbox, deliver};
use crate::profile::audit;
use crate::years::{Nightly, runs};

pub(crate) fn served(place: &Sandbox) -> (Running, Vec<(&'static str, String)>) {
    let mut nightly = Nightly::default();
    let all: Vec<_> = (1..=4u128)
        .map(|each| {
            let name = format!("line-{each}-a-machine-with-a-long-name");
            let mut runs = runs(&name, each * 1_000, each % 2 == 1);
            runs.iter_mut().for_each(|one| one.audit = Some(audit()));
            (name, runs)
        })
        .collect();
    for (name, recordings) in &all {
        nightly.add(name, recordings);
    }
    let (_, source) = nightly.source();
    let server = place.serve_as(|config| config.trends = source);
    for (_, recordings) in &all {
        for one in recordings.iter().step_by(6) {
            deliver(server.address, one);
        }
    }
    let machine = &all[0].0;
    let [a, b] = [all[0].1[0].id, all[1].1[6].id];
    let pages = vec![
        ("overview", "/".to_owned()),
        ("recordings", "/recordings".to_owned()),
        ("machine", format!("/machine?name={machine}")),
        ("recording", format!("/recordings/{a}")),
        ("trend", format!("/trend?series=nightly&machine={machine}")),
        ("series", "/series?name=nightly".to_owned()),
        ("changes", "/changes".to_owned()),
        ("compare", format!("/compare?id={a}&id={b}")),
    ];
    (server, pages)
}

/// Widths, and whether the page is dark at that width. All combinations are used when images are
/// written.
const SIZES: [(u32, bool); 3] = [(400, false), (800, true), (1_280, false)];

/// Checks pages at each width, and writes images of them to the folder named by PUNCTUAL_SHOTS.
fn look(tab: &mut Tab, server: &Running, pages: &[(&str, String)]) {
    let shots = std::env::var_os("PUNCTUAL_SHOTS").map(std::path::PathBuf::from);
    let others = SIZES.map(|(width, dark)| (width, !dark));
    let wanted = others.into_iter().filter(|_| shots.is_some());
    let sizes: Vec<(u32, bool)> = SIZES.into_iter().chain(wanted).collect();
    for (name, path) in pages {
        for (width, dark) in &sizes {
            tab.size(*width, 900);
            tab.dark(*dark);
            tab.go(&format!("http://{}{path}", server.address));
            let over = tab.eval("document.documentElement.scrollWidth - innerWidth");
            assert!(
                over.as_f64().unwrap() <= 0.0,
                "{name} at {width}: {over} too wide"
            );
            // Columns must not be as narrow as a single letter, and pages must not be too long to
            // scroll through.
            let narrow = tab.eval(
                "[...document.querySelectorAll('td:not(.n, .whole), dd')].filter((one) => \
                 one.innerText.length > 15 && one.getBoundingClientRect().width < 90).length",
            );
            assert_eq!(narrow, 0, "{name} at {width}: cells of single letters");
            let tall = tab.eval("document.documentElement.scrollHeight");
            let fits = tall.as_f64().unwrap() < 14_000.0 || name.starts_with("overview-");
            assert!(fits, "{name} at {width}: {tall} px tall");
            let in_dark = tab.eval(
                "[...document.querySelectorAll('figure')].every((one) => \
                 getComputedStyle(one).backgroundColor === getComputedStyle(document.body).backgroundColor) && \
                 [...document.querySelectorAll('figure svg, figure img')].every((one) => \
                 getComputedStyle(one).filter.includes('invert') === matchMedia('(prefers-color-scheme: dark)').matches)",
            );
            assert_eq!(in_dark, true, "{name} at {width}, dark {dark}: a plot");
            let Some(folder) = &shots else { continue };
            tab.eval("new Promise((done) => { document.querySelectorAll('figure').forEach((one, i) => setTimeout(() => one.scrollIntoView(), i * 60)); setTimeout(() => { scrollTo(0, 0); setTimeout(done, 100); }, 900); })");
            let tone = if *dark { "dark" } else { "light" };
            let file = |kind: &str| folder.join(format!("{name}-{width}-{kind}.b64"));
            std::fs::write(file(tone), tab.shot()).unwrap();
            if (*width, *dark) == (800, false) {
                tab.print();
                std::fs::write(file("print"), tab.shot()).unwrap();
            }
        }
    }
}

#[test]
fn no_page_is_cut_off() {
    let Some((_place, (server, pages), mut tab)) = visit(served) else {
        return;
    };
    look(&mut tab, &server, &pages);
    assert_eq!(tab.console, [""; 0]);
}

#[test]
fn many_machines_are_not_cut_off() {
    let Some((_place, server, mut tab)) = visit(|place| fifty(place, true)) else {
        return;
    };
    let page = |name, path: &str| (name, path.to_owned());
    let pages = [
        page("overview-50", "/"),
        page("series-50", "/series?name=nightly&by=cpu.governor"),
        page("compare-50", "/compare?machine=board-03&machine=board-04"),
        page("machine-50", "/machine?name=board-03"),
    ];
    look(&mut tab, &server, &pages);
    let place = Sandbox::new();
    let server = place.serve();
    crate::place::deliver(server.address, &crate::place::recording(1, "template"));
    enrol(&place, 10_000);
    look(&mut tab, &server, &[page("overview-10000", "/?page=2")]);
    assert_eq!(tab.console, [""; 0]);
}
