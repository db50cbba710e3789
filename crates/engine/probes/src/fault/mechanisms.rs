//! The mechanisms for getting memory, and which of them this machine supports.

use punctual_rt::{
    Backing, Error, Mapping, MappingRequest, MemoryFile, NewMappingMode, NewMappings,
};

/// The values of `--memory`.
pub(super) const MEMORIES: &[(&str, &str)] = &[
    ("all", "each of them in turn"),
    ("anonymous", "zeroed pages of the regular size"),
    (
        "file",
        "pages of a memory file (memfd), which are in the page cache",
    ),
    (
        "huge",
        "huge pages of 2 MiB, from the pool or requested with madvise",
    ),
];

/// The values of `--after`.
pub(super) const AFTERS: &[(&str, &str)] = &[
    ("all", "each of them in turn"),
    (
        "nothing",
        "a plain mmap: the first access causes a page fault",
    ),
    ("mlock", "mlock of the mapping"),
    ("map-locked", "mmap with MAP_LOCKED"),
    ("map-populate", "mmap with MAP_POPULATE"),
    ("mlockall", "mlockall(MCL_FUTURE) before the mmap"),
];

/// What backs the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Anonymous,
    File,
    HugePool,
    HugeAdvised,
}

impl Memory {
    /// Returns the value of `--memory` that selects this backing.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::File => "file",
            Self::HugePool | Self::HugeAdvised => "huge",
        }
    }

    /// Returns the kind of the pages, for the table.
    pub(super) const fn pages(self) -> &'static str {
        match self {
            Self::Anonymous => "usual size",
            Self::File => "usual size, memfd",
            Self::HugePool => "2 MiB, pool",
            Self::HugeAdvised => "2 MiB, advised",
        }
    }

    pub(super) const fn is_huge(self) -> bool {
        matches!(self, Self::HugePool | Self::HugeAdvised)
    }
}

/// How the memory is prepared before it is first touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    Mlock,
    MapLocked,
    MapPopulate,
    Mlockall,
}

impl After {
    pub(super) const ALL: [Self; 5] = [
        Self::Nothing,
        Self::Mlock,
        Self::MapLocked,
        Self::MapPopulate,
        Self::Mlockall,
    ];

    /// Returns the value of `--after` that selects this preparation.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Mlock => "mlock",
            Self::MapLocked => "map-locked",
            Self::MapPopulate => "map-populate",
            Self::Mlockall => "mlockall",
        }
    }

    /// Returns whether all pages are already present when mmap returns, which is before madvise can
    /// be called.
    const fn is_in_mmap(self) -> bool {
        matches!(self, Self::MapLocked | Self::MapPopulate | Self::Mlockall)
    }
}

/// One mechanism for getting memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) memory: Memory,
    pub(super) after: After,
}

impl Way {
    pub(super) fn label(self) -> String {
        match self.after {
            After::Nothing => self.memory.word().to_owned(),
            after => format!("{}+{}", self.memory.word(), after.word()),
        }
    }

    /// Makes the process treat new mappings as this mechanism requires.
    pub(super) fn treat_new_mappings(self) -> Result<NewMappings, Error> {
        NewMappings::treat(match self.after {
            After::Mlockall => NewMappingMode::Locked,
            _ => NewMappingMode::Usual,
        })
    }

    /// Maps `pages` pages and prepares them for their first touch. Call this while
    /// [`Self::treat_new_mappings`] is in effect.
    pub(super) fn map(self, pages: usize, file: &MemoryFile) -> Result<Mapping, Error> {
        let mut mapping = Mapping::new(&MappingRequest {
            backing: match self.memory {
                Memory::Anonymous => Backing::Anonymous,
                Memory::File => Backing::File(file),
                Memory::HugePool => Backing::HugePool,
                Memory::HugeAdvised => Backing::HugeAdvised,
            },
            pages,
            populate: self.after == After::MapPopulate,
            locked: self.after == After::MapLocked,
        })?;
        if self.after == After::Mlock {
            mapping.lock()?;
        }
        Ok(mapping)
    }

