//! Objects in storage of the caller or on the heap.

use std::ffi::c_void;

use crate::error::Failure;
use crate::sized::check_alignment;

/// The object behind a handle.
pub(crate) struct Object<T> {
    /// Whether [`put`] allocated the object on the heap.
    boxed: bool,
    pub(crate) value: T,
}

/// Moves a value into `storage`, or onto the heap if that is NULL, and writes the handle.
///
/// # Safety
/// `storage` is NULL or as large as an `Object<T>`; `handle` is NULL or may be written to.
pub(crate) unsafe fn store<T>(
    storage: *mut c_void,
    handle: *mut *mut c_void,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if handle.is_null() {
        return Err(Failure::null("the handle"));
    }
    check_alignment(storage, align_of::<Object<T>>())?;
    let boxed = storage.is_null();
    let object = Object {
        boxed,
        value: make()?,
    };
    let place = if boxed {
        Box::into_raw(Box::new(object))
    } else {
        let place = storage.cast::<Object<T>>();
        // SAFETY: large enough, as the caller promises, and aligned.
        unsafe { place.write(object) };
        place
    };
    // SAFETY: not null, and may be written to.
    unsafe { handle.write(place.cast()) };
    Ok(())
}

/// Returns the object behind a handle.
///
/// # Safety
/// `handle` is NULL or an object that was made by [`put`] and not dropped. Nothing else uses
/// it during the borrow, unless `T` may be shared.
pub(crate) unsafe fn get<'a, T>(handle: *mut Object<T>) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller promises.
    unsafe { handle.as_mut() }
        .map(|object| &mut object.value)
        .ok_or_else(|| Failure::null("the handle"))
}

/// As [`get`], for objects that threads share.
///
/// # Safety
/// `handle` is NULL or an object that was made by [`put`] and not dropped.
pub(crate) unsafe fn share<'a, T: Sync>(handle: *mut Object<T>) -> Result<&'a T, Failure> {
    // SAFETY: as the caller promises.
    unsafe { handle.as_ref() }
        .map(|object| &object.value)
        .ok_or_else(|| Failure::null("the handle"))
}

/// Destroys an object. NULL is ignored.
///
/// # Safety
/// `handle` is NULL or an object that was made by [`put`] and not dropped.
pub(crate) unsafe fn end<T>(handle: *mut Object<T>) {
    // SAFETY: as the caller promises.
    let Some(object) = (unsafe { handle.as_ref() }) else {
        return;
    };
    // SAFETY: made by `put` in one of the two ways, and no longer in use.
    unsafe {
        if object.boxed {
            drop(Box::from_raw(handle))
        } else {
            handle.drop_in_place()
        }
    }
}

/// Checks at compile time that an object of `T` fits into storage `S`.
pub(crate) const fn fits<T, S>() {
    assert!(size_of::<Object<T>>() <= size_of::<S>());
    assert!(align_of::<Object<T>>() <= align_of::<S>());
}
