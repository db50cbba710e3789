//! The placement of names in a plot, so that they do not overlap.

use super::canvas::{Anchor, Point};

/// A rectangle from its upper left to its lower right corner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rect(pub(super) Point, pub(super) Point);

impl Rect {
    /// Returns the approximate area that a text covers.
    pub(super) fn of_text((x, y): Point, width: f64, size: u32, anchor: Anchor) -> Self {
        let left = match anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        let size = f64::from(size);
        Self(
            (left - 2.0, y - size * 0.9),
            (left + width + 2.0, y + size * 0.25),
        )
    }

    /// Returns its upper left corner and its size.
    pub(super) fn cell(&self) -> (Point, Point) {
        let Self((left, top), (right, bottom)) = *self;
        ((left, top), (right - left, bottom - top))
    }

    fn meets(&self, other: &Self) -> bool {
        let (Self(a, b), Self(c, d)) = (self, other);
        a.0 < d.0 && c.0 < b.0 && a.1 < d.1 && c.1 < b.1
    }

    fn is_within(&self, outer: &Self) -> bool {
        let (Self(a, b), Self(c, d)) = (self, outer);
        a.0 >= c.0 && a.1 >= c.1 && b.0 <= d.0 && b.1 <= d.1
    }
}

/// The occupied areas.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    names: Vec<Rect>,
    lines: Vec<Rect>,
}

impl Room {
    /// Keeps names away from a line if there is space elsewhere.
    pub(super) fn take_line(&mut self, from: Point, to: Point) {
        self.lines
            .push(Rect((from.0 - 1.0, from.1 - 1.0), (to.0 + 1.0, to.1 + 1.0)));
    }

    /// Returns the first position within `plot` that overlaps no name and no line. If there is
    /// none, returns the first position that overlaps no name, or, failing that, the last position.
    pub(super) fn place(&mut self, places: &[Rect], plot: &Rect) -> usize {
        let free = |list: &[Rect], place: &Rect| !list.iter().any(|taken| taken.meets(place));
        let inside = |place: &&Rect| place.is_within(plot) && free(&self.names, place);
        let found = places
            .iter()
            .position(|place| inside(&place) && free(&self.lines, place))
            .or_else(|| places.iter().position(|place| inside(&place)))
            .unwrap_or(places.len().saturating_sub(1));
        self.names.extend(places.get(found).copied());
        found
    }

    /// Returns whether a line crosses this area.
    pub(super) fn is_crossed(&self, place: &Rect) -> bool {
        self.lines.iter().any(|line| line.meets(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_clear_of_each_other() {
        let plot = Rect((0.0, 0.0), (200.0, 100.0));
        let place = |x: f64, y: f64| Rect::of_text((x, y), 60.0, 10, Anchor::Start);
        let places = [place(10.0, 20.0), place(10.0, 34.0), place(10.0, 48.0)];
        let mut room = Room::default();
        assert_eq!(room.place(&places, &plot), 0);
        room.take_line((5.0, 30.0), (90.0, 30.0));
        // The second position is on the line.
        assert_eq!(room.place(&places, &plot), 2);
        assert_eq!(room.place(&places, &plot), 1);
        assert!(room.is_crossed(&places[1]) && !room.is_crossed(&places[2]));
        // If nothing is free, the last position is used.
        assert_eq!(room.place(&places, &plot), 2);
        assert_eq!(
            room.place(&[place(190.0, 60.0), place(4.0, 60.0)], &plot),
            1
        );
    }
}
