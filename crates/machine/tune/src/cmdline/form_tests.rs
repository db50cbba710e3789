//! Tests of the positions of parameters in a file, and of edits at these positions.

use super::form::{Form, continued};
use super::unclear::Unclear;
use super::words::WordEdit;

fn add(word: &str) -> WordEdit {
    WordEdit::Add(word.to_owned())
}

fn replace(word: &str) -> WordEdit {
    WordEdit::Replace(word.to_owned())
}

fn remove(name: &str) -> WordEdit {
    WordEdit::Remove(name.to_owned())
}

#[test]
fn parameters_are_found_in_each_form() {
    let variable = |back| Form::Variable("A", back);
    for (form, text, words) in [
        (Form::Line, "", ""),
        (Form::Line, "# a\n\n  b  c \r\n", "b c"),
        (Form::Line, "a -- b", "a"),
        (variable(0), "", ""),
        (variable(0), "AB=1\nBA=1\n#A=1\nA:1\n", ""),
        (variable(0), "A=\"x y\"\n", "x y"),
        (variable(0), "  export  A='x y' # z\n", "x y"),
        (variable(0), "A=x # z\n", "x"),
        (variable(0), "A=\n", ""),
        (variable(0), "A=\"\"", ""),
        (variable(0), "A=\"x\\\\\" # z\n", "x\\\\"),
        (variable(0), "A='x\\' # z\n", "x\\"),
        (variable(0), "A=\"x\\\"y\"\n", "x\\\"y"),
        (variable(0), "A=x\nA+=\"y z\"\n", "y z"),
        (variable(1), "A=x\nA+=\"y z\"\n", "x"),
        (variable(2), "A=x\nA+=\"y z\"\n", ""),
        (Form::Keyword("options"), "\tOptions\tx  y\nz\n", "x y"),
        (Form::Keyword("options"), "options x\noptions y\n", "x y"),
        (
            Form::Keyword("options"),
            "optionsx y\noption y\noptions\n",
            "",
        ),
        (Form::Assignment("b"), "b=x\nbb=y\n b=z\n", "x"),
        (Form::Assignment("b"), "b=x\nb=y z\nc=1", "y z"),
        (Form::Environment("b"), "b=x\nbb=y\nb z\n####", "x"),
    ] {
        let found = form.read(text).unwrap();
        assert_eq!(found.join(" "), words, "{form:?} {text:?}");
    }
}

#[test]
fn values_that_are_not_certain_are_not_read() {
    let variable = Form::Variable("A", 0);
    let value = |name| Unclear::Value { name };
    for (form, text, why) in [
        (Form::Line, "a\nb", Unclear::SeveralLines),
        (variable.clone(), "A=x y\n", value("A")),
        (variable.clone(), "A=\"x\n", value("A")),
        (variable.clone(), "A='x\" # '\" \n", value("A")),
        (variable.clone(), "A=x\\\n", value("A")),
        (variable.clone(), "A=`x`\n", value("A")),
        (variable, "A=x\"y\"\n", value("A")),
        (Form::Assignment("b"), "b='x'\n", value("b")),
        (Form::Append, "append x\n", Unclear::NoLabel),
        (Form::Append, "", Unclear::NoLabel),
    ] {
        assert_eq!(form.read(text).unwrap_err(), why, "{form:?} {text:?}");
    }
}

#[test]
fn only_the_label_that_is_booted_has_the_parameters() {
    let labels = "label a\n append x\nlabel b\n append y\n";
    for (text, words) in [
        (labels.to_owned(), "x"),
        (format!("default b\n{labels}"), "y"),
        (format!("default b\ndefault a\n{labels}"), "x"),
        (format!("{labels}ONTIMEOUT  b \n"), "y"),
        (format!("default vesamenu.c32\n{labels}"), "x"),
        (format!("{labels}  menu default\n"), "y"),
        (format!("{labels}menu Default\n"), "y"),
        (format!("{labels}menu label default\n"), "x"),
        (labels.replace(" append x", "menu default"), ""),
        ("label a\n append ".to_owned(), ""),
    ] {
        let found = Form::Append.read(&text).unwrap();
        assert_eq!(found.join(" "), words, "{text}");
    }
    // A menu that marks no label.
    let early = format!("menu default\n{labels}");
    assert_eq!(Form::Append.read(&early), Err(Unclear::NoLabel));
}

