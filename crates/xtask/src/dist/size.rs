//! The size of the program: no build may be larger than what was reached before.

use std::path::Path;

use anyhow::Result;

/// The target whose sizes these are.
const OF_TARGET: &str = "x86_64-unknown-linux-musl";

/// In bytes.
struct Sizes {
    /// The most that passes: what was reached (`docs/subjects/ship.md`), and 3% for another
    /// compiler. To be lowered with it.
    most: u64,
    /// What is aimed at.
    aim: u64,
}

const WHOLE: Sizes = Sizes {
    most: 19_300_000,
    aim: 10_000_000,
};

const FOR_BOARDS: Sizes = Sizes {
    most: 7_260_000,
    aim: 4_000_000,
};

/// Prints the size; whether the program is no larger than before. That is not known of a
/// build for another processor, or with another profile or toolchain (no target).
pub(super) fn check(program: &Path, for_boards: bool, target: Option<&str>) -> Result<bool> {
    let size = program.metadata()?.len();
    let sizes = if for_boards { FOR_BOARDS } else { WHOLE };
    let (said, fits) = judged(size, &sizes, target == Some(OF_TARGET));
    println!("{}: {said}", program.display());
    Ok(fits)
}

fn judged(size: u64, sizes: &Sizes, is_known: bool) -> (String, bool) {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let grew = is_known && size > sizes.most;
    let limit = match is_known {
        true => format!("at most {:.2} MB, ", mb(sizes.most)),
        false => String::new(),
    };
    let verdict = if grew { "TOO LARGE: " } else { "" };
    let said = format!(
        "{verdict}{:.2} MB ({limit}the aim is {:.0} MB)",
        mb(size),
        mb(sizes.aim)
    );
    (said, !grew)
}

#[cfg(test)]
mod tests {
    use super::{FOR_BOARDS, WHOLE, judged};

    #[test]
    fn a_program_that_grew_fails_where_its_size_is_known() {
        let said = |text: &str| text.to_owned();
        assert_eq!(
            judged(7_260_000, &FOR_BOARDS, true),
            (said("7.26 MB (at most 7.26 MB, the aim is 4 MB)"), true)
        );
        assert_eq!(
            judged(7_270_000, &FOR_BOARDS, true),
            (
                said("TOO LARGE: 7.27 MB (at most 7.26 MB, the aim is 4 MB)"),
                false
            )
        );
        assert_eq!(
            judged(27_270_000, &WHOLE, false),
            (said("27.27 MB (the aim is 10 MB)"), true)
        );
    }
}
