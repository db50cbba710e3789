//! The ways to get memory, and those that this machine has.

use punctual_rt::{
    Backing, Error, Mapping, MappingRequest, MemoryFile, NewMappingMode, NewMappings,
};

/// The choices of `--memory`.
pub(super) const MEMORIES: &[(&str, &str)] = &[
    ("all", "each of them in turn"),
    ("anonymous", "zeroed pages of the usual size"),
    (
        "file",
        "pages of a file in memory (memfd), in the page cache",
    ),
    ("huge", "pages of 2 MiB, from the pool or else advised"),
];

/// The choices of `--after`.
pub(super) const AFTERS: &[(&str, &str)] = &[
    ("all", "each of them in turn"),
    ("nothing", "a plain mmap: the first touch faults"),
    ("mlock", "mlock of the mapping"),
    ("map-locked", "mmap with MAP_LOCKED"),
    ("map-populate", "mmap with MAP_POPULATE"),
    ("mlockall", "mlockall(MCL_FUTURE) before the mmap"),
];

/// What is behind the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Anonymous,
    File,
    HugePool,
    HugeAdvised,
}

impl Memory {
    /// Its word in `--memory`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::File => "file",
            Self::HugePool | Self::HugeAdvised => "huge",
        }
    }

    /// What its pages are, for the table.
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

/// What was done to the memory before its first touch.
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

    /// Its word in `--after`.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Mlock => "mlock",
            Self::MapLocked => "map-locked",
            Self::MapPopulate => "map-populate",
            Self::Mlockall => "mlockall",
        }
    }

    /// Whether all pages are there when mmap returns, before anything can be
    /// advised.
    const fn is_in_mmap(self) -> bool {
        matches!(self, Self::MapLocked | Self::MapPopulate | Self::Mlockall)
    }
}

/// One way to get memory.
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

    /// Makes the process treat new mappings as this way needs it.
    pub(super) fn treat_new_mappings(self) -> Result<NewMappings, Error> {
        NewMappings::treat(match self.after {
            After::Mlockall => NewMappingMode::Locked,
            _ => NewMappingMode::Usual,
        })
    }

    /// Maps `pages` pages and does to them what is to be done before their
    /// first touch. To be called with [`Self::treat_new_mappings`] in force.
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

    /// Whether it works here: once, with all its pages.
    fn try_out(self, sizes: Sizes) -> Result<(), WayError> {
        if self.memory == Memory::HugeAdvised && self.after.is_in_mmap() {
            return Err(WayError::AdvisedTooLate);
        }
        // A file of its own size: the one of the run comes later.
        let file = MemoryFile::new(sizes.of(Memory::File))?;
        let treated = self.treat_new_mappings()?;
        let mut mapping = self.map(sizes.of(self.memory), &file)?;
        if self.memory == Memory::HugePool {
            mapping.populate()?;
        }
        mapping.touch(0);
        let whole = mapping.is_whole(0)?;
        drop(mapping);
        treated.restore()?;
        // With mlock all is in memory, huge or not.
        if self.memory == Memory::HugeAdvised && self.after == After::Nothing && !whole {
            return Err(WayError::NotHuge);
        }
        Ok(())
    }
}

/// Why a way does not work here.
#[derive(Debug, thiserror::Error)]
pub(super) enum WayError {
    /// `madvise(2)` takes pages that are mapped, and these are there by then.
    #[error(
        "advised huge pages cannot be had where mmap itself makes the pages be there, before \
         anything can be advised: set pages aside for the pool (vm.nr_hugepages)"
    )]
    AdvisedTooLate,
    /// The pages are small ones.
    #[error(
        "the kernel put no huge page together: see /sys/kernel/mm/transparent_hugepage/enabled"
    )]
    NotHuge,
    /// The system refuses a step.
    #[error(transparent)]
    System(#[from] Error),
}

/// Pages of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) pages: usize,
    pub(super) huge_pages: usize,
}

impl Sizes {
    pub(super) const fn of(self, memory: Memory) -> usize {
        if memory.is_huge() {
            self.huge_pages
        } else {
            self.pages
        }
    }
}

/// What there is of that which was asked for.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The ways that work here.
    pub(super) ways: Vec<Way>,
    /// Those that do not, with the reason.
    pub(super) left_out: Vec<(Way, WayError)>,
    /// What the reader must know.
    pub(super) warnings: Vec<String>,
}

impl Choice {
    /// Tries each way that the words of `--memory` and `--after` ask for.
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

    /// Huge pages of the pool, or advised ones where it has not enough.
    fn huge(&mut self, sizes: Sizes) -> Memory {
        let pool = Way {
            memory: Memory::HugePool,
            after: After::Nothing,
        };
        match pool.try_out(sizes) {
            Ok(()) => Memory::HugePool,
            Err(reason) => {
                self.warnings.push(format!(
                    "huge pages are advised ones (MADV_HUGEPAGE), for the pool has not enough: \
                     {reason}"
                ));
                Memory::HugeAdvised
            }
        }
    }

    /// Ways with the same reason share a warning.
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
