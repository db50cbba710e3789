//! `build`: a parallel build in a loop.

use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_model::{Achieved, Arguments, Typed, parameters};

use crate::process::{Account, Processes, Script};
use crate::space::MIB;
use crate::{LoadEntry, LoadError, LoadKind, scratch};

/// The entry of this load.
pub(crate) const ENTRY: LoadEntry = LoadEntry {
    name: "build",
    summary: "repeatedly runs make clean and make -j in a copy of a source tree",
    parameters: PARAMETERS,
    bare: None,
    needs: Some("make"),
    kind: LoadKind::Processes,
    build: |arguments| Processes::load("build", script, achieved, arguments),
};

parameters! {
    DIR: Option<String> = Typed::text(
        "dir",
        "Source tree: a folder with a Makefile that has the target clean",
    );
    JOBS: Option<u64> = Typed::count(
        "jobs",
        "Number of parallel jobs; default: number of CPUs",
        1..=4096,
    );
    IN_PLACE: bool = Typed::flag(
        "in-place",
        "Build in the tree instead of a copy; make clean removes files",
    );
}

/// Time that make has after SIGTERM to remove half-written files.
const GRACE: Duration = Duration::from_secs(2);

/// Script that builds repeatedly and prints one line per build. It ends if a build fails or if the
/// tree cannot be cleaned, because another build would then do nothing.
const BUILDS: &str = r#"
tree=$1
jobs=$2
if [ "$3" = copy ]; then
  cp -R -p "$tree/." tree || exit 1
  tree=tree
fi
cd "$tree" || exit 1
while :; do
  make clean >/dev/null || exit 2
  make -j "$jobs" >/dev/null || exit 3
  echo
done
"#;

fn script(arguments: &Arguments, cpus: &[u32]) -> Result<Script, LoadError> {
    let folder = DIR
        .value_in(arguments)
        .map(PathBuf::from)
        .ok_or_else(|| unfit("the parameter dir is missing: build:dir=FOLDER".to_owned()))?;
    #[allow(clippy::disallowed_methods, reason = "it is read, not written")]
    let folder = folder.canonicalize().map_err(|source| {
        LoadError::start(
            ENTRY.name,
            format!("cannot open {}", folder.display()),
            source,
        )
    })?;
    if !has_makefile(&folder) {
        return Err(unfit(format!("{} has no Makefile", folder.display())));
    }
    let in_place = IN_PLACE.value_in(arguments);
    let scratch = if in_place {
        None
    } else {
        Some(room_for_copy(&folder)?)
    };
    let jobs = JOBS.value_in(arguments).unwrap_or(cpus.len() as u64);
    Ok(Script {
        shell: BUILDS.to_owned(),
        title: format!(
            "the build of {} (exit status 1: copying failed, 2: make clean failed, 3: make failed)",
            folder.display()
        ),
        arguments: vec![
            folder.into(),
            jobs.to_string().into(),
            if in_place { "in-place" } else { "copy" }.into(),
        ],
        scratch,
        grace: GRACE,
    })
}

fn unfit(why: String) -> LoadError {
    LoadError::Unfit {
        load: ENTRY.name,
        why,
    }
}

fn has_makefile(folder: &Path) -> bool {
    // The file names that GNU make searches for.
    ["GNUmakefile", "makefile", "Makefile"]
        .iter()
        .any(|name| folder.join(name).is_file())
}

/// Returns a folder for the copy. A build can need several times the space of its sources, so the
/// usable disk space must be at least twice the size of the tree.
fn room_for_copy(tree: &Path) -> Result<PathBuf, LoadError> {
    let folder = scratch::folder();
    let failed = |source| {
        let what = format!("cannot copy {} to {}", tree.display(), folder.display());
        LoadError::start(ENTRY.name, what, source)
    };
    let usable_bytes = scratch::usable_bytes(&folder).map_err(failed)?;
    let bytes = scratch::tree_bytes(tree, usable_bytes).map_err(failed)?;
    if bytes.saturating_mul(2) > usable_bytes {
        return Err(unfit(format!(
            "two copies of the tree need more than half of the free space of {}, {} MiB: set \
             TMPDIR, or use in-place",
            folder.display(),
            usable_bytes / MIB
        )));
    }
    Ok(scratch::unique(&folder))
}

/// A whole build can take longer than a measurement, so the CPU time shows whether the load ran.
fn achieved(account: &Account) -> Vec<Achieved> {
    let done = |what: &str, count| Achieved {
        what: what.to_owned(),
        count,
        duration_ns: account.lasted,
    };
    let mut achieved = vec![done("builds", account.output.lines)];
    if let Some(time) = account.cpu_time {
        achieved.push(done("ms of CPU time", time.0 / 1_000_000));
    }
    achieved
}
