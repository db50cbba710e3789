//! Reserves ways of the third-level cache for CPUs, with a group of resctrl
//! (Documentation/filesystems/resctrl.rst): Intel CAT, AMD L3 QoS, Arm MPAM.
//!
//! The group has the CPUs and the lowest ways of their caches. The root group contains all other
//! CPUs and loses these ways. No task is moved: the group applies to all tasks on its CPUs.
//! resctrl must be mounted, and its mount is left as it is. If the program is killed after any
//! step, the removal continues from that state.

use std::collections::BTreeSet;
use std::io;

use punctual_model::{CpuSet, Setting, path_of};

use super::cache_masks::{Division, Group, Masks};
use crate::TuneError;
use crate::access::{Access, Ask, invalid, may_write, read, write};
use crate::target::Target;

/// Name of this setting.
const NAME: &str = "cache-partition";
/// Folder of the group.
const OURS: &str = path_of(NAME);
const ROOT: &str = "/sys/fs/resctrl";
const L3: &str = "/sys/fs/resctrl/info/L3";
/// Folders of the root group that are not groups.
const NO_GROUPS: [&str; 3] = ["info", "mon_groups", "mon_data"];
/// Highest number of a cache in the folder of a CPU.
const CACHES: u32 = 9;

pub(crate) struct CachePartition;

fn masks(target: &Target<'_>, group: &str) -> Result<Masks, TuneError> {
    let text = read(target, &format!("{group}/schemata"))?;
    Masks::of_file(&text).ok_or_else(|| TuneError::Absent {
        setting: NAME.to_owned(),
        reason: format!("{group}/schemata has no ways of the L3 cache as a whole"),
    })
}

fn now(target: &Target<'_>) -> Result<Division, TuneError> {
    let root = masks(target, ROOT)?;
    if !target.files.exists(&target.below(OURS)) {
        return Ok(Division {
            group: Group::Absent,
            root,
        });
    }
    let cpus: CpuSet = read(target, &format!("{OURS}/cpus_list"))?
        .parse()
        .unwrap_or_default();
    let group = if cpus.is_empty() {
        Group::Unfinished
    } else {
        Group::Complete(cpus, masks(target, OURS)?)
    };
    Ok(Division { group, root })
}

/// Sets the ways of a group that differ.
fn set_masks(target: &Target<'_>, group: &str, wanted: &Masks) -> Result<(), TuneError> {
    let change = wanted.beyond(&masks(target, group)?);
    if change.0.is_empty() {
        return Ok(());
    }
    write(target, &format!("{group}/schemata"), &change.to_string())
}

/// Returns a hexadecimal or decimal number that describes the caches.
fn number(target: &Target<'_>, file: &str, radix: u32) -> Result<u64, TuneError> {
    let file = format!("{L3}/{file}");
    let text = read(target, &file)?;
    u64::from_str_radix(&text, radix).map_err(|_| TuneError::Invalid {
        setting: NAME.to_owned(),
        value: text.chars().take(40).collect(),
        expected: format!("{file} should contain a number"),
    })
}

/// Returns the IDs of the third-level caches of these CPUs.
fn caches(target: &Target<'_>, cpus: &CpuSet) -> Result<BTreeSet<u32>, TuneError> {
    let cache_of = |cpu: u32| {
        let text = |index: u32, file: &str| {
            target.text(&format!(
                "/sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{file}"
            ))
        };
        let index = (0..=CACHES).find(|index| text(*index, "level").as_deref() == Some("3"))?;
        text(index, "id")?.parse().ok()
    };
    let mut ids = BTreeSet::new();
    for cpu in cpus.iter() {
        let id = cache_of(cpu).ok_or_else(|| TuneError::Refused {
            setting: NAME.to_owned(),
            reason: format!("the kernel does not show which L3 cache CPU {cpu} has"),
        })?;
        ids.insert(id);
    }
    Ok(ids)
}

