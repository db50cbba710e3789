//! The code of a running program: its mappings, and the functions in its ELF files.
//!
//! All input is from another process and is untrusted. There is a limit (`Allowance`) for the total
//! number of bytes that are read from all its files, and for the number of bytes that are stored. A
//! file is read only if it is the one that the process has mapped. A process without privileges
//! reads the files of other users (`reader`).

mod allowance;
mod functions;
mod perf_map;
mod reader;
mod rows;
mod shared;
mod unwind;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use punctual_model::Frame;

use self::allowance::{Allowance, NoFunctions};
use self::functions::Functions;
use self::perf_map::PerfMap;
use self::rows::Caller;
use crate::root::Root;

pub use self::reader::{NotDropped, serve_symbols};
pub use self::shared::SharedFiles;

/// Maximum number of return addresses that are searched on the stack if libraries have no frame
/// pointers.
const MOST_SCANNED: usize = 4;

/// Maximum number of files whose symbols are read for one program.
const MOST_FILES: usize = 256;

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    start: u64,
    end: u64,
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: String,
}

impl Region {
    /// Returns whether this is the code that the kernel maps into each process (vdso(7)).
    fn is_vdso(&self) -> bool {
        self.path == "[vdso]"
    }
}

/// The code of a running process.
#[derive(Debug)]
pub struct ProgramCode {
    root: Root,
    pid: u32,
    /// Sorted by address.
    regions: Vec<Region>,
    /// Path of the program's executable, as in its mappings.
    executable: Option<String>,
    files: HashMap<((u32, u32), u64), Arc<Functions>>,
    shared: SharedFiles,
    /// The code that the kernel maps into each process; `None` before it is needed.
    vdso: Option<Arc<Functions>>,
    allowance: Allowance,
    /// Functions that a just-in-time compiler made; `None` before they are needed.
    compiled: Option<PerfMap>,
    /// Command that starts the process that reads files of other users.
    reader: Option<Vec<OsString>>,
    /// Reasons why functions of files are unknown, one sentence per file.
    unread: Vec<String>,
    /// Whether addresses follow a call. Opening their file takes longer than the rest.
    calls: HashMap<u64, bool>,
    /// How to find the callers of addresses.
    callers: HashMap<u64, Caller>,
}

/// Maximum number of addresses to remember.
const MOST_CALLS: usize = 65_536;

impl ProgramCode {
    pub(crate) fn read(root: &Root, pid: u32, reader: Option<Vec<OsString>>) -> Self {
        let mut code = Self {
            root: root.clone(),
            pid,
            regions: Vec::new(),
            executable: None,
            files: HashMap::new(),
            shared: SharedFiles::default(),
            vdso: None,
            allowance: Allowance::whole(),
            compiled: None,
            reader,
            unread: Vec::new(),
            calls: HashMap::new(),
            callers: HashMap::new(),
        };
        code.refresh();
        code
    }

    /// Also reads how to find callers, and shares files with other processes.
    #[must_use]
    pub fn finding_callers(mut self, files: &SharedFiles) -> Self {
        self.allowance.rows = true;
        self.shared = files.clone();
        self
    }

    /// Reads the mappings again, after an exec or after a library was loaded. Keeps the old
    /// mappings if the new ones cannot be read.
    pub fn refresh(&mut self) {
        let maps = self.root.raw_text(&format!("/proc/{}/maps", self.pid));
        let mut regions: Vec<Region> = match maps {
            Ok(text) => text.lines().filter_map(region).collect(),
            Err(_) => return,
        };
        regions.sort_by_key(|region| region.start);
        self.compiled = None;
        if !regions.is_empty() {
            self.regions = regions;
            self.calls.clear();
            self.callers.clear();
            let executable = self.root.link(&format!("/proc/{}/exe", self.pid));
            self.executable = executable
                .ok()
                .map(|path| without_deletion(&path).to_owned());
        }
    }

    /// Returns whether any mapping is known.
    pub fn is_known(&self) -> bool {
        !self.regions.is_empty()
    }

    /// Returns whether an address is in an executable mapping.
    pub fn is_code(&self, address: u64) -> bool {
        self.region(address).is_some()
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let after = self
            .regions
            .partition_point(|region| region.start <= address);
        let region = self.regions.get(after.checked_sub(1)?)?;
        (address < region.end).then_some(region)
    }

