//! The kernel's build configuration.

use std::collections::BTreeMap;

use punctual_model::Fact;

use super::no_config::{NoConfig, NotAConfig};
use super::packed::unpacked;
use crate::Unread;
use crate::fingerprint::digits;
use crate::root::Root;

/// First words, after `CONFIG_`, of the names of options that matter for latency. The name of an
/// option either ends after that word or continues with `_`.
const KEPT: &[&str] = &[
    "BPF",
    "BUG",
    "CFS",
    "COMPACTION",
    "CPU",
    "DEBUG",
    "DETECT",
    "EFI",
    "FAIR",
    "FTRACE",
    "FUNCTION",
    "GCOV",
    "HARDLOCKUP",
    "HIGH",
    "HPET",
    "HWLAT",
    "HYPERVISOR",
    "HZ",
    "IKCONFIG",
    "INTEL_IDLE",
    "IRQ",
    "IRQSOFF",
    "JUMP",
    "KASAN",
    "KCOV",
    "KCSAN",
    "KPROBES",
    "KSM",
    "LATENCYTOP",
    "LOCK",
    "LOCKUP",
    "LTO",
    "MITIGATION",
    "NO",
    "NR",
    "NUMA",
    "OSNOISE",
    "PAGE",
    "PARAVIRT",
    "PM",
    "PREEMPT",
    "PREEMPTIRQ",
    "PROVE",
    "RCU",
    "RETPOLINE",
    "RT",
    "SCHED",
    "SLUB",
    "SMP",
    "SOFTLOCKUP",
    "STACK",
    "SUSPEND",
    "SWAP",
    "TASKS",
    "TICK",
    "TIMERLAT",
    "TRANSPARENT",
    "TREE",
    "UBSAN",
    "UCLAMP",
    "VIRT",
    "VMAP",
    "WQ",
    "X86_AMD_PSTATE",
    "X86_INTEL_PSTATE",
    "ZSWAP",
];

/// Names that must match completely, because hundreds of driver options begin with the same word.
const ALONE: &[&str] = &["DRM"];

/// Maximum number of characters of a stored value. Values that contain file names or versions are
/// longer.
const VALUE: usize = 80;

/// The kernel's configuration, or the reason why none was found.
pub(super) struct KernelConfig(Result<Found, NoConfig>);

struct Found {
    source: String,
    text: String,
}

/// The state of one option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting<'a> {
    /// Value of `CONFIG_X=…`, without surrounding quotes.
    Set(&'a str),
    /// The option is missing, or `# CONFIG_X is not set`.
    NotSet,
}

impl KernelConfig {
    /// Looks for the configuration in the places that kernels and distributions use: in the kernel
    /// itself (`CONFIG_IKCONFIG_PROC`), in /boot (Debian, Fedora, SUSE), and next to the modules
    /// (Fedora, Arch).
    pub(super) fn find(root: &Root, release: Option<&str>) -> Self {
        let mut reasons = Vec::new();
        for file in places(release) {
            match read(root, &file) {
                Ok(text) => return Self(Ok(Found { source: file, text })),
                // Most of these paths do not exist, which is not an error.
                Err(NotAConfig::Unread(Unread::NotThere)) => {}
                Err(reason) => reasons.push((file, reason)),
            }
        }
        Self(Err(if reasons.is_empty() {
            NoConfig::NoFile
        } else {
            NoConfig::NoneUsable(reasons)
        }))
    }

    /// Returns the path of the file that was found, or the usual path if none was found.
    pub(super) fn source(&self) -> &str {
        self.0
            .as_ref()
            .map_or("/proc/config.gz", |found| &found.source)
    }

    /// Returns the whole text, or the reason why there is none.
    pub(super) fn into_text(self) -> Result<String, NoConfig> {
        self.0.map(|found| found.text)
    }

    /// Returns a hash of all options that are set. The rest of the text has no influence on the
    /// hash.
    pub(super) fn digest(&self) -> Fact<String> {
        match &self.0 {
            Ok(found) => {
                let mut set: Vec<&str> = found.set().collect();
                set.sort_unstable();
                Fact::known(digits(&set.join("\n")), &found.source)
            }
            Err(reason) => Fact::unknown(self.source(), reason.to_string()),
        }
    }

