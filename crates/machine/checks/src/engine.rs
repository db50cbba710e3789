//! Applies the checks to the facts. This module knows nothing about individual checks.

use punctual_model::{
    AUDIT_SCHEMA, Audit, AuditedHost, CpuSet, Expectation, Fact, FactSet, Finding, FindingState,
    Nanos, Reading, ReservedCpus,
};

use crate::fact_reader::{FactReader, Judged, Missing, Verdict, line};
use crate::kernel;
use crate::placeholders::fill;
use crate::remedy::{self, For};
use crate::{Check, Role, TOPICS, Topic};

/// The input of an audit, other than the facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Purpose of the machine.
    pub role: Role,
    /// CPUs whose latency matters. `None` selects the isolated CPUs, or all CPUs if none is
    /// isolated.
    pub cpus: Option<CpuSet>,
}

/// The reason why an audit is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The request names CPUs that are offline.
    #[error("CPU {absent} is not online on that machine; the online CPUs are {online}")]
    NoSuchCpu {
        /// CPUs that are offline.
        absent: CpuSet,
        /// CPUs that are online.
        online: CpuSet,
    },
    /// The request names no CPU.
    #[error("no CPU was given: pass a list such as --cpus 2-3, or omit --cpus")]
    NoCpu,
}

/// Rule of thumb for the worst-case latency in clock cycles. The OSADL found that the worst case of
/// its tuned PREEMPT_RT machines is near 10^5 cycles (40 to 50 µs at 2.4 GHz).
const WORST_CYCLES: u64 = 100_000;

/// Runs every check on the facts. Reads nothing else.
///
/// # Errors
/// Returns an error if the request names CPUs that are not online, or no CPU.
pub fn audit(facts: &FactSet, request: &Request) -> Result<Audit, AuditError> {
    let (cpus, because) = measured(facts, request)?;
    let others = online(facts).map_or_else(CpuSet::new, |all| all.difference(&cpus));
    let mut findings: Vec<Finding> = TOPICS
        .iter()
        .flat_map(|topic| topic.checks.iter().map(move |check| (topic, check)))
        .map(|(topic, check)| finding(topic, check, facts, request.role, &cpus, &others))
        .collect();
    let options = kernel::findings(&facts.kernel_config, request.role, Some(&facts.files));
    let new = |finding: &Finding| !kernel::is_seen_otherwise(finding);
    findings.extend(options.into_iter().filter(new));
    // The sort is stable: findings of the same severity remain in the order of the tables.
    findings.sort_by_key(Finding::order);
    let host = &facts.host;
    Ok(Audit {
        schema: AUDIT_SCHEMA,
        program: facts.program.clone(),
        role: request.role.name().to_owned(),
        role_meaning: request.role.meaning().to_owned(),
        host: AuditedHost {
            hostname: host.hostname.value.clone(),
            kernel: host.kernel.release.value.clone(),
            distribution: host.distribution.name.value.clone(),
            processor: host.processor.model.value.clone(),
            fingerprint: host.fingerprint.clone(),
        },
        expectation: expectation(facts, &cpus),
        cpus,
        cpus_because: because,
        findings,
        sample: facts.sample.clone(),
    })
}

/// Returns the CPUs that an audit treats as measured: those in the request, otherwise the isolated
/// ones, otherwise all.
///
/// # Errors
/// Returns an error if the request names CPUs that are not online, or no CPU.
pub fn measured_cpus(facts: &FactSet, request: &Request) -> Result<CpuSet, AuditError> {
    measured(facts, request).map(|(cpus, _)| cpus)
}

/// Returns the patterns of files to capture for an audit, without duplicates.
pub fn patterns() -> Vec<&'static str> {
    let checks = TOPICS.iter().flat_map(|topic| topic.checks);
    let mut all: Vec<&str> = checks
        .flat_map(|check| [check.files(), remedy::deciding(&check.all_remedies())].concat())
        .chain(kernel::switches())
        .chain([CPUINFO, MAX_FREQUENCY])
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn online(facts: &FactSet) -> Option<&CpuSet> {
    facts.host.processor.online.get()
}

/// Returns the CPUs whose latency matters, and the reason for this choice.
fn measured(facts: &FactSet, request: &Request) -> Result<(CpuSet, String), AuditError> {
    let online = online(facts).cloned().unwrap_or_default();
    if let Some(cpus) = &request.cpus {
        let absent = cpus.difference(&online);
        if cpus.is_empty() {
            return Err(AuditError::NoCpu);
        }
        if !online.is_empty() && !absent.is_empty() {
            return Err(AuditError::NoSuchCpu { absent, online });
        }
        return Ok((cpus.clone(), "as requested".to_owned()));
    }
    let processor = &facts.host.processor;
    let reserved = ReservedCpus::find(&processor.isolated, &processor.nohz_full, &online);
    if let Some(reserved) = reserved {
        return Ok((reserved.cpus, reserved.because));
    }
    let all = "no CPU is isolated, so all CPUs count as measured";
    Ok((online, all.to_owned()))
}

