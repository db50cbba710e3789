//! Properties of a program's code that hold regardless of the contents of its file. A fuzz target
//! also uses these functions.

#![allow(unreachable_pub)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use punctual_host::Host;

/// The longest name of a function, including the offset.
const LONGEST: usize = 230;

/// Names the functions of a process whose program consists of `bytes`.
pub fn program(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let process = folder.path().join("proc/7");
    fs::create_dir_all(process.join("root")).expect("a folder");
    let path = process.join("root/program");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(bytes).expect("bytes");
    let inode = file.metadata().expect("its status").ino();
    let maps = format!(
        "1000-9000 r-xp 00000000 08:01 {inode}  /program\n\
         fffffffffffff000-ffffffffffffffff r-xp ffffffffffffff00 08:01 {inode}  /program\n"
    );
    fs::write(process.join("maps"), maps).expect("a file");
    let mut code = Host::new(folder.path()).code_of(7, None);
    assert!(code.is_known());
    for address in [
        0,
        0x1000,
        0x1001,
        0x2040,
        0x8fff,
        0x9000,
        u64::MAX - 1,
        u64::MAX,
    ] {
        for is_return in [false, true] {
            let frame = code.frame(address, is_return);
            assert_eq!(frame.address, address);
            let symbol = frame.symbol.unwrap_or_default();
            assert!(symbol.chars().count() <= LONGEST, "{symbol}");
            assert!(frame.build_id.unwrap_or_default().len() <= 128);
        }
        let _ = code.follows_a_call(address);
    }
}
