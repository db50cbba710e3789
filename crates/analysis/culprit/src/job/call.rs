//! Places where threads wait.

/// A place where a thread waits: a system call and its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The number of the call.
    pub id: i64,
    /// A file descriptor, the address of a futex, or a clock. Futex addresses are rounded to eight
    /// bytes, because a condition variable of glibc waits on two neighbouring futexes in turn.
    pub argument: u64,
}

impl Call {
    /// The bits of a futex address that are ignored.
    pub const IGNORED_OF_FUTEX: u64 = 7;
}
