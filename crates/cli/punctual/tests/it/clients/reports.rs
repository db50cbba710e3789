//! Libraries of others read reports: JUnit, TAP, SARIF, LAVA and JSON.

use serde_json::Value;

use super::{exported, measured, of_clone, python, reports, run};
use crate::common::Sandbox;

/// Audits a recorded laptop, and writes `a.sarif`, `a.xml` and `a.tap`. Returns how many results SARIF has at
/// each level, from error to none, and how many of none passed.
fn audited(place: &Sandbox) -> ([usize; 4], usize) {
    let trees = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../machine/host/tests/trees"
    );
    place.run(&format!(
        "doctor --facts {trees}/laptop --sarif a.sarif --junit a.xml --tap a.tap"
    ));
    let sarif = std::fs::read(place.path("a.sarif")).unwrap();
    let sarif: Value = serde_json::from_slice(&sarif).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let of = |key: &str, name: &str| results.iter().filter(|one| one[key] == name).count();
    let levels = ["error", "warning", "note", "none"].map(|level| of("level", level));
    assert!(levels.iter().all(|count| *count > 1), "{levels:?}");
    (levels, of("kind", "pass"))
}

/// Returns the numbers of tests in TAP and JUnit that passed, failed and were skipped. Only errors fail.
fn tests(place: &Sandbox) -> [usize; 3] {
    let ([errors, warnings, notes, none], passed) = audited(place);
    [passed + warnings + notes, errors, none - passed]
}

const TAP_PARSER: &str = "
const { Parser } = require('tap-parser');
for (const name of ['a', 'met', 'broken']) {
  const all = Parser.parse(require('fs').readFileSync(name + '.tap', 'utf8'));
  const tests = all.filter(([kind]) => kind === 'assert').map(([, test]) => test);
  const skipped = tests.filter(test => test.skip).length;
  const failed = tests.filter(test => !test.ok).length;
  const failures = all.find(([kind]) => kind === 'complete')[1].failures;
  const invalid = failures.filter(one => one.tapError).length;
  console.log(tests.length - failed - skipped, failed, skipped, invalid);
}";

#[test]
fn tap_parser_of_node_reads_results() {
    let place = Sandbox::new();
    let [passed, failed, skipped] = tests(&place);
    reports(&place, "tap");
    if let Some(found) = run(&place, "node", &["-e", TAP_PARSER]) {
        let expected = format!("{passed} {failed} {skipped} 0\n1 0 0 0\n0 1 0 0");
        assert_eq!(found, expected);
    }
}

const MESON: &str = "
from mesonbuild.mtest import TAPParser, TestResult
for name in ['a', 'met', 'broken']:
    all = list(TAPParser().parse(iter(open(name + '.tap'))))
    tests = [one.result for one in all if isinstance(one, TAPParser.Test)]
    print(*[tests.count(kind) for kind in [TestResult.OK, TestResult.FAIL, TestResult.SKIP]],
          sum(isinstance(one, TAPParser.Error) for one in all))
";

#[test]
fn meson_reads_results() {
    let place = Sandbox::new();
    let [passed, failed, skipped] = tests(&place);
    reports(&place, "tap");
    if let Some(found) = python(&place, MESON) {
        let expected = format!("{passed} {failed} {skipped} 0\n1 0 0 0\n0 1 0 0");
        assert_eq!(found, expected);
    }
}

/// Prints the violations of a schema in each file. The last file has one.
const XSD: &str = "
import sys, xmlschema
schema = xmlschema.XMLSchema(sys.argv[1])
text = open('met.xml').read().replace('<testcase name', '<testcase nom')
open('wrong.xml', 'w').write(text)
for name in ['a', 'met', 'broken', 'wrong']:
    print(name, *[error.reason for error in schema.iter_errors(name + '.xml')])
";

#[test]
fn schema_of_jenkins_accepts_reports() {
    let place = Sandbox::new();
    let file = "src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd";
    let Some(schema) = of_clone("jenkinsci+xunit-plugin", file) else {
        return;
    };
    audited(&place);
    reports(&place, "xml");
    if let Some(found) = run(&place, "python3", &["-c", XSD, &schema]) {
        let rest = found.strip_prefix("a\nmet\nbroken\nwrong ");
        assert!(rest.is_some_and(|rest| rest.contains("nom")), "{found}");
    }
}

#[test]
fn junit2html_counts_results() {
    let place = Sandbox::new();
    let [passed, failed, skipped] = tests(&place);
    let call = ["-m", "junit2htmlreport", "a.xml", "a.html"];
    if run(&place, "python3", &call).is_none() {
        return;
    }
    let call = ["-m", "junit2htmlreport", "a.xml", "--summary-matrix"];
    let found = run(&place, "python3", &call).unwrap();
    let count = |name: &str| -> usize {
        let line = found.lines().find(|line| line.trim().starts_with(name));
        let (_, count) = line.unwrap_or("x: 0").split_once(':').unwrap();
        count.trim().parse().unwrap()
    };
    let counts = [count("Passed"), count("Failed"), count("Skipped")];
    assert_eq!(counts, [passed, failed, skipped], "{found}");
    assert!(place.path("a.html").metadata().unwrap().len() > 10_000);
}

const SARIF_TOOLS: &str = "
from sarif import loader
report = loader.load_sarif_file('a.sarif').get_report()
print([report.get_issue_count_for_severity(level) for level in ['error', 'warning', 'note', 'none']])
";

#[test]
fn sarif_tools_counts_findings() {
    let place = Sandbox::new();
    let (levels, _) = audited(&place);
    if let Some(found) = python(&place, SARIF_TOOLS) {
        assert_eq!(found, format!("{levels:?}"));
    }
}

