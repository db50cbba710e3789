//! The CPUs whose RCU callbacks are offloaded (kernel/rcu/tree_nocb.h, `rcu_init_nohz`).

use punctual_model::CpuSet;

use crate::fact_reader::{FactReader, Judged, Missing, ParameterEffect, Verdict};

/// Without this option no CPU is offloaded, regardless of the command line.
pub(super) const OFFLOADING: &str = "CONFIG_RCU_NOCB_CPU";
/// Options that offload all CPUs if neither rcu_nocbs nor nohz_full is given. The first exists
/// since Linux 5.19, the second up to 4.12.
const BY_DEFAULT: [&str; 2] = ["CONFIG_RCU_NOCB_CPU_DEFAULT_ALL", "CONFIG_RCU_NOCB_CPU_ALL"];

pub(super) fn callbacks(reader: &FactReader) -> Judged {
    let full = nohz_full(reader);
    let nocbs = reader.boot("rcu_nocbs")?;
    let built = built(reader);
    if built == Some(false) {
        let ignored = match nocbs {
            Some(_) => format!(": rcu_nocbs has no effect without {OFFLOADING}"),
            None => String::new(),
        };
        return Ok(Verdict::Fail(format!(
            "are run on CPU {}{ignored}",
            reader.cpus
        )));
    }
    let listed = match nocbs {
        // Without a list, the parameter only allows offloading CPUs later.
        None | Some("") => CpuSet::new(),
        Some(list) => reader.boot_cpus("rcu_nocbs", list)?,
    };
    let offloaded: CpuSet = listed.iter().chain(full.iter()).collect();
    let open = reader.cpus.difference(&offloaded);
    if open.is_empty() {
        return match built {
            Some(_) => Ok(Verdict::Ok(format!("are offloaded from CPU {offloaded}"))),
            None => Err(Missing::unknown(format!(
                "rcu_nocbs is set, but it is unknown whether the kernel has {OFFLOADING}"
            ))),
        };
    }
    let run = Verdict::Fail(match nocbs {
        Some("") => format!("are run on CPU {open}: rcu_nocbs is set without a list of CPUs"),
        _ => format!("are run on CPU {open}"),
    });
    // If either of the two parameters is given, the default does not apply.
    if nocbs.is_some() || !full.is_empty() {
        return Ok(run);
    }
    let states = BY_DEFAULT.map(|option| (option, reader.built_with(option)));
    if let Some((option, _)) = states.iter().find(|(_, state)| *state == Some(true)) {
        let found = format!("are offloaded from all CPUs ({option}=y and no rcu_nocbs)");
        return Ok(Verdict::Ok(found));
    }
    if states.iter().all(|(_, state)| *state == Some(false)) {
        return Ok(run);
    }
    // Without these parameters, offloading threads exist only if offloading is the default.
    let there = has_threads(reader).map_err(|missing| match missing {
        Missing::NotApplicable(why) | Missing::Unknown(why) => Missing::unknown(format!(
            "rcu_nocbs is not set, and it is unknown whether the kernel has {}: {why}",
            BY_DEFAULT[0]
        )),
    });
    if there? {
        Ok(Verdict::Ok(
            "are offloaded from all CPUs: rcuo threads exist without rcu_nocbs".to_owned(),
        ))
    } else {
        Ok(run)
    }
}

/// Returns whether rcu_nocb_poll has an effect.
pub(super) fn polls(reader: &FactReader) -> Result<ParameterEffect, Missing> {
    match reader.obeys("rcu_nocb_poll", OFFLOADING) {
        Err(_) if built(reader) == Some(true) => Ok(ParameterEffect::Yes),
        other => other,
    }
}

/// Returns the nohz_full CPUs that the kernel has accepted, or none if the kernel reports none.
fn nohz_full(reader: &FactReader) -> CpuSet {
    let fact = &reader.host().processor.nohz_full;
    reader.fact(fact).cloned().unwrap_or_default()
}

/// Returns whether the kernel can offload, according to its configuration. If the configuration is
/// unknown, the file nohz_full (CONFIG_NO_HZ_FULL selects the option) or threads that run callbacks
/// are proof.
fn built(reader: &FactReader) -> Option<bool> {
    let fact = &reader.host().processor.nohz_full;
    let file = fact.get().is_some() && fact.source.ends_with("/nohz_full");
    // If the file nohz_full lists CPUs, the kernel can offload, even if its configuration is
    // unknown.
    if fact.get().is_some_and(|cpus| !cpus.is_empty()) {
        return Some(true);
    }
    match reader.built_with(OFFLOADING) {
        Some(built) => Some(built),
        None if file => Some(true),
        None => has_threads(reader).ok().filter(|has| *has),
    }
}

/// Returns whether threads exist that run the callbacks of other CPUs: `rcuop/N`, `rcuos/N`, and
/// `rcuob/N` of Linux 4.
fn has_threads(reader: &FactReader) -> Result<bool, Missing> {
    let tasks = reader.tasks()?;
    if !tasks.iter().any(|task| task.kernel) {
        return Err(Missing::unknown("/proc shows no kernel threads"));
    }
    let is = |name: &str| {
        ["rcuop/", "rcuos/", "rcuob/"]
            .iter()
            .any(|s| name.starts_with(s))
    };
    let found = tasks.iter().find(|task| task.kernel && is(&task.name));
    match found {
        Some(task) => reader.saw(format!("/proc/{}/stat", task.pid), &task.name),
        None => reader.saw(&reader.facts.tasks.source, "no rcuop or rcuos thread"),
    }
    Ok(found.is_some())
}
