//! Checks of steal time: time during which the hypervisor ran something else.

use punctual_model::Severity;

use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::{BASE, Check};

/// The file with the lines `cpu`, `cpu0` and so on.
const STAT: &str = "/proc/stat";

pub(super) const CHECK: Check = Check {
    name: "steal",
    subject: "stolen time",
    severity: Severity::High,
    expected: "0",
    reads: &[STAT],
    judge,
    why: "During stolen time, the host runs something else on the CPU.",
    source: "proc_stat(5), steal; arch/x86/kernel/kvm.c, kvm_steal_clock",
    ..BASE
};

fn judge(reader: &FactReader) -> Judged {
    let (cpus, duration) = reader.counted()?;
    let stolen: Vec<_> = cpus
        .iter()
        .filter_map(|cpu| Some((cpu.steal_ns?, cpu.cpu)))
        .collect();
    let Some((most, cpu)) = stolen.iter().max().copied() else {
        return Err(reader.not_counted("steal time"));
    };
    reader.saw(
        format!("/proc/stat over {duration}"),
        &format!("at most {most}, on CPU {cpu}"),
    );
    if most.0 == 0 && !reader.is_virtual()? {
        return Err(Missing::not_applicable(
            "no hypervisor that could steal time",
        ));
    }
    if most.0 > 0 {
        let found = format!("{most} of {duration} on CPU {cpu}");
        return Ok(Verdict::Fail(found));
    }
    // Hyper-V and some other hypervisors never report any steal time. Zero is only meaningful if
    // steal time was reported at least once.
    match since_boot(reader)? {
        0 => Err(Missing::unknown(format!(
            "none since boot, but the hypervisor{} may not report stolen time",
            reader
                .host()
                .virtualisation
                .hypervisor
                .get()
                .map_or_else(String::new, |name| format!(" ({})", line(name)))
        ))),
        _ => Ok(Verdict::Ok("none (counted in steps of 10 ms)".to_owned())),
    }
}

/// Returns the ticks of steal time of all CPUs since boot, which is the eighth number of the first
/// line.
fn since_boot(reader: &FactReader) -> Result<u64, Missing> {
    let text = reader.always(reader.text(STAT))?;
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let ticks = all.and_then(|line| line.split_whitespace().nth(7)?.parse().ok());
    ticks.ok_or_else(|| Missing::unknown(format!("{STAT} has no steal time")))
}
