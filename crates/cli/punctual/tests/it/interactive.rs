//! `--tui`: the interactive view, in a pseudo-terminal that script(1) provides.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};

use punctual_model::Completion;

use crate::common::{Sandbox, eventually, text};

/// A command in a terminal of 80 columns and 24 lines.
struct Session {
    script: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Session {
    /// Starts the command; `None` without script(1).
    fn start(place: &Sandbox, line: &str) -> Option<Self> {
        Self::start_with(place, "", line)
    }

    /// Also sets variables of the environment.
    fn start_with(place: &Sandbox, variables: &str, line: &str) -> Option<Self> {
        let command = place.command("");
        let program = command.get_program().to_string_lossy().into_owned();
        let line = format!("tty; stty rows 24 cols 80; exec env {variables}{program} {line}");
        let mut script = Command::new("script");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let script = script
            .args(["-qec", &line, "/dev/null"])
            .current_dir(place.path("."))
            .env("SHELL", "/bin/sh")
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut script) = script else {
            punctual_testing::skip!(Program, "no script(1)");
            return None;
        };
        let keys = script.stdin.take().unwrap();
        let mut output = script.stdout.take().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(count @ 1..) = output.read(&mut part) {
                kept.lock().unwrap().extend_from_slice(&part[..count]);
            }
        });
        Some(Self {
            script,
            keys,
            shown,
        })
    }

    fn shown(&self) -> String {
        text(&self.shown.lock().unwrap())
    }

    /// Waits until the terminal has received this text after the first `from` bytes. Spaces do not
    /// count, because the view moves the cursor instead.
    fn wait_for(&self, wanted: &str, from: usize) {
        let found = eventually(|| {
            let shown = self.shown.lock().unwrap();
            printed(&text(&shown[from.min(shown.len())..])).contains(&printed(wanted))
        });
        assert!(found, "'{wanted}' is missing: {}", self.shown());
    }

    fn press(&mut self, keys: &str) -> usize {
        let before = self.shown.lock().unwrap().len();
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
        before
    }

    /// Waits until the view shows this text.
    fn wait_for_drawn(&self, wanted: &str) {
        let found = self.is_drawn(|view| view.contains(&printed(wanted)));
        assert!(found, "'{wanted}' is missing: {}", self.shown());
    }

    /// Waits until the view, without spaces, meets a condition. Returns whether it does. A new size draws
    /// all of it again.
    fn is_drawn(&self, condition: impl Fn(&str) -> bool) -> bool {
        (0..100).any(|turn| {
            let before = self.resize(24, 70 + turn % 20);
            let shown = self.shown.lock().unwrap();
            condition(&printed(&text(&shown[before..])))
        })
    }

    /// Changes the size of the terminal, and waits until the view is drawn. Returns the number of bytes
    /// that the terminal had received.
    fn resize(&self, rows: u16, columns: u16) -> usize {
        let before = self.shown.lock().unwrap().len();
        self.set_size(rows, columns);
        std::thread::sleep(std::time::Duration::from_millis(300));
        before
    }

    fn set_size(&self, rows: u16, columns: u16) {
        let size = [rows, columns].map(|number| number.to_string());
        let resized = Command::new("stty")
            .args(["-F", &self.terminal(), "rows", &size[0], "cols", &size[1]])
            .status();
        assert!(resized.unwrap().success());
    }

    /// Returns the terminal's file.
    fn terminal(&self) -> String {
        self.wait_for("/dev/pts/", 0);
        let shown = self.shown();
        let name = shown.lines().find(|line| line.contains("/dev/pts/"));
        name.unwrap().trim().to_owned()
    }
}

/// Returns the printed characters, without spaces and control sequences.
fn printed(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let after = |part: &str| {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        end.map_or(String::new(), |end| part[end + 1..].to_owned())
    };
    let printed: String = std::iter::once(first.to_owned())
        .chain(parts.map(after))
        .collect();
    printed.split_whitespace().collect()
}

const RUN: &str = "measure timer -i 1ms -D 60s --policy other --max-latency 10s --tui";

#[test]
fn keys_change_the_view_and_end_the_run() {
    let place = Sandbox::new();
    let Some(mut session) = Session::start(&place, RUN) else {
        return;
    };
    session.wait_for("q end", 0);
    place.wait_for_rows();
    session.wait_for_drawn("no sample is above it");
    session.press("?");
    session.wait_for_drawn("its recording is kept");
    session.press("\u{1b}");
    // A smaller window, and one without any room.
    session.resize(8, 30);
    session.resize(1, 1);
    session.press("s");
    session.press("q");
    let status = session.script.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", session.shown());
    // The result follows on the usual screen.
    session.wait_for("all figures", 0);
    let shown = session.shown();
    let (_, after) = shown.rsplit_once("\u{1b}[?1049l").unwrap();
    assert!(
        after.contains("verdict") && after.contains("accounting"),
        "{after}"
    );
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Stopped);
    assert!(recording.accounting().recorded > 0);
}

