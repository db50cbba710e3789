//! Notifications to systemd: datagrams of sd_notify(3).

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Connection to the service manager. Without a manager, nothing is sent.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<UnixDatagram>,
    /// Interval at which systemd expects a watchdog message.
    every: Option<Duration>,
    said: Option<Instant>,
}

impl Notify {
    /// Connects using the variables `NOTIFY_SOCKET` and `WATCHDOG_USEC` of `env`.
    pub fn from_env(env: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let socket = env("NOTIFY_SOCKET").and_then(|path| {
            let address = match path.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&path),
            };
            let socket = UnixDatagram::unbound().ok()?;
            socket.connect_addr(&address.ok()?).ok()?;
            Some(socket)
        });
        let timeout = env("WATCHDOG_USEC").and_then(|text| text.to_str()?.parse().ok());
        Self {
            socket,
            every: timeout.map(|micros: u64| Duration::from_micros(micros / 3)),
            said: None,
        }
    }

    fn send(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // Errors are ignored, because the manager may be gone.
            let _ = socket.send(text.as_bytes());
        }
    }

    /// Reports that the service is ready, with its status.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Reports the current status.
    pub fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", one_line(status)));
    }

    /// Reports that the service is stopping.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Sends a watchdog message if it is due. Call this often.
    pub fn alive(&mut self) {
        let Some(every) = self.every else { return };
        if self.said.is_none_or(|said| said.elapsed() >= every) {
            self.said = Some(Instant::now());
            self.send("WATCHDOG=1");
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_systemd_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut notify = Notify::from_env(&|name| match name {
            "NOTIFY_SOCKET" => Some(path.clone().into()),
            "WATCHDOG_USEC" => Some("30000000".into()),
            _ => None,
        });
        let received = || {
            let mut bytes = [0; 100];
            let count = manager.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        notify.ready("next:\nosadl");
        assert_eq!(received(), "READY=1\nSTATUS=next: osadl");
        notify.alive();
        notify.alive();
        notify.stopping();
        assert_eq!(received(), "WATCHDOG=1");
        assert_eq!(received(), "STOPPING=1");
        // Without a manager, nothing is sent.
        let mut none = Notify::from_env(&|_| None);
        none.ready("");
        none.alive();
    }
}
