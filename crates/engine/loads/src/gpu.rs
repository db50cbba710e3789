//! `gpu`: drawing on a GPU, without a display.
//!
//! Each driver accepts its own commands, so stress-ng draws through Mesa (EGL and OpenGL ES on a
//! render node). Without a driver for the GPU, Mesa draws on the CPU. The load checks the renderer
//! before the run, and refuses such a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use punctual_files::Budget;
use punctual_model::{Arguments, Typed, parameters};

use crate::process::{Processes, Script};
use crate::stress_ng::{GRACE, achieved};
use crate::{LoadEntry, LoadError, LoadKind, scratch};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "gpu",
    summary: "draws textures on a GPU without a display, by stress-ng",
    parameters: PARAMETERS,
    bare: None,
    needs: Some("stress-ng"),
    kind: LoadKind::Processes,
    build: |arguments| Processes::load("gpu", script, achieved, arguments),
};

parameters! {
    DEVICE: Option<String> = Typed::text(
        "device",
        "Render node of the GPU; default: the first of /dev/dri/renderD*",
    );
    WORKERS: u64 = Typed::count("workers", "Number of processes that draw", 1..=64).or("1");
}

/// Folder of the render nodes.
const FOLDER: &str = "/dev/dri";

/// Draws until stopped. stress-ng ends with status 0 if it cannot draw, so an end that was not
/// requested is an error.
const DRAWS: &str = r#"
trap stopped=yes TERM
stress-ng --timeout 0 --metrics --yaml /dev/stdout --gpu "$2" --gpu-devnode "$1"
[ "$stopped" ]
"#;

fn script(arguments: &Arguments, _cpus: &[u32]) -> Result<Script, LoadError> {
    let device = match DEVICE.value_in(arguments) {
        Some(device) => PathBuf::from(device),
        None => first_node(Path::new(FOLDER)).ok_or_else(|| LoadError::NoDevice {
            load: ENTRY.name,
            what: "GPU: there is no /dev/dri/renderD*".to_owned(),
        })?,
    };
    check_renderer(&device)?;
    Ok(Script {
        shell: DRAWS.to_owned(),
        title: format!("stress-ng --gpu on {}", device.display()),
        arguments: vec![
            device.into(),
            WORKERS.value_in(arguments).to_string().into(),
        ],
        // stress-ng writes its temporary files to the working folder.
        scratch: Some(scratch::unique(&scratch::folder())),
        grace: GRACE,
    })
}

/// Draws once, and checks that a GPU does so.
fn check_renderer(device: &Path) -> Result<(), LoadError> {
    let mut command = Command::new("stress-ng");
    command
        .args(["--timeout", "10", "--gpu", "1", "--gpu-ops", "1"])
        .arg("--gpu-devnode")
        .arg(device)
        .arg("--temp-path")
        .arg(scratch::folder())
        .stdin(Stdio::null());
    let drawn = Budget::bytes(1 << 20)
        .within(Duration::from_secs(60))
        .output(&mut command)
        .map_err(|source| LoadError::start(ENTRY.name, "cannot run stress-ng", source))?;
    let mut text = drawn.stdout;
    text.extend(drawn.stderr);
    let no_gpu = match renderer(&String::from_utf8_lossy(&text)) {
        Some(name) if ON_CPU.iter().any(|part| name.contains(part)) => {
            format!("{name} draws, which uses the CPU: install the driver of Mesa for this GPU")
        }
        Some(_) => return Ok(()),
        None => "stress-ng cannot draw: run stress-ng --gpu 1 for its reason".to_owned(),
    };
    Err(LoadError::NoDevice {
        load: ENTRY.name,
        what: format!("GPU that can draw on {}: {no_gpu}", device.display()),
    })
}

/// Parts of the names of Mesa's renderers that use the CPU.
const ON_CPU: [&str; 4] = ["llvmpipe", "softpipe", "swrast", "Software"];

/// Returns the renderer that stress-ng names: `stress-ng: info:  [7] gpu: GL_RENDERER: V3D 4.2`.
fn renderer(text: &str) -> Option<&str> {
    let lines = text.lines();
    let mut names = lines.filter_map(|line| line.split_once("GL_RENDERER: "));
    names.next().map(|(_, name)| name.trim())
}

/// Returns the render node with the lowest number.
fn first_node(folder: &Path) -> Option<PathBuf> {
    let number = |path: &PathBuf| -> Option<u32> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix("renderD")?.parse().ok()
    };
    let entries = fs::read_dir(folder).ok()?.flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter_map(|path| Some((number(&path)?, path)))
        .min()
        .map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_render_node_is_used() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(first_node(folder.path()), None);
        assert_eq!(first_node(&folder.path().join("absent")), None);
        for name in ["card0", "renderD1000", "renderD129", "renderDx"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let first = first_node(folder.path()).unwrap();
        assert_eq!(first, folder.path().join("renderD129"));
    }

    #[test]
    fn renderers_that_use_the_cpu_are_known() {
        let text = "failed to get driver name\nstress-ng: info:  [3868] gpu: GL_VENDOR: Mesa/X.org\n\
                    stress-ng: info:  [3868] gpu: GL_RENDERER: llvmpipe (LLVM 15.0.6, 256 bits)\n";
        let name = renderer(text).unwrap();
        assert_eq!(name, "llvmpipe (LLVM 15.0.6, 256 bits)");
        assert!(ON_CPU.iter().any(|part| name.contains(part)));
        let name = renderer("stress-ng: info:  [7] gpu: GL_RENDERER: V3D 4.2\n").unwrap();
        assert!(!ON_CPU.iter().any(|part| name.contains(part)), "{name}");
        assert_eq!(renderer("stress-ng: gpu: cannot open GPU device"), None);
    }
}
