//! How a client tells its version.

use std::path::Path;
use std::process::Command;

/// How a client tells its version.
pub(super) enum Version {
    /// This command prints it.
    Prints(&'static [&'static str]),
    /// It is that of a package of Python.
    Python(&'static str),
    /// It is that of a package of Node.
    Node(&'static str),
    /// It is the commit of a clone in `PUNCTUAL_CLIENTS`.
    Commit(&'static str),
}

use Version::{Commit, Node, Prints, Python};

impl Version {
    /// Returns the command that prints the version, or `None` without clones.
    pub(super) fn command(&self) -> Option<Command> {
        let command = match self {
            Prints(words) => {
                let (program, arguments) = words.split_first()?;
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
            Python(package) => {
                let script =
                    format!("import importlib.metadata as m; print(m.version('{package}'))");
                let mut command = Command::new("python3");
                command.args(["-c", &script]);
                command
            }
            Node(package) => {
                // Many packages do not export their package.json.
                let script = format!(
                    "const [p, f] = ['path', 'fs'].map(require); \
                     let at = p.dirname(require.resolve('{package}')); \
                     while (!(f.existsSync(at + '/package.json') && \
                     JSON.parse(f.readFileSync(at + '/package.json')).version)) at = p.dirname(at); \
                     console.log(JSON.parse(f.readFileSync(at + '/package.json')).version)"
                );
                let mut command = Command::new("node");
                command.args(["-e", &script]);
                command
            }
            Commit(repository) => {
                let clones = std::env::var_os("PUNCTUAL_CLIENTS")?;
                let mut command = Command::new("git");
                command.arg("-C").arg(Path::new(&clones).join(repository));
                command.args(["log", "-1", "--format=%h %cs"]);
                command
            }
        };
        Some(command)
    }
}
