//! Tests of the first screen at several widths, and of its keys.

use punctual_model::testing;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::Look;
use super::home::HomeState;
use super::key::Key;
use super::screen::Shown;
use super::{Checked, Chosen, Home, Listed};

const LOOK: Look = Look { has_colours: true };

/// Returns the first screen of a machine with this number of recordings.
fn home(recordings: u64) -> HomeState<'static> {
    let (sender, audit) = std::sync::mpsc::channel();
    let brief = [
        "2 fail, 1 to look at",
        "fail fatal   kernel is not PREEMPT_RT",
    ];
    let sent = sender.send(Checked {
        brief: brief.map(str::to_owned).to_vec(),
        text: "the whole audit\nFAIL fatal".to_owned(),
    });
    sent.unwrap();
    let listed = |number: u64| Listed {
        id: testing::recording(1, number + 1).id,
        line: format!(
            "0000000{number}  11-29 23:12    845 µs  timer\u{1b}, interval 1.00 ms, CPUs 0-1"
        ),
    };
    let recordings = match recordings {
        0 => Err("no recordings yet: press m".to_owned()),
        some => Ok((0..some).map(listed).collect()),
    };
    let mut state = HomeState::new(Home {
        title: "punctual 0.1.0  board-17".to_owned(),
        audit,
        recordings,
        figures: &|_| (0..99).map(|line| format!("figure {line}\n")).collect(),
    });
    state.refresh();
    state
}

fn screen(shown: &mut dyn Shown, width: u16, height: u16) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| shown.draw(frame, LOOK)).unwrap();
    terminal.backend().clone()
}

#[test]
fn first_screen_is_shown_at_three_widths() {
    for width in [60, 80, 120] {
        insta::assert_snapshot!(format!("home_{width}"), screen(&mut home(3), width, 14));
    }
}

#[test]
fn first_screen_leads_to_pages_and_measurement() {
    let mut state = home(30);
    let shows = |state: &mut HomeState<'_>, text: &str| {
        let shown = screen(state, 80, 12).to_string();
        assert!(shown.contains(text), "{text}: {shown}");
        assert!(!shown.contains('\u{1b}'), "{shown}");
    };
    state.press(Key::PageDown);
    shows(&mut state, "00000010");
    state.press(Key::Open);
    shows(&mut state, "figure 0");
    shows(&mut state, "89 more lines below");
    state.press(Key::PageDown);
    shows(&mut state, "figure 10");
    state.press(Key::Measure);
    state.press(Key::Back);
    shows(&mut state, "recordings");
    state.press(Key::Audit);
    shows(&mut state, "the whole audit");
    state.press(Key::Help);
    state.press(Key::Help);
    shows(&mut state, "punctual doctor");
    state.press(Key::Back);
    assert!(!state.is_over());
    state.press(Key::Measure);
    assert_eq!(state.chosen, Some(Chosen::Measure));
    let mut empty = home(0);
    empty.press(Key::Open);
    shows(&mut empty, "no recordings yet: press m");
    empty.press(Key::Stop);
    assert_eq!(empty.chosen, Some(Chosen::End));
    for (width, height) in [(1, 1), (3, 2), (20, 4), (300, 3), (5, 90)] {
        screen(&mut home(0), width, height);
        screen(&mut home(30), width, height);
    }
}