    /// Tries the mechanism once with all its pages, to check that it works on this machine.
    fn try_out(self, sizes: Sizes) -> Result<(), WayError> {
        if self.memory == Memory::HugeAdvised && self.after.is_in_mmap() {
            return Err(WayError::AdvisedTooLate);
        }
        // Uses a separate file, because the file of the run is created later.
        let file = MemoryFile::new(sizes.bytes_for(Memory::File))?;
        let treated = self.treat_new_mappings()?;
        let mut mapping = self.map(sizes.bytes_for(self.memory), &file)?;
        if self.memory == Memory::HugePool {
            mapping.populate()?;
        }
        mapping.touch(0);
        let whole = mapping.is_whole(0)?;
        drop(mapping);
        treated.restore()?;
        // With mlock, all memory is present, whether the pages are huge or not.
        if self.memory == Memory::HugeAdvised && self.after == After::Nothing && !whole {
            return Err(WayError::NotHuge);
        }
        Ok(())
    }
}

/// Why a mechanism does not work on this machine.
#[derive(Debug, thiserror::Error)]
pub(super) enum WayError {
    /// `madvise(2)` requires an existing mapping, but in this case, the pages of the mapping are
    /// already present.
    #[error(
        "madvise cannot request huge pages here, because mmap has already populated the mapping: \
         reserve pages for the pool (vm.nr_hugepages)"
    )]
    AdvisedTooLate,
    /// The kernel provided pages of the regular size.
    #[error(
        "the kernel could not allocate a huge page: check \
         /sys/kernel/mm/transparent_hugepage/enabled"
    )]
    NotHuge,
    /// A system call of the mechanism failed.
    #[error(transparent)]
    System(#[from] Error),
}

/// Number of pages in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) pages: usize,
    pub(super) huge_pages: usize,
}

impl Sizes {
    pub(super) const fn bytes_for(self, memory: Memory) -> usize {
        if memory.is_huge() {
            self.huge_pages
        } else {
            self.pages
        }
    }
}

/// The available mechanisms among the requested ones.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Mechanisms that work on this machine.
    pub(super) ways: Vec<Way>,
    /// Mechanisms that do not work, with the reason.
    pub(super) left_out: Vec<(Way, WayError)>,
    /// Warnings for the reader.
    pub(super) warnings: Vec<String>,
}

impl Choice {
    /// Tries each mechanism selected by `--memory` and `--after`.
    pub(super) fn make(memory: &str, after: &str, sizes: Sizes) -> Self {
        let asked = |given: &str, word: &str| given == "all" || given == word;
        let mut choice = Self::default();
        let mut memories = vec![Memory::Anonymous, Memory::File];
        memories.retain(|plain| asked(memory, plain.word()));
        if asked(memory, "huge") {
            memories.push(choice.huge(sizes));
        }
        for memory in memories {
            for after in After::ALL.into_iter().filter(|a| asked(after, a.word())) {
                let way = Way { memory, after };
                match way.try_out(sizes) {
                    Ok(()) => choice.ways.push(way),
                    Err(reason) => choice.left_out.push((way, reason)),
                }
            }
        }
        choice.warn_of_left_out();
        choice
    }

    /// Selects huge pages from the pool, or transparent huge pages if the pool has too few.
    fn huge(&mut self, sizes: Sizes) -> Memory {
        let pool = Way {
            memory: Memory::HugePool,
            after: After::Nothing,
        };
        match pool.try_out(sizes) {
            Ok(()) => Memory::HugePool,
            Err(reason) => {
                self.warnings.push(format!(
                    "huge pages were requested with MADV_HUGEPAGE, because the pool does not have \
                     enough pages: {reason}"
                ));
                Memory::HugeAdvised
            }
        }
    }

    /// Adds one warning for all mechanisms that failed for the same reason.
    pub(super) fn warn_of_left_out(&mut self) {
        let alike = |one: &WayError, next: &WayError| one.to_string() == next.to_string();
        for ways in self.left_out.chunk_by(|one, next| alike(&one.1, &next.1)) {
            let labels: Vec<String> = ways.iter().map(|(way, _)| way.label()).collect();
            let reason = &ways[0].1;
            self.warnings
                .push(format!("not measured: {}: {reason}", labels.join(", ")));
        }
    }
}
