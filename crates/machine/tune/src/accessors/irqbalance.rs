//! The CPUs that irqbalance must not use. They are set by a line of its configuration, which
//! irqbalance reads when it starts. The file is on disk, so a reboot does not undo the change.

use punctual_model::CpuSet;

use crate::TuneError;
use crate::access::{Access, Ask, may_write};
use crate::target::Target;

/// Configuration files: the first of Debian and its derivatives, the second of RHEL and its
/// derivatives.
const FILES: [&str; 2] = ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"];
const NAME: &str = "IRQBALANCE_BANNED_CPULIST=";
/// The value if the line is missing.
const NONE: &str = "none";

pub(crate) struct IrqbalanceBan;

fn file(target: &Target<'_>) -> &'static str {
    let there = |file: &&&str| target.files.exists(&target.below(file));
    FILES.iter().find(there).copied().unwrap_or(FILES[0])
}

fn whole(target: &Target<'_>) -> Result<String, TuneError> {
    let path = target.below(file(target));
    let text = target.files.read(&path);
    text.map_err(|source| TuneError::Read { path, source })
}

/// Returns the text with this value. The value [`NONE`] removes the line, so that adding the line
/// and removing it again restores the text exactly.
fn with_value(text: &str, value: &str) -> String {
    // A shell reads the file, so the last such line is effective.
    let mut found = None;
    let mut place = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with(NAME) {
            found = Some((place, line));
        }
        place += line.len();
    }
    let line = format!("{NAME}{value}");
    match (found, value) {
        (None, NONE) => text.to_owned(),
        (None, _) if text.is_empty() || text.ends_with('\n') => format!("{text}{line}\n"),
        // A file without a trailing newline is left without one.
        (None, _) => format!("{text}\n{line}"),
        (Some((place, old)), _) => {
            let (before, after) = (&text[..place], &text[place + old.len()..]);
            match (value, old.ends_with('\n')) {
                (NONE, true) => format!("{before}{after}"),
                (NONE, false) => before.strip_suffix('\n').unwrap_or(before).to_owned(),
                (_, true) => format!("{before}{line}\n{after}"),
                (_, false) => format!("{before}{line}"),
            }
        }
    }
}

fn value_in(text: &str) -> String {
    let line = text.lines().rfind(|line| line.starts_with(NAME));
    let value = line.map(|line| line[NAME.len()..].to_owned());
    value.unwrap_or_else(|| NONE.to_owned())
}

fn cpus(value: &str) -> Option<CpuSet> {
    value.trim_matches(['"', '\'']).parse().ok()
}

impl Access for IrqbalanceBan {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let there = target.files.exists(&target.below(file(target)));
        Ok(there.then(String::new).into_iter().collect())
    }

    fn read(&self, target: &Target<'_>, _: &str) -> Result<String, TuneError> {
        Ok(value_in(&whole(target)?))
    }

    fn write(&self, target: &Target<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        let text = with_value(&whole(target)?, value);
        let path = target.below(file(target));
        let replaced = target.files.replace(&path, &text);
        replaced.map_err(|source| target.not_written(path, source))
    }

    fn may_write(&self, target: &Target<'_>, _: &str) -> Result<(), TuneError> {
        may_write(target, file(target))
    }

    /// A shell reads the file, so accept only a CPU list, quoted or not.
    fn holds(&self, _: &str, value: &str) -> bool {
        let plain = |text: &str| {
            text.bytes()
                .all(|b| b.is_ascii_digit() || b",-".contains(&b))
        };
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            let inner = value.strip_prefix(quote)?;
            inner.strip_suffix(quote)
        });
        value == NONE || plain(quoted.unwrap_or(value))
    }

    fn same(&self, found: &str, wanted: &str) -> bool {
        found == wanted || (cpus(found).is_some() && cpus(found) == cpus(wanted))
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            asked,
            context,
            ..
        } = ask;
        match asked {
            NONE => Ok(Some(NONE.to_owned())),
            _ => Ok(Some(context.cpus(setting.name, asked)?.to_string())),
        }
    }

    fn remark(&self, target: &Target<'_>, _: &str, _: &str) -> Option<String> {
        let pid = target.running("irqbalance")?;
        Some(format!(
            "irqbalance (process {pid}) read {} when it started: to apply the new value, run \
             `systemctl restart irqbalance`",
            file(target)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn line_is_added_changed_and_removed() {
        let old = "# the ones\n#IRQBALANCE_BANNED_CPULIST=\nX=1\n";
        let new = with_value(old, "2-3");
        assert_eq!(new, format!("{old}IRQBALANCE_BANNED_CPULIST=2-3\n"));
        assert_eq!(value_in(&new), "2-3");
        assert_eq!(with_value(&new, NONE), old);
        let quoted = "IRQBALANCE_BANNED_CPULIST=\"1\"\nX=1\n";
        assert_eq!(value_in(quoted), "\"1\"");
        assert_eq!(with_value(&with_value(quoted, "2"), "\"1\""), quoted);
        assert!(IrqbalanceBan.same("\"1-2\"", "1,2"));
    }

    proptest! {
        #[test]
        fn any_file_is_restored_byte_exact(
            lines in prop::collection::vec("(#|X=1|#?IRQBALANCE_BANNED_CPULIST=[\"0-9,]{0,5}|)", 0..6),
            ends in any::<bool>(),
            value in "[0-9]{1,3}",
        ) {
            let mut text = lines.join("\n");
            if ends {
                text.push('\n');
            }
            let old = value_in(&text);
            let new = with_value(&text, &value);
            prop_assert_eq!(value_in(&new), value);
            prop_assert_eq!(with_value(&new, &old), text);
        }
    }
}