fn finding(
    topic: &Topic,
    check: &Check,
    facts: &FactSet,
    role: Role,
    cpus: &CpuSet,
    others: &CpuSet,
) -> Finding {
    let reader = FactReader::new(facts, role, cpus, others).for_setting(check.setting);
    let (state, found) = outcome((check.judge)(&reader));
    let stance = check.stances.iter().find(|s| s.roles.contains(&role));
    let problem = matches!(state, FindingState::Fail | FindingState::Warn);
    let kernel = &facts.host.kernel;
    let audience = For {
        role,
        cpus,
        others,
        files: &facts.files,
        version: kernel.version.get().map(String::as_str),
        rt: kernel.preempt_rt.get().copied(),
    };
    let remedies = if problem {
        check.all_remedies()
    } else {
        Vec::new()
    };
    let here = problem.then(|| (check.here)(&reader)).flatten();
    let permanently = here.or_else(|| match check.permanent(reader.architecture()).as_str() {
        "" => remedy::permanently(&remedies, audience),
        text => fill(text, cpus, others),
    });
    Finding {
        id: format!("{}-{}", topic.name, check.name),
        topic: topic.name.to_owned(),
        subject: check.subject.to_owned(),
        title: Finding::title_of(check.subject, state, &found),
        state,
        severity: stance.map_or(check.severity, |stance| stance.severity),
        found,
        expected: check.expected.to_owned(),
        evidence: reader.into_evidence(),
        why: check.why.to_owned(),
        source: check.documented().to_owned(),
        role_note: stance.map(|stance| format!("for {role}: {}", stance.note)),
        now: remedy::commands(&remedies, audience),
        remedies: remedy::settings(&remedies, audience),
        reboot: permanently.filter(|_| problem),
    }
}

fn outcome(judged: Judged) -> (FindingState, String) {
    let (state, found) = match judged {
        Ok(Verdict::Ok(found)) => (FindingState::Ok, found),
        Ok(Verdict::Warn(found)) => (FindingState::Warn, found),
        Ok(Verdict::Fail(found)) => (FindingState::Fail, found),
        Err(Missing::Unknown(why)) => (FindingState::Unknown, why),
        Err(Missing::NotApplicable(why)) => (FindingState::NotApplicable, why),
    };
    (state, found)
}

const CPUINFO: &str = "/proc/cpuinfo";
const MAX_FREQUENCY: &str = "/sys/devices/system/cpu/cpu#/cpufreq/cpuinfo_max_freq";

/// Estimates the longest latency by the rule of thumb, using the lowest of the maximum frequencies
/// of the measured CPUs.
fn expectation(facts: &FactSet, cpus: &CpuSet) -> Expectation {
    let frequency = frequency(facts, cpus);
    Expectation {
        max_ns: frequency
            .get()
            .filter(|khz| **khz > 0)
            .map(|khz| Nanos(WORST_CYCLES * 1_000_000 / khz)),
        frequency_khz: Some(frequency),
        measured: None,
        not_measured: None,
    }
}

fn frequency(facts: &FactSet, cpus: &CpuSet) -> Fact<u64> {
    let text = |file: &str| match facts.files.get(file) {
        Some(Reading::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let lowest = cpus
        .iter()
        .filter_map(|cpu| {
            let file = MAX_FREQUENCY.replacen('#', &cpu.to_string(), 1);
            let khz: u64 = text(&file)?.parse().ok()?;
            Some((khz, file))
        })
        .min();
    if let Some((khz, file)) = lowest {
        return Fact::known(khz, file);
    }
    let megahertz = text(CPUINFO).and_then(|text| {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(key, _)| key.trim() == "cpu MHz")
            .filter_map(|(_, value)| value.trim().parse::<f64>().ok())
            .filter(|mhz| mhz.is_finite() && (1.0..1e6).contains(mhz))
            .reduce(f64::min)
    });
    match megahertz {
        Some(mhz) => Fact::known((mhz * 1_000.0) as u64, CPUINFO),
        None => Fact::unknown(
            MAX_FREQUENCY.replace('#', "N"),
            line("neither cpufreq nor /proc/cpuinfo reports the clock frequency"),
        ),
    }
}
