//! Tests that the checked-in header is identical to the generated one.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::path::Path;

/// The soname follows from the library version in the metadata.
#[test]
fn library_version_matches_abi() {
    let manifest = include_str!("../Cargo.toml");
    let section = manifest
        .split("[package.metadata.capi.library]")
        .nth(1)
        .unwrap();
    let version = format!("version = \"{}.", punctual_kit::PUNCTUAL_ABI_VERSION);
    let first = section.split('[').next().unwrap();
    assert!(first.contains(&version), "{first}");
}

#[test]
fn the_header_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    // cbindgen also reads the modules that lib.rs declares.
    let bindings = cbindgen::Builder::new()
        .with_src(root.join("src/lib.rs"))
        .with_config(config)
        .generate()
        .unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join("include/punctual.h");
    if std::env::var_os("PUNCTUAL_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == made,
        "include/punctual.h is not what the source makes: \
         PUNCTUAL_UPDATE_HEADER=1 cargo test -p punctual-capi --test header"
    );
}