    /// Returns whether an address is in the program itself, not in a library.
    pub fn is_in_program(&self, address: u64) -> bool {
        let region = self.region(address);
        region.is_some_and(|region| match &self.executable {
            Some(executable) => region.path == *executable,
            // If the executable is unknown, use the file of the first mapping, because the kernel
            // usually maps the executable first.
            None => self
                .regions
                .first()
                .is_some_and(|first| first.path == region.path),
        })
    }

    /// Returns whether an address can be a return address, because there is a call instruction
    /// before it. Returns false if the code cannot be read.
    pub fn follows_a_call(&self, address: u64) -> bool {
        let Some(region) = self.region(address) else {
            return false;
        };
        let Some(file) = self.open(region) else {
            return false;
        };
        let mut before = [0; 8];
        let place = (address - region.start).checked_add(region.offset);
        let Some(place) = place.and_then(|place| place.checked_sub(8)) else {
            return false;
        };
        file.read_exact_at(&mut before, place).is_ok() && ends_with_call(&before)
    }

    /// Describes the location of an address. `is_return` means that this is a return address, so
    /// that the call instruction is before it.
    pub fn frame(&mut self, address: u64, is_return: bool) -> Frame {
        let unknown = Frame {
            address,
            object: None,
            offset: None,
            symbol: None,
            build_id: None,
        };
        let Some(region) = self.region(address).cloned() else {
            return unknown;
        };
        if !region.path.starts_with('/')
            && let Some((file, symbol)) = self.compiled(address, is_return)
        {
            return Frame {
                object: Some(file),
                symbol: Some(symbol),
                ..unknown
            };
        }
        let place = (address - region.start).saturating_add(region.offset);
        let functions = self.file(&region);
        let functions = functions.as_deref();
        let address_in_file = functions.and_then(|all| all.address(place));
        // The call precedes the return address and may even be in a different function.
        let back = u64::from(is_return);
        let symbol = functions
            .zip(address_in_file)
            .and_then(|(all, at)| all.name(at.saturating_sub(back), back));
        Frame {
            object: Some(region.path),
            offset: Some(address_in_file.unwrap_or(place)),
            symbol,
            build_id: functions.and_then(|all| all.build_id.clone()),
            ..unknown
        }
    }

    /// Returns the contents of a mapped file, or `None` if there are too many files.
    fn file(&mut self, region: &Region) -> Option<Arc<Functions>> {
        if region.is_vdso() && self.allowance.rows {
            let (root, allowance) = (&self.root, &mut self.allowance);
            let read = || {
                unwind::vdso(root, region, allowance)
                    .unwrap_or_default()
                    .into()
            };
            return Some(Arc::clone(self.vdso.get_or_insert_with(read)));
        }
        let key = (region.device, region.inode);
        if !self.files.contains_key(&key) && self.files.len() < MOST_FILES {
            let functions = self.functions(region);
            self.files.insert(key, functions);
        }
        self.files.get(&key).cloned()
    }

    /// Returns the file and the function of code that a just-in-time compiler made.
    fn compiled(&mut self, address: u64, is_return: bool) -> Option<(String, String)> {
        let map = (self.compiled).get_or_insert_with(|| PerfMap::read(&self.root, self.pid));
        let back = u64::from(is_return);
        let name = map.name(address.saturating_sub(back), back)?;
        Some((map.path.clone(), name))
    }

    /// Describes a stack, the innermost function first. `words` are those at the top of the stack:
    /// callers that the chain of frame pointers skips are searched in them, unless they are empty.
    /// Also returns whether the callers are unknown.
    pub fn frames(&mut self, stack: &[u64], words: &[u64]) -> (Vec<Frame>, bool) {
        let (addresses, is_short) = self.addresses(stack, words);
        let addresses = addresses.into_iter().enumerate();
        let frames = addresses.map(|(place, address)| self.frame(address, place > 0));
        (frames.collect(), is_short)
    }

