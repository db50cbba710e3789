//! What happens while a verb measures or watches: progress, screens, and signals that end it.

pub(crate) mod experiment;
pub(crate) mod push;
mod stop;
pub(crate) mod watching;

pub(crate) use stop::stop_flag;

/// Replaces this program by itself with other words, so that a recording has the command line that
/// repeats it. Returns only if this fails.
pub(crate) fn become_command(words: &[String]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    match std::env::current_exe() {
        Ok(program) => std::process::Command::new(program)
            .arg0("punctual")
            .args(words)
            .exec(),
        Err(error) => error,
    }
}
