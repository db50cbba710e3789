//! The tools of pairs against what the originals print.
