//! The journal's format: one record per line, each with a checksum.
//!
//! A line consists of the CRC-32 of the JSON text in eight hexadecimal digits, a space, and the
//! JSON object. Humans can read the format, so that a setting can be restored by hand if this
//! program cannot restore it.

use punctual_host::Host;
use punctual_model::{FromJson, ToJson, from_json, to_json};
use serde::{Deserialize, Serialize};

use crate::TuneError;
use crate::setting::{setting, shown};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub(crate) enum JournalEntry {
    /// The owner of the journal; always the first line.
    Owner(Owner),
    /// A change that is about to be made.
    Change(Pending),
    /// A change was undone, together with all later changes of the same setting.
    Undone {
        /// Number of the change.
        number: u64,
    },
    /// All changes have been made and stay in force until they are reverted.
    Kept(Committed),
    /// The changes are being undone. If this is interrupted, any later command finishes it.
    Reverting,
}

/// Description of changes that stay after the program has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Committed {
    /// Name of the profile. If there is no profile, the list of settings.
    pub(crate) label: String,
    /// CPUs that the changes were for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpus: Option<String>,
    /// Time when they were applied.
    pub(crate) at: jiff::Timestamp,
}

/// A process, identified uniquely on this machine and in this boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pid: u32,
    /// Start time of the process in clock ticks since boot.
    process_start: u64,
    boot_id: String,
}

/// A change that has not been undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// Number of the change in this journal, counted from 1.
    pub(crate) number: u64,
    /// The setting's name, which is never a path.
    pub(crate) setting: String,
    /// Name of the instance, such as a CPU, an interrupt or a thread.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) instance: String,
    /// Old value.
    pub(crate) old: String,
    /// New value.
    pub(crate) new: String,
}

impl Pending {
    /// Returns `name`, or `name@instance`.
    pub(crate) fn label(&self) -> String {
        match setting(&self.setting) {
            Ok(setting) => shown(setting, &self.instance),
            Err(_) if self.instance.is_empty() => self.setting.clone(),
            Err(_) => format!("{}@{}", self.setting, self.instance),
        }
    }
}

/// The state that a journal's text describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) owner: Option<Owner>,
    /// Pending changes, oldest first.
    pub(crate) pending: Vec<Pending>,
    /// Description of the changes, if they should stay after the program has ended.
    pub(crate) kept: Option<Committed>,
    /// Whether the changes are being undone.
    pub(crate) reverting: bool,
    /// Number of changes made so far.
    pub(crate) made: u64,
    /// Length of the complete records in bytes. An incomplete record may follow them.
    pub(crate) sound_bytes: u64,
    /// Number of the first line that was altered, counted from 1.
    pub(crate) damaged_line: Option<usize>,
}

to_json!(JournalEntry);
from_json!(JournalEntry);

impl JournalEntry {
    /// Formats the record as a line.
    pub(crate) fn line(&self) -> String {
        let json = self.to_json();
        format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
    }

    fn read(line: &str) -> Option<Self> {
        let (sum, json) = line.split_once(' ')?;
        let is_whole = sum == format!("{:08x}", crc32fast::hash(json.as_bytes()));
        is_whole.then(|| Self::from_json(json.as_bytes()).ok())?
    }
}

impl Owner {
    /// Returns the owner that describes this process.
    pub(crate) fn this(host: &Host) -> Result<Self, TuneError> {
        let pid = std::process::id();
        Ok(Self {
            pid,
            process_start: host.process_start(pid).ok_or(TuneError::Unidentified {
                what: "the start time of this process",
            })?,
            boot_id: boot_id(host)?,
        })
    }

    /// Returns whether the owner ran in the current boot.
    pub(crate) fn is_of_this_boot(&self, host: &Host) -> Result<bool, TuneError> {
        Ok(self.boot_id == boot_id(host)?)
    }

    /// Returns whether the owner is still running.
    pub(crate) fn lives(&self, host: &Host) -> Result<bool, TuneError> {
        let runs = host.process_start(self.pid) == Some(self.process_start);
        Ok(runs && self.is_of_this_boot(host)?)
    }
}

fn boot_id(host: &Host) -> Result<String, TuneError> {
    host.boot_id().ok_or(TuneError::Unidentified {
        what: "the boot ID",
    })
}

impl State {
    /// Reads a journal. If the program ended while it wrote a record, the last line is incomplete
    /// and lacks its newline. The change that such a line describes was not made yet. If the line
    /// records that a change was undone, that change is undone again, which is harmless.
    pub(crate) fn read(text: &str) -> Self {
        let mut state = Self::default();
        for (place, line) in text.split_inclusive('\n').enumerate() {
            let Some(whole) = line.strip_suffix('\n') else {
                break;
            };
            if !JournalEntry::read(whole).is_some_and(|record| state.take(record)) {
                state.damaged_line = Some(place + 1);
                break;
            }
            state.sound_bytes += line.len() as u64;
        }
        state
    }

