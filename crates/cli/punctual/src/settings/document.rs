//! The output of `tune`.

use punctual_model::{Risk, counted};
use punctual_report::document::{Block, Column, Document, Field, Fold, Row, Section, Table, Tone};
use punctual_tune::{
    Applied, Hold, How, LeftOut, PROFILES, Phase, Plan, Profile, Restored, SettingStatus, Status,
    Step, TuneError, setting,
};

use super::rows::{groups, instances, merged, name_of, some_of};

/// If a column is narrower than this, words in its cells may be broken when they are wrapped.
const READABLE: usize = 24;

/// Returns a value in a form that is easy to read.
fn readable(name: &str, value: &str) -> String {
    setting(name).map_or_else(
        |_| value.to_owned(),
        |row| punctual_tune::readable(row, value),
    )
}

/// Returns a table whose last column is wrapped.
pub(crate) fn table(titles: &[&str], rows: Vec<Vec<String>>) -> Block {
    let last = titles.len().saturating_sub(1);
    let column = |(place, title): (usize, &&str)| {
        if place == last {
            Column::left(*title).fold(Fold::Wrap(READABLE))
        } else {
            Column::left(*title)
        }
    };
    let columns = titles.iter().enumerate().map(column).collect();
    Block::Table(Table::new(
        columns,
        rows.into_iter().map(Row::new).collect(),
    ))
}

/// Same as [`table`], but several instances of a setting share a row if they have the same values.
fn merged_table(titles: &[&str], rows: Vec<Vec<String>>) -> Block {
    let rows = merged(rows);
    let mut titles = titles.to_vec();
    if rows.first().is_some_and(|row| row.len() > titles.len()) {
        titles.push("which");
    }
    table(&titles, rows)
}

fn steps(steps: &[&Step]) -> Section {
    let same = |a: &Step, b: &Step| {
        a.setting == b.setting && a.current == b.current && a.target == b.target
    };
    let mut rows = Vec::new();
    for group in groups(steps, same) {
        let Some(step) = group.first() else { continue };
        let settings: Vec<&str> = group.iter().map(|step| step.label.as_str()).collect();
        rows.push(vec![
            name_of(&settings),
            punctual_tune::readable(step.setting, &step.current),
            punctual_tune::readable(step.setting, &step.target),
            step.risk.to_string(),
            of_instances(&settings, step.caution),
        ]);
    }
    section(rows, |rows| {
        table(&["setting", "current", "new", "risk", "caution"], rows)
    })
}

/// Returns a remark about one or several instances of a setting.
fn of_instances(settings: &[&str], remark: &str) -> String {
    let names = instances(settings);
    match names.len() {
        0 | 1 => remark.to_owned(),
        _ => {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            format!("{}: {remark}", some_of(&names))
        }
    }
}

/// Returns a section with these rows, or an empty section if there are none.
fn section(rows: Vec<Vec<String>>, block: impl FnOnce(Vec<Vec<String>>) -> Block) -> Section {
    if rows.is_empty() {
        Section::default()
    } else {
        Section::new(vec![block(rows)])
    }
}

fn left_out(title: &str, all: &[LeftOut]) -> Section {
    let items: Vec<&LeftOut> = all.iter().collect();
    let kind = |one: &LeftOut| one.setting.split('@').next().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for group in groups(&items, |a, b| a.reason == b.reason && kind(a) == kind(b)) {
        let settings: Vec<&str> = group.iter().map(|one| one.setting.as_str()).collect();
        let reason = group.first().map_or("", |one| one.reason.as_str());
        rows.push(vec![name_of(&settings), of_instances(&settings, reason)]);
    }
    section(rows, |rows| table(&[title, "reason"], rows))
}

/// Splits a remark into its first number and the texts around it: `interrupt `, `24`, `: …`.
fn around_number(remark: &str) -> Option<(&str, &str, &str)> {
    let start = remark.find(|c: char| c.is_ascii_digit())?;
    let length = remark[start..].find(|c: char| !c.is_ascii_digit())?;
    let (before, rest) = remark.split_at(start);
    let (number, after) = rest.split_at(length);
    Some((before, number, after))
}

/// Returns a section with these remarks. Remarks that differ only in their first number are merged.
fn remarks(all: &[String]) -> Section {
    let texts: Vec<&String> = all.iter().collect();
    let same = |a: &String, b: &String| match (around_number(a), around_number(b)) {
        (Some((before, _, after)), Some((too, _, rest))) => (before, after) == (too, rest),
        _ => a == b,
    };
    let one = |group: &Vec<&String>| {
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
    };
    let remarks = groups(&texts, same);
    let notes = remarks.iter().filter_map(one);
    let notes: Vec<Field> = notes.map(|note| Field::new("note", note)).collect();
    Section::new(Block::fields(notes).into_iter().collect())
}

