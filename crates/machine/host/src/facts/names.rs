//! The names of the kernel and of the machine. A folder with the files of another machine often
//! lacks /proc/sys, so each name has a second source.

use punctual_model::Fact;

use crate::root::Root;
use crate::unread::Unparsed;

/// File with the output of `uname -v`.
pub(super) const VERSION: &str = "/proc/sys/kernel/version";
/// A text with the release, the compiler and the version of the kernel.
const BANNER: &str = "/proc/version";

/// Returns the output of `uname -r`.
pub(super) fn release(root: &Root) -> Fact<String> {
    let file = root.word("/proc/sys/kernel/osrelease");
    or_else(file, || {
        root.fact(BANNER, |text| {
            let rest = text.strip_prefix("Linux version ");
            let release = rest.and_then(|rest| rest.split_whitespace().next());
            release.map(str::to_owned).ok_or_else(|| other(text))
        })
    })
}

/// Returns the output of `uname -v`.
pub(super) fn version(root: &Root) -> Fact<String> {
    or_else(root.word(VERSION), || {
        root.fact(BANNER, |text| {
            // The version starts with the number of the build: `#1 SMP PREEMPT_RT ...`.
            let starts = text
                .match_indices(" #")
                .map(|(place, _)| &text[place + 1..]);
            let mut numbered =
                starts.filter(|rest| rest[1..].starts_with(|c: char| c.is_ascii_digit()));
            numbered
                .next()
                .map(str::to_owned)
                .ok_or_else(|| other(text))
        })
    })
}

/// Returns the name of the machine.
pub(super) fn hostname(root: &Root) -> Fact<String> {
    let file = root.word("/proc/sys/kernel/hostname");
    or_else(file, || root.word("/etc/hostname"))
}

fn other(text: &str) -> Unparsed {
    Unparsed::other("a Linux version", text)
}

/// Returns the first fact, or the second one if only that is known.
fn or_else(first: Fact<String>, second: impl FnOnce() -> Fact<String>) -> Fact<String> {
    if first.value.is_some() {
        return first;
    }
    let second = second();
    if second.value.is_some() {
        second
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_second_source_names_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path().to_owned());
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(release(&root).source, "/proc/sys/kernel/osrelease");
        write("proc/version", "Darwin");
        assert_eq!((release(&root).value, version(&root).value), (None, None));
        write(
            "proc/version",
            "Linux version 6.1.0-18-rt (a@b) (gcc-12 (Debian #x) 12.2.0) #1 SMP PREEMPT_RT Debian\n",
        );
        write("etc/hostname", "box\n");
        let known = |fact: Fact<String>| (fact.value.unwrap(), fact.source);
        let banner = || BANNER.to_owned();
        assert_eq!(known(release(&root)), ("6.1.0-18-rt".to_owned(), banner()));
        let text = "#1 SMP PREEMPT_RT Debian".to_owned();
        assert_eq!(known(version(&root)), (text, banner()));
        assert_eq!(known(hostname(&root)).0, "box");
        write("proc/sys/kernel/osrelease", "6.2\n");
        assert_eq!(known(release(&root)).0, "6.2");
    }
}
