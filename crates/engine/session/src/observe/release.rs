//! The wait that releases the jobs of a thread, as requested by the user.

use punctual_host::{system_call_name, system_call_numbers};

/// The wait that releases the jobs of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// Its kind.
    pub kind: ReleaseKind,
    /// Its file descriptor, if only waits on this one count.
    pub descriptor: Option<u64>,
}

/// Kind of wait that releases the jobs of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReleaseKind {
    /// The idle wait of the thread, found by length and regularity.
    #[default]
    Auto,
    /// A read of a timer descriptor.
    Timerfd,
    /// nanosleep(2), clock_nanosleep(2).
    Nanosleep,
    /// epoll_wait(2) and similar calls.
    Epoll,
    /// futex(2): a condition variable, a semaphore.
    Futex,
    /// A system call, by name.
    Call(String),
}

impl ReleaseKind {
    /// Returns whether such waits have a file descriptor.
    fn has_descriptor(&self) -> bool {
        match self {
            Self::Timerfd | Self::Epoll => true,
            Self::Auto | Self::Nanosleep | Self::Futex => false,
            Self::Call(name) => DESCRIPTORS.contains(&name.as_str()),
        }
    }
}

/// Names of kinds in options.
const KINDS: [(&str, ReleaseKind); 5] = [
    ("auto", ReleaseKind::Auto),
    ("timerfd", ReleaseKind::Timerfd),
    ("nanosleep", ReleaseKind::Nanosleep),
    ("epoll", ReleaseKind::Epoll),
    ("futex", ReleaseKind::Futex),
];

/// Calls whose first argument is a file descriptor that threads wait for.
pub(super) const DESCRIPTORS: [&str; 14] = [
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "io_uring_enter",
    "mq_timedreceive",
    "fsync",
    "fdatasync",
];

/// The text does not name a release wait.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// There is no such kind.
    #[error(
        "'{0}' is unknown: use one of {names}, or the name of a system call",
        names = names()
    )]
    Kind(String),
    /// The kind is followed by a descriptor that is not a number.
    #[error("'{0}' is not a file descriptor; use its number, as in epoll:4")]
    Descriptor(String),
    /// Waits of this kind have no descriptor.
    #[error("'{0}' does not wait for a file descriptor; remove ':{1}'")]
    NoDescriptor(String, u64),
}

fn names() -> String {
    KINDS.map(|(name, _)| name).join(", ")
}

impl std::str::FromStr for ReleaseKind {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        if let Some((_, kind)) = KINDS.iter().find(|(name, _)| *name == text) {
            return Ok(kind.clone());
        }
        // Use the name that events of this call get.
        let number = system_call_numbers(text).into_iter().next();
        match number.and_then(system_call_name) {
            Some(name) => Ok(Self::Call(name.to_owned())),
            None => Err(ReleaseError::Kind(text.to_owned())),
        }
    }
}

impl std::str::FromStr for Release {
    type Err = ReleaseError;

    fn from_str(text: &str) -> Result<Self, ReleaseError> {
        let Some((name, descriptor)) = text.split_once(':') else {
            return Ok(Self {
                kind: text.parse()?,
                descriptor: None,
            });
        };
        let kind: ReleaseKind = name.parse()?;
        let number: u32 = descriptor
            .parse()
            .map_err(|_| ReleaseError::Descriptor(descriptor.to_owned()))?;
        if !kind.has_descriptor() {
            return Err(ReleaseError::NoDescriptor(name.to_owned(), number.into()));
        }
        Ok(Self {
            kind,
            descriptor: Some(number.into()),
        })
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            ReleaseKind::Call(name) => f.write_str(name)?,
            kind => {
                let known = KINDS.iter().find(|(_, known)| known == kind);
                f.write_str(known.map_or("auto", |(name, _)| name))?;
            }
        }
        self.descriptor.map_or(Ok(()), |fd| write!(f, ":{fd}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_wait_is_kind_and_descriptor() {
        for (name, kind) in &KINDS {
            let release: Release = name.parse().unwrap();
            assert_eq!((&release.kind, release.descriptor), (kind, None));
            assert_eq!(release.to_string(), *name);
        }
        for text in ["read", "epoll:4", "timerfd:0", "recvmsg:17"] {
            let release: Release = text.parse().unwrap();
            assert_eq!(release.to_string(), text);
        }
        let read: Release = "read:3".parse().unwrap();
        assert_eq!(read.kind, ReleaseKind::Call("read".to_owned()));
        assert_eq!(read.descriptor, Some(3));
    }

    #[test]
    fn invalid_release_wait_is_refused() {
        for (text, error) in [
            (
                "tea-break",
                "'tea-break' is unknown: use one of auto, timerfd, nanosleep, epoll, \
                 futex, or the name of a system call",
            ),
            (
                "epoll:x",
                "'x' is not a file descriptor; use its number, as in epoll:4",
            ),
            (
                "epoll:-1",
                "'-1' is not a file descriptor; use its number, as in epoll:4",
            ),
            (
                "futex:4",
                "'futex' does not wait for a file descriptor; remove ':4'",
            ),
        ] {
            let refused = text.parse::<Release>().unwrap_err();
            assert_eq!(refused.to_string(), error);
        }
    }
}