    /// Adds a record. Returns false if it is invalid in this state.
    pub(crate) fn take(&mut self, record: JournalEntry) -> bool {
        match record {
            JournalEntry::Owner(owner) if self.owner.is_none() => self.owner = Some(owner),
            JournalEntry::Change(change)
                if self.owner.is_some() && change.number == self.made + 1 =>
            {
                self.made = change.number;
                self.pending.push(change);
            }
            JournalEntry::Undone { number } => {
                let Some(undone) = self.pending.iter().find(|c| c.number == number) else {
                    return false;
                };
                // Some later changes of the same setting may still be pending, because undoing them
                // failed. These changes now count as undone, too, because the setting has the value
                // from before all of them.
                let (setting, instance) = (undone.setting.clone(), undone.instance.clone());
                let same =
                    |change: &Pending| change.setting == setting && change.instance == instance;
                self.pending
                    .retain(|change| change.number < number || !same(change));
            }
            JournalEntry::Kept(kept) if self.owner.is_some() && self.kept.is_none() => {
                self.kept = Some(kept);
            }
            JournalEntry::Reverting if self.owner.is_some() => self.reverting = true,
            _ => return false,
        }
        true
    }

    /// Returns whether the changes should stay after the program has ended.
    pub(crate) fn stays(&self) -> bool {
        self.kept.is_some() && !self.reverting
    }