/// The validator of SARIF's authors.
#[test]
fn sarif_multitool_validates_findings() {
    let place = Sandbox::new();
    audited(&place);
    let errors = |file: &str| {
        let found = run(
            &place,
            "sh",
            &["-c", &format!("sarif-multitool validate {file} || true")],
        );
        let found = found.filter(|found| found.contains("1 files scanned"));
        if found.is_none() {
            punctual_testing::skip!(Program, "sarif-multitool");
        }
        let found = found?;
        let errors = found.lines().filter(|line| line.contains(": error "));
        Some(errors.map(str::to_owned).collect::<Vec<_>>())
    };
    if let Some(found) = errors("a.sarif") {
        assert!(found.is_empty(), "{found:#?}");
        let sarif = std::fs::read_to_string(place.path("a.sarif")).unwrap();
        let wrong = sarif.replacen("\"ruleId\"", "\"ruleName\"", 1);
        std::fs::write(place.path("wrong.sarif"), wrong).unwrap();
        assert!(!errors("wrong.sarif").unwrap().is_empty());
    }
}

/// LAVA reads the output of a test with this pattern and these functions.
const LAVA: &str = "
import re
from lava_dispatcher.actions.test.shell import TestShellAction, handle_testcase
from lava_dispatcher.connection import SignalMatch
action = TestShellAction()
action._reset_patterns()
for name in ['met', 'broken']:
    for signal, words in re.findall(action.patterns['signal'], open(name + '.lava').read()):
        if signal == 'TESTCASE':
            found = SignalMatch().match(handle_testcase(words.split()))
            print(found['result'], found['measurement'], found['units'])
";

#[test]
fn lava_dispatcher_reads_results() {
    let place = Sandbox::new();
    reports(&place, "lava");
    let Some(found) = python(&place, LAVA) else {
        return;
    };
    let longest = |id: &str| {
        let recording = place.done(&format!("show {id} --json"));
        let recording = punctual_model::Recording::from_json(&recording).unwrap();
        let threads = recording.threads.iter();
        let longest = threads.filter_map(|thread| thread.histogram.max()).max();
        longest.unwrap().0 as f64 / 1_000.0
    };
    let expected = [("pass", longest("last~1")), ("fail", longest("last"))];
    assert_eq!(found.lines().count(), expected.len(), "{found}");
    for (line, (result, longest)) in found.lines().zip(expected) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[2]), (result, "us"), "{line}");
        let theirs: f64 = words[1].parse().unwrap();
        assert!((theirs - longest).abs() < 0.001, "{line} {longest}");
    }
}

/// Prints the violations of the schema in a recording, and in one whose duration is a text.
const JSON_SCHEMA: &str = "
import json, jsonschema
schema = json.load(open('schema.json'))
jsonschema.Draft202012Validator.check_schema(schema)
one = json.load(open('r.json'))
for duration in [one['duration_ns'], 'long']:
    one['duration_ns'] = duration
    errors = jsonschema.Draft202012Validator(schema).iter_errors(one)
    print([list(error.path) for error in errors])
";

#[test]
fn jsonschema_of_python_validates_a_recording() {
    let place = Sandbox::new();
    exported(&place);
    place.done("export last --format json -o r.json");
    std::fs::write(place.path("schema.json"), place.done("schema")).unwrap();
    if let Some(found) = python(&place, JSON_SCHEMA) {
        assert_eq!(found, "[]\n[['duration_ns']]");
    }
}

/// Verifies a statement, and one whose payload was changed.
const SECURESYSTEMSLIB: &str = "
import json, sys
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey
for change in [b'', b' ']:
    one = Envelope.from_dict(json.load(open('statement.json')))
    one.payload += change
    keyid = list(one.signatures)[0]
    key = SSlibKey(keyid, 'ed25519', 'ed25519', {'public': sys.argv[1]})
    try:
        print(list(one.verify([key], 1)) == [sys.argv[2]])
    except VerificationError:
        print('refused')
";

#[test]
fn securesystemslib_verifies_a_statement() {
    let place = Sandbox::new();
    measured(&place, "1min");
    place.done("sign last -o statement.json");
    let keys: Value = serde_json::from_str(&place.done("key --json")).unwrap();
    let [key, id] = ["public_key", "fingerprint"].map(|name| keys[name].as_str().unwrap());
    if let Some(found) = run(&place, "python3", &["-c", SECURESYSTEMSLIB, key, id]) {
        assert_eq!(found, "True\nrefused");
    }
}

/// The parsing rules of in-toto require that a reader ignores fields which it does not know.
const IN_TOTO: &str = "
import base64, json
from google.protobuf.json_format import MessageToDict, ParseDict
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as Message
for name in ['met', 'broken']:
    payload = base64.b64decode(json.load(open(name + '.json'))['payload'])
    message = ParseDict(json.loads(payload), Message())
    Statement.copy_from_pb(message).validate()
    result = ParseDict(MessageToDict(message.predicate), TestResult(), ignore_unknown_fields=True)
    about = [one.digest['sha256'] for one in message.subject]
    print(result.result, [one.digest['sha256'] for one in result.configuration] == about)
";

#[test]
fn in_toto_attestation_reads_a_statement() {
    let place = Sandbox::new();
    for (name, limit) in [("met", "1min"), ("broken", "1ns")] {
        measured(&place, limit);
        place.done(&format!("sign last -o {name}.json"));
    }
    if let Some(found) = python(&place, IN_TOTO) {
        assert_eq!(found, "PASSED True\nFAILED True");
    }
}
