//! Limits of a `trace.dat`. A small file can state large numbers, or decompress to many bytes.
//! Each limit is far above what kernels and trace-cmd write.

/// Maximum number of CPUs. Kernels support fewer (`NR_CPUS_RANGE_END`).
pub(super) const MOST_CPUS: u32 = 65_536;
/// Maximum number of CPUs in all buffers together.
pub(super) const MOST_REGIONS: usize = 1 << 18;
/// Maximum number of sections. trace-cmd writes ten, plus two for each instance.
pub(super) const MOST_SECTIONS: usize = 10_000;
/// Maximum number of buffers, and of guests.
pub(super) const MOST_BUFFERS: usize = 4_096;
/// Maximum number of warnings about options.
pub(super) const MOST_WARNINGS: usize = 200;
/// Maximum number of formats. The kernel numbers its events with 16 bits.
pub(super) const MOST_FORMATS: usize = 1 << 16;
/// Maximum size of all formats together, in bytes. A kernel has about 5 MB of formats.
pub(super) const MOST_FORMAT_BYTES: usize = 64 << 20;
/// Maximum size of a part that is read at once, and of all decompressed sections together, in
/// bytes. The table of a kernel's functions takes about 20 MB.
pub(super) const MOST_BYTES: u64 = 128 << 20;
/// Maximum number of items that are decoded but not yet merged. Each CPU has those of one page.
pub(super) const MOST_HELD: usize = 2 << 20;
