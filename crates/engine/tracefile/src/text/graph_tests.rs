use super::*;

fn parsed(line: &str) -> GraphLine<'_> {
    GraphLine::parse(line, true).unwrap_or_else(|| panic!("no line: {line}"))
}

#[test]
fn each_choice_of_columns_is_read() {
    let time = Some((Nanos(360_774_522_000), false));
    let thread = Some(("my-sh", 4802));
    for (line, time, cpu, thread, flags) in [
        (" 0)   0.541 us    |  f();", None, Some(0), None, ""),
        ("   0.541 us    |  f();", None, None, None, ""),
        (
            "   360.774522 |   1)   0.541 us    |  f();",
            time,
            Some(1),
            None,
            "",
        ),
        (
            "   360.774522 |   1)    my-sh-4802  |   0.541 us    |  f();",
            time,
            Some(1),
            thread,
            "",
        ),
        (
            " 1)    my-sh-4802  |   0.541 us    |  f();",
            None,
            Some(1),
            thread,
            "",
        ),
        (
            "      360774522 us |   1)   my-sh-4802    |  d..1. |   0.541 us    |  f();",
            Some((Nanos(360_774_522_000), true)),
            Some(1),
            thread,
            "d..1.",
        ),
    ] {
        let text = GraphText {
            took: Some(Nanos(541)),
            indent: 2,
            act: Act::Leaf("f"),
        };
        let expected = GraphLine {
            time,
            cpu,
            thread,
            flags,
            text,
        };
        assert_eq!(parsed(line), expected, "{line}");
    }
}

#[test]
fn each_kind_of_line_is_read() {
    for (line, took, indent, act) in [
        (
            " 0)               |  sys_open() {",
            None,
            2,
            Act::Calls("sys_open"),
        ),
        (
            " 0)   2.899 us    |    }",
            Some(2_899),
            4,
            Act::Returns(None),
        ),
        (
            " 0) + 12.787 us   |    }",
            Some(12_787),
            4,
            Act::Returns(None),
        ),
        (
            " 0) ! 212.400 us  |    }",
            Some(212_400),
            4,
            Act::Returns(None),
        ),
        (
            " 0) # 1837.709 us |    }",
            Some(1_837_709),
            4,
            Act::Returns(None),
        ),
        (
            " 0) * 10131.25 us |    }",
            Some(10_131_250),
            4,
            Act::Returns(None),
        ),
        (
            " 0) @ 123456.7 us |    }",
            Some(123_456_700),
            4,
            Act::Returns(None),
        ),
        (
            " 0) $ 1234567 us |    }",
            Some(1_234_567_000),
            4,
            Act::Returns(None),
        ),
        (
            " 0)   1.5 us |  } /* sys_open */",
            Some(1_500),
            2,
            Act::Returns(Some("sys_open")),
        ),
        (
            " 0)   1.500 us |  } /* f ret=0x0 */",
            Some(1_500),
            2,
            Act::Returns(Some("f")),
        ),
        (
            " 0)   1.500 us |  f.isra.0(); /* ret=-2 */",
            Some(1_500),
            2,
            Act::Leaf("f.isra.0"),
        ),
        (
            " 0)          |  f(a=0x1, b=(2)) { /* <-g+0x1c/0x90 */",
            None,
            2,
            Act::Calls("f"),
        ),
        (
            " 0) + 12.500 us   |  e1000_intr [e1000]();",
            Some(12_500),
            2,
            Act::Leaf("e1000_intr"),
        ),
        (
            " 0)          |  e1000_poll [e1000](n=1) {",
            None,
            2,
            Act::Calls("e1000_poll"),
        ),
        (
            " 0)   1.5 us |  } /* e1000_poll [e1000] */",
            Some(1_500),
            2,
            Act::Returns(Some("e1000_poll")),
        ),
        (
            " 0)          |  /* sched_switch: a=b */",
            None,
            2,
            Act::Event("sched_switch: a=b"),
        ),
        (" 0)   ==========> |", None, 3, Act::Nothing),
        (
            " 0)  migration/0--1   =>   sshd-1755  ",
            None,
            2,
            Act::Switches(("sshd", 1755)),
        ),
    ] {
        let text = GraphText {
            took: took.map(Nanos),
            indent,
            act,
        };
        assert_eq!(parsed(line).text, text, "{line}");
    }
    for line in [
        " 0)  12 points | of something",
        "# CPU  DURATION                  FUNCTION CALLS",
        " ------------------------------------------",
        " 4294967296)  1.0 us | f();",
        " 0) 1.0 ms | }x",
    ] {
        let line = GraphLine::parse(line, true);
        assert!(line.is_none_or(|line| line.cpu.is_none() || line.text.act == Act::Returns(None)));
    }
    assert_eq!(GraphLine::parse("   0.541 us    |  f();", false), None);
}

