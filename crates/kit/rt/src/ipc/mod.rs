//! The kernel's means of communication between threads or processes that the standard library lacks
//! (it has pipes and Unix sockets).

mod event_fd;
mod message_queue;
mod system_v;

pub use event_fd::EventFd;
pub use message_queue::MessageQueue;
pub use system_v::SystemVSemaphore;

#[cfg(test)]
mod tests;
