//! The same as `slow.c`, in Rust.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static LOCK: Mutex<u64> = Mutex::new(0);
static WANTED: AtomicBool = AtomicBool::new(false);

fn burn(us: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(us) {
        for number in 0..200 {
            black_box(number);
        }
    }
}

#[inline(never)]
fn usual_work() {
    burn(600);
    black_box(());
}

#[inline(never)]
fn planted_burn() {
    burn(6000);
    black_box(());
}

#[inline(never)]
fn planted_wait() {
    WANTED.store(true, Ordering::SeqCst);
    while WANTED.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
    *LOCK.lock().unwrap() += 1;
    black_box(());
}

fn hold() {
    loop {
        while !WANTED.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_micros(100));
        }
        let mut held = LOCK.lock().unwrap();
        WANTED.store(false, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(8));
        *held += 1;
    }
}

fn main() {
    let waits = std::env::args().nth(1).as_deref() == Some("wait");
    if waits {
        thread::Builder::new().name("holder".to_owned()).spawn(hold).unwrap();
    }
    for job in 1_u64.. {
        thread::sleep(Duration::from_millis(4));
        usual_work();
        match (job % 10, waits) {
            (0, true) => planted_wait(),
            (0, false) => planted_burn(),
            _ => {}
        }
    }
}
