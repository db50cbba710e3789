//! Looking after threads that wait for one another.

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::Control;

/// Each measuring thread keeps a clone of the sender until it ends.
pub(crate) type Alive = Sender<Infallible>;

/// Knows when all threads that have an [`Alive`] are gone.
#[derive(Debug)]
pub(crate) struct Attendant(Receiver<Infallible>);

impl Attendant {
    /// How often it looks; seldom, for it runs on the measured machine.
    const LOOK_EVERY: Duration = Duration::from_millis(50);

    pub(crate) fn new() -> (Alive, Self) {
        let (alive, ends) = channel();
        (alive, Self(ends))
    }

    /// Returns once all threads are gone. Until then it repeats a stop, which
    /// may have come just before a thread went to sleep, and calls `look` now
    /// and then.
    pub(crate) fn wait(self, control: &Control, mut look: impl FnMut()) {
        while let Err(RecvTimeoutError::Timeout) = self.0.recv_timeout(Self::LOOK_EVERY) {
            if control.stopping() {
                control.stop();
            }
            look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_stop_is_repeated_until_all_are_gone() {
        punctual_rt::interrupt::install_interrupt_handler().unwrap();
        let control = Arc::new(Control::new());
        let (alive, attendant) = Attendant::new();
        let thread = std::thread::spawn({
            let control = Arc::clone(&control);
            move || {
                let _alive = alive;
                let _entered = control.enter();
                // Each stop ends one of these; a single one would not do.
                let mut sleeps = 0;
                let semaphore = punctual_rt::Semaphore::new(0).unwrap();
                while sleeps < 3 {
                    semaphore.wait().unwrap();
                    sleeps += 1;
                }
                sleeps
            }
        });
        control.stop();
        let mut looked = 0;
        attendant.wait(&control, || looked += 1);
        assert_eq!(thread.join().unwrap(), 3);
        assert!(looked >= 2);
    }
}
