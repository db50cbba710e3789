use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use punctual_model::{Nanos, RecordingId, SignedNanos, testing};

use super::*;