    /// Returns whether there is nothing to undo.
    pub(crate) fn is_settled(&self) -> bool {
        self.pending.is_empty() && self.damaged_line.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> Vec<JournalEntry> {
        let change = |number, old: &str, new: &str| {
            JournalEntry::Change(Pending {
                number,
                setting: "clocksource".to_owned(),
                instance: String::new(),
                old: old.to_owned(),
                new: new.to_owned(),
            })
        };
        vec![
            JournalEntry::Owner(Owner {
                pid: 4,
                process_start: 77,
                boot_id: "a".to_owned(),
            }),
            change(1, "tsc", "hpet"),
            change(2, "hpet", "acpi_pm"),
            JournalEntry::Undone { number: 2 },
        ]
    }

    fn text(records: &[JournalEntry]) -> String {
        records.iter().map(|record| record.line()).collect()
    }

    #[test]
    fn a_line_is_readable_by_eye() {
        assert_eq!(
            records()[1].line(),
            "76d40f06 {\"record\":\"change\",\"number\":1,\"setting\":\"clocksource\",\
             \"old\":\"tsc\",\"new\":\"hpet\"}\n"
        );
    }

    #[test]
    fn pending_changes_are_those_not_undone() {
        let state = State::read(&text(&records()));
        assert_eq!(state.damaged_line, None);
        assert_eq!(state.made, 2);
        assert_eq!(state.pending.len(), 1);
        assert_eq!(state.pending[0].old, "tsc");
        assert!(State::read("").is_settled());
    }

    fn change(number: u64, setting: &str, instance: &str) -> JournalEntry {
        JournalEntry::Change(Pending {
            number,
            setting: setting.to_owned(),
            instance: instance.to_owned(),
            old: "a".to_owned(),
            new: "b".to_owned(),
        })
    }

    #[test]
    fn undone_change_undoes_the_later_ones_of_its_instance() {
        let all = |undone: u64| {
            let mut records = vec![records()[0].clone()];
            for (number, (setting, instance)) in (1..).zip([
                ("governor", "policy0"),
                ("governor", "policy1"),
                ("governor", "policy0"),
                ("energy-bias", "policy0"),
                ("governor", "policy0"),
            ]) {
                records.push(change(number, setting, instance));
            }
            records.push(JournalEntry::Undone { number: undone });
            let state = State::read(&text(&records));
            assert_eq!((state.damaged_line, state.made), (None, 5));
            state
                .pending
                .iter()
                .map(|one| one.number)
                .collect::<Vec<_>>()
        };
        assert_eq!(all(1), [2, 4]);
        assert_eq!(all(2), [1, 3, 4, 5]);
        assert_eq!(all(3), [1, 2, 4]);
        assert_eq!(all(5), [1, 2, 3, 4]);
    }

    #[test]
    fn kept_changes_stay_until_they_are_reverted() {
        let kept = JournalEntry::Kept(Committed {
            label: "x".to_owned(),
            cpus: None,
            at: jiff::Timestamp::UNIX_EPOCH,
        });
        let state = |more: &[JournalEntry]| {
            let first = [records()[0].clone(), change(1, "thp", "")];
            State::read(&text(&[&first[..], more].concat()))
        };
        assert!(!state(&[]).stays());
        let one = state(std::slice::from_ref(&kept));
        assert!(one.stays() && !one.is_settled() && !one.reverting);
        let two = state(&[kept.clone(), JournalEntry::Reverting]);
        assert!(!two.stays() && two.reverting && two.damaged_line.is_none());
        // Changes are kept once, and only after an owner made them.
        assert_eq!(state(&[kept.clone(), kept.clone()]).damaged_line, Some(4));
        assert_eq!(State::read(&kept.line()).damaged_line, Some(1));
        // After damage, nothing more is read.
        let damaged = text(&records()).replacen("hpet", "Hpet", 1) + &kept.line();
        let state = State::read(&damaged);
        assert_eq!((state.damaged_line, state.pending.len()), (Some(2), 0));
        assert!(!state.is_settled() && state.kept.is_none());
    }

    #[test]
    fn owner_is_this_process_of_this_boot() {
        let machine = crate::testing::Machine::new();
        let host = machine.host();
        let owner = Owner::this(host).unwrap();
        assert!(owner.lives(host).unwrap() && owner.is_of_this_boot(host).unwrap());
        machine.process_dies();
        assert!(!owner.lives(host).unwrap());
        let error = Owner::this(host).unwrap_err().to_string();
        assert!(error.starts_with("the start time of this process is unknown"));
        machine.process_starts();
        assert!(!owner.lives(host).unwrap(), "it started at another time");
        let owner = Owner::this(host).unwrap();
        machine.write("proc/sys/kernel/random/boot_id", "second\n");
        assert!(!owner.lives(host).unwrap() && !owner.is_of_this_boot(host).unwrap());
        machine.remove("proc/sys/kernel/random/boot_id");
        assert!(owner.lives(host).is_err() && owner.is_of_this_boot(host).is_err());
        let error = Owner::this(host).unwrap_err().to_string();
        assert!(error.starts_with("the boot ID is unknown"), "{error}");
    }

    #[test]
    fn changes_are_labelled_as_a_user_writes_them() {
        let label = |setting: &str, instance: &str| {
            let JournalEntry::Change(change) = change(1, setting, instance) else {
                unreachable!();
            };
            change.label()
        };
        assert_eq!(label("thp", ""), "thp");
        assert_eq!(label("governor", "policy0"), "governor@policy0");
        assert_eq!(label("thread-priority", "22/1/x"), "thread-priority@x (22)");
        // Another version of this program may know other settings.
        assert_eq!(label("no-such", ""), "no-such");
        assert_eq!(label("no-such", "a"), "no-such@a");
    }

    #[test]
    fn torn_tail_is_never_damage() {
        let whole = text(&records());
        for length in 0..whole.len() {
            let state = State::read(&whole[..length]);
            assert_eq!(state.damaged_line, None, "{length}");
            let sound = whole[..length].rfind('\n').map_or(0, |place| place + 1);
            assert_eq!(state.sound_bytes, sound as u64);
        }
    }

    #[test]
    fn records_that_do_not_follow_are_damage() {
        let all = records();
        for wrong in [
            vec![all[1].clone()],
            vec![all[0].clone(), all[0].clone()],
            vec![all[0].clone(), all[2].clone()],
            vec![all[0].clone(), all[3].clone()],
            // Without an owner, there is nothing to revert.
            vec![JournalEntry::Reverting],
        ] {
            let state = State::read(&text(&wrong));
            assert_eq!(state.damaged_line, Some(wrong.len()), "{wrong:?}");
            assert!(!state.is_settled());
        }
    }

    proptest! {
        #[test]
        fn a_flipped_bit_is_seen(place in 0_usize..400, bit in 0..7_u32) {
            let mut bytes = text(&records()).into_bytes();
            let place = place % bytes.len();
            bytes[place] ^= 1_u8 << bit;
            let flipped = String::from_utf8(bytes).unwrap();
            let (was, is) = (text(&records()), State::read(&flipped));
            // Only damage to the last line can look like an incomplete record. In that case, its
            // change is undone once more.
            let last = was[..was.len() - 1].rfind('\n').unwrap();
            prop_assert!(is.damaged_line.is_some() || place > last, "{place} {is:?}");
            prop_assert!(is.pending.iter().all(|change| was.contains(&change.old)));
        }

        #[test]
        fn no_text_panics(text in "[ -~\\n\\x00é]{0,200}") {
            let state = State::read(&text);
            prop_assert!(state.pending.is_empty());
            prop_assert!(state.sound_bytes <= text.len() as u64);
        }
    }
}
