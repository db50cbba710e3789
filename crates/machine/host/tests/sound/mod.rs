//! Properties of a program's code that hold regardless of the contents of its file. A fuzz target
//! also uses these functions.

#![allow(unreachable_pub)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

use punctual_host::{Host, ProgramCode, SharedFiles};
use punctual_model::Registers;
use tempfile::TempDir;

/// The longest name of a function, including the offset.
const LONGEST: usize = 230;

/// Returns the code of a process whose program consists of `bytes`, from 0x1000 on.
pub fn code(bytes: &[u8]) -> (TempDir, ProgramCode) {
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
    let files = SharedFiles::default();
    let code = Host::new(folder.path()).code_of(7, None);
    let code = code.finding_callers(&files);
    (folder, code)
}

/// Names the functions of a process whose program consists of `bytes`, and finds callers.
pub fn program(bytes: &[u8]) {
    let (_folder, mut code) = code(bytes);
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
    unwind(&mut code, bytes);
}

/// Finds the callers on stacks that consist of the same bytes, and of addresses in the program.
fn unwind(code: &mut ProgramCode, bytes: &[u8]) {
    let words: Vec<u64> = (bytes.as_chunks().0.iter().enumerate())
        .map(|(place, word)| match place % 3 {
            0 => 0x1000 + u64::from(u16::from_le_bytes([word[0], word[1]])) % 0x8000,
            1 => 0x7000_0000 + u64::from(word[2]) * 8,
            _ => u64::from_le_bytes(*word),
        })
        .collect();
    let addresses = words.iter().copied().chain((0x1000..0x2000).step_by(7));
    for ip in addresses.take(1_000) {
        for (sp, fp) in [
            (0x7000_0000, 0x7000_0020),
            (u64::MAX - 20, u64::MAX),
            (0, 0),
        ] {
            let lr = ip ^ 8;
            let registers = Registers { ip, sp, fp, lr };
            let (found, _) = code.unwind(&registers, &words, &[ip, ip]);
            assert_eq!(found[0], ip);
            assert!(found.len() <= 130, "{found:x?}");
            let mut callers = found[1..].iter();
            assert!(callers.all(|caller| code.is_code(*caller)), "{found:x?}");
        }
    }
}
