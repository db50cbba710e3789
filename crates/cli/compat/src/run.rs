//! Runs a tool from its command line to its exit status.

use crate::getopt::GetoptError;
use crate::{CompatError, Family, Tool, ToolContext, getopt, usage};

/// Parses `context.command_line`, runs the tool, and reports errors. Returns the exit status.
pub fn run(tool: &'static Tool, context: &mut ToolContext<'_>) -> u8 {
    let result =
        start(tool, context).and_then(|status| Ok(context.out.flush().map(|()| status)?));
    match result {
        Ok(status) => status,
        Err(error) => {
            report(tool, context, &error);
            match error {
                CompatError::Usage(_) => tool.family.usage_status(),
                error => error.status(),
            }
        }
    }
}

fn start(tool: &'static Tool, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    let words = context.command_line.get(1..).unwrap_or_default();
    if words.iter().any(|word| word == "-?") {
        return help(tool, context);
    }
    let words = words.to_vec();
    let parsed = match getopt::parse(&words, tool.options, context.behaviour.posixly_correct) {
        Err(GetoptError::Name(name))
            if name == usage::VERSION.long && tool.family == Family::RtTests =>
        {
            write!(context.out, "{}", usage::version(tool))?;
            return Ok(0);
        }
        parsed => parsed
            .map_err(|error| CompatError::Usage(advised(tool, &error)))
            .map_err(|error| hinted(tool, &words, error))?,
    };
    if parsed.has("help") {
        return help(tool, context);
    }
    (tool.run)(&parsed, context).map_err(|error| hinted(tool, &words, error))
}

/// Prints the usage, and returns the exit status of the original after that.
fn help(tool: &Tool, context: &mut ToolContext<'_>) -> Result<u8, CompatError> {
    write!(context.out, "{}", usage::usage(tool))?;
    Ok(tool.family.help_status())
}

/// Adds a hint if a long option was given with a single dash. In that case, getopt parses each of
/// its letters as an option, and its message names only one of them.
fn hinted(tool: &Tool, words: &[String], error: CompatError) -> CompatError {
    let is_long = |word: &&String| {
        let name = word.strip_prefix('-').unwrap_or_default();
        let name = name.split('=').next().unwrap_or_default();
        name.len() > 1 && tool.options.iter().any(|option| option.long == name)
    };
    match (error, words.iter().find(is_long)) {
        (CompatError::Usage(message), Some(word)) => {
            CompatError::Usage(format!("{message}; did you mean -{word}?"))
        }
        (error, _) => error,
    }
}

/// Returns the advice for a removed option.
fn advised(tool: &Tool, error: &GetoptError) -> String {
    let gone = match error {
        GetoptError::Letter(letter) => {
            (tool.removed.iter()).find(|removed| removed.letters.contains(letter))
        }
        _ => None,
    };
    match gone {
        Some(removed) => format!("{error} ({})", removed.advice),
        None => error.to_string(),
    }
}

fn report(tool: &Tool, context: &mut ToolContext<'_>, error: &CompatError) {
    // Output that was already written is kept. It is not an error if the pipe is closed.
    let _ = context.out.flush();
    match error {
        CompatError::Usage(message) => {
            let name = context
                .command_line
                .first()
                .map_or(tool.name, String::as_str);
            let text = format!("{name}: {message}\n{}", usage::usage(tool));
            let _ = write!(context.err, "{text}");
        }
        CompatError::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        error => context.say(&error.to_string()),
    }
}
