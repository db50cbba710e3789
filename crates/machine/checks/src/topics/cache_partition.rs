//! Checks whether the measured CPUs have ways of the third-level cache for themselves.

use std::collections::BTreeMap;

use punctual_model::{CpuSet, Severity};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::{BASE, Check, Remedy};

/// Ways of the root group, which contains all CPUs that are in no other group.
const ROOT: &str = "/sys/fs/resctrl/schemata";
const GROUP_CPUS: &str = "/sys/fs/resctrl/*/cpus_list";
const GROUP_WAYS: &str = "/sys/fs/resctrl/*/schemata";
const CACHE_ID: &str = "/sys/devices/system/cpu/cpu#/cache/index3/id";
const CPUINFO: &str = "/proc/cpuinfo";

pub(super) const CHECK: Check = Check {
    name: "cache-partition",
    subject: "cache partitioning",
    severity: Severity::Info,
    expected: "a cache partition for the measured CPUs",
    reads: &[ROOT, GROUP_CPUS, GROUP_WAYS, CACHE_ID, CPUINFO],
    judge,
    why: "A program on another CPU that reads much memory evicts the application's cache lines.",
    source: "Documentation/filesystems/resctrl.rst, before Linux 6.17 Documentation/arch/x86/resctrl.rst (mount -t resctrl resctrl /sys/fs/resctrl)",
    remedies: &[Remedy::Decide(
        "mount -t resctrl resctrl /sys/fs/resctrl; punctual tune apply --cpus {cpus} --set \
         cache-partition=measured:WAYS: all other programs lose that many ways of the cache",
    )],
    ..BASE
};

/// The ways of each third-level cache, by the ID of the cache.
type Ways = BTreeMap<u32, u64>;

fn judge(reader: &FactReader) -> Judged {
    let root = match reader.text(ROOT) {
        Ok(text) => text,
        Err(Missing::NotApplicable(_)) => return not_mounted(reader),
        Err(other) => return Err(other),
    };
    let root = ways(ROOT, root)?;
    let without = || {
        Ok(Verdict::Warn(format!(
            "is not in use: resctrl has no group with CPU {}",
            reader.cpus
        )))
    };
    let groups = match reader.find(GROUP_CPUS) {
        Ok(found) => found,
        Err(Missing::NotApplicable(_)) => return without(),
        Err(other) => return Err(other),
    };
    if let Some(why) = groups.refused {
        reader.could_not(GROUP_CPUS, &why);
        return Err(Missing::Unknown(why));
    }
    let has_all = |text: &str| {
        let cpus: Option<CpuSet> = text.parse().ok();
        cpus.is_some_and(|cpus| reader.cpus.is_subset(&cpus))
    };
    let ours = groups.texts.iter().find(|(_, text)| has_all(text));
    let Some((file, cpus)) = ours else {
        return without();
    };
    reader.saw(*file, cpus);
    let folder = file.trim_end_matches("/cpus_list");
    let own_file = format!("{folder}/schemata");
    let own = ways(&own_file, reader.text(&own_file)?)?;
    let mut others = vec![("the default group", root)];
    for (file, text) in reader.files(GROUP_WAYS)? {
        if file != own_file {
            others.push((name_of(file), ways(file, text)?));
        }
    }
    for (_, id) in reader.each_cpu(CACHE_ID).map_err(no_id)? {
        let id: u32 = (id.parse())
            .map_err(|_| Missing::unknown(format!("{CACHE_ID} reads '{}'", line(id))))?;
        let mask = *own.get(&id).ok_or_else(|| {
            Missing::unknown(format!("{own_file} has no ways of the cache with ID {id}"))
        })?;
        let shares = |ways: &Ways| ways.get(&id).is_some_and(|other| other & mask != 0);
        if let Some((name, _)) = others.iter().find(|(_, ways)| shares(ways)) {
            return Ok(Verdict::Warn(format!(
                "is not exclusive: the group {} shares ways with {name}",
                folder.rsplit('/').next().unwrap_or_default()
            )));
        }
    }
    Ok(Verdict::Ok(format!(
        "is in use by the group {} (CPU {cpus})",
        folder.rsplit('/').next().unwrap_or_default()
    )))
}

/// Returns the name of the group of a file.
fn name_of(file: &str) -> &str {
    file.rsplit('/').nth(1).unwrap_or_default()
}

/// Every cache that can be divided has an ID.
fn no_id(missing: Missing) -> Missing {
    match missing {
        Missing::NotApplicable(why) => Missing::Unknown(why),
        other => other,
    }
}

/// Parses the line `L3:0=fff;1=fff` of a file `schemata`.
fn ways(file: &str, text: &str) -> Result<Ways, Missing> {
    let mut lines = text.lines().map(str::trim);
    let domains = lines
        .find_map(|line| line.strip_prefix("L3:"))
        .ok_or_else(|| {
            Missing::unknown(format!(
                "{file} has no ways of the L3 cache as a whole, and other partitions are not judged"
            ))
        })?;
    let parsed = domains.split(';').map(|one| {
        let (id, mask) = one.split_once('=')?;
        Some((id.parse().ok()?, u64::from_str_radix(mask, 16).ok()?))
    });
    let parsed: Option<Ways> = parsed.collect();
    parsed.ok_or_else(|| Missing::unknown(format!("{file} reads '{}'", line(text))))
}

fn not_mounted(reader: &FactReader) -> Judged {
    let text = match reader.facts.files.get(CPUINFO) {
        Some(punctual_model::Reading::Text(text)) => text,
        _ => reader.text(CPUINFO)?,
    };
    // The flags for cache allocation at each cache level: arch/x86/include/asm/cpufeatures.h.
    let can = text
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| {
            line.split_whitespace()
                .any(|flag| flag == "cat_l3" || flag == "cat_l2")
        });
    reader.saw(
        CPUINFO,
        if can {
            "flags: cat_l3 or cat_l2"
        } else {
            "flags: neither cat_l3 nor cat_l2"
        },
    );
    if can {
        Ok(Verdict::Warn(
            "is not in use: resctrl is not mounted".to_owned(),
        ))
    } else {
        Err(Missing::not_applicable(
            "the processor does not report support for it",
        ))
    }
}
