//! Tests of what the communication between threads guarantees.

use std::thread;
use std::time::Duration;

use super::*;
use crate::interrupt::{install_interrupt_handler, interrupt};
use crate::{Error, ThreadBuilder, Waited};

#[test]
fn what_is_posted_arrives() {
    let (event, semaphore, queue) = (
        EventFd::new().unwrap(),
        SystemVSemaphore::new().unwrap(),
        MessageQueue::new(1).unwrap(),
    );
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut message = [0; MessageQueue::MESSAGE];
            for count in 0..200_u64 {
                while queue.receive(&mut message).unwrap() == Waited::Interrupted {}
                assert_eq!(u64::from_ne_bytes(message), count);
                while semaphore.wait().unwrap() == Waited::Interrupted {}
                event.post().unwrap();
            }
        });
        for count in 0..200_u64 {
            queue.send(count.to_ne_bytes()).unwrap();
            semaphore.post().unwrap();
            while event.wait().unwrap() == Waited::Interrupted {}
        }
    });
}

#[test]
fn message_wait_may_be_given_up() {
    let queue = MessageQueue::new(1).unwrap();
    let mut message = [0; MessageQueue::MESSAGE];
    let mut wait = |patience| loop {
        match queue.receive_within(&mut message, patience).unwrap() {
            Some(Waited::Interrupted) => {}
            other => break other,
        }
    };
    assert_eq!(wait(Duration::from_millis(2)), None);
    assert_eq!(wait(Duration::ZERO), None);
    queue.send([7; MessageQueue::MESSAGE]).unwrap();
    assert_eq!(wait(Duration::MAX), Some(Waited::Woken));
    assert_eq!(message, [7; MessageQueue::MESSAGE]);
}

#[test]
fn nothing_is_left_behind() {
    let semaphore = SystemVSemaphore::new().unwrap();
    let name = format!("{semaphore:?}");
    let id = name.trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
    let listed = || {
        let sets = std::fs::read_to_string("/proc/sysvipc/sem").unwrap();
        sets.lines()
            .any(|line| line.split_whitespace().nth(1) == Some(&id))
    };
    assert!(listed());
    drop(semaphore);
    assert!(!listed());

    let _queue = MessageQueue::new(1).unwrap();
    let ours = format!("punctual-{}-", std::process::id());
    match std::fs::read_dir("/dev/mqueue") {
        Ok(queues) => {
            for queue in queues {
                let name = queue.unwrap().file_name();
                assert!(!name.to_string_lossy().starts_with(&ours));
            }
        }
        Err(error) => {
            punctual_testing::skip_refused("names of message queues: /dev/mqueue", &error)
        }
    }
}

#[test]
fn a_signal_ends_each_wait() {
    fn on_event() -> Waited {
        EventFd::new().unwrap().wait().unwrap()
    }
    fn on_semaphore() -> Waited {
        SystemVSemaphore::new().unwrap().wait().unwrap()
    }
    fn on_queue() -> Waited {
        let mut message = [0; MessageQueue::MESSAGE];
        MessageQueue::new(1).unwrap().receive(&mut message).unwrap()
    }
    install_interrupt_handler().unwrap();
    for wait in [on_event, on_semaphore, on_queue] {
        let thread = ThreadBuilder::new("waiter").spawn(wait).unwrap();
        while !thread.is_finished() {
            match interrupt(thread.tid()) {
                Ok(()) | Err(Error::NoSuchThread { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            thread::sleep(std::time::Duration::from_millis(2));
        }
        assert_eq!(thread.join().unwrap(), Waited::Interrupted);
    }
}
