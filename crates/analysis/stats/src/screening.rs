//! Screening many settings at once: the design of Plackett and Burman (Biometrika 33,
//! 1946) with 12 rows, folded: each row once more with all signs turned, so that no
//! effect of a setting is mixed with that of two others together. It ranks; what it
//! ranks first is confirmed on fresh data.

/// The settings that it can hold.
pub const FACTORS: usize = 11;

/// Its rows.
pub const ROWS: usize = 24;

const FIRST_ROW: [bool; FACTORS] = [
    true, true, false, true, true, true, false, false, false, true, false,
];

/// Which settings are on (`true`) in each row.
pub fn folded_plackett_burman() -> [[bool; FACTORS]; ROWS] {
    let mut design = [[false; FACTORS]; ROWS];
    for row in 0..ROWS / 2 {
        for factor in 0..FACTORS {
            // The first row turned; the twelfth has all off.
            let on = row < FACTORS && FIRST_ROW[(factor + FACTORS - row) % FACTORS];
            design[row][factor] = on;
            design[row + ROWS / 2][factor] = !on;
        }
    }
    design
}

/// The effect of each setting on a value that was measured in each row: the mean where
/// it is on, minus the mean where it is off.
pub fn effects(values: &[f64; ROWS]) -> [f64; FACTORS] {
    let design = folded_plackett_burman();
    std::array::from_fn(|factor| {
        let signed = design
            .iter()
            .zip(values)
            .map(|(row, value)| match row[factor] {
                true => *value,
                false => -value,
            });
        signed.sum::<f64>() / (ROWS / 2) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_balanced_and_orthogonal() {
        let design = folded_plackett_burman();
        for one in 0..FACTORS {
            assert_eq!(design.iter().filter(|row| row[one]).count(), ROWS / 2);
            for other in 0..one {
                let same = design.iter().filter(|row| row[one] == row[other]).count();
                assert_eq!(same, ROWS / 2, "{one} {other}");
                // Nor with two others together, which folding is for.
                for third in 0..FACTORS {
                    let alike = |row: &&[bool; FACTORS]| row[third] == (row[one] == row[other]);
                    if third != one && third != other {
                        assert_eq!(design.iter().filter(alike).count(), ROWS / 2);
                    }
                }
            }
        }
    }

    #[test]
    fn effects_are_those_that_were_put_in() {
        let design = folded_plackett_burman();
        let values = design.map(|row| 10.0 + 3.0 * f64::from(row[4]) - 2.0 * f64::from(row[9]));
        let found = effects(&values);
        for (factor, effect) in found.iter().enumerate() {
            let known = match factor {
                4 => 3.0,
                9 => -2.0,
                _ => 0.0,
            };
            assert!((effect - known).abs() < 1e-12, "{factor}: {effect}");
        }
    }
}
