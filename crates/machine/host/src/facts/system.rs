//! Facts about distribution, clock and memory.

use punctual_model::{ClockFacts, DistributionFacts, Fact, MemoryFacts};

use crate::Unread;
use crate::root::{Root, number};
use crate::unread::{NoValue, Unparsed};

/// Paths of os-release(5). The second file is read only if the first does not exist.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
const MEMINFO: &str = "/proc/meminfo";
const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";

/// Returns the path that is used, and the text of that file or the reason why there is none.
fn os_release(root: &Root) -> (&'static str, Result<String, Unread>) {
    match (root.text(OS_RELEASE[0]), root.text(OS_RELEASE[1])) {
        (Err(_), Ok(text)) => (OS_RELEASE[1], Ok(text)),
        (first, _) => (OS_RELEASE[0], first),
    }
}

/// Returns the distributions that this distribution is derived from, nearest first.
pub(crate) fn distribution_like(root: &Root) -> Vec<String> {
    let text = os_release(root).1.unwrap_or_default();
    let like = os_release_value(&text, "ID_LIKE").unwrap_or_default();
    like.split_whitespace().map(str::to_owned).collect()
}

pub(super) fn distribution(root: &Root) -> DistributionFacts {
    let (file, text) = os_release(root);
    let fact = |key: &str| match &text {
        Ok(text) => match os_release_value(text, key) {
            Some(value) => Fact::known(value, file),
            None => Fact::unknown(file, Unparsed::NoLine(format!("{key}=")).to_string()),
        },
        Err(reason) => Fact::unknown(file, reason.to_string()),
    };
    DistributionFacts {
        name: fact("PRETTY_NAME"),
        id: fact("ID"),
        version: fact("VERSION_ID"),
    }
}

/// Parses the value of `key` as a shell would: quoted or not, with backslashes. The last line with
/// that key counts.
fn os_release_value(text: &str, key: &str) -> Option<String> {
    let raw = text
        .lines()
        .rev()
        .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))?
        .trim();
    let value = match raw
        .strip_prefix('\'')
        .and_then(|raw| raw.strip_suffix('\''))
    {
        Some(literal) => literal.to_owned(),
        None => {
            let inner = raw.strip_prefix('"').unwrap_or(raw);
            let inner = if raw.starts_with('"') {
                inner.strip_suffix('"').unwrap_or(inner)
            } else {
                inner
            };
            let mut value = String::new();
            let mut chars = inner.chars();
            while let Some(c) = chars.next() {
                value.extend(match c {
                    '\\' => chars.next(),
                    c => Some(c),
                });
            }
            value
        }
    };
    (!value.is_empty()).then_some(value)
}

pub(super) fn clock(root: &Root) -> ClockFacts {
    ClockFacts {
        source: root.word(&format!("{CLOCK}/current_clocksource")),
        available: root
            .word(&format!("{CLOCK}/available_clocksource"))
            .map(|names| names.split_whitespace().map(str::to_owned).collect()),
    }
}

pub(super) fn memory(root: &Root) -> MemoryFacts {
    let text = root.text(MEMINFO);
    let bytes = |key: &str| -> Result<u64, NoValue> {
        let text = text.as_ref().map_err(Clone::clone)?;
        Ok(meminfo_bytes(text, key)?)
    };
    let fact = |key: &str| match bytes(key) {
        Ok(bytes) => Fact::known(bytes, MEMINFO),
        Err(reason) => Fact::unknown(MEMINFO, reason.to_string()),
    };
    MemoryFacts {
        total_bytes: fact("MemTotal"),
        swap_bytes: fact("SwapTotal"),
        transparent_huge_pages: root.choice("/sys/kernel/mm/transparent_hugepage/enabled"),
    }
}

/// Parses `MemTotal:  24684096 kB`. A kB is 1024 bytes: proc_meminfo(5).
fn meminfo_bytes(text: &str, key: &str) -> Result<u64, Unparsed> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .ok_or_else(|| Unparsed::NoLine(format!("{key}:")))?
        .trim();
    number::<u64>(value.trim_end_matches("kB").trim_end()).map(|kib| kib.saturating_mul(1_024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_unquoted_as_a_shell_does() {
        let text = "ID=debian\nPRETTY_NAME=\"A \\\"B\\\" \\$1\"\nX='a\\b'\nEMPTY=\"\"\nID_LIKE=y\nID=last\n";
        assert_eq!(os_release_value(text, "PRETTY_NAME").unwrap(), "A \"B\" $1");
        assert_eq!(os_release_value(text, "X").unwrap(), "a\\b");
        assert_eq!(os_release_value(text, "ID").unwrap(), "last");
        assert_eq!(os_release_value(text, "EMPTY"), None);
        assert_eq!(os_release_value(text, "NAME"), None);
    }

    #[test]
    fn a_distribution_says_what_it_is_like() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        assert!(distribution_like(&root).is_empty());
        std::fs::create_dir(folder.path().join("etc")).unwrap();
        let text = "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n";
        std::fs::write(folder.path().join("etc/os-release"), text).unwrap();
        assert_eq!(distribution_like(&root), ["ubuntu", "debian"]);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(meminfo_bytes("MemTotal:  2 kB\n", "MemTotal"), Ok(2_048));
        assert_eq!(
            meminfo_bytes("MemTotal: x kB", "MemTotal"),
            Err(Unparsed::other("a number", "x"))
        );
        assert_eq!(
            meminfo_bytes("", "SwapTotal"),
            Err(Unparsed::NoLine("SwapTotal:".to_owned()))
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(ID=|\"|'|\\\\|MemTotal:|kB|[a-z0-9 \\n\\PC]){0,30}") {
            let _ = os_release_value(&text, "ID");
            let _ = meminfo_bytes(&text, "MemTotal");
        }
    }
}