/// Returns the reason why another group prevents this partition.
fn conflict(target: &Target<'_>, cpus: &CpuSet, ways: &Masks) -> Result<Option<String>, TuneError> {
    let names = target.files.names(&target.below(ROOT)).unwrap_or_default();
    let ours = OURS.rsplit('/').next().unwrap_or_default();
    for name in names {
        let group = format!("{ROOT}/{name}");
        let is_group = target
            .files
            .exists(&target.below(&format!("{group}/cpus_list")));
        let other = is_group && !NO_GROUPS.contains(&&*name) && name != ours;
        if !other {
            continue;
        }
        let theirs: CpuSet = read(target, &format!("{group}/cpus_list"))?
            .parse()
            .unwrap_or_default();
        let common = theirs.intersection(cpus);
        if !common.is_empty() {
            return Ok(Some(format!("CPU {common} is in the group {name}")));
        }
        let theirs = masks(target, &group)?;
        let shared = |(id, mask): (&u32, &u64)| theirs.0.get(id).is_some_and(|m| m & mask != 0);
        if ways.0.iter().any(shared) {
            return Ok(Some(format!(
                "the group {name} uses some of these cache ways: {theirs}"
            )));
        }
    }
    Ok(None)
}

/// Returns whether a mask is a single block of ways, as most processors require.
fn is_block(mask: u64) -> bool {
    let low = mask.checked_shr(mask.trailing_zeros()).unwrap_or_default();
    low != 0 && low & low.wrapping_add(1) == 0
}

/// Divides the caches of `cpus`: the lowest `ways` for the CPUs, the rest for all others.
///
/// # Errors
/// Returns an error if the number of ways is impossible, or if another group prevents this.
fn divided(
    target: &Target<'_>,
    root: &Masks,
    cpus: CpuSet,
    ways: u32,
) -> Result<Division, TuneError> {
    let full = number(target, "cbm_mask", 16)?;
    let least = number(target, "min_cbm_bits", 10)?.max(1);
    let refused = |reason: String| TuneError::Refused {
        setting: NAME.to_owned(),
        reason,
    };
    let all = u64::from(full.count_ones());
    let most = all.saturating_sub(least);
    if u64::from(ways) < least || u64::from(ways) > most {
        return Err(TuneError::Invalid {
            setting: NAME.to_owned(),
            value: ways.to_string(),
            expected: format!(
                "the L3 cache has {all} ways, and each group needs at least {least}: use \
                 {least} to {most}"
            ),
        });
    }
    // `most` is less than 64, so the shift is valid.
    let own = ((1_u64 << ways) - 1) << full.trailing_zeros();
    let mut division = (Masks::default(), Masks::default());
    for id in caches(target, &cpus)? {
        let before = root.0.get(&id).copied().ok_or_else(|| {
            refused(format!(
                "{ROOT}/schemata has no ways of the cache with ID {id}"
            ))
        })?;
        let rest = before & !own;
        if !is_block(rest) || u64::from(rest.count_ones()) < least {
            return Err(refused(format!(
                "all other programs may use only the ways {before:x} of the cache with ID {id}, \
                 and would keep too few of them"
            )));
        }
        division.0.0.insert(id, own);
        division.1.0.insert(id, rest);
    }
    let (ways, root) = division;
    match conflict(target, &cpus, &ways)? {
        Some(reason) => Err(refused(reason)),
        None => Ok(Division {
            group: Group::Complete(cpus, ways),
            root,
        }),
    }
}

impl Access for CachePartition {
    fn instances(&self, target: &Target<'_>) -> Result<Vec<String>, TuneError> {
        let there = masks(target, ROOT).is_ok();
        Ok(there.then(String::new).into_iter().collect())
    }

    fn absence(&self, _: &Setting, target: &Target<'_>) -> String {
        match read(target, &format!("{ROOT}/schemata")) {
            Ok(_) => format!(
                "{ROOT}/schemata has no line 'L3:': the processor cannot divide this cache, or \
                 resctrl is mounted with the option cdp"
            ),
            Err(TuneError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                format!(
                    "resctrl is not mounted: run `mount -t resctrl resctrl {ROOT}`, which fails if \
                     the processor or the kernel cannot divide caches"
                )
            }
            Err(error) => error.to_string(),
        }
    }

    fn read(&self, target: &Target<'_>, _: &str) -> Result<String, TuneError> {
        now(target).map(|found| found.to_string())
    }

