//! Tests of variables and functions in the values of TuneD.

use super::words::{ISOLATED, MEASURED, MEASURED_MASK, OTHERS, OTHERS_MASK, Variables};

/// Variables of a profile that isolates CPUs 2 and 3.
fn isolating() -> Variables {
    let mut variables = Variables::default();
    variables.define(ISOLATED, "2-3").unwrap();
    variables
}

/// Expands a text, and returns it if all of it is known.
fn expanded(variables: &mut Variables, text: &str) -> Result<String, String> {
    let value = variables.expand(text);
    variables.known(&value).map(str::to_owned)
}

#[test]
fn functions_of_the_isolated_cpus_keep_their_meaning() {
    let isolated = "${isolated_cores}";
    let others = "${f:cpulist_invert:${isolated_cores}}";
    let isolated_mask = "${f:cpulist2hex:${isolated_cores}}";
    let others_mask = "${f:cpulist2hex_invert:${isolated_cores}}";
    let same = [
        "cpulist_unpack",
        "cpulist_pack",
        "cpulist_online",
        "cpulist_present",
    ];
    let mut variables = isolating();
    let mut value = |function: &str, argument: &str| {
        let text = format!("${{f:{function}:{argument}}}");
        expanded(&mut variables, &text)
    };
    for name in same.into_iter().chain(["hex2cpulist"]) {
        assert_eq!(value(name, isolated), Ok(MEASURED.to_string()), "{name}");
        assert_eq!(value(name, others), Ok(OTHERS.to_string()), "{name}");
    }
    for (name, argument, stands_for) in [
        ("cpulist2devs", isolated, MEASURED),
        ("cpulist_invert", isolated, OTHERS),
        ("cpulist_invert", others, MEASURED),
        ("cpulist2hex", isolated, MEASURED_MASK),
        ("cpulist2hex", others, OTHERS_MASK),
        ("cpulist2hex_invert", isolated, OTHERS_MASK),
        ("cpulist2hex_invert", others, MEASURED_MASK),
        ("hex2cpulist", isolated_mask, MEASURED),
        ("hex2cpulist", others_mask, OTHERS),
    ] {
        let found = value(name, argument);
        assert_eq!(found, Ok(stands_for.to_string()), "{name}:{argument}");
    }
    // The names of the devices of all other CPUs are known only on the machine.
    assert!(value("cpulist2devs", others).is_err());
    // The isolated CPUs together with another one are another list.
    assert!(value("cpulist_pack", "1,${isolated_cores}").is_err());
}

