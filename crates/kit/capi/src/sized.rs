//! Structures that begin with their size. A newer library accepts the structures of an older
//! program, and an older library refuses fields that it does not know.

use std::ffi::c_void;

use crate::error::Failure;

/// A structure of numbers whose first field is its size.
///
/// # Safety
/// The structure is `repr(C)` and begins with a `usize`, and any bytes are a valid value of it.
pub(crate) unsafe trait Sized_: Copy {
    /// Name of the structure, for messages.
    const NAME: &'static str;
}

/// Reads a structure that the caller filled in.
///
/// # Safety
/// `from` is NULL or points to as many bytes as its first field specifies.
pub(crate) unsafe fn read<T: Sized_>(from: *const T) -> Result<T, Failure> {
    // SAFETY: the caller guarantees this.
    let size = unsafe { size_of_caller(from)? };
    let known = size_of::<T>();
    let extra = from.cast::<u8>();
    for place in known..size {
        // SAFETY: this is within the size that the caller specified.
        if unsafe { extra.add(place).read() } != 0 {
            let why = format!(
                "{} has a field that this version of the library does not support",
                T::NAME
            );
            return Err(Failure::new(libc::E2BIG, why));
        }
    }
    // SAFETY: the buffer is at least as large as `T`, and any bytes are a valid `T`.
    Ok(unsafe { from.read() })
}

/// Writes a structure, up to the size that the caller set.
///
/// # Safety
/// `to` is NULL or points to as many bytes as its first field specifies.
pub(crate) unsafe fn write<T: Sized_>(to: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: the caller guarantees this.
    unsafe {
        let size = size_of_caller(to)?;
        to.write(value);
        to.cast::<usize>().write(size);
    }
    Ok(())
}

/// # Safety
/// The same as for [`read`].
unsafe fn size_of_caller<T: Sized_>(from: *const T) -> Result<usize, Failure> {
    if from.is_null() {
        return Err(Failure::null(T::NAME));
    }
    // SAFETY: the structure begins with its size.
    let size = unsafe { from.cast::<usize>().read() };
    if size >= size_of::<T>() && size <= 4096 {
        Ok(size)
    } else {
        Err(Failure::new(
            libc::EINVAL,
            format!(
                "the field size of {} is {size}: set it to sizeof ({} bytes in this library)",
                T::NAME,
                size_of::<T>()
            ),
        ))
    }
}

/// Reads a `char` string that the caller passed.
///
/// # Safety
/// `from` is NULL or ends in a zero byte.
pub(crate) unsafe fn text<'a>(
    from: *const std::ffi::c_char,
    what: &str,
) -> Result<&'a str, Failure> {
    if from.is_null() {
        return Err(Failure::null(what));
    }
    // SAFETY: the caller guarantees this.
    let text = unsafe { std::ffi::CStr::from_ptr(from) };
    text.to_str()
        .map_err(|_| Failure::new(libc::EINVAL, format!("{what} is not UTF-8")))
}

/// Returns an error if the storage is not aligned for its object.
pub(crate) fn check_alignment(storage: *const c_void, align: usize) -> Result<(), Failure> {
    if storage.addr().is_multiple_of(align) {
        Ok(())
    } else {
        Err(Failure::new(libc::EINVAL, "the storage is not aligned"))
    }
}