    /// Returns the options that are set and matter for latency. Their names are returned without
    /// `CONFIG_`.
    pub(super) fn options(&self) -> BTreeMap<String, String> {
        let found = self.0.iter().flat_map(Found::set);
        let options = found.filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='));
        let kept = options.filter(|(name, _)| matters(name));
        kept.map(|(name, value)| {
            let value = value.trim_matches('"').chars().take(VALUE).collect();
            (name.to_owned(), value)
        })
        .collect()
    }

    /// Returns the state of `option`, which starts with `CONFIG_`, or the reason why no
    /// configuration was found.
    pub(super) fn get(&self, option: &str) -> Result<Setting<'_>, &NoConfig> {
        let found = self.0.as_ref()?;
        Ok(found
            .text
            .lines()
            .find_map(|line| line.strip_prefix(option)?.strip_prefix('='))
            .map_or(Setting::NotSet, |value| {
                Setting::Set(value.trim().trim_matches('"'))
            }))
    }

    /// Returns whether `option` is built in.
    pub(super) fn is_on(&self, option: &str) -> Result<bool, &NoConfig> {
        Ok(self.get(option)? == Setting::Set("y"))
    }
}

impl Found {
    /// Returns the lines that set an option.
    fn set(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines().map(str::trim_end);
        lines.filter(|line| line.starts_with("CONFIG_") && !line.ends_with("=n"))
    }
}

