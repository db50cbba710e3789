//! Shows many instances of a setting in one row.

/// Maximum number of names to list on a line. The remaining names are only counted.
const NAMES_SHOWN: usize = 6;

/// Returns a text such as `24, 25, 26 and 9 more`.
pub(crate) fn some_of(names: &[&str]) -> String {
    if names.len() <= NAMES_SHOWN + 1 {
        return names.join(", ");
    }
    let shown = names[..NAMES_SHOWN].join(", ");
    format!("{shown} and {} more", names.len() - NAMES_SHOWN)
}

/// Returns the name of a single setting with its instance, such as `irq-affinity@24`. For several
/// instances, returns the name of the setting with their number, such as `irq-affinity (5)`.
pub(crate) fn name_of(settings: &[&str]) -> String {
    if let [one] = settings {
        return (*one).to_owned();
    }
    let first = settings.first().copied().unwrap_or_default();
    let name = first.split_once('@').map_or(first, |(name, _)| name);
    format!("{name} ({})", settings.len())
}

pub(crate) fn instances(settings: &[&str]) -> Vec<String> {
    settings
        .iter()
        .filter_map(|setting| setting.split_once('@'))
        .map(|(_, instance)| instance.to_owned())
        .collect()
}

/// Groups items that `same` regards as equal.
pub(crate) fn groups<'a, T>(items: &[&'a T], same: impl Fn(&T, &T) -> bool) -> Vec<Vec<&'a T>> {
    let mut groups: Vec<Vec<&'a T>> = Vec::new();
    for item in items {
        let found = groups
            .iter_mut()
            .find(|group| group.first().is_some_and(|first| same(first, item)));
        match found {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Minimum number of instances of a setting that are merged into one row.
const MANY: usize = 4;

/// Merges rows in which the first cell is a setting. If many instances have the same values, they
/// share one row, with the instances in a separate cell. (`--json` lists each of them.)
pub(crate) fn merged(rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let kind = |row: &[String]| {
        let setting = row.first().map(String::as_str).unwrap_or_default();
        setting.split_once('@').map(|(name, _)| name.to_owned())
    };
    let all: Vec<&Vec<String>> = rows.iter().collect();
    let same = |a: &Vec<String>, b: &Vec<String>| {
        kind(a).is_some() && kind(a) == kind(b) && a.get(1..) == b.get(1..)
    };
    let mut short = Vec::new();
    for group in groups(&all, same) {
        let settings: Vec<&str> = group
            .iter()
            .filter_map(|row| Some(&**row.first()?))
            .collect();
        match group.first() {
            Some(first) if group.len() >= MANY => {
                let names = instances(&settings);
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let rest = first.iter().skip(1).cloned();
                let name = std::iter::once(name_of(&settings));
                let mut row: Vec<String> = name.chain(rest).collect();
                row.push(some_of(&names));
                short.push(row);
            }
            _ => short.extend(group.iter().map(|row| (*row).clone())),
        }
    }
    let widest = short.iter().map(Vec::len).max().unwrap_or(0);
    for row in &mut short {
        row.resize(widest, String::new());
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_equal_instances_share_row() {
        let row = |setting: &str, value: &str| vec![setting.to_owned(), value.to_owned()];
        let mut rows = vec![row("thp", "never")];
        rows.extend((24..29).map(|irq| row(&format!("irq-affinity@{irq}"), "CPU 0")));
        rows.push(row("irq-affinity@30", "CPU 1"));
        assert_eq!(
            merged(rows.clone()),
            [
                ["thp", "never", ""],
                ["irq-affinity (5)", "CPU 0", "24, 25, 26, 27, 28"],
                ["irq-affinity@30", "CPU 1", ""],
            ]
        );
        // If there are only a few instances, they keep separate rows.
        rows.drain(1..4);
        assert_eq!(merged(rows.clone()), rows);
        assert_eq!(merged(Vec::new()), Vec::<Vec<String>>::new());
    }
}
