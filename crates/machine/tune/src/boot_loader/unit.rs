//! A systemd unit that continues a program after each boot.

use std::path::Path;

use punctual_host::Host;
use punctual_model::WrittenFile;

use super::{BootError, file};

/// Folder of an administrator's units.
const UNITS: &str = "/etc/systemd/system";

/// A unit to write.
#[derive(Clone, Debug)]
pub struct UnitRequest<'a> {
    /// Name, without extension.
    pub name: &'a str,
    /// Description.
    pub description: &'a str,
    /// Program and arguments.
    pub command: &'a [String],
    /// Folder that must be mounted.
    pub needs: &'a Path,
}

/// Returns the files of a unit that starts at the end of each boot: the unit itself, and a drop-in
/// file that makes multi-user.target want it. This function writes nothing.
///
/// # Errors
/// Returns [`BootError::Words`] if a unit cannot express the command, or [`BootError::File`].
pub fn unit(host: &Host, request: &UnitRequest<'_>) -> Result<Vec<WrittenFile>, BootError> {
    let command: Vec<String> = (request.command.iter())
        .map(|word| quoted(word))
        .collect::<Result<_, _>>()?;
    let needs = quoted(&request.needs.display().to_string())?;
    // `Type=idle` waits for all other jobs of the boot. Exit code 4 means that nothing was proven,
    // which is not a failure of the unit.
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

/// Quotes a word for systemd, where `%` and `$` have special meanings (systemd.service(5), "Command
/// lines").
fn quoted(word: &str) -> Result<String, BootError> {
    if word.chars().any(char::is_control) {
        return Err(BootError::Words {
            words: word.escape_debug().to_string(),
            why: "it contains control characters",
        });
    }
    let word = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:%$@".contains(c);
    Ok(if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("\"{word}\"")
    })
}