/// Returns the names and durations of the runs of CPU 0.
fn runs(lines: &[&str]) -> Vec<(String, u64)> {
    let mut graph = Graph::default();
    let runs = lines.iter().filter_map(|line| {
        let line = parsed(line);
        let place = Place {
            cpu: 0,
            pid: line.thread.map(|thread| thread.1),
            time: line.time.map(|(time, _)| time),
        };
        let (run, _) = graph.line(place, &line.text, |name| Text::from(name));
        run.map(|run| (run.function.to_string(), run.took.0 / 1_000))
    });
    runs.collect()
}

#[test]
fn return_belongs_to_its_call() {
    let lines = [
        " 0)               |  outer() {",
        " 0)               |    inner() {",
        " 0) + 20.000 us   |      leaf();",
        " 0) + 30.000 us   |    }",
        " 0)               |    inner() {",
        " 0)   3.000 us    |      leaf();",
        " 0)   4.000 us    |    }",
        " 0) + 50.000 us   |  }",
    ];
    let names = |runs: &[(&str, u64)]| -> Vec<(String, u64)> {
        (runs.iter().map(|(name, us)| ((*name).to_owned(), *us))).collect()
    };
    let all = names(&[("leaf", 20), ("inner", 30), ("outer", 50)]);
    assert_eq!(runs(&lines), all);
    // A program may have removed the blanks.
    let single: Vec<String> = (lines.iter())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let single: Vec<&str> = single.iter().map(String::as_str).collect();
    assert_eq!(runs(&single), all);
    // Without the call, the name of a return is unknown.
    assert_eq!(runs(&lines[2..]), names(&[("leaf", 20)]));
    // Without a return, the next one at another depth does not take its place.
    let cut = [lines[0], lines[1], lines[7]];
    assert_eq!(runs(&cut), names(&[("outer", 50)]));
}

#[test]
fn return_of_an_older_call_has_no_name() {
    let lines = [
        "   10.000000 |   0)               |  outer() {",
        // The return of this call and the next call are missing.
        "   10.001000 |   0) + 20.000 us   |  }",
    ];
    assert_eq!(runs(&lines), []);
    let lines = [lines[0], "   10.000021 |   0) + 20.000 us   |  }"];
    assert_eq!(runs(&lines), [("outer".to_owned(), 20)]);
    // The kernel may write the first call of a trace late.
    let lines = [lines[0], "   10.000021 |   0) # 1227.888 us |  }"];
    assert_eq!(runs(&lines), [("outer".to_owned(), 1_227)]);
}

#[test]
fn threads_have_their_own_calls() {
    let lines = [
        " 0)  a-1  |               |  outer() {",
        " 0)  b-2  |               |  other() {",
        " 0)  b-2  | + 15.000 us   |  }",
        " 0)  a-1  | + 90.000 us   |  }",
    ];
    let both = [("other".to_owned(), 15), ("outer".to_owned(), 90)];
    assert_eq!(runs(&lines), both);
}
