//! Bundles: their files, and the recordings and statements in them.

use punctual_model::Accounting;

use super::*;
use crate::bundle;

type Files = Vec<(String, Vec<u8>)>;

/// Returns a bundle with these files, a log and a statement. `edit` changes the files after the
/// signature.
fn packed_with(files: &[(&str, &str)], key: &Signer, edit: impl Fn(&mut Files)) -> Vec<u8> {
    let log = ("machine/log.txt", "log");
    let named = |(name, content): &(&str, &str)| (format!("a/{name}"), content.as_bytes().to_vec());
    let mut files: Files = files.iter().chain([&log]).map(named).collect();
    let named = files
        .iter()
        .map(|(name, content)| SignedFile::of(&name[2..], content));
    let statement = crate::sign(&recording(), named.collect(), key).unwrap();
    let name = format!("a/{}", bundle::STATEMENT_FILE);
    files.push((name, statement.into_bytes()));
    edit(&mut files);
    archive(&files)
}

fn archive(files: &Files) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        // Also names that this crate does not write.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, content.as_slice()).unwrap();
    }
    zstd::encode_all(archive.into_inner().unwrap().as_slice(), 1).unwrap()
}

fn packed(key: &Signer, edit: impl Fn(&mut Files)) -> Vec<u8> {
    packed_with(&[("host.json", "{}")], key, edit)
}

#[test]
fn each_change_of_a_bundle_is_refused() {
    let key = key("a");
    assert!(accepted(&packed(&key, |_| {}), &key));
    let edits: [fn(&mut Files); 14] = [
        |files| files[0].1.push(b' '),
        |files| files[1].0.push('x'),
        |files| drop(files.remove(0)),
        |files| files.push(("a/more".to_owned(), Vec::new())),
        |files| files.push(files[0].clone()),
        |files| files.push(files[2].clone()),
        |files| drop(files.remove(2)),
        // Names that lead elsewhere when the bundle is unpacked.
        |files| files[0].0 = "b/host.json".to_owned(),
        |files| files[0].0 = "../host.json".to_owned(),
        |files| files[0].0 = "/a/host.json".to_owned(),
        |files| files[0].0 = "a/../a/host.json".to_owned(),
        |files| files[0].0 = "a/./host.json".to_owned(),
        |files| files[0].0 = "a//host.json".to_owned(),
        |files| files[0].0 = "host.json".to_owned(),
    ];
    for (place, edit) in edits.into_iter().enumerate() {
        assert!(!accepted(&packed(&key, edit), &key), "{place}");
    }
    let whole = packed(&key, |_| {});
    let followed = [whole.as_slice(), whole.as_slice()].concat();
    assert!(!accepted(&followed, &key));
    for end in 0..whole.len() {
        assert!(!accepted(&whole[..end], &key), "{end}");
    }
}

/// The size of an extended header is a claim of the archive, and would be read to its end.
#[test]
fn archive_with_long_names_or_links_is_refused() {
    let key = key("a");
    for kind in [
        tar::EntryType::GNULongName,
        tar::EntryType::XHeader,
        tar::EntryType::Symlink,
        tar::EntryType::Link,
        tar::EntryType::Directory,
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_path("a/x").unwrap();
        header.set_size(7 << 30);
        header.set_cksum();
        let file = zstd::encode_all(header.as_bytes().as_slice(), 1).unwrap();
        let error = checked(&file, &trusting(&key)).unwrap_err().to_string();
        assert!(
            error.contains("a/x is not a plain file"),
            "{kind:?}: {error}"
        );
    }
}

#[test]
fn each_recording_in_a_bundle_is_verified() {
    let key = key("a");
    let honest = recording();
    let mut other = honest.clone();
    other.id = RecordingId::new();
    let mut late = honest.clone();
    late.threads[0].accounting = Accounting {
        missed: late.threads[0].accounting.missed + 1,
        ..late.threads[0].accounting
    };
    let mut word = honest.clone();
    word.verdict.outcome = Outcome::Exceeded;
    let mut checked_up = honest.clone();
    checked_up.be_judged(punctual_model::Judgement {
        by: punctual_model::JudgedBy::Check,
        experiment: None,
        outcome: Outcome::Held,
        sentence: "held".to_owned(),
        asked: None,
        claims: Vec::new(),
    });
    let state = |name: &str, content: &str| {
        let file = packed_with(&[(name, content)], &key, |_| {});
        let verified = checked(&file, &trusting(&key)).unwrap();
        assert!(
            verified
                .integrity
                .iter()
                .all(|one| one.state == State::Holds)
        );
        let names: Vec<&str> = verified
            .members
            .iter()
            .map(|one| one.name.as_str())
            .collect();
        assert!(names.iter().all(|one| *one == name), "{names:?}");
        (names.len(), verified.is_intact())
    };
    let json = |one: &Recording| one.to_json();
    for name in ["recording.json", "store.db", "more/x.json"] {
        assert_eq!(state(name, &json(&honest)), (1, true), "{name}");
        for wrong in [&other, &late, &word] {
            assert_eq!(state(name, &json(wrong)), (1, false), "{name}");
        }
        assert_eq!(state(name, &json(&checked_up)), (1, true), "{name}");
        assert_eq!(state(name, "{\"schema\""), (1, false), "{name}");
    }
    let two = format!("{}\n{}", json(&honest), json(&other));
    assert_eq!(state("store.db", &two), (2, false));
    assert_eq!(state("host.json", "{}"), (0, true));
    // A statement in the bundle, by a key that is known or not.
    assert_eq!(state("own.json", &sign(&other, &key)), (1, true));
    let foreign = sign(&other, &super::key("b"));
    assert_eq!(state("own.json", &foreign), (1, false));
}

#[test]
fn broken_assumption_of_a_member_disputes_the_bundle() {
    let key = key("a");
    let mut stopped = recording();
    stopped.completion = Completion::Stopped;
    let statement = sign(&stopped, &key);
    let file = packed_with(&[("own.json", &statement)], &key, |_| {});
    let verified = checked(&file, &trusting(&key)).unwrap();
    assert!(verified.is_intact() && !verified.is_undisputed());
}
