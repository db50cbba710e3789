//! The CPUs to which irqbalance assigns no interrupts.

use punctual_model::{CpuSet, unmask};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::{BASE, Check, Remedy};

/// Environment files that the units of the distributions use.
const FILES: [&str; 3] = [
    "/etc/default/irqbalance",
    "/etc/sysconfig/irqbalance",
    "/etc/irqbalance.env",
];

const AT_BOOT: &str = "/etc/systemd/system/*.wants/irqbalance.service";

pub(super) const CHECK: Check = Check {
    name: "irqbalance",
    subject: "irqbalance",
    expected: "not running, or the measured CPUs are banned",
    reads: &[FILES[0], FILES[1], FILES[2], AT_BOOT],
    judge,
    why: "irqbalance moves interrupts every ten seconds, and can undo their placement. By default, \
          it bans isolated CPUs and CPUs in nohz_full; a list of banned CPUs replaces this \
          default.",
    source: "irqbalance(1), IRQBALANCE_BANNED_CPULIST; irqbalance, cputree.c, setup_banned_cpus",
    remedies: &[Remedy::Run("systemctl stop irqbalance")],
    reboot: "IRQBALANCE_BANNED_CPULIST={cpus} in irqbalance's environment file, or systemctl \
             disable irqbalance",
    ..BASE
};

fn judge(reader: &FactReader) -> Judged {
    let running = !reader.running(&["irqbalance"])?.is_empty();
    if !running && !reader.starts_at_boot(AT_BOOT) {
        return Ok(Verdict::Ok("is not running".to_owned()));
    }
    reader.elsewhere()?;
    let state = if running {
        "is running"
    } else {
        "is not running, but starts at boot"
    };
    let given = given(reader)?;
    let banned = match &given {
        Some((banned, _)) => banned.clone(),
        None => by_default(reader),
    };
    let open = reader.cpus.difference(&banned);
    if open.is_empty() {
        let why = match given {
            Some(_) => "the measured CPUs are banned",
            None => "isolated CPUs are excluded",
        };
        return Ok(Verdict::Ok(format!("{state}; {why}")));
    }
    let replaced = given.map_or(String::new(), |(_, variable)| {
        format!(" ({variable} is set and replaces the default)")
    });
    let found = format!("{state}, and CPU {open} is not banned{replaced}");
    Ok(if running {
        Verdict::Fail(found)
    } else {
        Verdict::Warn(found)
    })
}

/// Returns the CPUs that irqbalance's environment bans, and the name of the variable that bans
/// them. The variable with a list takes precedence over the one with a mask unless the list is
/// empty. The value `-` is not a list and bans nothing.
fn given(reader: &FactReader) -> Result<Option<(CpuSet, &'static str)>, Missing> {
    const LIST: &str = "IRQBALANCE_BANNED_CPULIST";
    const MASK: &str = "IRQBALANCE_BANNED_CPUS";
    let (mut list, mut mask) = (None, None);
    for file in FILES {
        let text = match reader.text(file) {
            Ok(text) => text,
            Err(Missing::NotApplicable(_)) => continue,
            Err(unknown) => return Err(unknown),
        };
        // The last assignment counts: systemd.exec(5), EnvironmentFile=.
        for line in text.lines() {
            match line.trim().split_once('=') {
                Some((LIST, value)) => list = Some(value),
                Some((MASK, value)) => mask = Some(value),
                _ => {}
            }
        }
    }
    let bare = |value: &str| value.trim().trim_matches(['"', '\'']).trim().to_owned();
    let list = list.map(bare).filter(|value| !value.is_empty());
    let mask = mask.map(bare).filter(|value| !value.is_empty());
    let unclear = |name: &str, value: &str| Missing::unknown(format!("{name}={}", line(value)));
    match (list, mask) {
        (Some(list), _) if list == "-" => Ok(Some((CpuSet::new(), LIST))),
        (Some(list), _) => match list.parse() {
            Ok(set) => Ok(Some((set, LIST))),
            Err(_) => Err(unclear(LIST, &list)),
        },
        (None, Some(mask)) => match unmask(&mask) {
            Some(set) => Ok(Some((set, MASK))),
            None => Err(unclear(MASK, &mask)),
        },
        (None, None) => Ok(None),
    }
}

/// Returns the CPUs that irqbalance bans by default.
fn by_default(reader: &FactReader) -> CpuSet {
    let processor = &reader.host().processor;
    let both = [&processor.isolated, &processor.nohz_full];
    let known = both.into_iter().filter_map(|fact| reader.fact(fact).ok());
    known.flat_map(CpuSet::iter).collect()
}
