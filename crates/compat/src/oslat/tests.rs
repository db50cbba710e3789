//! oslat against what the original prints.
