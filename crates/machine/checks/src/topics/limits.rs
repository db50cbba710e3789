//! Advice how a user of this machine gets real-time priority and locked memory without root: by
//! groups with these rights in limits.conf(5), or by the package that creates such a group.

use crate::Role;
use crate::fact_reader::FactReader;

pub(super) const LIMIT_FILES: &str = "/etc/security/limits.d/*.conf";
pub(super) const LIMIT_FILE: &str = "/etc/security/limits.conf";
/// D-Bus starts RealtimeKit with this file if it is installed.
pub(super) const REALTIME_KIT: &str =
    "/usr/share/dbus-1/system-services/org.freedesktop.RealtimeKit1.service";

/// Distributions (ID of os-release(5)) with a package that creates a group with these rights; then
/// the command to install the package, and the group.
const PACKAGES: [(&str, &str, &str); 3] = [
    ("arch", "sudo pacman -S realtime-privileges", "realtime"),
    ("manjaro", "sudo pacman -S realtime-privileges", "realtime"),
    ("fedora", "sudo dnf install realtime-setup", "realtime"),
];

/// Returns how a user of this machine gets `item` (`rtprio`, `memlock`).
pub(super) fn grant(reader: &FactReader, item: &str) -> String {
    let mut files = reader.files(LIMIT_FILES).unwrap_or_default();
    files.extend(reader.text(LIMIT_FILE).ok().map(|text| (LIMIT_FILE, text)));
    let granted = files.iter().flat_map(|(file, text)| {
        let lines = text.lines().filter_map(|line| granted(line, item));
        lines.map(move |(whom, value)| (*file, whom, value))
    });
    // A group, which any user can join, is better than the name of one user.
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

/// Returns a remark if RealtimeKit is installed, because users need no root for it. Its defaults
/// are in rtkit-daemon(8), `--max-realtime-priority` and `--rttime-usec-max`.
pub(super) fn kit(reader: &FactReader) -> &'static str {
    match reader.text(REALTIME_KIT) {
        Ok(_) => {
            "; without this change, the installed RealtimeKit grants at most priority 20, for 200 \
             ms without a pause, to programs that request it (PipeWire, PulseAudio)"
        }
        Err(_) => "",
    }
}

/// Returns the group or user that gets `item` by a line of limits.conf(5), and the value.
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

/// Returns commands that write a limits file. Most systems have the group `audio`; the group
/// `realtime` is created.
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
}