/// Returns whether recordings store an option, given its name without `CONFIG_`.
pub(crate) fn matters(option: &str) -> bool {
    ALONE.contains(&option)
        || KEPT.iter().any(|word| {
            let rest = option.strip_prefix(word);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
}

/// Returns the text of a configuration, compressed or not, or the reason why the bytes are not a
/// configuration.
pub(super) fn read(root: &Root, file: &str) -> Result<String, NotAConfig> {
    let bytes = root.bytes(file).map_err(|error| root.reason(&error))?;
    let bytes = unpacked(&bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(other) = of_other_program(&text) {
        return Err(other);
    }
    let is_option = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("# ").unwrap_or(line);
        line.starts_with("CONFIG_")
    };
    if text.lines().any(is_option) {
        Ok(text)
    } else {
        Err(NotAConfig::NoOptions)
    }
}

/// Programs that have the kernel's configuration system: the start of their options or of their
/// heading, their name, and the location of the kernel's own configuration.
const OTHERS: [(&str, &str, &str); 7] = [
    (
        "BR2_",
        "Buildroot",
        ": the kernel's own is output/build/linux-*/.config",
    ),
    (
        "PTXCONF_",
        "PTXdist",
        ": the kernel's own is platform-*/build-target/linux-*/.config",
    ),
    (
        "# OpenWrt ",
        "OpenWrt",
        ": the kernel's own is build_dir/target-*/linux-*/linux-*/.config",
    ),
    ("CT_", "crosstool-NG", ""),
    ("# Busybox ", "BusyBox", ""),
    ("# U-Boot ", "U-Boot", ""),
    ("# Xen/", "the Xen hypervisor", ""),
];

/// Returns an error if the text configures another program than the kernel.
fn of_other_program(text: &str) -> Option<NotAConfig> {
    let starts = |start: &str| text.lines().any(|line| line.starts_with(start));
    let is_option = |start: &str| !start.starts_with('#');
    // An option of another program decides only if there is none of the kernel.
    let has_own = starts("CONFIG_") || starts("# CONFIG_");
    let found = OTHERS
        .iter()
        .find(|(start, ..)| !(has_own && is_option(start)) && starts(start));
    found.map(|(_, name, place)| NotAConfig::OtherProgram(name, place))
}

fn places(release: Option<&str>) -> Vec<String> {
    let mut places = vec!["/proc/config.gz".to_owned()];
    // The release becomes part of a path, so it must not contain a separator.
    if let Some(release) = release.filter(|release| !release.contains('/')) {
        places.extend([
            format!("/boot/config-{release}"),
            format!("/lib/modules/{release}/config"),
            format!("/usr/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/build/.config"),
        ]);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    const TEXT: &str = "#\n# CONFIG_HZ_100 is not set\nCONFIG_HZ=250\nCONFIG_HZ_250=y\nCONFIG_LOCALVERSION=\"-rt\"\nCONFIG_X=m\n";

    fn find(files: &[(&str, &[u8])]) -> KernelConfig {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        KernelConfig::find(&Root::new(folder.path().to_owned()), Some("6.1-rt"))
    }

    fn packed() -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(TEXT.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn it_is_read_packed_and_plain() {
        for (file, bytes) in [
            ("proc/config.gz", packed().as_slice()),
            ("boot/config-6.1-rt", TEXT.as_bytes()),
            ("lib/modules/6.1-rt/config", TEXT.as_bytes()),
        ] {
            let config = find(&[(file, bytes)]);
            assert_eq!(config.source(), format!("/{file}"));
            assert_eq!(config.get("CONFIG_HZ"), Ok(Setting::Set("250")));
            assert_eq!(config.get("CONFIG_HZ_100"), Ok(Setting::NotSet));
            assert_eq!(config.get("CONFIG_LOCALVERSION"), Ok(Setting::Set("-rt")));
            assert_eq!(config.is_on("CONFIG_HZ_250"), Ok(true));
            assert_eq!(config.is_on("CONFIG_X"), Ok(false));
        }
    }

    #[test]
    fn configuration_is_partly_kept_with_full_hash() {
        let config = find(&[("boot/config-6.1-rt", TEXT.as_bytes())]);
        let kept = [("HZ", "250"), ("HZ_250", "y")];
        let kept = kept.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(config.options(), BTreeMap::from(kept));
        let digest = config.digest();
        let digest_of = |text: &str| find(&[("boot/config-6.1-rt", text.as_bytes())]).digest();
        let moved = TEXT.replace("CONFIG_X=m\n", "");
        assert_eq!(digest_of(&format!("# other\nCONFIG_X=m\n{moved}")), digest);
        assert_ne!(digest_of(&moved).value, digest.value);
        assert_eq!(digest.value.unwrap().len(), 16);
        assert_eq!(find(&[]).options(), BTreeMap::new());
        assert!(find(&[]).digest().unknown.is_some());
        for (option, kept) in [
            ("NO_HZ_FULL", true),
            ("NR_CPUS", true),
            ("NOZOMI", false),
            ("DRM", true),
            ("DRM_AST", false),
        ] {
            assert_eq!(matters(option), kept, "{option}");
        }
    }

    #[test]
    fn damaged_configuration_is_skipped_and_named() {
        let damaged = &packed()[..20];
        let config = find(&[("proc/config.gz", damaged)]);
        assert!(
            config
                .get("CONFIG_HZ")
                .unwrap_err()
                .to_string()
                .starts_with("/proc/config.gz: damaged gzip: "),
            "{:?}",
            config.get("CONFIG_HZ")
        );
        let config = find(&[
            ("proc/config.gz", damaged),
            ("boot/config-6.1-rt", TEXT.as_bytes()),
        ]);
        assert_eq!(config.source(), "/boot/config-6.1-rt");
        for (text, name) in [
            (
                "BR2_aarch64=y\nBR2_LINUX_KERNEL_CUSTOM_CONFIG_FILE=\"a\"\n",
                "Buildroot",
            ),
            (
                "#\n# OpenWrt Configuration\n#\nCONFIG_TARGET_x86=y\n",
                "OpenWrt",
            ),
            ("# U-Boot 2024.01 Configuration\nCONFIG_ARM=y\n", "U-Boot"),
        ] {
            let config = find(&[("boot/config-6.1-rt", text.as_bytes())]);
            let why = config.get("CONFIG_HZ").unwrap_err().to_string();
            assert!(
                why.contains(&format!("of {name}, not of a kernel")),
                "{why}"
            );
        }
        let config = find(&[("boot/config-6.1-rt", b"nothing")]);
        assert_eq!(
            config.get("CONFIG_HZ").unwrap_err().to_string(),
            "/boot/config-6.1-rt: has no options"
        );
        assert_eq!(find(&[]).get("CONFIG_HZ"), Err(&NoConfig::NoFile));
    }
}
