//! Tests of the formats in [`places`](super::places).

use super::form::Form;
use super::unclear::Unclear;
use super::words::WordEdit;

fn added(form: &Form, text: &str) -> Result<String, Unclear> {
    form.edit(text, &[WordEdit::Add("x=1".to_owned())])
}

#[test]
fn zipl_edits_the_section_that_is_booted() {
    let sections = "[a]\ntarget = /boot\nparameters = \"root=1 quiet\"\n\
                    [b]\nparameters=root=2\n";
    let with = |head: &str| format!("[defaultboot]\n{head}\n{sections}");
    let menu = with("defaultmenu = m\n:m\ntarget=/boot\n1 = a\n2 = b\ndefault = 2");
    let after = added(&Form::Zipl, &menu).unwrap();
    assert_eq!(after, menu.replace("root=2", "root=2 x=1"));
    let direct = with("default = a");
    let after = added(&Form::Zipl, &direct).unwrap();
    assert_eq!(after, direct.replace("quiet\"", "quiet x=1\""));
    for unclear in ["default=c", "defaultauto", "defaultmenu=n"] {
        assert!(added(&Form::Zipl, &with(unclear)).is_err(), "{unclear}");
    }
}

#[test]
fn limine_edits_the_entry_that_is_booted() {
    let two = "timeout: 5\ndefault_entry: 3\n/+Linux\n  //a\n  cmdline: root=1\n\
               \n  //b\n  cmdline: root=2 quiet\n/Old\n//c\ncmdline: root=3\n";
    let after = added(&Form::Limine, two).unwrap();
    assert_eq!(after, two.replace("quiet", "quiet x=1"));
    for unclear in ["1", "4", "name"] {
        let text = two.replace("default_entry: 3", &format!("default_entry: {unclear}"));
        assert!(added(&Form::Limine, &text).is_err(), "{unclear}");
    }
    let one = "/Linux\n  KERNEL_CMDLINE: quiet\n";
    assert_eq!(
        added(&Form::Limine, one).unwrap(),
        one.replace("quiet", "quiet x=1")
    );
}

#[test]
fn environment_block_keeps_its_length() {
    let form = Form::Environment("kernelopts");
    let body = "# GRUB Environment Block\nsaved_entry=a\nkernelopts=root=1 ro\n";
    let block = format!("{body}{}", "#".repeat(1_024 - body.len()));
    let after = added(&form, &block).unwrap();
    assert_eq!(after.len(), 1_024);
    assert!(after.contains("\nkernelopts=root=1 ro x=1\n#"), "{after}");
    let long = format!("{body}{}", "b".repeat(1_024 - body.len()));
    assert_eq!(added(&form, &long).unwrap_err(), Unclear::Full);
}

#[test]
fn list_of_kernelstub_keeps_its_layout() {
    let text = "{\n  \"default\": {\"kernel_options\": [\"a\"]},\n  \"user\": {\n    \
                \"kernel_options\": [\n      \"quiet\",\n      \"isolcpus=1\"\n    ]\n  }\n}\n";
    let after = added(&Form::Kernelstub, text).unwrap();
    let list = "\"isolcpus=1\",\n      \"x=1\"";
    assert_eq!(after, text.replace("\"isolcpus=1\"", list));
    let edits = [WordEdit::Replace("isolcpus=2".to_owned())];
    let after = Form::Kernelstub.edit(text, &edits).unwrap();
    assert_eq!(after, text.replace("isolcpus=1", "isolcpus=2"));
    let flat = "{\"user\":{\"kernel_options\":[\"a\",\"b\"]}}";
    let after = added(&Form::Kernelstub, flat).unwrap();
    assert_eq!(after, flat.replace("\"a\",\"b\"", "\"a\", \"b\", \"x=1\""));
    assert!(added(&Form::Kernelstub, "{}").is_err());
}

fn read(form: &Form, text: &str) -> Result<String, Unclear> {
    form.read(text).map(|words| words.join(" "))
}

#[test]
fn parameters_of_zipl_are_those_of_the_default_section() {
    let text = |boot: &str, section: &str| {
        format!("# zipl\n[defaultboot]\n{boot}\n[a]\nparameters=x\n{section}\n")
    };
    for (boot, section, words) in [
        ("default=b", "[b]\nparameters=y z", "y z"),
        ("default = b ", "[B]\n  parameters =  y  ", "y"),
        ("default=b", "[b]\nparameters='y z'", "y z"),
        ("default=b", "[b]\nparameters=\"y\"", "y"),
        ("default=b", "[b]\nparameters=\"y", "\"y"),
        ("default=b", "[b]\nparameters=\"", "\""),
        ("default=b", "[b]\nparameters=", ""),
        (
            "default=b",
            "[b]\nparameters=x\n#parameters=z\nparameters=y",
            "y",
        ),
        ("default=a\ndefault=b", "[b]\nparameters=y", "y"),
        ("defaultmenu=m", ":m\n1=b\n2=a\n[b]\nparameters=y", "y"),
        (
            "defaultmenu=m",
            ":m\n1=b\n2=a\ndefault=2\n[b]\nparameters=y",
            "x",
        ),
        // A menu has priority over a section.
        (
            "default=a\ndefaultmenu=m",
            ":m\n1=b\n[b]\nparameters=y",
            "y",
        ),
    ] {
        let found = read(&Form::Zipl, &text(boot, section));
        assert_eq!(found.as_deref(), Ok(words), "{boot} {section}");
    }
    let none = Unclear::NoDefault { key: "parameters=" };
    for (boot, section) in [
        ("", ""),
        ("#default=a", ""),
        ("default=b", "[c]\nparameters=y"),
        ("default=b", "[b]\ntarget=y"),
        ("defaultmenu=m", ":m\n2=a"),
        ("defaultmenu=m", ":n\n1=a"),
    ] {
        let found = read(&Form::Zipl, &text(boot, section));
        assert_eq!(found.as_ref(), Err(&none), "{boot} {section}");
    }
}

