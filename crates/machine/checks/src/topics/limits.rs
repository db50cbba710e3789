//! Advice on how a user of this machine can get real-time priority and locked memory without being
//! root: through a group that has these rights in limits.conf(5), or through a package that creates
//! such a group.

use crate::Role;
use crate::fact_reader::FactReader;

pub(super) const LIMIT_FILES: &str = "/etc/security/limits.d/*.conf";
pub(super) const LIMIT_FILE: &str = "/etc/security/limits.conf";
/// The file with which D-Bus starts RealtimeKit. It exists only if RealtimeKit is installed.
pub(super) const REALTIME_KIT: &str =
    "/usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service";

/// Distributions (ID in os-release(5)) that have a package which creates a group with these rights.
/// The other two columns are the command that installs the package, and the group.
const PACKAGES: [(&str, &str, &str); 3] = [
    ("arch", "sudo pacman -S realtime-privileges", "realtime"),
    ("manjaro", "sudo pacman -S realtime-privileges", "realtime"),
    ("fedora", "sudo dnf install realtime-setup", "realtime"),
];

/// Returns advice on how a user of this machine can get `item` (`rtprio`, `memlock`).
pub(super) fn grant(reader: &FactReader, item: &str) -> String {
    let mut files = reader.files(LIMIT_FILES).unwrap_or_default();
    files.extend(reader.text(LIMIT_FILE).ok().map(|text| (LIMIT_FILE, text)));
    let granted = files.iter().flat_map(|(file, text)| {
        let lines = text.lines().filter_map(|line| granted(line, item));
        lines.map(move |(whom, value)| (*file, whom, value))
    });
    // A group is better than a single user, because any user can join it.
    let best = granted.max_by_key(|(_, whom, value)| (whom.starts_with('@'), number(value)));
    let login = "then log out and in again";
    match best {
        Some((file, whom, value)) => match whom.strip_prefix('@') {
            Some(group) => format!(
                "{file} sets {item} {value} for the group '{group}': run sudo usermod -aG {group} \
                 $USER, {login}"
            ),
            None => format!("{file} sets {item} {value} for '{whom}': log out and in again"),
        },
        None => match package(reader) {
            Some((install, group)) => {
                format!("{install}; sudo usermod -aG {group} $USER; {login}")
            }
            None => by_hand(reader.role, login),
        },
    }
}

/// Returns a remark if RealtimeKit is installed, because users can use it without being root. Its
/// defaults are documented in rtkit-daemon(8) under `--max-realtime-priority` and
/// `--rttime-usec-max`.
pub(super) fn kit(reader: &FactReader) -> &'static str {
    match reader.text(REALTIME_KIT) {
        Ok(_) => {
            "; without this change, the installed RealtimeKit grants at most priority 20, for 200 \
             ms without a pause, to programs that request it (PipeWire, PulseAudio)"
        }
        Err(_) => "",
    }
}

/// Returns the group or user to which a line of limits.conf(5) grants `item`, and the granted
/// value.
fn granted<'a>(line: &'a str, item: &str) -> Option<(&'a str, &'a str)> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let [whom, kind, what, value] = [words.next()?, words.next()?, words.next()?, words.next()?];
    let fits = what == item && matches!(kind, "-" | "hard" | "soft");
    (fits && number(value) > 0 && whom != "root").then_some((whom, value))
}

fn number(value: &str) -> u64 {
    match value {
        "unlimited" | "infinity" | "-1" => u64::MAX,
        value => value.parse().unwrap_or(0),
    }
}

fn package(reader: &FactReader) -> Option<(&'static str, &'static str)> {
    let id = reader.host().distribution.id.get()?;
    let found = PACKAGES.iter().find(|(name, ..)| name == id);
    found.map(|(_, install, group)| (*install, *group))
}

/// Returns commands that write a limits file. The group `audio` exists on most systems; the group
/// `realtime` must be created.
fn by_hand(role: Role, login: &str) -> String {
    let (make, group) = match role {
        Role::Audio => ("", "audio"),
        _ => ("sudo groupadd -f realtime; ", "realtime"),
    };
    format!(
        "{make}printf '@{group} - rtprio 95\\n@{group} - memlock unlimited\\n' | sudo tee \
         /etc/security/limits.d/{group}.conf; sudo usermod -aG {group} $USER; {login}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_limits_files_are_read() {
        let read = |line| granted(line, "rtprio");
        assert_eq!(read("@audio   -  rtprio     95"), Some(("@audio", "95")));
        assert_eq!(read("eve hard rtprio 99 # loud"), Some(("eve", "99")));
        for none in [
            "",
            "# @audio - rtprio 95",
            "@audio - memlock unlimited",
            "@audio - rtprio 0",
            "root - rtprio 99",
            "@audio - rtprio",
        ] {
            assert_eq!(read(none), None, "{none}");
        }
        assert_eq!(
            granted("* - memlock unlimited", "memlock"),
            Some(("*", "unlimited"))
        );
    }

    #[test]
    fn amounts_are_numbers_or_unlimited() {
        for (text, amount) in [
            ("unlimited", u64::MAX),
            ("infinity", u64::MAX),
            ("-1", u64::MAX),
            ("95", 95),
            ("0", 0),
            ("some", 0),
        ] {
            assert_eq!(number(text), amount, "{text}");
        }
    }

    #[test]
    fn only_kinds_of_limits_count() {
        for kind in ["-", "hard", "soft"] {
            let line = format!("@audio {kind} rtprio 1");
            assert_eq!(granted(&line, "rtprio"), Some(("@audio", "1")), "{line}");
        }
        assert_eq!(granted("@audio maximum rtprio 95", "rtprio"), None);
    }
}
