//! Where code lies in the whole program. The kernel maps files in pieces of 64 KiB and more,
//! so code that a measurement never runs is in memory where it stands between what it runs.
//! What the feature set for boards leaves out is put together, behind the rest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{PROBE_FEATURES, text_of};
use crate::places;

/// Writes the linker's script for a target into a folder.
pub(super) fn script(target: &str, folder: &Path) -> Result<PathBuf> {
    let whole = crates_of(target, &[])?;
    let for_boards = crates_of(target, &PROBE_FEATURES)?;
    fs::create_dir_all(folder)?;
    let path = folder.join("order.ld");
    fs::write(&path, sections(whole.difference(&for_boards)))
        .with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The names of the crates that are in the program.
fn crates_of(target: &str, features: &[&str]) -> Result<BTreeSet<String>> {
    let mut tree = places::cargo();
    tree.args(["tree", "--locked", "-p", "punctual", "--edges", "normal"])
        .args(["--target", target, "--prefix", "none", "--format", "{lib}"])
        .args(features);
    Ok(names(&text_of(&mut tree)?))
}

/// Of what cargo lists; one that was listed before has ` (*)` behind its name.
fn names(list: &str) -> BTreeSet<String> {
    let words = list
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    words.map(str::to_owned).collect()
}

/// Each function has a section of its own, which has its mangled name (v0): there a crate's
/// hash ends with `_`, then follow the length of its name and the name. At the end stands the
/// crate that made a generic function, which others share.
fn sections<'a>(crates: impl Iterator<Item = &'a String>) -> String {
    let pattern = |name: &String| format!("    *(.text.*_{}{name}?*)\n", name.len());
    let patterns: String = crates.map(pattern).collect();
    format!("SECTIONS\n{{\n  .text.workstation :\n  {{\n{patterns}  }}\n}}\nINSERT AFTER .text;\n")
}

#[cfg(test)]
mod tests {
    use super::{names, sections};

    #[test]
    fn crates_that_a_board_does_not_have_are_put_together() {
        let whole = names("punctual\naxum\nserde\naxum (*)\n");
        let for_boards = names("punctual\nserde\n");
        assert_eq!(
            sections(whole.difference(&for_boards)),
            "SECTIONS\n{\n  .text.workstation :\n  {\n    \
             *(.text.*_4axum?*)\n  }\n}\nINSERT AFTER .text;\n"
        );
    }
}
