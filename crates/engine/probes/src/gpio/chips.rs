//! The GPIO chips of the machine, and the line that a name means.

use std::path::{Path, PathBuf};

use punctual_rt::{Error, GpioChip, GpioLineInfo};

/// Folder of the chips.
const FOLDER: &str = "/dev";

/// Start of the name of each chip.
const START: &str = "gpiochip";

/// Number of line names of a chip that a message lists.
const NAMES_LISTED: usize = 12;

/// What is known about the chips.
#[derive(Debug, Default)]
pub(super) struct Chips {
    pub(super) chips: Vec<Chip>,
    /// Messages about chips that could not be read.
    pub(super) unread: Vec<String>,
}

/// A chip.
#[derive(Clone, Debug)]
pub(super) struct Chip {
    /// The kernel's name, such as `gpiochip0`.
    pub(super) name: String,
    /// The name that its driver states.
    pub(super) label: String,
    /// Its lines, in the order of their offsets.
    pub(super) lines: Vec<GpioLineInfo>,
}

/// A line of a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) chip: String,
    pub(super) offset: u32,
    /// Its name, which can be empty.
    pub(super) name: String,
}

impl Line {
    /// Returns the file of its chip.
    pub(super) fn path(&self) -> PathBuf {
        Path::new(FOLDER).join(&self.chip)
    }

    /// Returns a text that identifies the line: `gpiochip0:17 (GPIO17)`.
    pub(super) fn title(&self) -> String {
        let Self { chip, offset, name } = self;
        if name.is_empty() {
            return format!("{chip}:{offset}");
        }
        format!("{chip}:{offset} ({name})")
    }
}

impl Chips {
    /// Reads the chips of this machine.
    pub(super) fn of_this_machine() -> Self {
        Self::in_folder(Path::new(FOLDER))
    }

    fn in_folder(folder: &Path) -> Self {
        let mut found = Self::default();
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                found.unread.push(format!("{}: {error}", folder.display()));
                return found;
            }
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<(u64, String)> = names
            .filter_map(|name| {
                let name = name.to_str()?;
                let number = name.strip_prefix(START)?.parse().ok()?;
                Some((number, name.to_owned()))
            })
            .collect();
        names.sort();
        for (_, name) in names {
            match read(&folder.join(&name), name) {
                Ok(chip) => found.chips.push(chip),
                Err(error) => found.unread.push(error.to_string()),
            }
        }
        found
    }

    /// Returns the line that a text means: `CHIP:OFFSET`, or the name of a line.
    ///
    /// # Errors
    /// Returns the reason if there is no such line, or if several have this name.
    pub(super) fn line(&self, text: &str) -> Result<Line, String> {
        if self.chips.is_empty() {
            return Err(self.none());
        }
        let named = self.chips.iter().flat_map(|chip| {
            let lines = (0..).zip(&chip.lines);
            let lines = lines.filter(|(_, line)| !line.name.is_empty() && line.name == text);
            lines.map(|(offset, _)| chip.line(offset))
        });
        let mut named: Vec<Line> = named.collect();
        match (named.pop(), named.is_empty()) {
            (Some(line), true) => return Ok(line),
            (Some(line), false) => {
                named.push(line);
                let places = named
                    .iter()
                    .map(|line| format!("{}:{}", line.chip, line.offset));
                let places: Vec<_> = places.collect();
                return Err(format!(
                    "several lines have this name: use one of {}",
                    places.join(", ")
                ));
            }
            (None, _) => {}
        }
        let Some((chip, offset)) = text.rsplit_once(':') else {
            return Err(format!("no GPIO line is named '{text}': {}", self.list()));
        };
        let chip = chip.strip_prefix("/dev/").unwrap_or(chip);
        let Some(chip) = self.chips.iter().find(|one| one.name == chip) else {
            return Err(format!("there is no GPIO chip '{chip}': {}", self.list()));
        };
        let count = chip.lines.len();
        let offset: Option<u32> = offset.parse().ok();
        match offset.filter(|offset| (*offset as usize) < count) {
            Some(offset) => Ok(chip.line(offset)),
            None => Err(format!(
                "{} has no such line: its {count} lines have the numbers 0 to {}",
                chip.name,
                count.saturating_sub(1)
            )),
        }
    }

    /// Returns the reason why no chip was found.
    fn none(&self) -> String {
        if self.unread.is_empty() {
            return "this machine has no GPIO chip: there is no /dev/gpiochip* (the kernel has no \
                    driver for one, or the container does not show it)"
                .to_owned();
        }
        self.unread.join("; ")
    }

    /// Returns a sentence that lists the chips and the names of their lines.
    pub(super) fn list(&self) -> String {
        if self.chips.is_empty() {
            return self.none();
        }
        let chips: Vec<String> = self.chips.iter().map(Chip::describe).collect();
        let mut text = format!("this machine has {}", chips.join("; "));
        for unread in &self.unread {
            text += "; ";
            text += unread;
        }
        text
    }
}

