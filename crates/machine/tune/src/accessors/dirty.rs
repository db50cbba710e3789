//! Limit on dirty memory (written by programs but not yet stored on disk), as a percentage or in
//! bytes. The kernel has a file for each of the two and sets the other one to 0
//! (`mm/page-writeback.c`). The kernel does not accept 0 in the file for bytes, so the two files
//! are treated as one setting.

use punctual_model::path_of;

use crate::TuneError;
use crate::access::{Access, Ask, invalid, may_write, read, write};
use crate::target::Target;

pub(crate) struct Dirty {
    ratio: &'static str,
    bytes: &'static str,
    /// The kernel's lower limit in bytes.
    least_bytes: u64,
}

pub(crate) const DIRTY: Dirty = Dirty {
    ratio: path_of("dirty-limit"),
    bytes: "/proc/sys/vm/dirty_bytes",
    // Two pages.
    least_bytes: 8_192,
};

pub(crate) const DIRTY_BACKGROUND: Dirty = Dirty {
    ratio: path_of("dirty-background-limit"),
    bytes: "/proc/sys/vm/dirty_background_bytes",
    least_bytes: 1,
};

impl Access for Dirty {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let there = target.files.exists(&target.below(self.ratio));
        Ok(there.then(String::new).into_iter().collect())
    }

    fn read(&self, target: &Target<'_>, _: &str) -> Result<String, TuneError> {
        match read(target, self.bytes)?.as_str() {
            "0" => Ok(format!("{}%", read(target, self.ratio)?)),
            bytes => Ok(bytes.to_owned()),
        }
    }

    fn write(&self, target: &Target<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        match value.strip_suffix('%') {
            Some(ratio) => write(target, self.ratio, ratio),
            None => write(target, self.bytes, value),
        }
    }

    fn may_write(&self, target: &Target<'_>, _: &str) -> Result<(), TuneError> {
        may_write(target, self.ratio).and_then(|()| may_write(target, self.bytes))
    }

    fn holds(&self, _: &str, value: &str) -> bool {
        value
            .strip_suffix('%')
            .unwrap_or(value)
            .parse::<u64>()
            .is_ok()
    }

    fn readable(&self, value: &str) -> String {
        if value.ends_with('%') {
            value.to_owned()
        } else {
            format!("{value} B")
        }
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask { setting, asked, .. } = ask;
        let good = match asked.strip_suffix('%') {
            Some(ratio) => ratio.parse().is_ok_and(|ratio: u64| ratio <= 100),
            None => asked
                .parse()
                .is_ok_and(|bytes: u64| bytes >= self.least_bytes),
        };
        if good {
            Ok(Some(asked.trim_start_matches('+').to_owned()))
        } else {
            Err(invalid(setting, "", asked))
        }
    }
}
