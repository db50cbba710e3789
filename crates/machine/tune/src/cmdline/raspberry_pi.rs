//! Finds the file with the parameters that Raspberry Pi's firmware reads: it follows from
//! `cmdline=` and `os_prefix=` in config.txt (raspberrypi.com, documentation of config.txt).

use super::form::Form;
use super::tree::{Found, Source, Tree};
use super::unclear::Unclear;

/// Possible mount points of the SD card's first partition.
const FOLDERS: [&str; 2] = ["/boot/firmware", "/boot"];

/// Maximum depth of nested `include`s.
const DEPTH: u32 = 4;

/// The possible values of a setting in config.txt.
#[derive(Debug, Default)]
struct Values {
    /// The last value that applies to every board.
    always: Option<String>,
    /// Values below a filter such as `[pi4]`. It is not known whether they apply to this board.
    perhaps: Vec<String>,
}

impl Values {
    /// Returns the value that this board boots with, if that value is certain.
    fn certain(&self, default: &str) -> Option<String> {
        let value = self.always.as_deref().unwrap_or(default);
        let same = self.perhaps.iter().all(|other| other == value);
        same.then(|| value.to_owned())
    }
}

/// The settings that determine the name of the file with the parameters.
#[derive(Debug, Default)]
struct Config {
    cmdline: Values,
    os_prefix: Values,
    kernel: Values,
}

/// Whether this board applies the lines below a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applied {
    Always,
    Perhaps,
    Never,
}

impl Config {
    /// Reads a file and the files that it includes. Later lines override earlier ones.
    fn read(&mut self, tree: &Tree, folder: &str, name: &str, outer: Applied, depth: u32) {
        let mut obeyed = outer;
        for line in tree.text(&format!("{folder}/{name}")).lines() {
            let line = line.trim_end();
            if let Some(filter) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                obeyed = match filter {
                    "all" => outer,
                    // Edits apply to the usual boot, not to trial boots.
                    "none" | "tryboot" => Applied::Never,
                    _ if outer == Applied::Never => Applied::Never,
                    _ => Applied::Perhaps,
                };
                continue;
            }
            if let Some(other) = line.strip_prefix("include ")
                && depth > 0
                && obeyed != Applied::Never
            {
                self.read(tree, folder, other.trim(), obeyed, depth - 1);
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let values = match key {
                "cmdline" => &mut self.cmdline,
                "os_prefix" => &mut self.os_prefix,
                "kernel" => &mut self.kernel,
                _ => continue,
            };
            match obeyed {
                Applied::Always => values.always = Some(value.to_owned()),
                Applied::Perhaps => values.perhaps.push(value.to_owned()),
                Applied::Never => {}
            }
        }
    }
}

/// Returns the file that the firmware reads, or `None` if this is not a Raspberry Pi.
pub(super) fn find(tree: &Tree) -> Option<Found> {
    let has = |folder: &&str| tree.has(&format!("{folder}/config.txt"));
    let folder = FOLDERS.into_iter().find(has)?;
    let mut config = Config::default();
    config.read(tree, folder, "config.txt", Applied::Always, DEPTH);
    Some(match file(tree, folder, &config) {
        Ok(file) => {
            let note = format!(
                "{} must stay one line: check it before a reboot if the board has no console",
                file.rsplit('/').next().unwrap_or_default()
            );
            Found {
                notes: vec![note],
                ..Found::single(Source::new(file, Form::Line))
            }
        }
        Err(why) => Found {
            unclear: Some((format!("{folder}/config.txt"), why)),
            ..Found::default()
        },
    })
}

fn file(tree: &Tree, folder: &str, config: &Config) -> Result<String, Unclear> {
    let certain =
        |values: &Values, key, default| values.certain(default).ok_or(Unclear::Filter { key });
    let name = certain(&config.cmdline, "cmdline", "cmdline.txt")?;
    let prefix = certain(&config.os_prefix, "os_prefix", "")?;
    // The firmware ignores a prefix unless there are a kernel and a device tree with this prefix.
    if !prefix.is_empty() && !is_viable(tree, folder, &prefix, &config.kernel) {
        return Err(Unclear::Prefix { prefix });
    }
    let file = format!("{prefix}{name}");
    let inside = !file.split('/').any(|part| part == "..") && !file.starts_with('/');
    if inside && tree.has(&format!("{folder}/{file}")) {
        Ok(format!("{folder}/{file}"))
    } else {
        Err(Unclear::NotThere { file })
    }
}

/// Returns whether the files with this prefix include a kernel and a device tree.
fn is_viable(tree: &Tree, folder: &str, prefix: &str, kernel: &Values) -> bool {
    let (inner, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    let inside = format!("{folder}/{inner}");
    let names = tree.with_ending(inside.trim_end_matches('/'), "");
    let named: Vec<&str> = (names.iter())
        .filter_map(|path| path.rsplit('/').next()?.strip_prefix(start))
        .collect();
    let asked = || kernel.always.iter().chain(&kernel.perhaps);
    let is_kernel = |name: &&str| {
        let default = name.starts_with("kernel") && name.ends_with(".img");
        default || asked().any(|asked| asked == name)
    };
    named.iter().any(is_kernel) && named.iter().any(|name| name.ends_with(".dtb"))
}
