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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the file, or the reason why it is unclear.
    fn found(files: &[(&str, &str)]) -> String {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join("boot").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = find(&Tree::at(root.path())).unwrap();
        match found.unclear {
            Some((file, why)) => {
                assert_eq!(file, "/boot/config.txt");
                assert!(found.sources.is_empty());
                why.to_string()
            }
            None => {
                assert!(found.notes[0].contains(" must stay one line"));
                found.sources[0].path.clone()
            }
        }
    }

    fn of(config: &str, others: &[&str]) -> String {
        let mut files = vec![
            ("config.txt", config),
            ("cmdline.txt", ""),
            ("a", ""),
            ("b", ""),
        ];
        files.extend(others.iter().map(|other| (*other, "")));
        found(&files)
    }

    #[test]
    fn filters_decide_which_lines_apply() {
        let usual = "/boot/cmdline.txt";
        for (config, file) in [
            ("", usual),
            ("cmdline=a\r\n", "/boot/a"),
            ("[all]\ncmdline=a\n", "/boot/a"),
            ("[none]\ncmdline=a\n[all]\ncmdline=b\n", "/boot/b"),
            ("[tryboot]\ncmdline=a\n", usual),
            ("[none]\n[pi4]\ncmdline=cmdline.txt\n", usual),
            ("cmdline=a\n[pi4]\ncmdline=a\n", "/boot/a"),
            ("[pi4]\ncmdline=a\n[all]\ncmdline=a\n", "/boot/a"),
            (" cmdline=a\n", usual),
            ("cmdlines=a\n", usual),
        ] {
            assert_eq!(of(config, &[]), file, "{config}");
        }
        for config in [
            "[pi4]\ncmdline=a\n",
            "cmdline=a\n[pi4]\ncmdline=b\n",
            "cmdline=a\n[pi4]\ncmdline=a\n[pi5]\ncmdline=b\n",
        ] {
            let why = of(config, &[]);
            assert!(why.starts_with("it sets cmdline= below a filter"), "{why}");
        }
        let why = of("[pi4]\nos_prefix=x/\n", &[]);
        assert!(
            why.starts_with("it sets os_prefix= below a filter"),
            "{why}"
        );
    }

    #[test]
    fn included_files_are_read_where_they_are_included() {
        let with = |config: &str, more: &str| {
            let files = [
                ("config.txt", config),
                ("more.txt", more),
                ("cmdline.txt", ""),
                ("a", ""),
                ("b", ""),
            ];
            found(&files)
        };
        for (config, more, file) in [
            ("include more.txt\n", "cmdline=a\n", "/boot/a"),
            ("include more.txt\ncmdline=b\n", "cmdline=a\n", "/boot/b"),
            ("cmdline=b\ninclude  more.txt \n", "cmdline=a\n", "/boot/a"),
            (
                "[none]\ninclude more.txt\n",
                "cmdline=a\n",
                "/boot/cmdline.txt",
            ),
            // In an included file, `all` means what applied to the line that includes it.
            ("include more.txt\ncmdline=b\n", "[none]\n", "/boot/b"),
            (
                "include more.txt\n",
                "[none]\n[all]\ncmdline=a\n",
                "/boot/a",
            ),
            ("include none.txt\n", "", "/boot/cmdline.txt"),
        ] {
            assert_eq!(with(config, more), file, "{config} {more}");
        }
        let why = with("[pi4]\ninclude more.txt\n", "[all]\ncmdline=a\n");
        assert!(why.starts_with("it sets cmdline= below a filter"), "{why}");
        // The firmware's limit of nested files.
        let chain = |depth: usize| {
            let mut files: Vec<(String, String)> = (0..depth)
                .map(|n| (format!("c{n}"), format!("include c{}\n", n + 1)))
                .collect();
            files[0].0 = "config.txt".to_owned();
            files.push((format!("c{depth}"), "cmdline=a\n".to_owned()));
            files.push(("a".to_owned(), String::new()));
            files.push(("cmdline.txt".to_owned(), String::new()));
            let files: Vec<_> = files
                .iter()
                .map(|(a, b)| (a.as_str(), b.as_str()))
                .collect();
            found(&files)
        };
        assert_eq!(chain(4), "/boot/a");
        assert_eq!(chain(5), "/boot/cmdline.txt");
    }

    #[test]
    fn prefix_needs_a_kernel_and_a_device_tree() {
        let prefix = "os_prefix=rt/\n";
        let all = ["rt/cmdline.txt", "rt/kernel8.img", "rt/a.dtb"];
        assert_eq!(of(prefix, &all), "/boot/rt/cmdline.txt");
        for lacking in [&all[..1], &all[..2], &["rt/cmdline.txt", "rt/a.dtb"]] {
            let why = of(prefix, lacking);
            assert!(why.starts_with("os_prefix=rt/ does not lead"), "{why}");
        }
        let named = ["rt/cmdline.txt", "rt/vmlinuz", "rt/a.dtb"];
        assert!(of(prefix, &named).starts_with("os_prefix=rt/"));
        for filter in ["", "[pi4]\n"] {
            let config = format!("{prefix}{filter}kernel=vmlinuz\n");
            assert_eq!(of(&config, &named), "/boot/rt/cmdline.txt", "{filter}");
        }
        for other in ["rt/kernel8.txt", "rt/xkernel8.img"] {
            let why = of(prefix, &["rt/cmdline.txt", other, "rt/a.dtb"]);
            assert!(why.starts_with("os_prefix=rt/"), "{other}: {why}");
        }
        // A prefix need not be a folder.
        let flat = ["rt-cmdline.txt", "rt-kernel.img", "rt-a.dtb"];
        assert_eq!(of("os_prefix=rt-\n", &flat), "/boot/rt-cmdline.txt");
        let gone = ["rt/kernel8.img", "rt/a.dtb"];
        assert_eq!(
            of(prefix, &gone),
            "it names rt/cmdline.txt, which does not exist"
        );
        assert!(of("cmdline=/etc/passwd\n", &[]).starts_with("it names /etc"));
    }
}