    fn write(&self, target: &Target<'_>, _: &str, value: &str) -> Result<(), TuneError> {
        let malformed = || TuneError::Value {
            setting: NAME,
            value: value.to_owned(),
        };
        let wanted: Division = value.parse().map_err(|_| malformed())?;
        let folder = target.below(OURS);
        match wanted.group {
            // The CPUs of a removed group belong to the root group again.
            Group::Absent if target.files.exists(&folder) => {
                let removed = target.files.remove_folder(&folder);
                removed.map_err(|source| target.not_written(folder, source))?;
                set_masks(target, ROOT, &wanted.root)
            }
            Group::Absent => set_masks(target, ROOT, &wanted.root),
            Group::Unfinished => Err(malformed()),
            Group::Complete(cpus, ways) => {
                if !target.files.exists(&folder) {
                    let made = target.files.make_folder(&folder);
                    made.map_err(|source| target.not_written(folder, source))?;
                }
                set_masks(target, ROOT, &wanted.root)?;
                set_masks(target, OURS, &ways)?;
                write(target, &format!("{OURS}/cpus_list"), &cpus.to_string())
            }
        }
    }

    fn may_write(&self, target: &Target<'_>, _: &str) -> Result<(), TuneError> {
        may_write(target, &format!("{ROOT}/schemata"))
    }

    /// Rejects an unfinished partition, which cannot be restored.
    fn holds(&self, instance: &str, value: &str) -> bool {
        let value = value.parse::<Division>();
        instance.is_empty() && value.is_ok_and(|value| value.group != Group::Unfinished)
    }

    fn same(&self, found: &str, wanted: &str) -> bool {
        match (found.parse::<Division>(), wanted.parse::<Division>()) {
            (Ok(found), Ok(wanted)) => wanted.is_in(&found),
            _ => false,
        }
    }

    fn readable(&self, value: &str) -> String {
        match value.parse::<Division>() {
            Ok(Division {
                group: Group::Complete(cpus, ways),
                ..
            }) => format!("CPU {cpus}, {ways}"),
            Ok(Division { group, root }) => match group {
                Group::Absent => format!("none, {root}"),
                _ => format!("unfinished, {root}"),
            },
            Err(_) => value.to_owned(),
        }
    }

    fn resolve(&self, ask: Ask<'_>) -> Result<Option<String>, TuneError> {
        let Ask {
            setting,
            target,
            asked,
            context,
            ..
        } = ask;
        let (cpus, ways) = asked
            .rsplit_once(':')
            .ok_or_else(|| invalid(setting, "", asked))?;
        let cpus = context.cpus(setting.name, cpus)?;
        let ways: u32 = ways.parse().map_err(|_| invalid(setting, "", asked))?;
        if cpus.is_empty() {
            return Err(invalid(setting, "", asked));
        }
        if context.online.difference(&cpus).is_empty() {
            return Err(TuneError::Cpus(format!(
                "{}: the list {cpus} contains all CPUs: leave at least one CPU for the system",
                setting.name
            )));
        }
        let found = now(target)?;
        if let Group::Complete(current, masks) = &found.group {
            let same_ways = masks.0.values().any(|mask| mask.count_ones() == ways);
            return if *current == cpus && same_ways {
                Ok(Some(found.to_string()))
            } else {
                Err(TuneError::Refused {
                    setting: setting.name.to_owned(),
                    reason: format!(
                        "{OURS} already exists, with CPU {current} and {masks}: remove it with \
                         `punctual tune revert` or rmdir(1) first"
                    ),
                })
            };
        }
        divided(target, &found.root, cpus, ways).map(|division| Some(division.to_string()))
    }

    /// Devices can write into the same ways, and a task in another group does not use the CPU's
    /// group.
    fn remark(&self, target: &Target<'_>, _: &str, value: &str) -> Option<String> {
        let Group::Complete(cpus, ways) = value.parse::<Division>().ok()?.group else {
            return None;
        };
        let shared = number(target, "shareable_bits", 16).unwrap_or_default();
        if ways.0.values().any(|mask| mask & shared != 0) {
            return Some(format!(
                "devices also use some of the cache ways of CPU {cpus} ({L3}/shareable_bits is \
                 {shared:x})"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_no_gap() {
        for mask in [1, 0b110, 0xfff, u64::MAX, 1 << 63] {
            assert!(is_block(mask), "{mask:x}");
        }
        for mask in [0, 0b101, 0xf0f] {
            assert!(!is_block(mask), "{mask:x}");
        }
    }

    #[test]
    fn values_are_shown_in_words() {
        for (value, shown) in [
            ("none; L3:0=fff", "none, L3:0=fff"),
            ("unfinished; L3:0=fff", "unfinished, L3:0=fff"),
            ("2-3 L3:0=f; L3:0=ff0", "CPU 2-3, L3:0=f"),
            ("no such value", "no such value"),
        ] {
            assert_eq!(CachePartition.readable(value), shown);
        }
    }
}
