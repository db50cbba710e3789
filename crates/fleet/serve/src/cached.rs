//! A value that is read again only after some time, because many users may view it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A value is cached for at least this time.
const FRESH: Duration = Duration::from_secs(10);
/// A value is cached for this many times the time that it took to read it.
const TIMES: u32 = 20;

/// The last value, with when and how long it was read.
#[derive(Debug)]
pub(crate) struct Cached<T>(Mutex<Option<(Instant, Duration, Arc<T>)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Cached<T> {
    /// Returns the cached value, or reads it if it is too old.
    ///
    /// # Errors
    /// Returns the error of `read`.
    pub(crate) fn get<E>(&self, read: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, took, known)) = last.as_ref()
            && at.elapsed() < FRESH.max(*took * TIMES)
        {
            return Ok(Arc::clone(known));
        }
        let began = Instant::now();
        let value = Arc::new(read()?);
        *last = Some((Instant::now(), began.elapsed(), Arc::clone(&value)));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_once_and_an_error_is_not_kept() {
        let cached: Cached<u32> = Cached::default();
        assert_eq!(cached.get(|| Err("no disk")), Err("no disk"));
        assert_eq!(*cached.get(|| Ok::<_, &str>(1)).unwrap(), 1);
        assert_eq!(*cached.get(|| Ok::<_, &str>(2)).unwrap(), 1);
    }
}