impl Chip {
    fn line(&self, offset: u32) -> Line {
        let line = self.lines.get(offset as usize);
        Line {
            chip: self.name.clone(),
            offset,
            name: line.map(|line| line.name.clone()).unwrap_or_default(),
        }
    }

    fn describe(&self) -> String {
        let named = self.lines.iter().filter(|line| !line.name.is_empty());
        let names: Vec<&str> = named.map(|line| line.name.as_str()).collect();
        let list = match names.as_slice() {
            [] => "none has a name".to_owned(),
            names => punctual_model::listed(names, NAMES_LISTED),
        };
        let count = self.lines.len();
        format!("{} ({}, {count} lines: {list})", self.name, self.label)
    }
}

fn read(path: &Path, name: String) -> Result<Chip, Error> {
    let chip = GpioChip::open(path)?;
    let lines = (0..chip.info().lines).map(|offset| chip.line(offset));
    Ok(Chip {
        name,
        label: chip.info().label.clone(),
        lines: lines.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
impl Chips {
    /// Chips with lines of these names.
    pub(super) fn simulated(chips: &[(&str, &[&str])]) -> Self {
        let line = |name: &&str| GpioLineInfo {
            name: (*name).to_owned(),
            ..GpioLineInfo::default()
        };
        let chips = chips.iter().map(|(name, lines)| Chip {
            name: (*name).to_owned(),
            label: "pinctrl".to_owned(),
            lines: lines.iter().map(line).collect(),
        });
        Self {
            chips: chips.collect(),
            unread: Vec::new(),
        }
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    fn board() -> Chips {
        Chips::simulated(&[
            ("gpiochip0", &["", "GPIO17", "nWP", "a:1"]),
            ("gpiochip1", &["nWP", "GPIO18"]),
            ("gpiochip10", &["", ""]),
        ])
    }

    fn refusal(text: &str) -> String {
        board().line(text).unwrap_err()
    }

    #[test]
    fn lines_are_found_by_place_and_by_name() {
        for (text, title) in [
            ("gpiochip0:0", "gpiochip0:0"),
            ("gpiochip0:1", "gpiochip0:1 (GPIO17)"),
            ("/dev/gpiochip10:1", "gpiochip10:1"),
            ("GPIO17", "gpiochip0:1 (GPIO17)"),
            ("GPIO18", "gpiochip1:1 (GPIO18)"),
            // A name can contain a colon.
            ("a:1", "gpiochip0:3 (a:1)"),
        ] {
            let line = board().line(text).unwrap();
            assert_eq!(line.title(), title);
        }
        let path = board().line("GPIO18").unwrap().path();
        assert_eq!(path, Path::new("/dev/gpiochip1"));
    }

    #[test]
    fn other_texts_are_refused_with_what_there_is() {
        assert_eq!(
            refusal("nWP"),
            "several lines have this name: use one of gpiochip0:2, gpiochip1:0"
        );
        assert_eq!(
            refusal("GPIO19"),
            "no GPIO line is named 'GPIO19': this machine has gpiochip0 (pinctrl, 4 lines: GPIO17, \
             nWP, a:1); gpiochip1 (pinctrl, 2 lines: nWP, GPIO18); gpiochip10 (pinctrl, 2 lines: \
             none has a name)"
        );
        let unknown = refusal("gpiochip7:1");
        assert!(
            unknown.starts_with("there is no GPIO chip 'gpiochip7': this machine has"),
            "{unknown}"
        );
        for text in [
            "gpiochip1:2",
            "gpiochip1:-1",
            "gpiochip1:x",
            "gpiochip1:",
            "gpiochip1:4294967296",
        ] {
            assert_eq!(
                refusal(text),
                "gpiochip1 has no such line: its 2 lines have the numbers 0 to 1",
                "{text}"
            );
        }
        for text in [":", "", ":0", "gpiochip", "\u{fc}"] {
            refusal(text);
        }
    }

    #[test]
    fn long_lists_are_cut_off() {
        let names: Vec<String> = (0..54).map(|number| format!("GPIO{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut chips = Chips::simulated(&[("gpiochip0", &names)]);
        chips.unread = vec!["/dev/gpiochip1 may not be opened".to_owned()];
        let list = chips.list();
        assert!(list.contains("GPIO11 and 42 more"), "{list}");
        assert!(
            list.ends_with("; /dev/gpiochip1 may not be opened"),
            "{list}"
        );
    }

    #[test]
    fn the_reason_for_no_chip_is_named() {
        let none = Chips::default().line("GPIO17").unwrap_err();
        assert!(none.starts_with("this machine has no GPIO chip"), "{none}");
        let refused = Chips {
            unread: vec!["/dev/gpiochip0 may not be opened".to_owned()],
            ..Chips::default()
        };
        let refused = refused.line("GPIO17").unwrap_err();
        assert_eq!(refused, "/dev/gpiochip0 may not be opened");
        let absent = Chips::in_folder(Path::new("/no/such/folder"));
        assert!(absent.none().starts_with("/no/such/folder: "), "{absent:?}");
    }
}
