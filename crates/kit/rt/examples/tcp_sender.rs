//! A TCP sender: small messages are sent at once, and a message of several pieces is sent as one
//! segment.
#![allow(clippy::print_stdout)] // an example may print

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use punctual_rt::{TcpCork, send_at_once};

/// Runs the example.
pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    send_at_once(&sender)?;
    for _ in 0..100 {
        {
            let _cork = TcpCork::new(&sender)?;
            (&sender).write_all(b"head")?;
            (&sender).write_all(b" body")?;
        }
        let mut buffer = [0; 64];
        let read = receiver.read(&mut buffer)?;
        assert_eq!(&buffer[..read], b"head body");
    }
    println!("100 messages, each read as one piece");
    Ok(())
}
