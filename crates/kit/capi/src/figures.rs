//! Figures that `punctual app` reads.

use std::ffi::{c_char, c_int, c_void};

use punctual_app::{Channel, ChannelSpec, Figures, Kind};

use crate::error::{Failure, answer};
use crate::handle::{Object, end, fits, get, share, store};
use crate::sized::{Sized_, read, text};
use crate::thread::duration;

/// Caller-provided storage for the figures of an application. Its contents are private.
#[repr(C)]
pub struct punctual_figures_t {
    /// Private to the library.
    pub reserved: [u64; 4],
}
const _: () = fits::<Figures, punctual_figures_t>();

/// Opaque type behind a handle.
pub struct punctual_figures(());
/// Owning handle of the figures of an application. Drop it exactly once.
pub type punctual_figures_h = *mut punctual_figures;
/// Borrowed handle of the figures of an application.
pub type punctual_figures_h_ref = *mut punctual_figures;

/// Drops the figures of an application; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_figures_drop(handle: punctual_figures_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<Figures>>()) };
        Ok(())
    });
}

/// Caller-provided storage for a channel. Its contents are private.
#[repr(C)]
pub struct punctual_channel_t {
    /// Private to the library.
    pub reserved: [u64; 16],
}
const _: () = fits::<Channel, punctual_channel_t>();

/// Opaque type behind a handle.
pub struct punctual_channel(());
/// Owning handle of a channel. Drop it exactly once.
pub type punctual_channel_h = *mut punctual_channel;
/// Borrowed handle of a channel.
pub type punctual_channel_h_ref = *mut punctual_channel;

/// Drops a channel; NULL is ignored. The caller may then reuse the storage.
///
/// # Safety
/// `handle` is NULL, or a handle that has not been dropped and is no longer in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_drop(handle: punctual_channel_h) {
    let _ = answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { end(handle.cast::<Object<Channel>>()) };
        Ok(())
    });
}

/// The kind of a channel's samples.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum punctual_kind {
    /// From the release of a job to its start.
    PUNCTUAL_KIND_LATENCY = 0,
    /// From the release of a job to its completion.
    PUNCTUAL_KIND_RESPONSE = 1,
    /// From the start of a job to its completion.
    PUNCTUAL_KIND_EXECUTION = 2,
    /// Another duration.
    PUNCTUAL_KIND_OTHER = 3,
}

/// The settings of a channel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct punctual_channel_spec_t {
    /// Set to sizeof this structure.
    pub size: usize,
    /// Name in UTF-8, truncated to 32 bytes.
    pub name: *const c_char,
    /// Period; 0 if there is none.
    pub period_ns: i64,
    /// Samples above this value are stored with their time. If it is 0, only the largest sample of
    /// each second is stored.
    pub budget_ns: i64,
    /// A value of `punctual_kind`.
    pub kind: u32,
    /// Must be 0.
    pub reserved: u32,
}

// SAFETY: the fields are numbers and a pointer, and the first number is the size.
unsafe impl Sized_ for punctual_channel_spec_t {
    const NAME: &'static str = "punctual_channel_spec_t";
}

/// Creates the figures of this application in sealed memory, with `channels` channels (1 to 64).
/// Errors: EINVAL; EOPNOTSUPP before Linux 5.1; the errors of memfd_create(2).
///
/// # Safety
/// `storage` is NULL or points to a punctual_figures_t, `name` ends in a zero byte, and `handle`
/// points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_figures_new(
    storage: *mut punctual_figures_t,
    name: *const c_char,
    channels: usize,
    handle: *mut punctual_figures_h,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let name = unsafe { text(name, "the name")? };
        let make = || Ok(Figures::create(name, channels)?);
        // SAFETY: the caller guarantees this, and the storage is large enough.
        unsafe { store(storage.cast::<c_void>(), handle.cast(), make) }
    })
}

/// Creates a channel for the measurements of the calling thread. The channel may outlive the handle
/// of its figures. Errors: EINVAL; ENOSPC if all channels are in use.
///
/// # Safety
/// `storage` is NULL or points to a punctual_channel_t, `spec` points to a structure that begins
/// with its size, and `handle` points to writable memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_new(
    storage: *mut punctual_channel_t,
    figures: punctual_figures_h_ref,
    spec: *const punctual_channel_spec_t,
    handle: *mut punctual_channel_h,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let (figures, spec) = unsafe { (share::<Figures>(figures.cast())?, read(spec)?) };
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| *kind as u64 == u64::from(spec.kind));
        let Some(kind) = kind else {
            let why = format!("kind is {}: use a value of punctual_kind", spec.kind);
            return Err(Failure::new(libc::EINVAL, why));
        };
        let ns = |ns, what| Ok::<_, Failure>(duration(ns, what)?.as_nanos() as u64);
        let spec = ChannelSpec {
            // SAFETY: the caller guarantees this.
            name: unsafe { text(spec.name, "the name")? },
            kind,
            period_ns: ns(spec.period_ns, "period_ns")?,
            budget_ns: ns(spec.budget_ns, "budget_ns")?,
        };
        // SAFETY: the caller guarantees this, and the storage is large enough.
        unsafe {
            store(storage.cast::<c_void>(), handle.cast(), || {
                Ok(figures.channel(&spec)?)
            })
        }
    })
}

/// Adds a sample for the job that was released at `at_ns`. Makes no system call.
///
/// # Safety
/// No other thread uses the channel `handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_record(
    handle: punctual_channel_h_ref,
    at_ns: i64,
    ns: i64,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        unsafe { get::<Channel>(handle.cast())? }.record(at_ns.max(0).cast_unsigned(), ns);
        Ok(())
    })
}

/// Sets the counts of periods so far, from punctual_periodic_account().
///
/// # Safety
/// The same as for punctual_channel_record(). In addition, `account` points to a structure that
/// begins with its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn punctual_channel_account(
    handle: punctual_channel_h_ref,
    account: *const crate::punctual_account_t,
) -> c_int {
    answer(|| {
        // SAFETY: the caller guarantees this.
        let (channel, account) = unsafe { (get::<Channel>(handle.cast())?, read(account)?) };
        channel.account(account.due, account.missed, account.late);
        Ok(())
    })
}
