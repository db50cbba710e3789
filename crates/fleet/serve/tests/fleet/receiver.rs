//! A loopback server that records the requests that are posted to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::time::Duration;

/// Maximum time to wait for a request.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    bodies: mpsc::Receiver<Vec<u8>>,
}

impl Receiver {
    /// Returns a receiver that answers the first `refused` requests with 503.
    pub(crate) fn new(refused: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, bodies) = mpsc::channel();
        // Ends with the process, or when the receiver is dropped.
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).is_err() {
                        break;
                    }
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).to_lowercase();
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
                stream.read_exact(&mut body).unwrap();
                let status = if number < refused {
                    "503 Busy"
                } else {
                    "200 OK"
                };
                let answer =
                    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).unwrap();
                if number >= refused && sender.send(body).is_err() {
                    return;
                }
            }
        });
        Self { address, bodies }
    }

    pub(crate) fn next(&self) -> Vec<u8> {
        self.bodies.recv_timeout(PATIENCE).unwrap()
    }

    /// Returns the next request that arrives within `moment`, if any.
    pub(crate) fn more(&self, moment: Duration) -> Option<Vec<u8>> {
        self.bodies.recv_timeout(moment).ok()
    }
}
