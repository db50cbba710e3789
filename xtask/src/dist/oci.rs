//! An image for container tools: one layer with the program and its licences, in the
//! OCI image layout (github.com/opencontainers/image-spec, image-layout.md).

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Build;

/// Files of the image, relative to the staged root.
const FILES: &[&str] = &[
    "usr/bin/punctual",
    "usr/share/doc/punctual/LICENSE",
    "usr/share/doc/punctual/LICENSE-APACHE",
    "usr/share/doc/punctual/LICENSE-MIT",
];

/// Returns the architecture's name in image configurations (as in Go), and its variant.
fn architecture(target: &str) -> Option<(&'static str, Option<&'static str>)> {
    match target.split('-').next()? {
        "x86_64" => Some(("amd64", None)),
        "aarch64" => Some(("arm64", Some("v8"))),
        "armv7" => Some(("arm", Some("v7"))),
        "riscv64gc" => Some(("riscv64", None)),
        _ => None,
    }
}

/// Writes the image as `NAME.oci.tar`.
pub(super) fn write(build: &Build, staged: &Path) -> Result<()> {
    let (architecture, variant) =
        architecture(&build.target).with_context(|| format!("no image for {}", build.target))?;
    let layout = build.folder.join("oci");
    let _ = fs::remove_dir_all(&layout);
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    let plain = build.folder.join("layer.tar");
    super::tar(&build.epoch, &plain, staged, FILES)?;
    let diff_id = digest(&fs::read(&plain)?);
    let packed = Command::new("gzip").args(["-9nc"]).arg(&plain).output()?;
    if !packed.status.success() {
        bail!("gzip: {}", packed.status);
    }
    fs::remove_file(&plain)?;
    let layer = blob(
        &layout,
        "application/vnd.oci.image.layer.v1.tar+gzip",
        &packed.stdout,
    )?;
    let mut config = json!({
        "architecture": architecture,
        "os": "linux",
        "created": build.time()?,
        "config": {"Entrypoint": ["/usr/bin/punctual"], "Cmd": ["--help"]},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    });
    let mut platform = json!({"architecture": architecture, "os": "linux"});
    if let Some(variant) = variant {
        config["variant"] = variant.into();
        platform["variant"] = variant.into();
    }
    let config = serde_json::to_vec(&config)?;
    let config = blob(&layout, "application/vnd.oci.image.config.v1+json", &config)?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer],
        "annotations": {
            "org.opencontainers.image.title": "punctual",
            "org.opencontainers.image.version": build.version,
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        },
    }))?;
    let mut manifest = blob(&layout, kind, &manifest)?;
    manifest["platform"] = platform;
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": build.version});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(layout.join("index.json"), serde_json::to_vec(&index)?)?;
    fs::write(
        layout.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    let path = build.folder.join(format!("{}.oci.tar", build.name()));
    let parts = ["oci-layout", "index.json", "blobs"];
    super::tar(&build.epoch, &path, &layout, &parts)?;
    Ok(fs::remove_dir_all(&layout)?)
}

/// Stores content under its digest and returns its descriptor.
fn blob(layout: &Path, media_type: &str, content: &[u8]) -> Result<Value> {
    let digest = digest(content);
    let name = digest.trim_start_matches("sha256:");
    fs::write(layout.join("blobs/sha256").join(name), content)?;
    Ok(json!({"mediaType": media_type, "digest": digest, "size": content.len()}))
}

fn digest(content: &[u8]) -> String {
    let bytes = Sha256::digest(content);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_sha256sum() {
        assert_eq!(
            digest(b""),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn each_package_target_has_an_image() {
        for target in crate::cross::TARGETS {
            assert!(architecture(target.triple).is_some(), "{}", target.triple);
        }
    }
}
