//! Tests of positions in profiles, and of profiles that are files.

use std::ops::Range;

use crate::profile::Spot;
use crate::{Profile, TuneError};

#[test]
fn positions_count_lines_and_characters() {
    let marked = |text: &str, part: &str| {
        let start = text.find(part).unwrap();
        let spot = Spot::new("f", text, start..start + part.len());
        spot.error("m").to_string()
    };
    assert_eq!(marked("ab", "ab"), "f:1:1: m\n  ab\n  ^^");
    assert_eq!(marked("ab", "b"), "f:1:2: m\n  ab\n   ^");
    assert_eq!(marked("é\näö ü\nx", "ü"), "f:2:4: m\n  äö ü\n     ^");
    assert_eq!(marked("a\nb\r\nc\n", "c"), "f:3:1: m\n  c\n  ^");
    // A part of several lines is marked in its first one.
    assert_eq!(marked("a = [\n1]\n", "[\n1]"), "f:1:5: m\n  a = [\n      ^");
    let at = |text: &str, span: Range<usize>| Spot::new("f", text, span).error("m").to_string();
    assert_eq!(at("", 0..0), "f:1:1: m\n  \n  ^");
    assert_eq!(at("ab\n", 9..12), "f:2:1: m\n  \n  ^");
    // An offset inside of a character belongs to this character.
    assert_eq!(at("aé", 2..3), "f:1:2: m\n  aé\n   ^");
}

#[test]
fn profiles_are_read_from_files_and_named_if_missing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    std::fs::write(
        &file,
        "summary = \"Mine\"\n[boot]\nb = 1\na = \"x\"\nc = true\n",
    )
    .unwrap();
    let found = Profile::find(file.to_str().unwrap()).unwrap();
    assert_eq!(found.summary, "Mine");
    let boot: Vec<_> = found
        .boot
        .iter()
        .map(|one| (one.key.as_str(), one.value.as_deref()))
        .collect();
    // The order is that of the file.
    assert_eq!(boot, [("b", Some("1")), ("a", Some("x")), ("c", None)]);
    let error = Profile::find("contrl").unwrap_err().to_string();
    assert!(error.contains("(did you mean 'control'?)"), "{error}");
    assert!(
        error.ends_with("are audio, control, low-latency, network, throughput-off"),
        "{error}"
    );
    let error = Profile::find("/nowhere").unwrap_err().to_string();
    assert!(!error.contains("did you mean"), "{error}");
}

#[test]
fn values_of_a_profile_are_texts_numbers_and_switches() {
    let value = |text: &str| {
        let profile = Profile::parse("x", &format!("[settings]\nthp = {text}\n"))?;
        Ok::<String, TuneError>(profile.settings[0].value.clone())
    };
    for (text, expected) in [
        ("\"never\"", "never"),
        ("10", "10"),
        ("-1", "-1"),
        ("0x1f", "31"),
        ("true", "on"),
        ("false", "off"),
    ] {
        assert_eq!(value(text).unwrap(), expected, "{text}");
    }
    for wrong in [
        "1.5",
        "[1]",
        "{ a = 1 }",
        "2026-01-01",
        "99999999999999999999",
    ] {
        assert!(value(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn mistakes_in_the_tables_are_located() {
    let error = |text: &str| Profile::parse("x", text).unwrap_err().to_string();
    for (text, message) in [
        (
            "summary = 1\n",
            "x:1:11: the summary must be a text in quotes",
        ),
        (
            "settings = 1\n",
            "x:1:1: this is a table: write [settings] on a separate line",
        ),
        ("boot = 1\n", "x:1:1: this is a table: write [boot] on"),
        (
            "xyzzy = 1\n",
            "x:1:1: there is no 'xyzzy': a profile can have summary, role,",
        ),
        (
            "[boot]\n\"a b\" = 1\n",
            "x:2:1: this is not an argument of the kernel's",
        ),
        ("[boot]\n\"a=b\" = 1\n", "x:2:1: this is not an argument"),
        ("[boot]\n\"\" = 1\n", "x:2:1: this is not an argument"),
        (
            "[boot]\na = [1]\n",
            "x:2:5: a boot argument must be a text without spaces",
        ),
        ("[boot]\na = 'b\"c'\n", "x:2:5: a boot argument must be"),
        (
            "[settings]\n\"thp@x\" = 1\n",
            "x:2:1: there is no thp@x on this machine",
        ),
    ] {
        let found = error(text);
        assert!(found.starts_with(message), "{text}: {found}");
    }
}
