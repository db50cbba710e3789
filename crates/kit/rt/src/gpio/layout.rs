//! The structures and requests of `include/uapi/linux/gpio.h`, version 2 of the interface.

use rustix::ioctl::{Opcode, opcode};

/// GPIO_MAX_NAME_SIZE.
const NAME: usize = 32;
/// GPIO_V2_LINES_MAX.
pub(super) const MOST_LINES: usize = 64;
/// GPIO_V2_LINE_NUM_ATTRS_MAX.
const MOST_ATTRIBUTES: usize = 10;

/// The group of the requests.
const GROUP: u8 = 0xB4;
pub(super) const GET_CHIP_INFO: Opcode = opcode::read::<ChipInfo>(GROUP, 0x01);
pub(super) const GET_LINE_INFO: Opcode = opcode::read_write::<LineInfo>(GROUP, 0x05);
pub(super) const GET_LINE: Opcode = opcode::read_write::<LineRequest>(GROUP, 0x07);
pub(super) const SET_VALUES: Opcode = opcode::read_write::<LineValues>(GROUP, 0x0F);

/// Flags of a line (GPIO_V2_LINE_FLAG_*).
pub(super) const USED: u64 = 1 << 0;
pub(super) const INPUT: u64 = 1 << 2;
pub(super) const OUTPUT: u64 = 1 << 3;
pub(super) const EDGE_RISING: u64 = 1 << 4;
pub(super) const EDGE_FALLING: u64 = 1 << 5;

/// GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES.
pub(super) const OUTPUT_VALUES: u32 = 2;

/// `struct gpiochip_info`.
#[derive(Default)]
#[repr(C)]
pub(super) struct ChipInfo {
    pub(super) name: [u8; NAME],
    pub(super) label: [u8; NAME],
    pub(super) lines: u32,
}

/// `struct gpio_v2_line_attribute`. The kernel aligns its 64-bit integers to 8 bytes on every
/// processor.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub(super) struct Attribute {
    pub(super) id: u32,
    padding: u32,
    pub(super) value: u64,
}

/// `struct gpio_v2_line_config_attribute`.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub(super) struct ConfigAttribute {
    pub(super) attr: Attribute,
    pub(super) mask: u64,
}

/// `struct gpio_v2_line_config`.
#[derive(Default)]
#[repr(C, align(8))]
pub(super) struct Config {
    pub(super) flags: u64,
    pub(super) num_attrs: u32,
    padding: [u32; 5],
    pub(super) attrs: [ConfigAttribute; MOST_ATTRIBUTES],
}

/// `struct gpio_v2_line_request`.
#[repr(C, align(8))]
pub(super) struct LineRequest {
    pub(super) offsets: [u32; MOST_LINES],
    pub(super) consumer: [u8; NAME],
    pub(super) config: Config,
    pub(super) num_lines: u32,
    pub(super) event_buffer_size: u32,
    padding: [u32; 5],
    pub(super) fd: i32,
}

impl LineRequest {
    /// Returns a request for one line.
    pub(super) fn new(offset: u32, consumer: &str) -> Self {
        let mut offsets = [0; MOST_LINES];
        offsets[0] = offset;
        let mut name = [0; NAME];
        // The kernel reads up to a zero byte, which it adds at the end if there is none.
        for (to, from) in name.iter_mut().zip(consumer.bytes()).take(NAME - 1) {
            *to = from;
        }
        Self {
            offsets,
            consumer: name,
            config: Config::default(),
            num_lines: 1,
            event_buffer_size: 0,
            padding: [0; 5],
            fd: -1,
        }
    }
}

/// `struct gpio_v2_line_info`.
#[derive(Default)]
#[repr(C, align(8))]
pub(super) struct LineInfo {
    pub(super) name: [u8; NAME],
    pub(super) consumer: [u8; NAME],
    pub(super) offset: u32,
    num_attrs: u32,
    pub(super) flags: u64,
    attrs: [Attribute; MOST_ATTRIBUTES],
    padding: [u32; 4],
}

/// `struct gpio_v2_line_values`.
#[repr(C, align(8))]
pub(super) struct LineValues {
    pub(super) bits: u64,
    pub(super) mask: u64,
}

/// `struct gpio_v2_line_event`.
#[derive(Default)]
#[repr(C, align(8))]
pub(super) struct LineEvent {
    pub(super) timestamp_ns: u64,
    id: u32,
    offset: u32,
    seqno: u32,
    pub(super) line_seqno: u32,
    padding: [u32; 6],
}

/// Returns the text before the first zero byte. Bytes that are not UTF-8 are replaced.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// The sizes and places that a C compiler gives to the structures of the header.
    #[test]
    fn structures_have_the_kernels_layout() {
        assert_eq!(size_of::<ChipInfo>(), 68);
        assert_eq!(size_of::<Config>(), 272);
        assert_eq!(offset_of!(Config, attrs), 32);
        assert_eq!(size_of::<LineRequest>(), 592);
        assert_eq!(offset_of!(LineRequest, config), 288);
        assert_eq!(offset_of!(LineRequest, fd), 588);
        assert_eq!(size_of::<LineInfo>(), 256);
        assert_eq!(offset_of!(LineInfo, flags), 72);
        assert_eq!(size_of::<LineValues>(), 16);
        assert_eq!(size_of::<LineEvent>(), 48);
        assert_eq!(offset_of!(LineEvent, line_seqno), 20);
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn requests_have_the_kernels_numbers() {
        let requests = [GET_CHIP_INFO, GET_LINE_INFO, GET_LINE, SET_VALUES];
        let numbers = [0x8044_b401, 0xc100_b405, 0xc250_b407, 0xc010_b40f];
        assert_eq!(requests, numbers);
    }

    #[test]
    fn names_end_at_zero_or_at_their_end() {
        assert_eq!(text(b"GPIO17\0\0x"), "GPIO17");
        assert_eq!(text(b"\0"), "");
        assert_eq!(text(b""), "");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(b"\xffA\0"), "\u{fffd}A");
    }

    #[test]
    fn long_consumers_are_cut_off() {
        let request = LineRequest::new(5, &"x".repeat(100));
        assert_eq!(request.offsets[..2], [5, 0]);
        assert_eq!(text(&request.consumer).len(), NAME - 1);
    }
}
