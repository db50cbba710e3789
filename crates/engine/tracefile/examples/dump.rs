//! x
use std::io::BufReader;
fn main() {
    let file = std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap();
    let quiet = std::env::args().nth(2).is_some();
    let mut reader = punctual_tracefile::open_text(BufReader::with_capacity(1<<16, file)).unwrap();
    let mut n = 0;
    while let Some(item) = reader.next_item().unwrap() {
        n += 1;
        if !quiet { println!("{item:?}"); }
    }
    eprintln!("{n} items {:#?}", { let mut h = reader.head().clone(); h.symbols.clear(); h });
}
