//! What `tune` says, for a person.

use std::fmt::Write;

use anyhow::Result;
use punctual_model::Risk;
use punctual_tune::{
    Applied, Hold, How, LeftOut, PROFILES, Phase, Plan, Profile, Restored, SettingStatus, Status,
    Step, setting,
};

use super::rows::{columns, groups, instances, merged, name_of, some_of, wrapped};

/// A value as a person reads it.
fn readable(name: &str, value: &str) -> String {
    setting(name).map_or_else(
        |_| value.to_owned(),
        |row| punctual_tune::readable(row, value),
    )
}

fn step_table(steps: &[&Step], width: usize) -> String {
    let head = ["setting", "current", "new", "risk", ""].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let same = |a: &Step, b: &Step| {
        a.setting == b.setting && a.current == b.current && a.target == b.target
    };
    for group in groups(steps, same) {
        let Some(step) = group.first() else { continue };
        let settings: Vec<&str> = group.iter().map(|step| step.label.as_str()).collect();
        let names = instances(&settings);
        let mut remark = step.caution.to_owned();
        if names.len() > 1 {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            remark = format!("{}: {remark}", some_of(&names));
        }
        rows.push(vec![
            name_of(&settings),
            punctual_tune::readable(step.setting, &step.current),
            punctual_tune::readable(step.setting, &step.target),
            step.risk.to_string(),
            remark,
        ]);
    }
    columns(&rows, "  ", width)
}

fn left_out(title: &str, all: &[LeftOut], width: usize) -> String {
    if all.is_empty() {
        return String::new();
    }
    let items: Vec<&LeftOut> = all.iter().collect();
    let kind = |one: &LeftOut| one.setting.split('@').next().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for group in groups(&items, |a, b| a.reason == b.reason && kind(a) == kind(b)) {
        let settings: Vec<&str> = group.iter().map(|one| one.setting.as_str()).collect();
        let reason = group.first().map_or("", |one| one.reason.as_str());
        let names = instances(&settings);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        rows.push(vec![
            name_of(&settings),
            match names.len() {
                0 | 1 => reason.to_owned(),
                _ => format!("{}: {reason}", some_of(&names)),
            },
        ]);
    }
    format!("\n{title}\n{}", columns(&rows, "  ", width))
}

/// A remark without its first number, and that: `interrupt `, `24`, `: …`.
fn around_number(remark: &str) -> Option<(&str, &str, &str)> {
    let start = remark.find(|c: char| c.is_ascii_digit())?;
    let length = remark[start..].find(|c: char| !c.is_ascii_digit())?;
    let (before, rest) = remark.split_at(start);
    let (number, after) = rest.split_at(length);
    Some((before, number, after))
}

/// Those that differ in their first number only are one.
fn remarks(all: &[String], width: usize) -> String {
    if all.is_empty() {
        return String::new();
    }
    let texts: Vec<&String> = all.iter().collect();
    let same = |a: &String, b: &String| match (around_number(a), around_number(b)) {
        (Some((before, _, after)), Some((too, _, rest))) => (before, after) == (too, rest),
        _ => a == b,
    };
    let rows: Vec<Vec<String>> = groups(&texts, same)
        .iter()
        .filter_map(|group| {
            let numbers: Vec<&str> = group
                .iter()
                .filter_map(|a| Some(around_number(a)?.1))
                .collect();
            let first = group.first()?;
            Some(match around_number(first) {
                Some((before, _, after)) if numbers.len() > 1 => {
                    format!("{before}{}{after}", some_of(&numbers))
                }
                _ => (*first).clone(),
            })
        })
        .map(|remark| vec!["-".to_owned(), remark])
        .collect();
    format!("\nNote:\n{}", columns(&rows, "  ", width))
}

