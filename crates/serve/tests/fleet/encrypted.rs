//! TLS on both ends.

use std::process::Command;
use std::time::Duration;

use punctual_serve::TlsFiles;
use punctual_serve::deliver::{DeliverError, Deliverer, Target};
use punctual_store::{Collection, Store};

use crate::place::{Place, measured, recording};

#[test]
fn a_machine_delivers_only_to_a_collector_that_it_trusts() {
    let place = Place::new();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| place.file(name));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ])
        .args(["-nodes", "-days", "2", "-subj", "/CN=collector"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args([std::ffi::OsStr::new("-keyout"), key.as_os_str()])
        .args([std::ffi::OsStr::new("-out"), certificate.as_os_str()])
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!("openssl is not installed");
        return;
    }
    let machine = Store::open(&place.file("machine.db")).unwrap();
    measured(&machine, &[recording(1, "board")]);
    let roots = certificate.clone();
    let server = place.serve_as(|config| config.tls = Some(TlsFiles { certificate, key }));
    let deliver = |roots| {
        let target = Target {
            url: format!("https://{}", server.address),
            token: None,
            machine: "board".to_owned(),
            roots,
        };
        let deliverer = Deliverer::new(target, || false)?;
        deliverer.deliver(&machine, Duration::ZERO, &mut |_| {})
    };
    // What the system trusts, if anything, does not sign for this one.
    let refused = deliver(None).unwrap_err();
    assert!(
        matches!(refused, DeliverError::GaveUp(_) | DeliverError::Roots(_)),
        "{refused}"
    );
    assert_eq!(deliver(Some(roots)).unwrap().delivered, 1);
    assert_eq!(place.collection().machines().unwrap()[0].recordings, 1);
}
