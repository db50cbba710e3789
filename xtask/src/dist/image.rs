//! An image for container tools, in the OCI image layout (github.com/opencontainers/image-spec,
//! image-layout.md), from the Containerfile of its program.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{Build, succeed, tar};
use crate::paths::program;

/// Writes the image as `NAME.oci.tar`.
pub(super) fn write(build: &Build, staged: &Path) -> Result<()> {
    let Ok(buildah) = program("buildah", "buildah") else {
        println!("SKIP image: buildah is not installed");
        return Ok(());
    };
    let platform = platform(&build.target)
        .with_context(|| format!("container tools have no name for {}", build.target))?;
    let work = build.target_folder.join("packages/image");
    let _ = fs::remove_dir_all(&work);
    fs::create_dir_all(&work)?;
    let buildah = |words: &[&str]| {
        let mut command = Command::new(&buildah);
        command
            .current_dir(&work)
            .args(["--root=store", "--runroot=run", "--storage-driver=vfs"])
            .args(words);
        command
    };
    let version = &build.version;
    let mut image = buildah(&["build", "--quiet", "--platform", platform, "--tag=image"]);
    image
        .arg(format!("--timestamp={}", build.epoch))
        .arg(format!(
            "--label=org.opencontainers.image.version={version}"
        ))
        .arg("--file")
        .arg(build.sources.join(build.package.containerfile))
        .arg(staged);
    succeed(&mut image)?;
    let layout = format!("oci:layout:{version}");
    succeed(&mut buildah(&["push", "--quiet", "image", &layout]))?;
    let path = build.folder.join(format!("{}.oci.tar", build.name()));
    let parts = ["oci-layout", "index.json", "blobs"];
    tar(&build.epoch, &path, &work.join("layout"), &parts)?;
    Ok(fs::remove_dir_all(&work)?)
}

/// Returns the platform's name in container tools.
fn platform(target: &str) -> Option<&'static str> {
    match target.split('-').next()? {
        "x86_64" => Some("linux/amd64"),
        "aarch64" => Some("linux/arm64/v8"),
        "armv7" => Some("linux/arm/v7"),
        "riscv64gc" => Some("linux/riscv64"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_package_target_has_an_image() {
        for target in crate::cross::TARGETS {
            assert!(platform(target.triple).is_some(), "{}", target.triple);
        }
    }
}