    /// Returns the addresses of a stack as [`frames`](Self::frames) describes it. All but the first
    /// are return addresses.
    pub fn addresses(&mut self, stack: &[u64], words: &[u64]) -> (Vec<u64>, bool) {
        let Some((first, callers)) = stack.split_first() else {
            return (Vec::new(), true);
        };
        let chain: Vec<u64> = (callers.iter().copied())
            .take_while(|at| self.is_code(*at))
            .collect();
        let scanned = self.scanned(words, &chain);
        let is_short = scanned.is_empty() && chain.is_empty();
        let all = [*first].into_iter().chain(scanned).chain(chain);
        (all.collect(), is_short)
    }

    fn is_return_address(&mut self, address: u64) -> bool {
        if !self.is_code(address) {
            return false;
        }
        if let Some(known) = self.calls.get(&address) {
            return *known;
        }
        let follows = self.follows_a_call(address);
        if self.calls.len() < MOST_CALLS {
            self.calls.insert(address, follows);
        }
        follows
    }

    /// Returns callers that a chain of frame pointers skips because a library has none: return
    /// addresses on the stack, up to the first one in the program itself.
    fn scanned(&mut self, words: &[u64], chain: &[u64]) -> Vec<u64> {
        let mut found = Vec::new();
        for word in words.iter().copied() {
            if chain.contains(&word) || found.len() == MOST_SCANNED {
                break;
            }
            if self.is_return_address(word) {
                found.push(word);
                if self.is_in_program(word) {
                    break;
                }
            }
        }
        found
    }

    /// Returns where functions of the executable begin, in bytes from the start of its file. `None`
    /// for a function that is not known.
    pub fn positions<const N: usize>(&mut self, names: [&str; N]) -> [Option<u64>; N] {
        let path = self.executable.as_deref();
        let region = self
            .regions
            .iter()
            .find(|one| Some(one.path.as_str()) == path);
        let Some(region) = region.cloned() else {
            return [None; N];
        };
        let functions = self.functions(&region);
        names.map(|name| functions.position(name))
    }

    /// Returns the reasons why functions of files are unknown, one sentence per file.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Reads the functions of a mapped file. If they are unknown, stores the reason.
    fn functions(&mut self, region: &Region) -> Arc<Functions> {
        let path = &region.path;
        if !path.starts_with('/') {
            return Arc::default();
        }
        let functions = match self.open(region) {
            Some(file) => self.read_file(file, region),
            None => Err(NoFunctions::Reader(
                "the mapped file cannot be opened".to_owned(),
            )),
        };
        let (functions, why) = match functions {
            Ok(functions) => {
                let why = functions.incomplete.clone();
                (functions, why.map(|why| ("not all functions", why)))
            }
            Err(why) => (Arc::default(), Some(("no functions", why))),
        };
        if let Some((which, why)) = why {
            let pid = self.pid;
            let text = format!("{which} of {path} (process {pid}) are known: {why}");
            self.unread.push(text);
        }
        functions
    }

    fn read_file(&mut self, file: File, region: &Region) -> Result<Arc<Functions>, NoFunctions> {
        let owner = reader::foreign(&self.root, self.pid, &file)?;
        let key = (owner, region.device, region.inode);
        let command = self.reader.as_deref().unwrap_or_default();
        (self.shared).get(key, &mut self.allowance, |allowance| match owner {
            None => Functions::read(file, allowance),
            Some(owner) => reader::read_as(owner, file, command, allowance),
        })
    }

    /// Opens the mapped file as the process sees it.
    fn open(&self, region: &Region) -> Option<File> {
        if !region.path.starts_with('/') {
            return None;
        }
        let path = format!("/proc/{}/root{}", self.pid, region.path);
        let range = format!("{:x}-{:x}", region.start, region.end);
        let mapped = format!("/proc/{}/map_files/{range}", self.pid);
        // A link in the path may lead outside the root of the process, so compare the inode number.
        [mapped, path].iter().find_map(|path| {
            let is_mapped = |data: &Metadata| data.is_file() && data.ino() == region.inode;
            self.root.open_if(path, is_mapped).ok()
        })
    }
}

/// Number of bytes at the start of a program that contain the note of Go's linker.
const NOTES: usize = 64 << 10;

