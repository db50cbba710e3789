//! Tests of the pages in a real browser. The browser's console must stay empty, because it shows
//! policy violations, missing files and failed scripts.

use std::process::Command;

use crate::devtools::{Tab, browser};
use crate::place::{Sandbox, deliver, recording};

/// Returns the server and a browser tab, with the browser's profile in the folder of the server.
/// Returns `None` if no browser is installed.
pub(crate) fn visit<T>(serve: impl FnOnce(&Sandbox) -> T) -> Option<(Sandbox, T, Tab)> {
    let browser = browser()?;
    let place = Sandbox::new();
    let served = serve(&place);
    let tab = Tab::open(browser, &place.file("profile"));
    // Values are dropped in reverse order: the browser before the server, and the folder last.
    Some((place, served, tab))
}

#[test]
fn a_browser_finds_nothing_to_complain_of() {
    let Some(browser) = browser() else {
        return;
    };
    let place = Sandbox::new();
    let server = place.serve();
    let [one, two] = [1, 2].map(|number| recording(number, "<b>board</b>"));
    deliver(server.address, &one);
    deliver(server.address, &two);
    let profile = place.file("profile");
    for (path, holds) in [
        ("/".to_owned(), "&lt;b&gt;board"),
        (format!("/recordings/{}", one.id), "<svg"),
        (
            format!("/compare?id={}&id={}", one.id, two.id),
            "Comparison",
        ),
    ] {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .args([
                "--enable-logging=stderr",
                "--disable-dev-shm-usage",
                "--timeout=20000",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("http://{}{path}", server.address))
            .output()
            .unwrap();
        let page = String::from_utf8_lossy(&output.stdout);
        assert!(page.contains(holds), "{path}: {page}");
        let said = String::from_utf8_lossy(&output.stderr);
        let complaint = said.lines().find(|line| line.contains("CONSOLE"));
        assert_eq!(complaint, None, "{path}");
    }
}
