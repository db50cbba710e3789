//! Checks the pages with axe-core. PUNCTUAL_AXE is the path of axe.min.js (npm pack axe-core),
//! which is not included because of its size and licence (MPL 2.0).

use serde_json::Value;

use crate::browser::visit;
use crate::looks::served;

#[test]
fn axe_finds_nothing_serious() {
    let axe = std::env::var_os("PUNCTUAL_AXE").map(std::fs::read_to_string);
    let Some(Ok(axe)) = axe else {
        punctual_testing::skip!(Program, "PUNCTUAL_AXE names no axe.min.js");
        return;
    };
    let Some((_place, (server, pages), mut tab)) = visit(served) else {
        return;
    };
    let mut serious = Vec::new();
    for (name, path) in &pages {
        for dark in [false, true] {
            tab.size(1_200, 900);
            tab.dark(dark);
            tab.go(&format!("http://{}{path}", server.address));
            tab.eval(&axe);
            let found = tab.eval("axe.run().then((found) => found.violations)");
            for one in found.as_array().unwrap() {
                if matches!(one["impact"].as_str(), Some("serious" | "critical")) {
                    let node = &one["nodes"][0];
                    let (html, why): (&Value, &Value) = (&node["html"], &node["failureSummary"]);
                    serious.push(format!("{name}, dark {dark}: {}: {html} {why}", one["id"]));
                }
            }
        }
    }
    assert!(serious.is_empty(), "{}", serious.join("\n"));
}
