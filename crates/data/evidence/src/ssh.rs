//! Signatures with the SSH keys of people, made and verified by `ssh-keygen -Y`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use punctual_files::Budget;

/// Namespace of these signatures (PROTOCOL.sshsig), so that they count for nothing else.
const NAMESPACE: &str = "punctual";

/// Limits of ssh-keygen. The time includes that for the passphrase.
const BUDGET: Budget = Budget::bytes(1 << 20).within(Duration::from_secs(120));

/// Reason why an SSH key or signature cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// The program cannot be run.
    #[error("ssh-keygen cannot be run (package openssh-client): {0}")]
    NotRun(std::io::Error),
    /// The program failed.
    #[error("ssh-keygen: {0}")]
    Failed(String),
    /// The list of allowed signers cannot be read.
    #[error("cannot read the allowed signers in {}: {source}", path.display())]
    Signers {
        /// The file.
        path: PathBuf,
        /// The system error.
        source: std::io::Error,
    },
}

/// Signs a message with this private key, or with its public key if an agent has the private one.
/// `ssh-keygen` asks for the passphrase.
pub(crate) fn sign(key: &Path, message: &[u8]) -> Result<Vec<u8>, SshError> {
    let mut command = ssh_keygen("sign");
    let output = fed(command.arg("-f").arg(key), message)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(failed(&output))
    }
}

/// Returns the name of the signer in the file of allowed signers (ssh-keygen(1), ALLOWED SIGNERS);
/// `None` if the signature is of another key or message.
pub(crate) fn signer(
    allowed: &Path,
    message: &[u8],
    signature: &[u8],
) -> Result<Option<String>, SshError> {
    let unreadable = |source| SshError::Signers {
        path: allowed.to_owned(),
        source,
    };
    // A missing file must not look like an unknown signer.
    std::fs::File::open(allowed).map_err(unreadable)?;
    let folder = punctual_files::scratch::folder().map_err(SshError::NotRun)?;
    let file = folder.path().join("signature");
    let written = std::fs::File::create_new(&file).and_then(|mut file| file.write_all(signature));
    written.map_err(SshError::NotRun)?;
    let with_signature = |action: &str| {
        let mut command = ssh_keygen(action);
        command.arg("-s").arg(&file).arg("-f").arg(allowed);
        command
    };
    let found = fed(&mut with_signature("find-principals"), b"")?;
    let names = String::from_utf8_lossy(&found.stdout).into_owned();
    for name in names.lines().filter(|_| found.status.success()) {
        let verified = fed(with_signature("verify").args(["-I", name]), message)?;
        if verified.status.success() {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

fn ssh_keygen(action: &str) -> Command {
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", action]);
    if action != "find-principals" {
        command.args(["-n", NAMESPACE]);
    }
    command
}

/// Runs a command with this input.
fn fed(command: &mut Command, input: &[u8]) -> Result<Output, SshError> {
    let mut input_file = tempfile::tempfile().map_err(SshError::NotRun)?;
    input_file.write_all(input).map_err(SshError::NotRun)?;
    std::io::Seek::rewind(&mut input_file).map_err(SshError::NotRun)?;
    let command = command.stdin(Stdio::from(input_file));
    BUDGET.output(command).map_err(SshError::NotRun)
}

fn failed(output: &Output) -> SshError {
    SshError::Failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
