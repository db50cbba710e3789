//! The help text of a tool, generated from its entry.

use std::fmt::Write;

use punctual_formats::RT_TESTS_VERSION;

use crate::{Family, OptionSpec, Takes, Tool};

/// Column where the descriptions begin.
const COLUMN: usize = 30;
/// Column where the descriptions wrap.
const WIDTH: usize = 100;

/// `--version`, for the tools whose original does not have this option. Most of these originals
/// then print their usage, which begins with the version, and exit with 0. The option is not in any
/// option table, so that `--ver` still means `--verbose`.
pub(crate) const VERSION: OptionSpec = OptionSpec::named("--version", "print the version");

/// Returns the options of a tool, as shown in help and documentation.
pub(crate) fn options(tool: &Tool) -> impl Iterator<Item = &OptionSpec> {
    let has_own = tool.family == Family::Rtla
        || (tool.options.iter()).any(|option| option.long == VERSION.long);
    tool.options.iter().chain((!has_own).then_some(&VERSION))
}

/// Returns the output of `--version`.
pub(crate) fn version(tool: &Tool) -> String {
    format!("{} V {RT_TESTS_VERSION}\n", tool.name)
}

/// Returns the output of `--help`. Scripts read the version from the first line and search for
/// option names.
pub(crate) fn usage(tool: &Tool) -> String {
    let name = tool.name;
    let mut text = match tool.family {
        Family::RtTests => format!("{}Usage:\n{name} <options>\n\n", version(tool)),
        Family::Rtla => {
            // The original names its command here, or itself.
            let command = name.split(' ').nth(1).unwrap_or(name);
            let version = crate::rtla::VERSION;
            format!("\n{command} version {version}\n\n Usage: {name} [<options>] [-h|--help]\n\n")
        }
    };
    for option in options(tool) {
        let mut line = names(option);
        let mut room = COLUMN;
        if line.len() >= COLUMN {
            let _ = writeln!(text, "{line}");
            line = String::new();
        }
        for word in option.help.split(' ') {
            if line.len().max(room) + 1 + word.len() > WIDTH {
                let _ = writeln!(text, "{line}");
                line = String::new();
                room = COLUMN;
            }
            if line.len() < COLUMN {
                line = format!("{line:COLUMN$}{word}")
            } else {
                line = format!("{line} {word}")
            }
        }
        let _ = writeln!(text, "{line}");
    }
    if tool.family == Family::Rtla {
        let _ = writeln!(
            text,
            "\nThis is punctual's version of {name}. It measures with the kernel's tracer if\n\
             possible, otherwise with its own threads. A line on stderr names the method. Each run\n\
             is stored as a recording (see punctual list), unless PUNCTUAL_STORE=none is set. For\n\
             all differences from the original, run punctual compat."
        );
        return text;
    }
    let _ = writeln!(
        text,
        "\nThis is punctual's version of {name}. Each run is stored as a recording (see punctual\n\
         list), unless PUNCTUAL_STORE=none is set. PUNCTUAL_STRICT=1 sets the exit status at a\n\
         break to 3, PUNCTUAL_JSON_KEY=1 adds the key `punctual` to JSON, and\n\
         PUNCTUAL_SPARSE_HISTOGRAM=1 omits empty rows. For all differences from the original,\n\
         run punctual compat."
    );
    text
}

/// Formats names as `-i US    --interval=US`.
pub(crate) fn names(option: &OptionSpec) -> String {
    let (after_short, after_long) = match option.takes {
        Takes::Nothing => (String::new(), String::new()),
        Takes::Required(value) => (format!(" {value}"), format!("={value}")),
        Takes::Optional(value) => (format!(" [{value}]"), format!("[={value}]")),
    };
    let short = option
        .short
        .map_or(String::new(), |letter| format!("-{letter}{after_short}"));
    match option.long {
        "" => short,
        long => format!("{short:<9} --{long}{after_long}"),
    }
}