fn boot(plan: &Plan) -> Section {
    if plan.boot.is_empty() {
        return Section::default();
    }
    let words = |present: bool| {
        let arguments = plan.boot.iter().filter(|one| one.present == present);
        let words: Vec<&str> = arguments.map(|one| one.argument.as_str()).collect();
        words.join(" ")
    };
    let (missing, present) = (words(false), words(true));
    let mut fields = Vec::new();
    if !missing.is_empty() {
        fields.push(Field {
            is_command: true,
            ..Field::new("missing", missing)
        });
    }
    if !present.is_empty() {
        fields.push(Field::new("present", present));
    }
    for argument in plan.boot.iter().filter(|argument| !argument.present) {
        if let Some(instead) = &argument.instead {
            let text = format!("{} replaces {instead}", argument.argument);
            fields.push(Field::new("note", text));
        }
    }
    if plan.boot.iter().any(|argument| !argument.present) {
        let steps = plan.boot_instructions.iter();
        fields.extend(steps.map(|step| Field::new("step", step)));
    }
    Section::titled(
        "Kernel command line (set at boot; this command does not edit it)",
        vec![Block::Fields(fields)],
    )
}

fn for_cpus(plan: &Plan) -> String {
    let cpus = plan.cpus.as_ref();
    cpus.map_or_else(String::new, |cpus| format!(" for CPU {cpus}"))
}

fn paragraph(text: impl Into<String>) -> Section {
    Section::new(vec![Block::Text(Tone::Plain, text.into())])
}

fn document(sections: impl IntoIterator<Item = Section>) -> Document {
    let mut document = Document::default();
    for section in sections {
        document.push(section);
    }
    document
}

/// Returns a document about the planned changes.
pub(crate) fn plan(plan: &Plan) -> Document {
    let changes: Vec<&Step> = plan.changes().collect();
    let same = plan.steps.len() - changes.len();
    let summary = format!(
        "{}{}: {} would change, {same} already set, {} left out. Nothing was written.",
        plan.label,
        for_cpus(plan),
        counted(changes.len() as u64, "setting", "settings"),
        plan.left_out.len(),
    );
    let high = changes.iter().filter(|step| step.risk == Risk::High);
    let high = match high.count() {
        0 => Section::default(),
        high => {
            let text = format!(
                "{} of high risk: read the cautions first.",
                counted(high as u64, "change", "changes")
            );
            Section::new(vec![Block::Text(Tone::Warning, text)])
        }
    };
    document([
        paragraph(summary),
        steps(&changes),
        high,
        left_out("left out", &plan.left_out),
        boot(plan),
        remarks(&plan.remarks),
    ])
}

/// Returns a document about whether the settings of a profile are in force.
pub(crate) fn verified(plan: &Plan) -> Document {
    let changes: Vec<&Step> = plan.changes().collect();
    let total = counted(plan.steps.len() as u64, "setting", "settings");
    let found = match changes.len() {
        0 => format!("all {total} in force"),
        wrong => format!("{wrong} of {total} not in force"),
    };
    document([
        paragraph(format!("{}{}: {found}.", plan.label, for_cpus(plan))),
        steps(&changes),
        left_out("not checked", &plan.left_out),
    ])
}

/// Returns a document about the changes that were made.
pub(crate) fn applied(plan: &Plan, applied: &Applied) -> Document {
    let refused = left_out("refused", &applied.refused);
    let left_out = left_out("left out", &plan.left_out);
    if applied.changes.is_empty() {
        let text = format!(
            "{}: nothing changed; {} already set.",
            applied.label, applied.unchanged
        );
        return document([paragraph(text), refused, left_out]);
    }
    let summary = format!(
        "{}{}: {} changed and read back, {} already set.",
        applied.label,
        for_cpus(plan),
        counted(applied.changes.len() as u64, "setting", "settings"),
        applied.unchanged,
    );
    let changes = applied.changes.iter().map(|change| {
        let step = plan
            .steps
            .iter()
            .find(|step| step.setting.name == change.setting && step.instance == change.instance);
        vec![
            step.map_or(change.setting, |step| &step.label).to_owned(),
            readable(change.setting, &change.old),
            readable(change.setting, &change.new),
        ]
    });
    let changes = section(changes.collect(), |rows| {
        merged_table(&["setting", "old", "new"], rows)
    });
    let stays = format!(
        "The settings stay until `punctual tune revert` or a reboot. Journal: {}",
        applied.journal.display()
    );
    document([
        paragraph(summary),
        changes,
        refused,
        left_out,
        boot(plan),
        remarks(&applied.remarks),
        paragraph(stays),
    ])
}

