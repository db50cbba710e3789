//! Screening of many settings at once by a Plackett-Burman design (Biometrika 33, 1946) with 12
//! rows, folded: each row is repeated with all signs inverted, so that the effect of a setting is
//! not mixed up with the combined effect of two others. The result is a ranking. The first settings
//! of the ranking must be confirmed with fresh data.

/// Number of settings in the design.
pub const FACTORS: usize = 11;

/// Number of rows.
pub const ROWS: usize = 24;

const FIRST_ROW: [bool; FACTORS] = [
    true, true, false, true, true, true, false, false, false, true, false,
];

/// Returns which settings are on (`true`) in each row.
pub fn folded_plackett_burman() -> [[bool; FACTORS]; ROWS] {
    let mut design = [[false; FACTORS]; ROWS];
    for row in 0..ROWS / 2 {
        for factor in 0..FACTORS {
            // Each row is a rotation of the first one. In the twelfth row, all settings are off.
            let on = row < FACTORS && FIRST_ROW[(factor + FACTORS - row) % FACTORS];
            design[row][factor] = on;
            design[row + ROWS / 2][factor] = !on;
        }
    }
    design
}

/// Returns the effect of each setting on a value measured in each row: the mean with the setting
/// on, minus the mean with it off.
pub fn effects(values: &[f64; ROWS]) -> [f64; FACTORS] {
    let design = folded_plackett_burman();
    std::array::from_fn(|factor| {
        let signed = design
            .iter()
            .zip(values)
            .map(|(row, value)| if row[factor] { *value } else { -value });
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
                // The effect of a setting is also independent of the combined effect of two others,
                // which is the purpose of folding.
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
