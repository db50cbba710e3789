//! Objects in storage that the caller provides, or on the heap.

use std::ffi::c_void;

use crate::error::Failure;
use crate::sized::check_alignment;

/// The object behind a handle.
pub(crate) struct Object<T> {
    /// Whether [`store`] allocated the object on the heap.
    boxed: bool,
    pub(crate) value: T,
}

/// Moves a value into `storage`, or onto the heap if `storage` is NULL, and writes the handle.
///
/// # Safety
/// `storage` is NULL or points to memory as large as an `Object<T>`. `handle` is NULL or points to
/// writable memory.
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
        // SAFETY: the caller guarantees that the memory is large enough, and its alignment was
        // checked.
        unsafe { place.write(object) };
        place
    };
    // SAFETY: `handle` is not null, and the caller guarantees that it may be written to.
    unsafe { handle.write(place.cast()) };
    Ok(())
}

/// Returns the object behind a handle.
///
/// # Safety
/// `handle` is NULL, or an object that [`store`] made and that has not been dropped. Nothing else
/// uses the object during the borrow, unless `T` may be shared.
pub(crate) unsafe fn get<'a, T>(handle: *mut Object<T>) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller guarantees this.
    unsafe { handle.as_mut() }
        .map(|object| &mut object.value)
        .ok_or_else(|| Failure::null("the handle"))
}

/// Like [`get`], but for objects that threads share.
///
/// # Safety
/// `handle` is NULL, or an object that [`store`] made and that has not been dropped.
pub(crate) unsafe fn share<'a, T: Sync>(handle: *mut Object<T>) -> Result<&'a T, Failure> {
    // SAFETY: the caller guarantees this.
    unsafe { handle.as_ref() }
        .map(|object| &object.value)
        .ok_or_else(|| Failure::null("the handle"))
}

/// Destroys an object. NULL is ignored.
///
/// # Safety
/// `handle` is NULL, or an object that [`store`] made and that has not been dropped.
pub(crate) unsafe fn end<T>(handle: *mut Object<T>) {
    // SAFETY: the caller guarantees this.
    let Some(object) = (unsafe { handle.as_ref() }) else {
        return;
    };
    // SAFETY: `store` made the object in one of the two ways, and it is no longer in use.
    unsafe {
        if object.boxed {
            drop(Box::from_raw(handle))
        } else {
            handle.drop_in_place()
        }
    }
}

/// Checks at compile time that an object of `T` fits into storage of the type `S`.
pub(crate) const fn fits<T, S>() {
    assert!(size_of::<Object<T>>() <= size_of::<S>());
    assert!(align_of::<Object<T>>() <= align_of::<S>());
}
