//! The contents of files that several processes have mapped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::allowance::{Allowance, NoFunctions};
use super::functions::Functions;
use super::reader::Owner;

/// Maximum number of bytes to store for all files.
const MOST_KEPT: u64 = 256 << 20;

/// A file, and the user that read it: the reader of another user's program may be hostile.
pub(super) type Key = (Option<Owner>, (u32, u32), u64);

/// Files that are read once for all processes that use them.
#[derive(Clone, Debug, Default)]
pub struct SharedFiles(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    /// Each file that a process uses, with the number of its bytes.
    known: HashMap<Key, (Weak<Functions>, u64)>,
    kept: u64,
}

impl SharedFiles {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the contents of a file, which is read if no process uses it.
    pub(super) fn get(
        &self,
        key: Key,
        allowance: &mut Allowance,
        read: impl FnOnce(&mut Allowance) -> Result<Functions, NoFunctions>,
    ) -> Result<Arc<Functions>, NoFunctions> {
        let mut files = self.files();
        if let Some(known) = files.known.get(&key).and_then(|(file, _)| file.upgrade()) {
            return Ok(known);
        }
        let Files { known, kept } = &mut *files;
        known.retain(|_, (file, bytes)| {
            let is_used = file.strong_count() > 0;
            *kept -= if is_used { 0 } else { *bytes };
            is_used
        });
        let before = allowance.kept;
        allowance.kept = before.min(MOST_KEPT.saturating_sub(*kept));
        let withheld = before - allowance.kept;
        let most = allowance.kept;
        let found = read(allowance);
        let bytes = most - allowance.kept;
        allowance.kept += withheld;
        let found = Arc::new(found?);
        *kept += bytes;
        known.insert(key, (Arc::downgrade(&found), bytes));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_read_once_while_it_is_used() {
        let files = SharedFiles::default();
        let mut allowance = Allowance::whole();
        let mut reads = 0;
        let mut get = |inode, bytes| {
            let key = (None, (8, 1), inode);
            files.get(key, &mut allowance, |allowance| {
                reads += 1;
                allowance.kept = allowance
                    .kept
                    .checked_sub(bytes)
                    .ok_or(NoFunctions::TooMany)?;
                Ok(Functions::default())
            })
        };
        let first = get(1, 10).unwrap();
        assert!(Arc::ptr_eq(&first, &get(1, 10).unwrap()));
        get(2, 20).unwrap();
        get(2, 20).unwrap();
        assert_eq!(get(3, u64::MAX).unwrap_err(), NoFunctions::TooMany);
        assert_eq!(reads, 4);
        // Only the first is still used.
        assert_eq!(files.files().kept, 10);
        assert_eq!(allowance.kept, Allowance::whole().kept - 50);
    }
}
