//! What one thread or process tells another through the kernel, where the
//! standard library has nothing for it (it has pipes and Unix sockets).

mod event_fd;
mod message_queue;
mod system_v;

pub use event_fd::EventFd;
pub use message_queue::MessageQueue;
pub use system_v::SystemVSemaphore;

#[cfg(test)]
mod tests;
