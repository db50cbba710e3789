//! What `tune` says, for a person.

use std::fmt::Write;

use anyhow::Result;
use punctual_tune::{
    Applied, Hold, How, LeftOut, PROFILES, Phase, Plan, Profile, Restored, Risk, SettingStatus,
    Status, Step, knob,
};

/// Names of one line, before it says how many more there are.
const NAMES_SHOWN: usize = 6;

/// A value as a person reads it.
fn readable(name: &str, value: &str) -> String {
    knob(name).map_or_else(|_| value.to_owned(), |knob| knob.readable(value))
}

/// Below this many characters words come one under the other.
const READABLE: usize = 40;

/// Rows with their columns below each other; the last column is wrapped. Where
/// that has no room it stands below its row.
pub(super) fn columns(rows: &[Vec<String>], indent: &str, width: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count.saturating_sub(1)).map(wide).collect();
    let before: usize = indent.len() + widths.iter().map(|width| width + 2).sum::<usize>();
    let last = |row: &Vec<String>| {
        row.get(count.saturating_sub(1))
            .cloned()
            .unwrap_or_default()
    };
    let longest = rows.iter().map(|row| last(row).chars().count()).max();
    // A path cannot be wrapped.
    let word = |row: &Vec<String>| {
        let words = last(row);
        let words = words.split_whitespace();
        words.map(|word| word.chars().count()).max().unwrap_or(0)
    };
    let word = rows.iter().map(word).max().unwrap_or(0);
    let least = READABLE.min(longest.unwrap_or(0)).max(word);
    let beside = width.saturating_sub(before) >= least;
    let (start, room) = match beside {
        true => (before, width.saturating_sub(before)),
        false => (indent.len() + 4, width.saturating_sub(indent.len() + 4)),
    };
    let mut text = String::new();
    for row in rows {
        let mut line = indent.to_owned();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        // A narrow terminal still gets words, not letters.
        let parts = wrapped(&last(row), room.max(24));
        for (place, part) in parts.iter().enumerate() {
            match (place, beside) {
                (0, true) => line.push_str(part),
                (0, false) if part.is_empty() => {}
                _ => {
                    line.truncate(line.trim_end().len());
                    let _ = write!(line, "\n{:start$}{part}", "");
                }
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let fits = |line: &String| line.chars().count() + 1 + word.chars().count() <= room;
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if fits(line) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `24, 25, 26 and 9 more`.
fn some_of(names: &[&str]) -> String {
    if names.len() <= NAMES_SHOWN + 1 {
        return names.join(", ");
    }
    let shown = names[..NAMES_SHOWN].join(", ");
    format!("{shown} and {} more", names.len() - NAMES_SHOWN)
}

/// A name, and which of several: `irq-affinity@24`, or with the names of many
/// on a line of their own.
fn name_of(settings: &[&str]) -> String {
    if let [one] = settings {
        return (*one).to_owned();
    }
    let first = settings.first().copied().unwrap_or_default();
    let name = first.split_once('@').map_or(first, |(name, _)| name);
    format!("{name} ({})", settings.len())
}

fn instances(settings: &[&str]) -> Vec<String> {
    settings
        .iter()
        .filter_map(|setting| setting.split_once('@'))
        .map(|(_, instance)| instance.to_owned())
        .collect()
}

/// Steps that say the same of several instances, together.
fn groups<'a, T>(items: &[&'a T], same: impl Fn(&T, &T) -> bool) -> Vec<Vec<&'a T>> {
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

fn step_table(steps: &[&Step], width: usize) -> String {
    let head = ["setting", "now", "then", "risk", ""].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let same =
        |a: &Step, b: &Step| a.knob == b.knob && a.current == b.current && a.target == b.target;
    for group in groups(steps, same) {
        let Some(step) = group.first() else { continue };
        let settings: Vec<&str> = group.iter().map(|step| step.setting.as_str()).collect();
        let names = instances(&settings);
        let mut remark = step.caution.to_owned();
        if names.len() > 1 {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            remark = format!("{}: {remark}", some_of(&names));
        }
        rows.push(vec![
            name_of(&settings),
            step.knob.readable(&step.current),
            step.knob.readable(&step.target),
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

fn remarks(all: &[String], width: usize) -> String {
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|remark| vec!["-".to_owned(), remark.clone()])
        .collect();
    format!("\nTo know:\n{}", columns(&rows, "  ", width))
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
        text.push_str("  all of it is there already\n");
        return text;
    }
    // One line, to be copied.
    let _ = writeln!(text, "  {missing}\n");
    let mut rows: Vec<Vec<String>> = Vec::new();
    if !present.is_empty() {
        rows.push(vec!["-".to_owned(), format!("there already: {present}")]);
    }
    for argument in plan.boot.iter().filter(|argument| !argument.present) {
        if let Some(instead) = &argument.instead {
            let text = format!("{} takes the place of {instead}", argument.argument);
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
        "{}{}: {} would change, {same} {} so already, {} left out. Nothing was written.",
        plan.label,
        for_cpus(plan),
        plural(steps.len(), "setting"),
        if same == 1 { "is" } else { "are" },
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
            "{}{}: all {} are so.\n",
            plan.label,
            for_cpus(plan),
            plural(plan.steps.len(), "setting")
        ),
        wrong => format!(
            "{}{}: {wrong} of {} are not so.\n\n{}",
            plan.label,
            for_cpus(plan),
            plural(plan.steps.len(), "setting"),
            step_table(&steps, width)
        ),
    };
    text.push_str(&left_out("Not looked at:", &plan.left_out, width));
    text
}

/// What was changed.
pub(super) fn applied(plan: &Plan, applied: &Applied, width: usize) -> String {
    if applied.changes.is_empty() {
        let mut text = format!(
            "{}: nothing was changed; {} so already.\n",
            applied.label,
            match applied.unchanged {
                1 => "1 setting is".to_owned(),
                count => format!("{count} settings are"),
            }
        );
        text.push_str(&left_out("Refused:", &applied.refused, width));
        text.push_str(&left_out("Left out:", &plan.left_out, width));
        return text;
    }
    let mut text = format!(
        "{}{}: {} changed and read back, {} so already.\n",
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
            .find(|step| step.knob.name == change.knob && step.instance == change.instance);
        rows.push(vec![
            step.map_or(change.knob, |step| &step.setting).to_owned(),
            readable(change.knob, &change.old),
            format!("-> {}", readable(change.knob, &change.new)),
        ]);
    }
    let _ = write!(text, "\n{}", columns(&rows, "  ", width));
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
        .map_or_else(String::new, |now| readable(&setting.knob, now));
    match &setting.state {
        Hold::InForce => "in force".to_owned(),
        Hold::Changed => format!("NOT in force: it is {now}, changed by someone else"),
        Hold::Old if before_boot => "undone by the reboot".to_owned(),
        Hold::Old => "NOT in force: it is as it was before".to_owned(),
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
            "\nThe machine was booted since: what is not on disk was undone by that. `punctual tune \
             revert` clears the journal."
        }
        Phase::InProgress => "\nA process is at it now.",
        Phase::Unfinished => "\nIt was not finished; the next command puts it back.",
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
                one.setting.clone(),
                readable(&one.knob, &one.old),
                format!("-> {}", readable(&one.knob, &one.target)),
                state_of(one, status.phase),
            ]
        })
        .collect();
    text.push_str(&columns(&rows, "  ", width));
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
        return "Nothing was applied: nothing to put back.\n".to_owned();
    }
    let rows: Vec<Vec<String>> = restored
        .iter()
        .map(|one| {
            let name = one.knob.split('@').next().unwrap_or_default();
            vec![
                one.knob.clone(),
                readable(name, &one.value),
                how(name, &one.how),
            ]
        })
        .collect();
    format!(
        "{} put back.\n\n{}",
        plural(restored.len(), "setting"),
        columns(&rows, "  ", usize::MAX)
    )
}

fn how(name: &str, how: &How) -> String {
    match how {
        How::Written { ours: true, .. } => "again".to_owned(),
        How::Written { found, .. } => {
            let found = readable(name, found);
            format!("again (someone else had set it to {found})")
        }
        How::WasThere => "was so already: someone else has put it back".to_owned(),
        How::Reboot => "reset by the reboot since".to_owned(),
        How::Gone => "has ended: nothing is left to put back".to_owned(),
        How::Forgotten => "GIVEN UP: not put back".to_owned(),
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
