//! Paths with wildcards for a CPU, a device or a queue.

use std::cmp::Ordering;
use std::path::Path;

use crate::target::Target;

/// A path with wildcards: `#` matches a number, and `*` matches a name. A segment has at most one
/// wildcard. The name of an instance consists of the matched texts, joined by `/`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern(pub(crate) &'static str);

/// Returns a segment's text before and after its wildcard, and whether the wildcard stands for a
/// number.
fn wildcard(segment: &str) -> Option<(&str, &str, bool)> {
    let place = segment.find(['#', '*'])?;
    let (before, after) = (&segment[..place], &segment[place + 1..]);
    Some((before, after, segment.as_bytes()[place] == b'#'))
}

fn fits(segment: &str, name: &str) -> bool {
    let Some((before, after, number)) = wildcard(segment) else {
        return segment == name;
    };
    let inner = name
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(after));
    // `..` and hidden files are not devices, and a name does not contain `/`.
    inner.is_some_and(|text| {
        !text.is_empty()
            && !name.starts_with('.')
            && !name.contains('/')
            && (!number || text.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

impl Pattern {
    /// Returns the path of an instance, or `None` if the instance does not match this pattern.
    pub(crate) fn path(self, instance: &str) -> Option<String> {
        let mut given = instance.split('/');
        let mut segments: Vec<&str> = Vec::new();
        for segment in self.0.split('/') {
            if wildcard(segment).is_none() {
                segments.push(segment);
                continue;
            }
            let name = given.next().filter(|name| fits(segment, name))?;
            segments.push(name);
        }
        given.next().is_none().then(|| segments.join("/"))
    }

    /// Returns the existing instances in ascending order.
    pub(crate) fn instances(self, target: &Target<'_>) -> Vec<String> {
        // Pairs of a path and the instance's name, up to the current segment.
        let mut found = vec![(String::new(), String::new())];
        for segment in self.0.split('/').filter(|segment| !segment.is_empty()) {
            found = found
                .into_iter()
                .flat_map(|(path, instance)| step(target, &path, &instance, segment))
                .collect();
        }
        let there = |path: &str| target.files.exists(&target.below(path));
        let mut instances: Vec<String> = found
            .into_iter()
            .filter(|(path, _)| there(path))
            .map(|(_, instance)| instance)
            .collect();
        instances.sort_by(|a, b| by_number(a, b));
        instances
    }
}

fn step(target: &Target<'_>, path: &str, instance: &str, segment: &str) -> Vec<(String, String)> {
    if wildcard(segment).is_none() {
        return vec![(format!("{path}/{segment}"), instance.to_owned())];
    }
    let folder = target.below(Path::new(path).to_string_lossy().as_ref());
    let names = target.files.names(&folder).unwrap_or_default();
    names
        .into_iter()
        .filter(|name| fits(segment, name))
        .map(|name| {
            let instance = match instance {
                "" => name.clone(),
                _ => format!("{instance}/{name}"),
            };
            (format!("{path}/{name}"), instance)
        })
        .collect()
}

/// Orders names so that `cpu2` comes before `cpu10`.
pub(crate) fn by_number(a: &str, b: &str) -> Ordering {
    fn parts(text: &str) -> Vec<(bool, u64, String)> {
        let mut parts: Vec<(bool, u64, String)> = Vec::new();
        for c in text.chars() {
            match (parts.last_mut(), c.is_ascii_digit()) {
                (Some((true, _, digits)), true) | (Some((false, _, digits)), false) => {
                    digits.push(c);
                }
                (_, digit) => parts.push((digit, 0, c.to_string())),
            }
        }
        for (digit, number, text) in &mut parts {
            if *digit {
                *number = text.parse().unwrap_or(u64::MAX);
            }
        }
        parts
    }
    parts(a).cmp(&parts(b))
}

/// Returns whether `text` matches `glob`. A `*` in `glob` matches anything.
pub(crate) fn matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATES: Pattern = Pattern("/sys/devices/system/cpu/cpu#/cpuidle/state#/disable");
    const QUEUES: Pattern = Pattern("/sys/class/net/*/queues/rx-#/rps_cpus");

    #[test]
    fn instance_names_single_file_below_pattern() {
        assert_eq!(
            STATES.path("cpu3/state10").unwrap(),
            "/sys/devices/system/cpu/cpu3/cpuidle/state10/disable"
        );
        assert_eq!(
            QUEUES.path("eth0/rx-0").unwrap(),
            "/sys/class/net/eth0/queues/rx-0/rps_cpus"
        );
        for wrong in [
            "",
            "cpu3",
            "cpu3/state1/x",
            "cpux/state1",
            "cpu/state1",
            "../state1",
        ] {
            assert_eq!(STATES.path(wrong), None, "{wrong}");
        }
        assert_eq!(QUEUES.path("../rx-0"), None);
        assert_eq!(QUEUES.path(".hidden/rx-0"), None);
    }

    #[test]
    fn instances_are_those_whose_file_exists() {
        let machine = crate::testing::Machine::new();
        for file in [
            "sys/devices/system/cpu/cpu2/cpuidle/state0/disable",
            "sys/devices/system/cpu/cpu10/cpuidle/state1/disable",
            "sys/devices/system/cpu/cpu2/cpuidle/state10/disable",
            "sys/devices/system/cpu/cpu2/cpuidle/state9/disable",
            "sys/devices/system/cpu/cpu2/cpuidle/state3/other",
            "sys/devices/system/cpu/cpuidle/cpuidle/state3/disable",
            "sys/devices/system/cpu/cpu3/other",
        ] {
            machine.write(file, "");
        }
        let target = Target::plain(&crate::fs::Files, machine.host());
        assert_eq!(
            STATES.instances(&target),
            ["cpu2/state0", "cpu2/state9", "cpu2/state10", "cpu10/state1"]
        );
        assert_eq!(QUEUES.instances(&target), [""; 0]);
        assert_eq!(Pattern("/sys/devices").instances(&target), [""]);
        assert_eq!(Pattern("/sys/none").instances(&target), [""; 0]);
    }

    #[test]
    fn names_are_ordered_by_their_numbers() {
        for (a, b, order) in [
            ("cpu2", "cpu10", Ordering::Less),
            ("cpu9/state10", "cpu10/state9", Ordering::Less),
            ("a", "a1", Ordering::Less),
            ("a1b", "a1c", Ordering::Less),
            ("b", "a", Ordering::Greater),
            // A number that is too large counts as the largest one.
            ("1", "99999999999999999999999", Ordering::Less),
            // A number comes after text.
            ("1", "a", Ordering::Greater),
        ] {
            assert_eq!(by_number(a, b), order, "{a} {b}");
            assert_eq!(by_number(b, a), order.reverse(), "{a} {b}");
            assert_eq!(by_number(a, a), Ordering::Equal);
        }
        // Equal numbers with different texts are not equal names.
        assert_ne!(by_number("cpu01", "cpu1"), Ordering::Equal);
    }

    #[test]
    fn ten_comes_after_two() {
        let mut names = ["cpu10/state2", "cpu2/state0", "cpu10/state10", "cpu1"];
        names.sort_by(|a, b| by_number(a, b));
        assert_eq!(
            names,
            ["cpu1", "cpu2/state0", "cpu10/state2", "cpu10/state10"]
        );
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (glob, text, fit) in [
            ("ksoftirqd/*", "ksoftirqd/3", true),
            ("*", "", true),
            ("irq/*-eth0*", "irq/24-eth0-rx-1", true),
            ("irq/*-eth0*", "irq/24-eth1", false),
            ("ab*ab", "ab", false),
            ("rcuc/1", "rcuc/1", true),
            ("rcuc/1", "rcuc/10", false),
            ("", "", true),
            ("", "a", false),
            ("a*", "ba", false),
            ("*a", "aab", false),
            ("*a*", "bab", true),
            ("a*b*c", "axbyc", true),
            ("a*b*c", "acb", false),
            ("a*bb*b", "abb", false),
            ("a*bb*b", "abbb", true),
            ("**", "a", true),
        ] {
            assert_eq!(matches(glob, text), fit, "{glob} {text}");
        }
    }

    proptest! {
        #[test]
        fn no_instance_leaves_the_folder(text in "[./a-z0-9#*]{0,30}") {
            for pattern in [STATES, QUEUES] {
                if let Some(path) = pattern.path(&text) {
                    prop_assert!(!path.contains(".."));
                    prop_assert_eq!(path.matches('/').count(), pattern.0.matches('/').count());
                }
            }
            let _ = matches(&text, &text);
            let _ = by_number(&text, "cpu2");
        }
    }
}
