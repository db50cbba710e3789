//! The tools that are not replaced.

use crate::common::{Sandbox, text};

#[test]
fn tools_without_replacement_are_named() {
    let place = Sandbox::new();
    for name in [
        "queuelat",
        "ssdd",
        "pip_stress",
        "deadline_test",
        "hackbench",
        "pi_stress",
        "rt-migrate-test",
    ] {
        let output = place.run(&format!("compat {name} -h"));
        let said = text(&output.stderr);
        assert!(
            said.contains(&format!("does not replace {name}: ")),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
}