fn boot(plan: &Plan, width: usize) -> String {
    if plan.boot.is_empty() {
        return String::new();
    }
    let words = |present: bool| {
        plan.boot
            .iter()
            .filter(|argument| argument.present == present)
            .map(|argument| argument.argument.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let (missing, present) = (words(false), words(true));
    let mut text = String::from("\nKernel command line (set at boot; nothing is edited here):\n");
    if missing.is_empty() {
        text.push_str("  all present\n");
        return text;
    }
    // One line, to be copied.
    let _ = writeln!(text, "  {missing}\n");
    let mut rows: Vec<Vec<String>> = Vec::new();
    if !present.is_empty() {
        rows.push(vec!["-".to_owned(), format!("present: {present}")]);
    }
    for argument in plan.boot.iter().filter(|argument| !argument.present) {
        if let Some(instead) = &argument.instead {
            let text = format!("{} replaces {instead}", argument.argument);
            rows.push(vec!["-".to_owned(), text]);
        }
    }
    rows.extend(
        plan.boot_instructions
            .iter()
            .map(|step| vec!["-".to_owned(), step.clone()]),
    );
    text.push_str(&columns(&rows, "  ", width));
    text
}

fn plural(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    }
}

fn for_cpus(plan: &Plan) -> String {
    let cpus = plan.cpus.as_ref();
    cpus.map_or_else(String::new, |cpus| format!(" for CPU {cpus}"))
}

/// What would change.
pub(super) fn plan(plan: &Plan, width: usize) -> String {
    let steps: Vec<&Step> = plan.changes().collect();
    let same = plan.steps.len() - steps.len();
    let summary = format!(
        "{}{}: {} would change, {same} already set, {} left out. Nothing was written.",
        plan.label,
        for_cpus(plan),
        plural(steps.len(), "setting"),
        plan.left_out.len(),
    );
    let mut text = wrapped(&summary, width).join("\n");
    text.push('\n');
    if !steps.is_empty() {
        let _ = write!(text, "\n{}", step_table(&steps, width));
    }
    let high = steps.iter().filter(|step| step.risk == Risk::High).count();
    if high > 0 {
        let _ = writeln!(
            text,
            "\n{} of high risk: read what it can do.",
            plural(high, "change")
        );
    }
    text.push_str(&left_out("Left out:", &plan.left_out, width));
    text.push_str(&boot(plan, width));
    text.push_str(&remarks(&plan.remarks, width));
    text
}

/// Whether what a profile asks for is so.
pub(super) fn verified(plan: &Plan, width: usize) -> String {
    let steps: Vec<&Step> = plan.changes().collect();
    let mut text = match steps.len() {
        0 => format!(
            "{}{}: all {} in force.\n",
            plan.label,
            for_cpus(plan),
            plural(plan.steps.len(), "setting")
        ),
        wrong => format!(
            "{}{}: {wrong} of {} not in force.\n\n{}",
            plan.label,
            for_cpus(plan),
            plural(plan.steps.len(), "setting"),
            step_table(&steps, width)
        ),
    };
    text.push_str(&left_out("Not checked:", &plan.left_out, width));
    text
}

/// What was changed.
pub(super) fn applied(plan: &Plan, applied: &Applied, width: usize) -> String {
    if applied.changes.is_empty() {
        let mut text = format!(
            "{}: nothing changed; {} already set.\n",
            applied.label, applied.unchanged
        );
        text.push_str(&left_out("Refused:", &applied.refused, width));
        text.push_str(&left_out("Left out:", &plan.left_out, width));
        return text;
    }
    let mut text = format!(
        "{}{}: {} changed and read back, {} already set.\n",
        applied.label,
        for_cpus(plan),
        plural(applied.changes.len(), "setting"),
        applied.unchanged,
    );
    let mut rows = Vec::new();
    for change in &applied.changes {
        let step = plan
            .steps
            .iter()
            .find(|step| step.setting.name == change.setting && step.instance == change.instance);
        rows.push(vec![
            step.map_or(change.setting, |step| &step.label).to_owned(),
            readable(change.setting, &change.old),
            format!("-> {}", readable(change.setting, &change.new)),
        ]);
    }
    let _ = write!(text, "\n{}", columns(&merged(rows), "  ", width));
    text.push_str(&left_out("Refused:", &applied.refused, width));
    text.push_str(&left_out("Left out:", &plan.left_out, width));
    text.push_str(&boot(plan, width));
    text.push_str(&remarks(&applied.remarks, width));
    let _ = writeln!(
        text,
        "\nThis stays until `punctual tune revert` or a reboot. Journal: {}",
        applied.journal.display()
    );
    text
}

fn state_of(setting: &SettingStatus, phase: Phase) -> String {
    let before_boot = phase == Phase::BeforeBoot;
    let now = setting
        .now
        .as_deref()
        .map_or_else(String::new, |now| readable(&setting.setting, now));
    match &setting.state {
        Hold::InForce => "in force".to_owned(),
        Hold::Changed => format!("NOT in force: changed to {now} by someone else"),
        Hold::Old if before_boot => "undone by the reboot".to_owned(),
        Hold::Old => "NOT in force: it has its old value".to_owned(),
        Hold::Gone => "gone: the thread has ended".to_owned(),
        Hold::Unknown { reason } => format!("unknown: {reason}"),
    }
}

/// What is applied.
pub(super) fn status(status: Option<&Status>, width: usize) -> String {
    let Some(status) = status else {
        return "Nothing is applied.\n".to_owned();
    };
    let cpus = status.cpus.as_ref();
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" for CPU {cpus}"));
    let applied = status.applied.map_or_else(String::new, |time| {
        let local = time.to_zoned(jiff::tz::TimeZone::system());
        format!(", applied {}", local.strftime("%Y-%m-%d %H:%M:%S"))
    });
    let phase = match status.phase {
        Phase::Applied => "",
        Phase::BeforeBoot => {
            "\nThe machine was booted since, which undid what is not on disk. `punctual tune \
             revert` clears the journal."
        }
        Phase::InProgress => "\nA process is changing it now.",
        Phase::Unfinished => "\nIt was not finished; the next command restores it.",
    };
    let in_force = |one: &&SettingStatus| one.state == Hold::InForce;
    let count = status.settings.iter().filter(in_force).count();
    let mut text = format!(
        "{}{cpus}{applied}: {count} of {} in force.{phase}\n\n",
        status.label,
        plural(status.settings.len(), "setting"),
    );
    let rows: Vec<Vec<String>> = status
        .settings
        .iter()
        .map(|one| {
            vec![
                one.label.clone(),
                readable(&one.setting, &one.old),
                format!("-> {}", readable(&one.setting, &one.target)),
                state_of(one, status.phase),
            ]
        })
        .collect();
    text.push_str(&columns(&merged(rows), "  ", width));
    let all: Vec<String> = status
        .settings
        .iter()
        .filter_map(|one| one.remark.clone())
        .collect();
    text.push_str(&remarks(&all, width));
    let _ = writeln!(text, "\nJournal: {}", status.journal.display());
    text
}

