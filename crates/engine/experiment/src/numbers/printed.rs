//! Reads the numbers that a command printed.

use std::collections::BTreeMap;

/// The numbers of one run, each with its unit, by name. A number without a name has an empty one.
pub(crate) type Printed = BTreeMap<String, (f64, String)>;

/// Reads one number, optionally with a unit, or a line `name value unit` for each number.
///
/// # Errors
/// Returns what is wrong with the output, in words.
pub(crate) fn read(output: &str) -> Result<Printed, String> {
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let mut printed = Printed::new();
    for line in &lines {
        let (name, value, unit) = parse(line)
            .ok_or_else(|| format!("'{line}' is neither a number nor a line 'name value unit'"))?;
        if !value.is_finite() {
            return Err(format!("'{line}' contains no finite number"));
        }
        match printed.insert(name.to_owned(), (value, unit.to_owned())) {
            None => {}
            Some(_) if name.is_empty() => {
                return Err(format!(
                    "{} numbers were printed where one is due: print 'name value unit' lines",
                    lines.len()
                ));
            }
            Some(_) => return Err(format!("the number '{name}' was printed twice")),
        }
    }
    if printed.is_empty() {
        return Err("no number was printed".to_owned());
    }
    if printed.len() > 1 && printed.contains_key("") {
        return Err("a number without a name is among others: give each one a name".to_owned());
    }
    Ok(printed)
}

/// Splits a line into name, value and unit.
fn parse(line: &str) -> Option<(&str, f64, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [value] => Some(("", number(value)?, "")),
        [value, unit] if number(value).is_some() => {
            let value = number(value)?;
            // Two numbers in a line are a mistake, and not a number with a unit.
            number(unit).is_none().then_some(("", value, *unit))
        }
        [name, value] => Some((name, number(value)?, "")),
        [name, value, unit] if number(name).is_none() => Some((name, number(value)?, unit)),
        _ => None,
    }
}

fn number(word: &str) -> Option<f64> {
    let starts = |c: char| c.is_ascii_digit() || "+-.".contains(c);
    word.starts_with(starts).then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(output: &str) -> String {
        match read(output) {
            Err(why) => why,
            Ok(all) => {
                let text = |(name, (value, unit)): (&String, &(f64, String))| {
                    format!("{name}={value}{unit}")
                };
                all.iter().map(text).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn numbers_are_read_in_both_forms() {
        assert_eq!(of("12.5\n"), "=12.5");
        assert_eq!(of("\n  1e3 ms \n"), "=1000ms");
        assert_eq!(
            of("rps 1200 1/s\np99 3.4 ms\n\nerrors 0"),
            "errors=0 p99=3.4ms rps=12001/s"
        );
        assert_eq!(of("-3"), "=-3");
    }

    #[test]
    fn anything_else_is_refused() {
        for (output, why) in [
            ("", "no number was printed"),
            ("\n \n", "no number was printed"),
            ("1\n2\n", "2 numbers were printed where one is due"),
            ("1 2", "'1 2' is neither"),
            ("done", "'done' is neither"),
            ("1 2 3", "'1 2 3' is neither"),
            ("took 3 ms today", "is neither"),
            ("a 1\na 2", "'a' was printed twice"),
            ("a 1\n2", "without a name"),
            ("nan", "'nan' is neither"),
            ("1e999", "no finite number"),
            ("a 5x", "'a 5x' is neither"),
        ] {
            assert!(of(output).contains(why), "{output:?}: {}", of(output));
        }
    }

    #[test]
    fn no_output_panics() {
        let mut random = fastrand::Rng::with_seed(9);
        let parts = ["1", "-", ".", "e9", " ", "\n", "ms", "\u{e4}", "\0", "inf"];
        for _ in 0..2_000 {
            let output: String = (0..random.usize(..12))
                .map(|_| parts[random.usize(..parts.len())])
                .collect();
            let _ = read(&output);
        }
    }
}
