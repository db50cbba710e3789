//! The formats in the help of `import`.

use punctual_formats::IMPORTS;

/// Traces are not in the table of formats, because late reactions must first be found in them.
const TRACE: &str = "  trace (detected only)\n      Kernel trace of another tool, with its late reactions explained";

/// Each format with its summary.
pub(super) fn formats() -> String {
    let list: Vec<String> = IMPORTS
        .iter()
        .map(|import| format!("  {}\n      {}", import.name, import.summary))
        .collect();
    format!("Formats:\n{}\n{TRACE}", list.join("\n"))
}

/// Each format with its documentation.
pub(super) fn long_help() -> String {
    let each = IMPORTS.iter().map(|import| {
        let paragraphs: Vec<String> = (import.documentation.split("\n\n"))
            .map(|paragraph| format!("  {}", paragraph.replace('\n', " ")))
            .collect();
        format!(
            "{}: {}\n\n{}",
            import.name,
            import.summary,
            paragraphs.join("\n\n")
        )
    });
    format!(
        "Formats:\n\n{}\n\n{TRACE}",
        each.collect::<Vec<_>>().join("\n\n")
    )
}