#[test]
fn functions_of_known_cpus_are_computed() {
    let mut variables = isolating();
    for (text, value) in [
        ("cpulist_pack:0,1,2", "0-2"),
        ("cpulist_unpack: 4-5 ", "4-5"),
        ("cpulist2hex:0-3", "f"),
        ("hex2cpulist:0x0f", "0-3"),
        ("hex2cpulist:3", "0-1"),
        ("strip: a:b ", "ab"),
        ("strip", ""),
        ("regex_search_ternary:abc:b:yes:no", "yes"),
        ("regex_search_ternary:abc:^b:yes:no", "no"),
        ("regex_search_ternary:a\\:c:a.c:yes:no", "yes"),
        ("regex_search_ternary:${isolated_cores}:^2:yes:no", "yes"),
        ("regex_search_ternary:${isolated_cores}:[0-9]:yes:no", "yes"),
        ("regex_search_ternary:${isolated_cores}:5:yes:no", "no"),
    ] {
        let found = expanded(&mut variables, &format!("x${{f:{text}}}y"));
        assert_eq!(found, Ok(format!("x{value}y")), "{text}");
    }
    for (text, why) in [
        (
            "cpulist_online:1",
            "cpulist_online is known only on the machine",
        ),
        (
            "cpulist_present:1",
            "cpulist_present is known only on the machine",
        ),
        (
            "cpulist_invert:1",
            "cpulist_invert is known only on the machine",
        ),
        ("cpulist2hex_invert:1", "known only on the machine"),
        ("cpulist_pack:x", "cpulist_pack of 'x': "),
        ("cpulist2hex:${none}", "the variable none is not defined"),
        ("hex2cpulist:xyz", "'xyz' is not a mask of CPUs"),
        ("regex_search_ternary:a:b:c", "needs four arguments"),
        ("regex_search_ternary:a:(:c:d", "'(' is not supported"),
        (
            "regex_search_ternary:${f:cpulist_invert:${isolated_cores}}:a:b:c",
            "the isolated CPUs are not known",
        ),
        ("exec:reboot", "the function exec is not run"),
        // A function of an unknown value is unknown for the same reason.
        ("strip:${f:exec:reboot}", "the function exec is not run"),
    ] {
        let error = expanded(&mut variables, &format!("${{f:{text}}}")).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    // Without a list of isolated CPUs, it is not known whether they match.
    let mut unknown = Variables::default();
    unknown
        .define(ISOLATED, "${f:calc_isolated_cores:1}")
        .unwrap_err();
    let text = "${f:regex_search_ternary:${isolated_cores}:2:yes:no}";
    let error = expanded(&mut unknown, text).unwrap_err();
    assert_eq!(error, "the isolated CPUs are not known");
}

#[test]
fn variables_are_replaced_where_they_are_defined() {
    let mut variables = Variables::default();
    variables.define("a", "1").unwrap();
    variables.define("b", "${a}${a}").unwrap();
    variables.define("name", "a").unwrap();
    for (text, value) in [
        ("", ""),
        ("x", "x"),
        ("${a}", "1"),
        ("${b}-é-${a}", "11-é-1"),
        ("${${name}}", "1"),
        ("$a } {", "$a } {"),
    ] {
        assert_eq!(
            expanded(&mut variables, text).as_deref(),
            Ok(value),
            "{text}"
        );
    }
    for (text, why) in [
        ("x${c}", "the variable c is not defined"),
        ("${a", "a '${' has no '}'"),
        ("${${name}", "a '${' has no '}'"),
        ("\\${a}", "the variable a is not defined"),
    ] {
        assert_eq!(expanded(&mut variables, text).unwrap_err(), why, "{text}");
    }
    // Escaped text is not replaced, and its brace closes nothing.
    assert_eq!(variables.expand("\\${a}${a}\\${"), "${a}1${");
    // A later definition replaces an earlier one, but not where that was already used.
    variables.define("a", "2").unwrap();
    assert_eq!(variables.expand("${a}${b}"), "211");
}

#[test]
fn isolated_cpus_are_those_of_the_variable() {
    let isolated = |value: &str| {
        let mut variables = Variables::default();
        let known = variables.define(ISOLATED, value);
        let text = variables.expand("${isolated_cores}");
        (known.is_ok(), variables.isolated, text)
    };
    let list = |text: &str| text.parse().ok();
    let measured = MEASURED.to_string();
    let undefined = "${isolated_cores}".to_owned();
    assert_eq!(isolated("2-3"), (true, list("2-3"), measured.clone()));
    assert_eq!(isolated("${f:exec:x}"), (false, None, measured));
    assert_eq!(isolated("${isolated_cores}"), (true, None, undefined));
    assert_eq!(isolated("none"), (true, None, "none".to_owned()));
    assert_eq!(isolated(""), (true, None, String::new()));
    // Another variable with a list of CPUs is not that of the isolated ones.
    let mut variables = Variables::default();
    variables.define("other", "2-3").unwrap();
    assert_eq!(variables.isolated, None);
    assert_eq!(variables.expand("${other}"), "2-3");
}

#[test]
fn reasons_are_kept_apart() {
    let mut variables = Variables::default();
    let first = variables.expand("${f:exec:a}");
    let second = variables.expand("x${f:virt_check:a}");
    let again = variables.expand("${f:exec:b}");
    assert_eq!(first, again, "the reason is the same");
    let why = |text: &str| variables.known(text).unwrap_err();
    assert_eq!(why(&first), "the function exec is not run");
    assert_eq!(why(&second), "the function virt_check is not run");
    assert_eq!(why(&format!("{second}{first}")), why(&second));
}

/// Without this limit, a small profile could need much memory and time.
#[test]
fn size_of_all_values_together_is_limited() {
    let mut variables = Variables::default();
    variables.define("a", &"x".repeat(4_000)).unwrap();
    let fits = (1 << 23) / 4_000 + 1;
    for number in 0..fits {
        assert!(expanded(&mut variables, "${a}").is_ok(), "{number}");
    }
    // Each later value is too much.
    for text in ["${a}", "${a}", "y"] {
        let error = expanded(&mut variables, text).unwrap_err();
        assert!(
            error.ends_with("or all values more than 8388608"),
            "{error}"
        );
    }
}
