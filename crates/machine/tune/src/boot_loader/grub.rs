//! GRUB 2: entries in `custom.cfg`, which the generated configuration includes, and the entry for
//! one boot, which is chosen in the environment block (GRUB manual, "Environment block",
//! `grub-reboot`).

use std::path::PathBuf;

use punctual_host::Host;
use punctual_model::WrittenFile;

use super::{BootEntry, BootError, below, file, text, words};
use crate::boot_files::{GRUB, GrubFolder};

/// The first line of an environment block, which has a fixed size.
const HEADER: &str = "# GRUB Environment Block\n";
const SIZE: usize = 1_024;

/// The variable that names the entry for one boot.
const NEXT: &str = "next_entry";

/// The reason why GRUB cannot boot an entry once.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoGrub {
    #[error("no {}", GRUB.each_ref().map(|grub| grub.config).join(" and no "))]
    NoConfiguration,
    #[error("no {0}")]
    NoFile(String),
    #[error(transparent)]
    Unreadable(#[from] BootError),
    #[error("{folder}/grub.cfg does not read custom.cfg")]
    NoCustomEntries { folder: &'static str },
    #[error("{folder}/grub.cfg cannot select an entry for a single boot")]
    NoChoice { folder: &'static str },
    #[error("{folder}/grubenv is not an environment block")]
    NoBlock { folder: &'static str },
    #[error("{folder}/grub.cfg has no entry for the running kernel")]
    NoEntry { folder: &'static str },
}

/// A problem with GRUB's environment block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadBlock {
    /// The file is not an environment block.
    #[error("is not an environment block")]
    NotABlock,
    /// The variables leave no room for another one.
    #[error("has no room for {NEXT}")]
    Full,
    /// The block existed when GRUB was detected but no longer does.
    #[error("no longer exists")]
    Gone,
}

/// The GRUB 2 installation that booted the running kernel.
#[derive(Clone, Debug)]
pub struct Grub {
    folder: &'static str,
    /// The lines of the running kernel's entry, from `menuentry` to the closing brace.
    entry: Vec<String>,
}

impl Grub {
    pub(super) fn detect(host: &Host) -> Result<Self, NoGrub> {
        let readable =
            |path: &str| text(&below(host, path))?.ok_or_else(|| NoGrub::NoFile(path.to_owned()));
        let found = (GRUB.iter()).find(|grub| below(host, grub.config).exists());
        let GrubFolder { folder, config } = found.ok_or(NoGrub::NoConfiguration)?;
        let config = readable(config)?;
        if !config.contains("custom.cfg") {
            return Err(NoGrub::NoCustomEntries { folder });
        }
        if !config.contains(NEXT) {
            return Err(NoGrub::NoChoice { folder });
        }
        environment(&readable(&format!("{folder}/grubenv"))?).ok_or(NoGrub::NoBlock { folder })?;
        let line = readable("/proc/cmdline")?;
        let entry = running(&config, &line).ok_or(NoGrub::NoEntry { folder })?;
        Ok(Self { folder, entry })
    }

    pub(super) fn entries(
        &self,
        host: &Host,
        entries: &[BootEntry],
    ) -> Result<Vec<WrittenFile>, BootError> {
        let made: String = entries.iter().map(|entry| self.entry_of(entry)).collect();
        let custom = file(host, &format!("{}/custom.cfg", self.folder), |before| {
            let before = before.unwrap_or_default();
            let gap = if before.is_empty() || before.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            format!("{before}{gap}{made}")
        })?;
        Ok(vec![custom])
    }

    /// Returns a copy of the running kernel's entry, with the name and words of this entry.
    fn entry_of(&self, entry: &BootEntry) -> String {
        let open = if self.entry[0].contains("--unrestricted") {
            " --unrestricted"
        } else {
            ""
        };
        let mut made = format!(
            "menuentry 'punctual: {}' --id {}{open} {{\n",
            entry.title, entry.id
        );
        for line in &self.entry[1..] {
            match kernel_of(line) {
                Some((command, image, rest)) => {
                    let rest = words::with_words(rest, &entry.words);
                    made.push_str(&format!("\t{command} {image} {rest}\n"));
                }
                None => made.push_str(&format!("{line}\n")),
            }
        }
        made
    }

    pub(super) fn choose(&self, host: &Host, id: Option<&str>) -> Result<(), BootError> {
        let path = self.block(host);
        let block = self.read(&path)?;
        let mut variables = environment(&block).ok_or_else(|| BootError::Unexpected {
            path: path.clone(),
            why: BadBlock::NotABlock,
        })?;
        variables.retain(|(name, _)| name != NEXT);
        // The variable stays in the block with an empty value, just as GRUB itself leaves it after
        // the boot.
        variables.push((NEXT.to_owned(), id.unwrap_or_default().to_owned()));
        let lines = variables.iter().map(|(name, value)| {
            let value = value.replace('\\', "\\\\").replace('\n', "\\\n");
            format!("{name}={value}\n")
        });
        let mut made = HEADER.to_owned() + &lines.collect::<String>();
        if made.len() > SIZE {
            return Err(BootError::Unexpected {
                path,
                why: BadBlock::Full,
            });
        }
        made.extend(std::iter::repeat_n('#', SIZE - made.len()));
        Ok(punctual_files::Output::open(&path)?.put(made.as_bytes())?)
    }

    pub(super) fn forget(&self, host: &Host, prefix: &str) -> Result<bool, BootError> {
        let block = self.read(&self.block(host))?;
        let variables = environment(&block).unwrap_or_default();
        let ours = (variables.iter()).any(|(name, id)| name == NEXT && id.starts_with(prefix));
        if ours {
            self.choose(host, None)?;
        }
        Ok(ours)
    }

    fn block(&self, host: &Host) -> PathBuf {
        below(host, &format!("{}/grubenv", self.folder))
    }

    fn read(&self, path: &std::path::Path) -> Result<String, BootError> {
        text(path)?.ok_or_else(|| BootError::Unexpected {
            path: path.to_owned(),
            why: BadBlock::Gone,
        })
    }
}

/// Parses the variables of an environment block. Returns `None` if the bytes are not an environment
/// block.
fn environment(block: &str) -> Option<Vec<(String, String)>> {
    let body = block.strip_prefix(HEADER)?;
    if block.len() != SIZE {
        return None;
    }
    let mut variables = Vec::new();
    // A backslash escapes a newline or another backslash.
    let mut lines = body.split('\n');
    while let Some(line) = lines.next() {
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        let mut line = line.to_owned();
        while line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
            line.pop();
            line.push('\n');
            line.push_str(lines.next()?);
        }
        let (name, value) = line.split_once('=')?;
        variables.push((name.to_owned(), value.replace("\\\\", "\\")));
    }
    Some(variables)
}

/// Splits a line that loads a kernel into command, image and words.
fn kernel_of(line: &str) -> Option<(&str, &str, &str)> {
    let (command, rest) = line.trim_start().split_once(char::is_whitespace)?;
    let (image, rest) = rest.trim_start().split_once(char::is_whitespace)?;
    matches!(command, "linux" | "linux16" | "linuxefi").then_some((command, image, rest))
}

/// Returns the lines of the entry that booted the running kernel. Among the entries with the
/// kernel's image, this is the one that shares the most words with the command line.
fn running(config: &str, line: &str) -> Option<Vec<String>> {
    let here: Vec<&str> = line.split_whitespace().collect();
    let image = here
        .iter()
        .find_map(|word| word.strip_prefix("BOOT_IMAGE="))?;
    // In BOOT_IMAGE, a disk such as `(hd0,gpt2)` can precede the path. The configuration does not
    // contain the disk.
    let image = image.rsplit(')').next().unwrap_or(image);
    let mut best: Option<(usize, Vec<String>)> = None;
    let mut entry: Option<Vec<String>> = None;
    for line in config.lines() {
        if line.trim_start().starts_with("menuentry ") {
            entry = Some(Vec::new());
        }
        let Some(lines) = &mut entry else { continue };
        lines.push(line.to_owned());
        if line.trim() != "}" {
            continue;
        }
        let lines = entry.take().unwrap_or_default();
        let words = (lines.iter().filter_map(|line| kernel_of(line)))
            .find(|(_, of, _)| *of == image)
            .map(|(_, _, words)| words);
        if let Some(words) = words {
            let other = |word: &&str| !here.contains(word) && !word.starts_with('$');
            let others = words.split_whitespace().filter(other).count();
            if best.as_ref().is_none_or(|(least, _)| others < *least) {
                best = Some((others, lines));
            }
        }
    }
    best.map(|(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grub_lacks_is_named() {
        let folder = "/boot/grub";
        for (why, text) in [
            (
                NoGrub::NoConfiguration,
                "no /boot/grub2/grub.cfg and no /boot/grub/grub.cfg",
            ),
            (NoGrub::NoFile("/x".to_owned()), "no /x"),
            (
                NoGrub::Unreadable(BootError::Changed { path: "/x".into() }),
                "/x was changed by another program: remove punctual's part by hand",
            ),
            (
                NoGrub::NoCustomEntries { folder },
                "/boot/grub/grub.cfg does not read custom.cfg",
            ),
            (
                NoGrub::NoChoice { folder },
                "/boot/grub/grub.cfg cannot select an entry for a single boot",
            ),
            (
                NoGrub::NoBlock { folder },
                "/boot/grub/grubenv is not an environment block",
            ),
            (
                NoGrub::NoEntry { folder },
                "/boot/grub/grub.cfg has no entry for the running kernel",
            ),
        ] {
            assert_eq!(why.to_string(), text);
        }
    }

    fn block(lines: &str) -> String {
        let mut block = format!("{HEADER}{lines}");
        block.extend(std::iter::repeat_n('#', SIZE - block.len()));
        block
    }

    #[test]
    fn environment_blocks_are_parsed_as_grub_writes_them() {
        let parsed = |lines: &str| environment(&block(lines));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(parsed(""), Some(Vec::new()));
        assert_eq!(
            parsed("a=1\n# comment\n\nb=x=y\nc=\n"),
            Some(vec![pair("a", "1"), pair("b", "x=y"), pair("c", "")])
        );
        // A backslash escapes a newline or another backslash.
        assert_eq!(
            parsed("a=1\\\n2\nb=\\\\\nc=3\n"),
            Some(vec![pair("a", "1\n2"), pair("b", "\\"), pair("c", "3")])
        );
        for wrong in [
            "".to_owned(),
            HEADER.to_owned(),
            block("").replace("GRUB", "grub"),
            block("") + "#",
            block("")[..SIZE - 1].to_owned(),
            block("no value\n"),
        ] {
            assert_eq!(environment(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn choice_is_written_as_long_as_the_block_has_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("boot/grub/grubenv");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let host = Host::new(folder.path());
        let grub = Grub {
            folder: "/boot/grub",
            entry: Vec::new(),
        };
        let needed = HEADER.len() + "a=\n".len() + "next_entry=id\n".len();
        for (length, fits) in [(0, true), (SIZE - needed, true), (SIZE - needed + 1, false)] {
            let lines = format!(
                "a={}\n",
                "\\\\".repeat(length % 2) + &"x".repeat(length - length % 2 * 2)
            );
            let before = block(&lines);
            std::fs::write(&path, &before).unwrap();
            let chosen = grub.choose(&host, Some("id"));
            let after = std::fs::read_to_string(&path).unwrap();
            if fits {
                chosen.unwrap();
                assert_eq!(after.len(), SIZE);
                let variables = environment(&after).unwrap();
                assert_eq!(variables[0], environment(&before).unwrap()[0]);
                assert_eq!(variables[1], (NEXT.to_owned(), "id".to_owned()));
                // Choosing again replaces the choice, and withdrawing it leaves an empty variable.
                grub.choose(&host, Some("i2")).unwrap();
                assert!(!grub.forget(&host, "id").unwrap());
                assert!(grub.forget(&host, "i2").unwrap());
                let after = std::fs::read_to_string(&path).unwrap();
                let next = &environment(&after).unwrap()[1..];
                assert_eq!(next, [(NEXT.to_owned(), String::new())]);
            } else {
                assert_eq!(after, before, "nothing is written");
                let error = chosen.unwrap_err();
                assert!(error.to_string().contains("has no room"), "{error}");
            }
        }
        std::fs::write(&path, "short").unwrap();
        let error = grub.choose(&host, None).unwrap_err();
        assert!(error.to_string().contains("not an environment"), "{error}");
        std::fs::remove_file(&path).unwrap();
        let error = grub.choose(&host, None).unwrap_err();
        assert!(error.to_string().contains("no longer exists"), "{error}");
    }

    #[test]
    fn commands_that_load_a_kernel_are_known() {
        for command in ["linux", "linux16", "linuxefi"] {
            let line = format!("\t{command}\t /vmlinuz  root=/dev/a ro");
            assert_eq!(
                kernel_of(&line),
                Some((command, "/vmlinuz", " root=/dev/a ro"))
            );
        }
        for other in ["initrd /a b", "linux", "linux /vmlinuz", "", "linuxx /a b"] {
            assert_eq!(kernel_of(other), None, "{other}");
        }
    }

    /// Several entries can load the running kernel, for example one for recovery.
    #[test]
    fn running_entry_has_the_fewest_other_words() {
        let entry = |name: &str, words: &str| {
            format!("  menuentry '{name}' {{\n\tlinux /vmlinuz-6 {words}\n\tinitrd /i\n  }}\n")
        };
        let older = "menuentry 'older' {\n\tlinux /vmlinuz-5 root=1 ro quiet\n}\n";
        let line = "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6 root=1 ro quiet";
        let recovery = entry("recovery", "root=1 ro single nomodeset");
        let usual = entry("usual", "root=1 ro quiet $vt_handoff");
        let copy = entry("copy", "root=1 ro quiet");
        let first = |config: &str, line: &str| {
            let lines = running(config, line)?;
            Some((lines.len(), lines[0].trim().to_owned()))
        };
        let named = |name: &str| Some((4, format!("menuentry '{name}' {{")));
        for order in [
            [older, &recovery, &usual],
            [&usual, older, &recovery],
            [&recovery, &usual, older],
        ] {
            let config = format!("set a=b\n}}\n{}fi\n", order.concat());
            assert_eq!(first(&config, line), named("usual"), "{config}");
        }
        // Of two equal entries, the first one is taken.
        assert_eq!(first(&(usual.clone() + &copy), line), named("usual"));
        assert_eq!(first(&(copy + &usual), line), named("copy"));
        assert_eq!(first(older, line), None);
        assert_eq!(first(&usual, "root=1 ro quiet"), None);
    }

    #[test]
    fn block_error_is_named() {
        for (why, text) in [
            (BadBlock::NotABlock, "/x: is not an environment block"),
            (BadBlock::Full, "/x: has no room for next_entry"),
            (BadBlock::Gone, "/x: no longer exists"),
        ] {
            let path = "/x".into();
            assert_eq!(BootError::Unexpected { path, why }.to_string(), text);
        }
    }
}