fn state_of(setting: &SettingStatus, phase: Phase) -> String {
    let before_boot = phase == Phase::BeforeBoot;
    let now = setting
        .now
        .as_deref()
        .map_or_else(String::new, |now| readable(&setting.setting, now));
    match &setting.state {
        Hold::InForce => "in force".to_owned(),
        Hold::Changed => format!("NOT in force: changed to {now} by another program"),
        Hold::Old if before_boot => "undone by the reboot".to_owned(),
        Hold::Old => "NOT in force: the old value is set".to_owned(),
        Hold::Gone => "gone: the thread has ended".to_owned(),
        Hold::Unknown { reason } => format!("unknown: {reason}"),
    }
}

/// Returns a document about the applied settings.
pub(crate) fn status(status: Option<&Status>) -> Document {
    let Some(status) = status else {
        return document([paragraph("Nothing is applied.")]);
    };
    let cpus = status.cpus.as_ref();
    let cpus = cpus.map_or_else(String::new, |cpus| format!(" for CPU {cpus}"));
    let applied = status.applied.map_or_else(String::new, |time| {
        let local = time.to_zoned(jiff::tz::TimeZone::system());
        format!(", applied {}", local.strftime("%Y-%m-%d %H:%M:%S"))
    });
    let in_force = |one: &&SettingStatus| one.state == Hold::InForce;
    let count = status.settings.iter().filter(in_force).count();
    let summary = format!(
        "{}{cpus}{applied}: {count} of {} in force.",
        status.label,
        counted(status.settings.len() as u64, "setting", "settings"),
    );
    let mut head = vec![Block::Text(Tone::Plain, summary)];
    let phase = match status.phase {
        Phase::Applied => None,
        Phase::BeforeBoot => Some(
            "The machine has been rebooted since then, which undid all settings that are not on \
             disk. `punctual tune revert` clears the journal.",
        ),
        Phase::InProgress => Some("A process is changing the settings now."),
        Phase::Unfinished => Some(
            "The change was not finished; the next command restores the old \
            values.",
        ),
    };
    head.extend(phase.map(|text| Block::Text(Tone::Warning, text.to_owned())));
    let rows = status.settings.iter().map(|one| {
        vec![
            one.label.clone(),
            readable(&one.setting, &one.old),
            readable(&one.setting, &one.target),
            state_of(one, status.phase),
        ]
    });
    let settings = section(rows.collect(), |rows| {
        merged_table(&["setting", "old", "new", "state"], rows)
    });
    let all = status.settings.iter().filter_map(|one| one.remark.clone());
    document([
        Section::new(head),
        settings,
        remarks(&all.collect::<Vec<_>>()),
        paragraph(format!("Journal: {}", status.journal.display())),
    ])
}

/// Returns a document about the settings that were restored.
pub(crate) fn reverted(restored: &[Restored]) -> Document {
    if restored.is_empty() {
        return document([paragraph(
            "No settings are applied, so there is nothing to restore.",
        )]);
    }
    let rows = restored.iter().map(|one| {
        let name = one.setting.split('@').next().unwrap_or_default();
        vec![
            one.setting.clone(),
            readable(name, &one.value),
            how(name, &one.how),
        ]
    });
    document([
        paragraph(format!(
            "{} restored.",
            counted(restored.len() as u64, "setting", "settings")
        )),
        section(rows.collect(), |rows| {
            merged_table(&["setting", "value", "result"], rows)
        }),
    ])
}

fn how(name: &str, how: &How) -> String {
    match how {
        How::Written { ours: true, .. } => "restored".to_owned(),
        How::Written { found, .. } => {
            let found = readable(name, found);
            format!("restored (another program had set it to {found})")
        }
        How::WasThere => "already restored by another program".to_owned(),
        How::Reboot => "reset by a reboot".to_owned(),
        How::Gone => "has ended: nothing to restore".to_owned(),
        How::Forgotten => "NOT restored, given up".to_owned(),
    }
}

/// Returns a document about the built-in profiles.
///
/// # Errors
/// Returns an error if a profile cannot be read.
pub(crate) fn profiles() -> Result<Document, TuneError> {
    let mut rows = Vec::new();
    for built_in in PROFILES {
        let profile = Profile::find(built_in.name)?;
        rows.push(vec![
            built_in.name.to_owned(),
            counted(profile.len() as u64, "setting", "settings"),
            profile.summary,
        ]);
    }
    Ok(document([
        section(rows, |rows| table(&["profile", "size", "for"], rows)),
        paragraph(
            "punctual tune profiles --show NAME prints a profile, which you can copy and \
            edit.",
        ),
    ]))
}
