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
