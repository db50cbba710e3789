//! Tests of the pages without a mouse, and without scripts.

use serde_json::json;

use crate::browser::visit;
use crate::devtools::Tab;
use crate::looks::served;

#[test]
fn each_page_works_without_scripts() {
    let Some((_place, (server, pages), mut tab)) = visit(served) else {
        return;
    };
    tab.command(
        "Emulation.setScriptExecutionDisabled",
        json!({"value": true}),
    );
    for (name, path) in &pages {
        tab.go(&format!("http://{}{path}", server.address));
        // All images are shown, and none of them is waiting for a script.
        tab.until("[...document.images].every((one) => one.complete)");
        let bad = "[...document.images].filter((one) => !one.naturalWidth || !one.clientWidth)";
        assert_eq!(tab.eval(&format!("{bad}.length")), 0, "{name}");
        let moving = tab.eval("document.querySelectorAll('figure.moving').length");
        assert_eq!(moving, 0, "{name}");
        let shown = tab.eval("document.querySelectorAll('main table, main svg, main img').length");
        assert!(shown.as_u64().unwrap() > 0, "{name}");
    }
    // Forms work without scripts: a filter leads to a URL.
    tab.go(&format!("http://{}/", server.address));
    tab.eval("document.querySelector('input[name=name]').value = 'line-2'");
    tab.eval("document.querySelector('form.filter button').click()");
    // The URL changes before the page has loaded.
    tab.until("location.search.includes('name=line-2') && document.readyState === 'complete'");
    assert_eq!(
        tab.eval("document.querySelectorAll('main tbody tr').length"),
        1
    );
}

#[test]
fn keyboard_reaches_content_and_moves_on() {
    let Some((_place, (server, _), mut tab)) = visit(served) else {
        return;
    };
    tab.go(&format!("http://{}/", server.address));
    tab.key("Tab");
    let active = |tab: &mut Tab, what: &str| tab.eval(&format!("document.activeElement.{what}"));
    assert_eq!(active(&mut tab, "className"), "skip");
    let seen = "document.activeElement.getBoundingClientRect().left >= 0";
    assert_eq!(tab.eval(seen), true);
    tab.key("Enter");
    tab.until("location.hash === '#main'");
    // Next come the states, then the filter, then the machines.
    let mut passed = Vec::new();
    while !passed
        .iter()
        .any(|href: &String| href.contains("/machine?"))
    {
        assert!(passed.len() < 40, "{passed:?}");
        tab.key("Tab");
        let href = active(&mut tab, "href ?? document.activeElement.name");
        let outlined = "getComputedStyle(document.activeElement).outlineStyle";
        assert_ne!(tab.eval(outlined), "none", "{href}");
        passed.push(href.as_str().unwrap_or_default().to_owned());
    }
    assert!(
        passed[0].ends_with("/"),
        "the header is skipped: {passed:?}"
    );
    assert!(passed.contains(&"name".to_owned()), "{passed:?}");
    tab.key("Enter");
    tab.until("location.pathname === '/machine'");
    assert_eq!(tab.console, [""; 0]);
}
