//! signaltest against what the original prints.