/// What is as it was.
pub(super) fn reverted(restored: &[Restored]) -> String {
    if restored.is_empty() {
        return "Nothing is applied: nothing to restore.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = restored
        .iter()
        .map(|one| {
            let name = one.setting.split('@').next().unwrap_or_default();
            vec![
                one.setting.clone(),
                readable(name, &one.value),
                how(name, &one.how),
            ]
        })
        .collect();
    format!(
        "{} restored.\n\n{}",
        plural(restored.len(), "setting"),
        columns(&merged(rows), "  ", usize::MAX)
    )
}

fn how(name: &str, how: &How) -> String {
    match how {
        How::Written { ours: true, .. } => "restored".to_owned(),
        How::Written { found, .. } => {
            let found = readable(name, found);
            format!("restored (someone else had set it to {found})")
        }
        How::WasThere => "already restored by someone else".to_owned(),
        How::Reboot => "reset by the reboot since".to_owned(),
        How::Gone => "has ended: nothing to restore".to_owned(),
        How::Forgotten => "NOT restored, given up".to_owned(),
    }
}

/// The built-in profiles.
pub(super) fn profiles(width: usize) -> Result<String> {
    let mut rows = Vec::new();
    for built_in in PROFILES {
        let profile = Profile::find(built_in.name)?;
        rows.push(vec![
            built_in.name.to_owned(),
            plural(profile.len(), "setting"),
            profile.summary,
        ]);
    }
    Ok(format!(
        "{}\npunctual tune profiles --show NAME prints one, to be copied and edited.\n",
        columns(&rows, "", width)
    ))
}
