//! A line with one sample, as printed by cyclictest and signaltest with `-v`:
//! `       0:      17:       8`, which is the thread, the cycle and the latency (`print_stat` in
//! rt-tests' `src/cyclictest/cyclictest.c`). These files are large, so `line` reads regular lines
//! eight columns at a time.

/// One line.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) thread: u64,
    pub(crate) cycle: u64,
    pub(crate) latency: i64,
    /// Length of the line in bytes, including its end.
    pub(crate) length: usize,
}

/// Length of a line in the format `%8d:%8lu:%8ld`, provided that no number has more than eight
/// digits.
const LINE: usize = 8 + 1 + 8 + 1 + 8 + 1;

/// Reads such a line at the beginning of `bytes`. Returns `None` for any other line.
#[inline(always)]
pub(crate) fn line(bytes: &[u8]) -> Option<Row> {
    let line: &[u8; LINE] = bytes.first_chunk()?;
    let (thread, is_thread) = columns(line, 0);
    let (cycle, is_cycle) = columns(line, 9);
    let (latency, is_latency) = columns(line, 18);
    // With operators that do not short-circuit, there is only a single branch per line, which is
    // almost always taken.
    let good = is_thread
        & is_cycle
        & is_latency
        & (line[8] == b':')
        & (line[17] == b':')
        & (line[26] == b'\n');
    good.then_some(Row {
        thread,
        cycle,
        latency: latency.cast_signed(),
        length: LINE,
    })
}

/// Reads the number in the eight columns that begin at `at`, and checks that they contain one,
/// which is spaces and then at least one digit, up to the last column. Processes all eight bytes at
/// once, in a word whose lowest byte is the first column.
#[inline(always)]
fn columns(line: &[u8; LINE], at: usize) -> (u64, bool) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&line[at..at + 8]);
    let word = u64::from_le_bytes(bytes);
    // Digits are 0x30 to 0x39, and a space is 0x20. Bit 4 distinguishes them, and in both cases,
    // the low half of the byte is the value.
    let digits = (word >> 4) & EACH;
    let values = word & (0x0f * EACH);
    let good = (word & (0xe0 * EACH) == 0x20 * EACH)
        & ((values + 0x06 * EACH) & (0x10 * EACH) == 0)
        & (values & !(digits * 0x0f) == 0)
        // No digit precedes a space, and the last column is a digit.
        & ((digits << 8) & !digits == 0)
        & (digits >> 56 == 1);
    // Combines neighbours: eight digits into four pairs, these into two groups of four, and these
    // into one number.
    let pairs = (values * 10 + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    (number, good)
}

/// Skips spaces, beginning at `at`, and reads the digits after them. Returns the number and its
/// end. Rejects more than 18 digits.
#[inline(always)]
pub(crate) fn number(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    let start = at;
    let mut number = 0u64;
    while let Some(digit) = bytes.get(at).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        number = number.wrapping_mul(10).wrapping_add(digit.into());
        at += 1;
    }
    (at > start && at - start <= 18).then_some((number, at))
}

/// Reads a regular line at the beginning of `bytes`, without the addition of `--smi`. Returns
/// `None` if it is some other line, or continues after the figures.
#[inline(always)]
pub(crate) fn sample(bytes: &[u8]) -> Option<Row> {
    let (thread, at) = number(bytes, 0)?;
    let (cycle, at) = number(bytes, (bytes.get(at) == Some(&b':')).then_some(at + 1)?)?;
    let mut at = (bytes.get(at) == Some(&b':')).then_some(at + 1)?;
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    let negative = bytes.get(at) == Some(&b'-');
    let (latency, at) = number(bytes, at + usize::from(negative))?;
    let latency = latency as i64;
    Some(Row {
        thread,
        cycle,
        latency: if negative { -latency } else { latency },
        length: match bytes.get(at) {
            Some(b'\n') => at + 1,
            None => at,
            Some(_) => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(row: Option<Row>) -> Option<(u64, u64, i64, usize)> {
        row.map(|row| (row.thread, row.cycle, row.latency, row.length))
    }

    #[test]
    fn the_usual_line_is_read_at_once() {
        let bytes = b"       0:   12345:      17\n       1:";
        assert_eq!(numbers(line(bytes)), Some((0, 12_345, 17, LINE)));
        let full = b"12345678:87654321:99999999\n";
        let numbers = numbers(line(full));
        assert_eq!(numbers, Some((12_345_678, 87_654_321, 99_999_999, LINE)));
    }

    #[test]
    fn unusual_sample_line_is_left() {
        for bytes in [
            "       0:   12345:     -17\n",
            "       0:   12345:        \n",
            "       0:   123 5:      17\n",
            "       0:   12345:      1 \n",
            "       0:   12345:      17\r",
            "       0:   12345:      17 ",
            "       0;   12345:      17\n",
            "       0:   1234/:      17\n",
            "       0:   1234::      17\n",
            "       0:\t  12345:      17\n",
            "       0:   12345:      \x107\n",
            "       0:   12345:      17",
        ] {
            assert!(line(bytes.as_bytes()).is_none(), "{bytes:?}");
        }
    }

    proptest! {
        /// Both readers agree whenever the fast one returns a result.
        #[test]
        fn both_readers_agree(
            numbers_of in (0u64..200_000_000, 0u64..200_000_000, -20_000i64..200_000_000),
            at in 0usize..LINE,
            byte in prop_oneof![any::<u8>(), b'0'..=b'9', Just(b' '), Just(b':')],
        ) {
            let (thread, cycle, latency) = numbers_of;
            let mut bytes = format!("{thread:8}:{cycle:8}:{latency:8}\n").into_bytes();
            let fits = bytes.len() == LINE && latency >= 0;
            let read = numbers(line(&bytes));
            prop_assert_eq!(read, fits.then_some((thread, cycle, latency, LINE)));
            bytes[at] = byte;
            if let Some(read) = numbers(line(&bytes)) {
                prop_assert_eq!(numbers(sample(&bytes)), Some(read));
            }
        }
    }
}