#[test]
fn missing_place_is_appended_on_its_own_line() {
    let add = [add("x=1")];
    for (form, place) in [
        (Form::Variable("A", 0), "A=\"x=1\"\n"),
        (Form::Assignment("b"), "b=x=1\n"),
        (Form::Keyword("options"), "options x=1\n"),
    ] {
        for (text, gap) in [("", ""), ("z=1\n", ""), ("z=1", "\n")] {
            let after = form.edit(text, &add).unwrap();
            assert_eq!(after, format!("{text}{gap}{place}"), "{text:?}");
            // If nothing is added, no place is needed.
            let edits = [remove("x"), replace("y=1")];
            assert_eq!(form.edit(text, &edits).unwrap(), text, "{form:?}");
        }
    }
    let none = |key| Unclear::NoDefault { key };
    for (form, text, why) in [
        (Form::Append, "label a\n", Unclear::NoAppend),
        (Form::Zipl, "", none("parameters=")),
        (Form::Limine, "", none("cmdline:")),
        (Form::Kernelstub, "", none("kernel_options")),
    ] {
        assert_eq!(form.edit(text, &add).unwrap_err(), why, "{form:?}");
    }
}

/// Two lines `options` form one command line. The kernel obeys the first isolcpus= and the last
/// audit=.
#[test]
fn occurrence_that_the_kernel_obeys_is_replaced() {
    let form = Form::Keyword("options");
    let edit = |text: &str, edits: &[WordEdit]| form.edit(text, edits).unwrap();
    let text = "options isolcpus=1 audit=0 a\ntitle b\noptions isolcpus=2 c audit=1\n";
    for (edits, after) in [
        (
            vec![replace("isolcpus=3")],
            "options isolcpus=3 audit=0 a\ntitle b\noptions c audit=1\n",
        ),
        (
            vec![replace("audit=2")],
            "options isolcpus=1 a\ntitle b\noptions isolcpus=2 c audit=2\n",
        ),
        (
            vec![remove("isolcpus"), remove("audit")],
            "options a\ntitle b\noptions c\n",
        ),
        (
            vec![remove("isolcpus"), add("isolcpus=3")],
            "options audit=0 a\ntitle b\noptions c audit=1 isolcpus=3\n",
        ),
        (vec![add("a"), add("c")], text),
        (
            vec![add("console=x")],
            "options isolcpus=1 audit=0 a\ntitle b\noptions isolcpus=2 c audit=1 console=x\n",
        ),
    ] {
        assert_eq!(edit(text, &edits), after, "{edits:?}");
    }
}

#[test]
fn bare_value_is_quoted_only_if_it_changes() {
    let form = Form::Variable("A", 0);
    assert_eq!(form.edit("A=x\n", &[add("x")]).unwrap(), "A=x\n");
    let after = form.edit("A=x\nB=1\n", &[add("y")]).unwrap();
    assert_eq!(after, "A=\"x y\"\nB=1\n");
    let after = form.edit("A=x=1 # c\n", &[replace("x=2")]).unwrap();
    assert_eq!(after, "A=\"x=2\" # c\n");
}

#[test]
fn parts_of_a_file_have_the_name_of_their_variable() {
    assert_eq!(Form::Variable("A", 1).part(), Some("A"));
    assert_eq!(Form::Assignment("b").part(), Some("b"));
    assert_eq!(Form::Environment("c").part(), Some("c"));
    for whole in [
        Form::Line,
        Form::Keyword("options"),
        Form::Append,
        Form::Zipl,
    ] {
        assert_eq!(whole.part(), None, "{whole:?}");
    }
}

#[test]
fn assignments_that_continue_a_value_are_known() {
    let text = "A=1\n export A=\"$A 2\"\nA+=3\nB=$A\nA='x'\nA=\"${A} y\"\nA=$A_B\n";
    assert_eq!(
        continued(text, "A"),
        [false, true, true, false, true, false]
    );
    assert_eq!(continued(text, "B"), [false]);
    assert!(continued(text, "C").is_empty());
}