/// Returns whether the start of a program contains the note with Go's build ID (an ELF note of type
/// 4 and the owner `Go`). The file is searched without parsing it, because it is untrusted.
pub(crate) fn is_built_by_go(root: &Root, pid: u32) -> bool {
    let Ok(file) = root.open_if(&format!("/proc/{pid}/exe"), Metadata::is_file) else {
        return false;
    };
    let mut start = vec![0; NOTES];
    let read = file.read_at(&mut start, 0).unwrap_or(0);
    let is_note = |words: &[u8]| {
        words.starts_with(&4_u32.to_ne_bytes()) && words[8..] == *b"\x04\0\0\0Go\0\0"
    };
    // The notes of 64-bit programs are aligned to four bytes.
    let notes = start[..read].windows(16).step_by(4);
    cfg!(target_endian = "little") && notes.into_iter().any(is_note)
}

/// Parses a line such as `55d0-55e0 r-xp 00001000 08:01 1234 /usr/bin/cat`. Returns `None` if the
/// mapping is not executable.
fn region(line: &str) -> Option<Region> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let rights = fields.next()?;
    let offset = hex(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = (hex(major)? as u32, hex(minor)? as u32);
    let inode = fields.next()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_start();
    rights.contains('x').then_some(Region {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        device,
        inode,
        path: without_deletion(path).to_owned(),
    })
}

/// Returns the path without the suffix for a deleted file (proc_pid_exe(5)).
fn without_deletion(path: &str) -> &str {
    path.trim_end_matches(" (deleted)")
}

/// Returns whether these bytes end with a call instruction.
fn ends_with_call(bytes: &[u8; 8]) -> bool {
    match std::env::consts::ARCH {
        // bl, blr, which are the last four bytes, in little-endian order.
        "aarch64" => bytes[7] & 0xfc == 0x94 || (bytes[7] == 0xd6 && bytes[6] == 0x3f),
        // call rel32, or a call through a register or memory (ff /2), which has 2 to 7 bytes.
        "x86_64" => {
            let indirect = |at: usize| bytes[at] == 0xff && (bytes[at + 1] >> 3) & 7 == 2;
            bytes[3] == 0xe8 || (1..=6).any(indirect)
        }
        // `punctual_trace` reads no stacks on these architectures.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn here() -> u64 {
        here as *const () as u64
    }

    #[test]
    fn a_function_of_this_program_is_named() {
        let mut code = ProgramCode::read(&Root::new("/".into()), std::process::id(), None);
        assert!(code.is_known() && code.is_in_program(here()));
        let frame = code.frame(here() + 1, false);
        let symbol = frame.symbol.unwrap();
        assert!(symbol.contains("program::tests::here+0x1"), "{symbol}");
        let nothing = code.frame(8, false);
        assert_eq!((nothing.object, nothing.symbol), (None, None));
        assert!(!code.is_code(8) && !code.follows_a_call(8));
    }

    #[test]
    fn note_of_go_is_found() {
        let place = tempfile::tempdir().unwrap();
        let root = Root::new(place.path().into());
        let folder = place.path().join("proc/7");
        std::fs::create_dir_all(&folder).unwrap();
        let is_go = |bytes: &[u8]| {
            std::fs::write(folder.join("exe"), bytes).unwrap();
            is_built_by_go(&root, 7)
        };
        let note = b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0id";
        let at = |offset: usize| [&vec![0x7f; offset][..], note].concat();
        assert!(is_go(&at(3996)));
        assert!(!is_go(&at(NOTES)));
        assert!(!is_go(b"Go\0\0"));
        assert!(!is_go(b""));
        assert!(!is_built_by_go(&root, 8));
    }

    #[test]
    fn only_code_is_a_region() {
        let line = "55d0-55e0 r-xp 00001000 08:1f 1234                  /a b (deleted)";
        let region = region(line).unwrap();
        assert_eq!(
            (region.start, region.end, region.offset),
            (0x55d0, 0x55e0, 0x1000)
        );
        assert_eq!((region.device, region.inode), ((8, 0x1f), 1234));
        assert_eq!(region.path, "/a b");
        for line in ["", "1-2", "zz-1 r-xp 0 8:1 1 x", "1-2 rw-p 0 08:01 1 /a"] {
            assert_eq!(super::region(line), None, "{line}");
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_are_known() {
        assert!(ends_with_call(&[0, 0, 0, 0xe8, 1, 2, 3, 4]));
        assert!(ends_with_call(&[0, 0, 0, 0, 0, 0, 0xff, 0xd0]));
        assert!(!ends_with_call(&[0x90; 8]));
    }
}
