//! How much written data may wait: per cent of memory or bytes. The kernel has
//! a file for each and sets the other to 0 (`mm/page-writeback.c`); 0 cannot be
//! written to the one of bytes. So they are one setting.

use super::{Special, invalid, may_write, read, write};
use crate::knob::Context;
use crate::site::Site;
use crate::{Knob, TuneError};

pub(crate) struct Dirty {
    ratio: &'static str,
    bytes: &'static str,
    /// The kernel's own lower limit, in bytes.
    least_bytes: u64,
}

pub(crate) const DIRTY: Dirty = Dirty {
    ratio: "/proc/sys/vm/dirty_ratio",
    bytes: "/proc/sys/vm/dirty_bytes",
    // Two pages.
    least_bytes: 8_192,
};

pub(crate) const DIRTY_BACKGROUND: Dirty = Dirty {
    ratio: "/proc/sys/vm/dirty_background_ratio",
    bytes: "/proc/sys/vm/dirty_background_bytes",
    least_bytes: 1,
};

impl Special for Dirty {
    fn path(&self) -> &'static str {
        self.ratio
    }

    fn instances(&self, site: &Site<'_>) -> Result<Vec<String>, TuneError> {
        let there = site.files.exists(&site.below(self.ratio));
        Ok(there.then(String::new).into_iter().collect())
    }

    fn read(&self, site: &Site<'_>, _: &str) -> Result<String, TuneError> {
        match read(site, self.bytes)?.as_str() {
            "0" => Ok(format!("{}%", read(site, self.ratio)?)),
            bytes => Ok(bytes.to_owned()),
        }
    }

    fn write(&self, site: &Site<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        match value.strip_suffix('%') {
            Some(ratio) => write(site, self.ratio, ratio),
            None => write(site, self.bytes, value),
        }
    }

    fn may_write(&self, site: &Site<'_>, _: &str) -> Result<(), TuneError> {
        may_write(site, self.ratio).and_then(|()| may_write(site, self.bytes))
    }

    fn holds(&self, _: &str, value: &str) -> bool {
        value
            .strip_suffix('%')
            .unwrap_or(value)
            .parse::<u64>()
            .is_ok()
    }

    fn readable(&self, value: &str) -> String {
        match value.ends_with('%') {
            true => value.to_owned(),
            false => format!("{value} B"),
        }
    }

    fn resolve(
        &self,
        knob: &Knob,
        _: &Site<'_>,
        _: &str,
        asked: &str,
        _: &Context,
    ) -> Result<Option<String>, TuneError> {
        let good = match asked.strip_suffix('%') {
            Some(ratio) => ratio.parse().is_ok_and(|ratio: u64| ratio <= 100),
            None => asked
                .parse()
                .is_ok_and(|bytes: u64| bytes >= self.least_bytes),
        };
        match good {
            true => Ok(Some(asked.trim_start_matches('+').to_owned())),
            false => Err(invalid(knob, "", asked)),
        }
    }
}
