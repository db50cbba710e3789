//! Tests of TLS on both ends.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use punctual_postgres::PostgresCollection;
use punctual_push::{DeliverError, Deliverer, Target};
use punctual_serve::{Config, TlsFiles};
use punctual_store::{Collection, Outbox, Store};
use punctual_testing::postgres::Cluster;

use crate::place::{Sandbox, measured, recording};

/// Returns a certificate for 127.0.0.1 and its key, or `None` to skip the test.
fn certificate(place: &Sandbox) -> Option<(PathBuf, PathBuf)> {
    self_signed(place, "CA:FALSE")
}

/// Returns a certificate with these basic constraints.
fn self_signed(place: &Sandbox, constraints: &str) -> Option<(PathBuf, PathBuf)> {
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| place.file(name));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec"])
        .args(["-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=collector"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args([
            "-addext",
            &format!("basicConstraints=critical,{constraints}"),
        ])
        .args([std::ffi::OsStr::new("-keyout"), key.as_os_str()])
        .args([std::ffi::OsStr::new("-out"), certificate.as_os_str()])
        .output();
    if !made.is_ok_and(|output| output.status.success()) {
        punctual_testing::skip!(Program, "openssl is not installed");
        return None;
    }
    Some((certificate, key))
}

fn deliver(
    machine: &Store,
    address: SocketAddr,
    roots: Option<PathBuf>,
) -> Result<Outbox, DeliverError> {
    let target = Target {
        url: format!("https://{address}"),
        token: None,
        machine: "board".to_owned(),
        identity: None,
        roots,
    };
    let deliverer = Deliverer::new(target, || false)?;
    // A fault that only a person can mend ends the delivery at once.
    deliverer.deliver(machine, Duration::from_secs(600), &mut |_| {})
}

/// By default, openssl creates such a certificate.
#[test]
fn certificate_of_ca_is_refused_with_advice() {
    let place = Sandbox::new();
    let Some((certificate, key)) = self_signed(&place, "CA:TRUE") else {
        return;
    };
    let machine = Store::open(&place.file("machine.db")).unwrap();
    measured(&machine, &[recording(1, "board")]);
    let roots = certificate.clone();
    let server = place.serve_as(|config| config.tls = Some(TlsFiles { certificate, key }));
    let refused = deliver(&machine, server.address, Some(roots)).unwrap_err();
    assert!(refused.to_string().contains("CA:FALSE"), "{refused}");
    let other = Sandbox::new();
    let (other, _) = self_signed(&other, "CA:FALSE").unwrap();
    let refused = deliver(&machine, server.address, Some(other)).unwrap_err();
    assert!(refused.to_string().contains("with --ca"), "{refused}");
}

#[test]
fn file_without_private_key_is_refused() {
    let place = Sandbox::new();
    let Some((certificate, _)) = certificate(&place) else {
        return;
    };
    let mut config = Config::new("127.0.0.1:0".parse().unwrap());
    config.tls = Some(TlsFiles {
        key: certificate.clone(),
        certificate,
    });
    let refused = punctual_serve::start(config, Arc::new(place.collection()));
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("it contains no private key"), "{refused}");
}

#[test]
fn machine_delivers_only_to_trusted_collector() {
    let place = Sandbox::new();
    let Some((certificate, key)) = certificate(&place) else {
        return;
    };
    let machine = Store::open(&place.file("machine.db")).unwrap();
    measured(&machine, &[recording(1, "board")]);
    let roots = certificate.clone();
    let server = place.serve_as(|config| config.tls = Some(TlsFiles { certificate, key }));
    let deliver = |roots| deliver(&machine, server.address, roots);
    // None of the system's trusted certificates, if there are any, has signed this one.
    let refused = deliver(None).unwrap_err();
    assert!(
        matches!(refused, DeliverError::Unusable(_) | DeliverError::Roots(_)),
        "{refused}"
    );
    assert_eq!(deliver(Some(roots)).unwrap().delivered, 1);
    assert_eq!(place.collection().machines().unwrap()[0].recordings, 1);
}

/// A database with TLS enabled is never accessed without it, nor with an untrusted certificate.
#[test]
fn database_without_trusted_tls_is_refused() {
    let place = Sandbox::new();
    let Some((certificate, key)) = certificate(&place) else {
        return;
    };
    // The server's user can read the certificate, and owns the key.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(certificate.parent().unwrap(), open).unwrap();
    Cluster::own(&key).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let port = free.unwrap().port();
    let settings = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificate.display()),
        format!("ssl_key_file={}", key.display()),
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
    ];
    let cluster = match Cluster::start_with(&settings) {
        Ok(cluster) => cluster,
        Err(why) => return punctual_testing::skip!(Program, "TLS to PostgreSQL: {why}"),
    };
    let (name, _) = cluster.database().unwrap();
    let url = |query: &str| format!("postgres://punctual@127.0.0.1:{port}/{name}?{query}");
    let of_file = certificate.display().to_string();
    let open = |query: &str| PostgresCollection::open(&url(query)).map_err(|e| e.to_string());
    let in_use = || {
        let sql = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE ssl AND application_name = 'punctual'";
        cluster.sql(&name, sql).unwrap()
    };
    let plain = open("sslmode=disable").unwrap();
    assert_eq!((plain.ready().is_ok(), in_use().as_str()), (true, "0"));
    let trusted = open(&format!("sslmode=verify-full&sslrootcert={of_file}")).unwrap();
    assert_eq!((trusted.ready().is_ok(), in_use().as_str()), (true, "1"));
    let nobody = open("sslmode=require").unwrap_err();
    assert!(nobody.contains("sslrootcert=FILE"), "{nobody}");
    let unknown = open("sslmode=allow").unwrap_err();
    assert!(unknown.contains("verify-full"), "{unknown}");
    let missing = open("sslrootcert=/nonexistent.pem").unwrap_err();
    assert!(missing.contains("/nonexistent.pem"), "{missing}");
}
