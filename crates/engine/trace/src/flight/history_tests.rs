use proptest::prelude::*;

use super::*;
use crate::testing::{PageBuilder, Piece, layout};

/// Builds a page with one record at each of these times. The first time is also that of the page.
fn page(times: &[u64], lost: Option<Lost>) -> Vec<u8> {
    let mut page = PageBuilder::new(layout(false));
    let mut before = times[0];
    for time in times {
        page.write(&Piece::Event((time - before) as u32, vec![0; 8]));
        before = *time;
    }
    page.page(times[0], lost)
}

fn history(pages: &[(&[u64], Option<Lost>)]) -> History {
    let mut history = History::default();
    for (times, lost) in pages {
        history.push(layout(false), &page(times, *lost));
    }
    history
}

fn firsts(history: &History, from: u64, to: u64) -> Vec<u64> {
    history.between(from, to).map(|page| page.first).collect()
}

#[test]
fn interval_selects_its_pages_and_predecessor() {
    let history = history(&[
        (&[10, 20], None),
        (&[30, 40], None),
        (&[50, 60], None),
        (&[70], None),
    ]);
    assert_eq!(firsts(&history, 45, 55), [30, 50]);
    assert_eq!(firsts(&history, 40, 40), [30]);
    assert_eq!(firsts(&history, 50, 50), [30, 50]);
    assert_eq!(firsts(&history, 65, 65), [50]);
    assert_eq!(firsts(&history, 90, 95), [70]);
    assert_eq!(firsts(&history, 0, 5), [0; 0]);
    assert_eq!(history.lost(0, 100), 0);
}

#[test]
fn loss_counts_at_its_place() {
    let history = history(&[
        (&[10, 20], Some(Lost::Count(1_000))),
        (&[50, 60], Some(Lost::Count(7))),
        (&[70, 80], Some(Lost::Some)),
    ]);
    // These events were overwritten long before the interval, which is normal for this buffer.
    assert_eq!(history.lost(10, 15), 1_000);
    assert_eq!(history.lost(11, 15), 0);
    assert_eq!(history.lost(11, 19), 0);
    assert_eq!(history.lost(15, 30), 7);
    assert_eq!(history.lost(30, 40), 7);
    assert_eq!(history.lost(51, 60), 1);
    assert_eq!(history.lost(15, 90), 8);
    assert_eq!(history.lost(71, 90), 0);
}

#[test]
fn what_was_let_go_is_lost() {
    let mut history = history(&[(&[10, 20, 25], None), (&[30, 40], None), (&[50], None)]);
    let all = history.bytes();
    history.keep(all);
    assert_eq!(history.lost(0, 100), 0);
    history.keep(all - 1);
    assert_eq!(history.lost(12, 100), 3);
    assert_eq!(history.lost(31, 100), 0);
    history.keep(0);
    assert_eq!((history.bytes(), firsts(&history, 0, 100).len()), (0, 0));
    history.push(layout(false), &page(&[60], None));
    assert_eq!(history.lost(12, 100), 6);
}

#[test]
fn invalid_page_is_a_loss() {
    let mut history = history(&[(&[10], None)]);
    history.push(layout(false), &[0; 7]);
    assert_eq!(history.lost(0, 100), 1);
    history.push(layout(false), &page(&[50], None));
    assert_eq!(history.lost(20, 100), 1);
    assert_eq!(history.lost(60, 100), 0);
    // An empty page is not kept.
    let empty = PageBuilder::new(layout(false)).page(90, None);
    history.push(layout(false), &empty);
    assert_eq!(firsts(&history, 90, 100), [50]);
}

proptest! {
    #[test]
    fn no_bytes_panic(
        pages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..6),
        keep in 0_usize..200, from: u64, to: u64,
    ) {
        let mut history = History::default();
        for page in &pages {
            history.push(layout(false), page);
            history.keep(keep);
        }
        prop_assert!(history.bytes() <= keep);
        let _ = (history.between(from, to).count(), history.lost(from, to));
    }
}
