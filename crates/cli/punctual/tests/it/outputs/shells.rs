//! Tests of the completions in zsh and fish, using the printed scripts.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use crate::common::{Sandbox, text};

/// Returns a command that starts a shell. The shell finds the program by its name and has its
/// completion script.
fn shell(place: &Sandbox, name: &str, script: &str) -> Option<Command> {
    let there = Command::new(name).arg("--version").output();
    if !there.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!(Program, "no {name} here");
        return None;
    }
    let folder = place.path("bin");
    std::fs::create_dir(&folder).unwrap();
    symlink(env!("CARGO_BIN_EXE_punctual"), folder.join("punctual")).unwrap();
    let completions = place.done(&format!("completions {name}"));
    std::fs::write(place.path(script), completions).unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    // The time limit is for the case that the shell hangs.
    let mut command = Command::new("timeout");
    command
        .args(["60", name])
        .current_dir(place.path("."))
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("HOME", place.path("."))
        .env("TERM", "dumb")
        .env("XDG_STATE_HOME", place.path("state"))
        .env("PUNCTUAL_STORE", place.path("store.db"));
    Some(command)
}

fn checked(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn fish_completes_verbs_values_and_files() {
    let place = Sandbox::new();
    let Some(mut fish) = shell(&place, "fish", "punctual.fish") else {
        return;
    };
    std::fs::write(place.path("zebra.html"), "").unwrap();
    let lines = [
        ("punctual pl", "plot"),
        ("punctual measure timer --load c", "cpu"),
        ("punctual measure timer --load=c", "--load=cpu"),
        ("punctual measure timer --wait ", "timerfd"),
        ("punctual tune apply --set swapp", "swappiness="),
        ("punctual help mea", "measure"),
        ("punctual show ", "last"),
        ("punctual report last -o ze", "zebra.html"),
    ];
    let script =
        "source punctual.fish; for line in $argv; echo \"# $line\"; complete -C $line; end";
    fish.args(["--no-config", "-c", script, "--"])
        .args(lines.map(|(line, _)| line));
    let out = checked(fish.output().unwrap());
    let offered: Vec<&str> = out.split("# ").skip(1).collect();
    assert_eq!(offered.len(), lines.len(), "{out}");
    for ((line, value), offered) in lines.into_iter().zip(offered) {
        let mut words = offered.lines().skip(1);
        let found = words.any(|word| word.split('\t').next() == Some(value));
        assert!(found, "{line}: {offered}");
    }
    assert!(!out.contains("serve-load"), "{out}");
}

/// Types each line and a Tab into a zsh that runs on a terminal. Returns the completed lines.
const ZSH: &str = r#"
zmodload zsh/zpty || exit 3
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($PWD \$fpath); autoload -Uz compinit; compinit -u -D; LISTMAX=0"
zpty -w z 'told() { print -r -- "<"$BUFFER">"; BUFFER=; zle accept-line }; zle -N told'
zpty -w z "bindkey '^I' complete-word; bindkey '^X' told; setopt no_beep; print rea''dy"
zpty -r z out '*ready*'
for line in "$@"; do
    zpty -n -w z "$line"$'\t\x18'
    zpty -r z out $'*<punctual*>*\n'
    print -r -- "$out"
done
"#;

#[test]
fn zsh_completes_verbs_values_and_files() {
    let place = Sandbox::new();
    let Some(mut zsh) = shell(&place, "zsh", "_punctual") else {
        return;
    };
    std::fs::write(place.path("zebra.html"), "").unwrap();
    let lines = [
        ("punctual plo", "<punctual plot >"),
        (
            "punctual measure timer --load cp",
            "<punctual measure timer --load cpu >",
        ),
        (
            "punctual measure timer --load=cp",
            "<punctual measure timer --load=cpu >",
        ),
        (
            "punctual measure timer --wait timer",
            "<punctual measure timer --wait timerfd >",
        ),
        // The value is still missing after this completion.
        (
            "punctual tune apply --set swapp",
            "<punctual tune apply --set swappiness=>",
        ),
        ("punctual help mea", "<punctual help measure >"),
        (
            "punctual report last -o ze",
            "<punctual report last -o zebra.html >",
        ),
    ];
    zsh.args(["-f", "-c", ZSH, "zsh"])
        .args(lines.map(|(line, _)| line));
    let output = zsh.output().unwrap();
    if output.status.code() == Some(3) {
        punctual_testing::skip!(Program, "this zsh has no zsh/zpty");
        return;
    }
    let out = checked(output);
    for (line, becomes) in lines {
        assert!(out.contains(becomes), "{line}: {out}");
    }
}