#[test]
fn lost_terminal_keeps_the_recording() {
    let place = Sandbox::new();
    let Some(mut session) = Session::start(&place, RUN) else {
        return;
    };
    session.wait_for("q end", 0);
    place.wait_for_rows();
    session.script.kill().unwrap();
    session.script.wait().unwrap();
    let ended = eventually(|| place.listed()[0]["completion"] != "running");
    assert!(ended, "{:?}", place.listed());
    let recording = place.last();
    assert_eq!(recording.completion, Completion::Stopped);
    assert!(recording.accounting().recorded > 0);
}

#[test]
fn terminal_without_colours_gets_none() {
    let place = Sandbox::new();
    let line = "measure timer -i 1ms -D 0.5s --policy other --max-latency 1ns --tui";
    for variable in ["", "NO_COLOR=1 "] {
        let Some(mut session) = Session::start_with(&place, variable, line) else {
            return;
        };
        session.script.wait().unwrap();
        session.wait_for("all figures", 0);
        let shown = session.shown();
        let (view, _) = shown.rsplit_once("\u{1b}[?1049l").unwrap();
        assert!(printed(view).contains("qend"), "{view}");
        let has_colours = view.contains("\u{1b}[38;5;");
        assert_eq!(has_colours, variable.is_empty(), "{view:?}");
    }
}

/// The view may be busy with a frame when both arrive.
#[test]
fn key_counts_while_the_size_changes() {
    let place = Sandbox::new();
    let line = "measure timer -i 5ms -D 600s --policy other --tui";
    let Some(mut session) = Session::start(&place, line) else {
        return;
    };
    session.wait_for("q end", 0);
    for turn in 0..8 {
        session.set_size(24, 100 + turn);
        session.press("p");
        let is_paused = turn % 2 == 0;
        let counts = |view: &str| view.contains("qend") && view.contains("PAUSED") == is_paused;
        assert!(session.is_drawn(counts), "turn {turn}: {}", session.shown());
    }
    session.press("q");
    let status = session.script.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", session.shown());
}

/// An ordinary user has outliers too, by context switches. Each wake-up is one.
#[test]
fn timeline_of_outlier_is_shown_during_the_run() {
    let place = Sandbox::new();
    let probe =
        place.run("measure timer -i 5ms -D 0.3s --policy other --explain --threshold 1ns -q");
    if !probe.status.success() {
        punctual_testing::skip_refused("explaining", text(&probe.stderr));
        return;
    }
    let line = "measure timer -i 5ms -D 600s --policy other --explain --threshold 1ns --tui";
    let Some(mut session) = Session::start(&place, line) else {
        return;
    };
    session.wait_for("q end", 0);
    session.press("s");
    session.wait_for_drawn("longest first");
    // The share of the main cause of an outlier.
    session.wait_for_drawn("%");
    session.press("p\r");
    session.wait_for_drawn("enter timeline");
    session.press("\r");
    session.wait_for_drawn("taken by");
    for columns in [60, 80, 120] {
        let before = session.resize(24, columns);
        session.wait_for("down scroll", before);
    }
    session.press("\u{1b}[B\u{1b}");
    session.wait_for_drawn("enter timeline");
    session.press("q");
    let status = session.script.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", session.shown());
}

/// Without arguments, a terminal gets the first screen, and a pipe the help.
#[test]
fn no_arguments_open_the_first_screen() {
    let place = Sandbox::new();
    place.done("measure timer -i 1ms -D 0.2s --policy other -q");
    let Some(mut session) = Session::start(&place, "") else {
        return;
    };
    session.wait_for("recordings, newest first", 0);
    session.wait_for_drawn("timer, interval 1.00 ms");
    session.press("\r");
    session.wait_for_drawn("recorded");
    session.press("\u{1b}");
    session.resize(3, 20);
    session.resize(1, 1);
    session.wait_for_drawn("m measure");
    session.press("q");
    let status = session.script.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{}", session.shown());
    let piped = place.run("");
    assert!(text(&piped.stderr).contains("Usage: punctual"), "{piped:?}");
}

#[test]
fn view_without_terminal_is_refused() {
    let place = Sandbox::new();
    let refused = place.refused("measure timer -D 1s --tui", 2);
    assert!(refused.contains("--tui needs a terminal"), "{refused}");
    let watch = place.refused("watch -D 1s --tui", 2);
    assert!(watch.contains("--tui needs a terminal"), "{watch}");
    let quiet = place.refused("measure timer -D 1s --tui -q", 2);
    assert!(quiet.contains("cannot be used with"), "{quiet}");
}