#[test]
fn default_entry_of_limine_counts_visible_entries() {
    // The folder `Closed` hides its entries; the folder `Open` shows them.
    let text = |default: &str| {
        format!(
            "{default}\n/First\ncmdline: one\n/Closed\n//Hidden\ncmdline: two\n/+Open\n\
             //Inner\n  cmdline: three  \n///Deep\ncmdline: four\n//+Sub\n///In\n\
             kernel_cmdline:five\n/Last\nCMDLINE: six\n"
        )
    };
    for (default, words) in [
        ("", "one"),
        ("timeout: 5", "one"),
        ("default_entry: 1", "one"),
        ("DEFAULT_ENTRY:1", "one"),
        // 2 is `Closed` and 3 is `Open`, which have no parameters.
        ("default_entry: 4", "three"),
        // `Inner` is not open, so `Deep` is not visible. 5 is `Sub`.
        ("default_entry: 6", "five"),
        ("default_entry: 7", "six"),
    ] {
        let found = read(&Form::Limine, &text(default));
        assert_eq!(found.as_deref(), Ok(words), "{default}");
    }
    let none = Unclear::NoDefault { key: "cmdline:" };
    for default in ["0", "2", "3", "5", "8", "-1", "First"] {
        let text = text(&format!("default_entry: {default}"));
        assert_eq!(read(&Form::Limine, &text), Err(none.clone()), "{default}");
    }
    // Only the lines above the first entry choose it.
    let late = text("") + "default_entry: 7\n";
    assert_eq!(read(&Form::Limine, &late).as_deref(), Ok("one"));
    // A single line is certain in any case, and the last one of an entry is effective.
    let only = "default_entry: 9\n/a\n//b\ncmdline: x\ncmdline: y\n";
    assert_eq!(read(&Form::Limine, only).as_deref(), Ok("y"));
    assert_eq!(read(&Form::Limine, "/a\n"), Err(none));
    let after = added(&Form::Limine, "/a\n\tcmdline:  x y\t\r\n").unwrap();
    assert_eq!(after, "/a\n\tcmdline:  x y x=1\t\r\n");
}

#[test]
fn lists_of_kernelstub_are_read_exactly() {
    let user = |list: &str| format!("{{\"user\": {{\"a\": 1, \"kernel_options\": {list}}}}}");
    for (list, words) in [
        ("[]", ""),
        ("[\"a\"]", "a"),
        ("[ \"a\" , \"b=c\" ]", "a b=c"),
        ("[\n\"a\",\n\"b\"\n]", "a b"),
    ] {
        let found = read(&Form::Kernelstub, &user(list));
        assert_eq!(found.as_deref(), Ok(words), "{list}");
    }
    for unclear in [
        "[\"a\\\"b\"]",
        "[[\"a\"]]",
        "[{\"a\"}]",
        "[\"a]",
        "[\"a\"",
        "1",
    ] {
        let found = read(&Form::Kernelstub, &user(unclear));
        assert!(found.is_err(), "{unclear}");
    }
    // The options of the program itself are not those of the user.
    let default = "{\"default\": {\"kernel_options\": [\"a\"]}}";
    assert!(read(&Form::Kernelstub, default).is_err());
    for (list, after) in [
        ("[]", "[\"x=1\"]"),
        ("[\"a\"]", "[\"a\", \"x=1\"]"),
        ("[\"a\",\"x=1\"]", "[\"a\",\"x=1\"]"),
        ("[ \"a\" ]", "[ \"a\", \"x=1\" ]"),
    ] {
        let found = added(&Form::Kernelstub, &user(list)).unwrap();
        assert_eq!(found, user(after), "{list}");
    }
    let remove = [WordEdit::Remove("a".to_owned())];
    let after = Form::Kernelstub.edit(&user("[\"a\", \"b\", \"a=1\"]"), &remove);
    assert_eq!(after.unwrap(), user("[\"b\"]"));
}

#[test]
fn block_is_filled_up_to_its_length() {
    let form = Form::Environment("k");
    let block = |body: &str, length: usize| format!("{body}{}", "#".repeat(length - body.len()));
    let add = [WordEdit::Add("x=1".to_owned())];
    for length in [1_024, 2_048] {
        let after = form.edit(&block("k=a\n", length), &add).unwrap();
        assert_eq!(after, block("k=a x=1\n", length));
        let shorter = [WordEdit::Remove("a".to_owned())];
        let after = form.edit(&block("k=a b\n", length), &shorter).unwrap();
        assert_eq!(after, block("k=b\n", length));
    }
    // The parameter needs four bytes.
    let padded = |rest: usize| {
        let body = format!("y={}\nk=a\n", "z".repeat(1_024 - 7 - rest));
        assert_eq!(body.len(), 1_024 - rest);
        form.edit(&block(&body, 1_024), &add)
    };
    assert_eq!(padded(4).unwrap().len(), 1_024);
    assert_eq!(padded(3), Err(Unclear::Full));
    // A text of another length is not a block.
    assert_eq!(form.edit("k=a\n", &add).unwrap(), "k=a x=1\n");
    // A variable that does not exist is not created, because GRUB's own programs do that.
    let other = block("y=a\n", 1_024);
    assert_eq!(form.edit(&other, &add).unwrap(), other);
}
