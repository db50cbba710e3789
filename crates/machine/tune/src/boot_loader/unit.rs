//! A systemd unit that goes on after each boot.

use std::path::Path;

use punctual_host::Host;
use punctual_model::WrittenFile;

use super::{BootError, file};

/// Where an administrator's units are.
const UNITS: &str = "/etc/systemd/system";

/// What the unit starts.
#[derive(Clone, Debug)]
pub struct UnitRequest<'a> {
    /// Its name, without extension.
    pub name: &'a str,
    /// What it is for.
    pub description: &'a str,
    /// The program with its arguments.
    pub command: &'a [String],
    /// A folder that must be mounted.
    pub needs: &'a Path,
}

/// The files of a unit that is started at the end of each boot: itself, and one that has
/// multi-user.target want it. Nothing is written.
///
/// # Errors
/// [`BootError::Words`] for a command that no unit can hold, [`BootError::File`].
pub fn unit(host: &Host, request: &UnitRequest<'_>) -> Result<Vec<WrittenFile>, BootError> {
    let command: Vec<String> = (request.command.iter())
        .map(|word| quoted(word))
        .collect::<Result<_, _>>()?;
    let needs = quoted(&request.needs.display().to_string())?;
    // Idle: after all other jobs of the boot. 4: nothing is proven.
    let text = format!(
        "[Unit]\nDescription={}\nAfter=multi-user.target\nRequiresMountsFor={needs}\n\n\
         [Service]\nType=idle\nExecStart={}\n\
         SuccessExitStatus=4\n",
        request.description,
        command.join(" ")
    );
    let wanted = format!("[Unit]\nWants={}.service\n", request.name);
    let own = format!("{UNITS}/{}.service", request.name);
    let want = format!("{UNITS}/multi-user.target.d/{}.conf", request.name);
    Ok(vec![
        file(host, &own, |_| text)?,
        file(host, &want, |_| wanted)?,
    ])
}

/// A word as systemd reads it (systemd.service(5), "Command lines"; `%` and `$` stand for
/// more than themselves).
fn quoted(word: &str) -> Result<String, BootError> {
    if word.chars().any(char::is_control) {
        return Err(BootError::Words {
            words: word.escape_debug().to_string(),
            why: "it has control characters",
        });
    }
    let word = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:%$@".contains(c);
    Ok(match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("\"{word}\""),
    })
}
