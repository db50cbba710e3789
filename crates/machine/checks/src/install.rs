//! Instructions for installing a real-time kernel, by distribution. The steps are only printed,
//! never run.

/// The instructions for one family of distributions.
#[derive(Debug)]
pub struct Distribution {
    /// Name on the command line.
    pub name: &'static str,
    /// Values of `ID` in os-release(5) that belong to the family.
    pub ids: &'static [&'static str],
    /// Name shown to users.
    pub title: &'static str,
    /// Shell commands or comments. `{arch}` becomes Debian's name for the architecture, and
    /// `{machine}` the output of `uname -m`.
    pub steps: &'static [&'static str],
    /// Source of the steps, and the date on which each part was looked up.
    pub source: &'static str,
}

/// Error for a distribution without known steps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no installation steps are known for the distribution '{0}': pass --distribution with one of \
     {names}, or build a kernel with the options of `punctual machine kernel fragment`",
    names = names()
)]
pub struct InstallError(String);

/// All families of distributions with known steps.
pub const DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        name: "debian",
        ids: &["debian"],
        title: "Debian",
        steps: &[
            "sudo apt update",
            "sudo apt install linux-image-rt-{arch}   # Debian 12 and 13; amd64, arm64 and armmp",
            "# If modules are built on this machine (DKMS), also install linux-headers-rt-{arch}.",
            "# GRUB boots the newest kernel. To boot another kernel, set GRUB_DEFAULT in",
            "# /etc/default/grub and run sudo update-grub.",
            "sudo reboot",
        ],
        source: "packages.debian.org, linux-image-rt (looked up November 2026)",
    },
    Distribution {
        name: "ubuntu",
        ids: &["ubuntu"],
        title: "Ubuntu",
        steps: &[
            "# Ubuntu 22.04 and 24.04 LTS need a subscription (free for personal use):",
            "sudo pro attach",
            "sudo pro enable realtime-kernel   # on a Raspberry Pi, add --variant=raspi",
            "# Ubuntu 25.10, 26.04 LTS and later have a package and need no subscription:",
            "# sudo apt install ubuntu-realtime",
            "sudo reboot",
        ],
        source: "packages.ubuntu.com, ubuntu-realtime of 25.10 and 26.04; guides that enable it \
                 with Ubuntu Pro (looked up November 2026)",
    },
    Distribution {
        name: "rhel",
        ids: &["rhel", "centos", "rocky", "almalinux", "ol"],
        title: "Red Hat Enterprise Linux and compatible distributions",
        steps: &[
            "# These steps are for Red Hat Enterprise Linux 9. For 8 or 10, replace the 9 below.",
            "# Register the system with a subscription that includes real time. On aarch64,",
            "# the real-time kernel of release 10 is a technology preview.",
            "sudo subscription-manager repos --enable rhel-9-for-{machine}-rt-rpms",
            "# On CentOS Stream, Rocky Linux and AlmaLinux, enable the repository rt instead:",
            "# sudo dnf config-manager --set-enabled rt",
            "# Oracle Linux has no real-time kernel: build one with punctual machine kernel fragment.",
            "sudo dnf install kernel-rt",
            "# Make it the default kernel:",
            "sudo grubby --set-default $(ls -v /boot/vmlinuz-*rt* | tail -1)",
            "sudo reboot",
        ],
        source: "docs.redhat.com, Installing RHEL for Real Time (9 and 10); release notes of Rocky Linux 8.4, bootc's guide for CentOS Stream 10, almalinux-rt.repo; docs.oracle.com, Oracle Linux 9 Kernel Reference (looked up November 2026)",
    },
    Distribution {
        name: "fedora",
        ids: &["fedora"],
        title: "Fedora",
        steps: &[
            "# Fedora packages no real-time kernel. A COPR, which Fedora does not support, has",
            "# the package kernel-cachyos-rt: see github.com/CachyOS/copr-linux-cachyos.",
            "# From Linux 6.12 on, you can build a real-time kernel from Fedora's own sources:",
            "sudo dnf install fedpkg fedora-packager rpmdevtools ncurses-devel pesign",
            "fedpkg clone -a kernel && cd kernel",
            "fedpkg switch-branch f$(rpm -E %fedora)   # the branch of this release, not Rawhide",
            "sudo dnf builddep kernel.spec",
            "# Options in kernel-local are merged into all configurations of the build:",
            "punctual machine kernel fragment >> kernel-local",
            "sed -i 's/^# define buildid .local/%define buildid .rt/' kernel.spec",
            "# The build stops if an option is not set. Add each option that it names to",
            "# kernel-local, and run this command again:",
            "fedpkg local",
            "cd {machine}",
            "sudo dnf install --nogpgcheck ./kernel-[0-9]*.rpm ./kernel-core-[0-9]*.rpm \\",
            "  ./kernel-modules-[0-9]*.rpm ./kernel-modules-core-[0-9]*.rpm",
            "# With Secure Boot, this kernel boots only if you sign it with your own key.",
            "sudo reboot",
        ],
        source: "github.com/CachyOS/copr-linux-cachyos; fedoramagazine.org, Changing Fedora kernel configuration options; src.fedoraproject.org/rpms/kernel; users' notes on fedpkg local (looked up November 2026; not tried)",
    },
    Distribution {
        name: "suse",
        ids: &[
            "sles",
            "sled",
            "sle_rt",
            "opensuse-leap",
            "opensuse-tumbleweed",
            "suse",
        ],
        title: "SUSE",
        steps: &[
            "# SUSE Linux Enterprise 15 needs a registration for real time. Replace 15.7 with your",
            "# service pack:",
            "sudo SUSEConnect -p sle-module-rt/15.7/{machine}",
            "# openSUSE needs no registration. Tumbleweed and Leap 15.6 have the package;",
            "# Leap 16.0 does not have it.",
            "sudo zypper install kernel-rt",
            "sudo reboot",
        ],
        source: "build.opensuse.org, sle-module-rt of 15 SP7; software.opensuse.org/package/kernel-rt (looked up November 2026)",
    },
    Distribution {
        name: "arch",
        ids: &["arch", "archarm", "endeavouros", "cachyos"],
        title: "Arch Linux",
        steps: &[
            "# The package linux-rt has the newest kernel, and linux-rt-lts a long-term kernel.",
            "# Both are in the repository extra for x86_64. CachyOS has linux-cachyos-rt-bore.",
            "sudo pacman -S linux-rt-lts",
            "# Add the kernel to the boot loader's menu. With GRUB:",
            "sudo grub-mkconfig -o /boot/grub/grub.cfg",
            "sudo reboot",
        ],
        source: "archlinux.org/packages, linux-rt and linux-rt-lts; wiki.archlinux.org, Kernel; github.com/CachyOS/linux-cachyos (looked up November 2026)",
    },
    Distribution {
        name: "manjaro",
        ids: &["manjaro"],
        title: "Manjaro",
        steps: &[
            "mhwd-kernel --list              # names that end in -rt are real-time kernels",
            "sudo mhwd-kernel -i linux612-rt # use a name from that list",
            "# The other kernels stay installed: choose the new one in the boot loader's menu.",
            "sudo reboot",
        ],
        source: "github.com/manjaro/mhwd, mhwd-kernel; Manjaro's package linux612-rt, 6.12.89_rt18 (looked up November 2026)",
    },
    Distribution {
        name: "yocto",
        ids: &["poky", "nodistro", "oe", "openembedded"],
        title: "Yocto",
        steps: &[
            "# Add to conf/local.conf or to the machine's configuration:",
            "#   PREFERRED_PROVIDER_virtual/kernel = \"linux-yocto-rt\"",
            "# For a board with a custom kernel, add a fragment to SRC_URI in the board's layer:",
            "#   punctual machine kernel fragment > realtime.cfg",
            "bitbake core-image-rt",
            "# core-image-rt-sdk also contains tools. Write the image to the board and boot it.",
        ],
        source: "openembedded-core, meta/recipes-rt/images/core-image-rt.bb and meta/recipes-kernel/linux/linux-yocto-rt (looked up November 2026)",
    },
    Distribution {
        name: "raspberry-pi-os",
        ids: &["raspbian"],
        title: "Raspberry Pi OS",
        steps: &[
            "# The 64-bit edition identifies itself as debian, but Debian's own kernel is not for",
            "# this board.",
            "sudo apt update",
            "sudo apt install linux-image-rpi-v8-rt   # also for a Pi 5 with 4 KiB pages",
            "ls /boot/firmware/kernel8*rt.img         # prints the file name for the next line",
            "echo kernel=kernel8_rt.img | sudo tee -a /boot/firmware/config.txt",
            "# To return to the previous kernel, remove this line from config.txt.",
            "# For a Pi 5 with 16 KiB pages, build bcm2712_defconfig from",
            "# github.com/raspberrypi/linux with punctual machine kernel fragment.",
            "# Set kernel parameters with punctual tune cmdline write: cmdline.txt must remain a",
            "# single line.",
            "sudo reboot",
        ],
        source: "users' notes on linux-image-rpi-v8-rt of Debian 13; github.com/raspberrypi/linux, bcm2711_rt_defconfig of rpi-6.12.y (looked up November 2026; not tried)",
    },
    Distribution {
        name: "jetson",
        ids: &["l4t"],
        title: "NVIDIA Jetson Linux",
        steps: &[
            "# Jetson Linux identifies itself as ubuntu, but Ubuntu's real-time kernel does not",
            "# support the board.",
            "cat /etc/nv_tegra_release     # prints the release, such as R36 (revision 4)",
            "# Replace r36.4 with this release:",
            "echo 'deb https://repo.download.nvidia.com/jetson/rt-kernel r36.4 main' |",
            "  sudo tee -a /etc/apt/sources.list.d/nvidia-l4t-apt-source.list",
            "sudo apt update",
            "sudo apt install nvidia-l4t-rt-kernel nvidia-l4t-rt-kernel-headers \\",
            "  nvidia-l4t-rt-kernel-oot-modules nvidia-l4t-display-rt-kernel",
            "# A Jetson Thor also needs nvidia-l4t-rt-kernel-openrm. The label after DEFAULT in",
            "# /boot/extlinux/extlinux.conf selects the kernel to boot. Keep the old label, so",
            "# that you can return to the old kernel.",
            "sudo reboot",
        ],
        source: "docs.nvidia.com, Jetson Linux Developer Guide R38.4, Installing Real-Time Kernel (looked up November 2026; not tried)",
    },
    Distribution {
        name: "buildroot",
        ids: &["buildroot"],
        title: "Buildroot",
        steps: &[
            "# Write a fragment that the build merges into the kernel's configuration:",
            "punctual machine kernel fragment > board/realtime.config",
            "# Set in make menuconfig (under Kernel) or in the board's defconfig:",
            "#   BR2_LINUX_KERNEL_CONFIG_FRAGMENT_FILES=\"board/realtime.config\"",
            "# A kernel before 6.12 needs the PREEMPT_RT patches:",
            "#   BR2_LINUX_KERNEL_PATCH=\"https://cdn.kernel.org/.../patch-6.6.x-rtN.patch.xz\"",
            "make linux-reconfigure && make",
            "# Write the image to the board and boot it.",
        ],
        source: "configurations of boards that use BR2_LINUX_KERNEL_CONFIG_FRAGMENT_FILES (looked up November 2026; not tried)",
    },
];

/// Steps to take after the reboot to verify that the real-time kernel is running.
const AFTER: &str = "\
# After the boot:
uname -v                      # prints PREEMPT_RT
cat /sys/kernel/realtime      # prints 1 (some kernels lack this file)
punctual doctor               # the check kernel-preempt-rt must be ok
punctual measure timer -D 60s # measures the latency of the new kernel
";

/// Returns the steps for a distribution. `distribution` is its name on the command line or its `ID`
/// in os-release(5). If it is unknown, the first known name in `like` (its `ID_LIKE`) is used, and
/// a remark is added. `machine` is the output of `uname -m`.
///
/// # Errors
/// Returns an error if neither `distribution` nor a name in `like` is known.
pub fn steps(distribution: &str, like: &[String], machine: &str) -> Result<String, InstallError> {
    let of = |name: &str| {
        let known = |family: &&Distribution| family.name == name || family.ids.contains(&name);
        DISTRIBUTIONS.iter().find(known)
    };
    let own = of(distribution);
    let family = own
        .or_else(|| like.iter().find_map(|name| of(name)))
        .ok_or_else(|| InstallError(shown(distribution)))?;
    let arch = match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" => "armmp",
        other => other,
    };
    let mut text = comment(&format!(
        "How to install a real-time kernel on {}. This command only prints the steps.",
        family.title
    ));
    if own.is_none() {
        text.push_str(&comment(&format!(
            "{} is not known, but its os-release names {} as a similar distribution. These are the \
             steps for that distribution: first check whether the package exists.",
            shown(distribution),
            family.title
        )));
    }
    text.push_str(&comment(&format!("Source: {}.", family.source)));
    text.push('\n');
    for step in family.steps {
        text.push_str(&step.replace("{arch}", arch).replace("{machine}", machine));
        text.push('\n');
    }
    text.push('\n');
    text.push_str(AFTER);
    Ok(text)
}

/// The steps to build a real-time kernel from the sources of kernel.org.
const FROM_SOURCE: &str = "\
# How to build a real-time kernel from source. This command only prints the steps.
# Source: kernel.org; Documentation/admin-guide/README.rst; wiki.linuxfoundation.org,
#  realtime (looked up November 2026).

# Tools of Debian and Ubuntu; other distributions have the same programs:
sudo apt install build-essential flex bison bc libssl-dev libelf-dev dwarves curl xz-utils

# Download. Choose a release on kernel.org; long-term releases suit real-time systems.
VERSION=6.12.50
curl -O https://cdn.kernel.org/pub/linux/kernel/v${VERSION%%.*}.x/linux-$VERSION.tar.xz
tar xf linux-$VERSION.tar.xz && cd linux-$VERSION

# Patch. From Linux 6.12 on, PREEMPT_RT needs no patch on x86, arm64 and RISC-V. For an
# earlier kernel, use the patch whose version matches the kernel exactly:
# PATCH=patch-6.6.87-rt54     # see cdn.kernel.org/pub/linux/kernel/projects/rt/
# curl -O https://cdn.kernel.org/pub/linux/kernel/projects/rt/6.6/$PATCH.patch.xz
# xzcat $PATCH.patch.xz | patch -p1

# Configure. Begin with the configuration of the running kernel:
cp /boot/config-$(uname -r) .config || zcat /proc/config.gz > .config
punctual machine kernel fragment > realtime.config
scripts/kconfig/merge_config.sh -m .config realtime.config
make olddefconfig
punctual machine kernel check --config .config
# Keys that only the distribution has would stop the build:
scripts/config --disable SYSTEM_TRUSTED_KEYS --disable SYSTEM_REVOCATION_KEYS

# Build and install. GRUB's menu gets the new kernel; the old one stays installed.
make -j$(nproc)
sudo make modules_install
sudo make install
sudo reboot

";

/// Returns the steps to build a real-time kernel from source.
pub fn steps_from_source() -> String {
    format!("{FROM_SOURCE}{AFTER}")
}

/// Formats a text as shell comments that fit the width of a terminal.
fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 1 && last + 1 + word.chars().count() > 80 {
            lines.push(String::from("#  "));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the names for the command line, separated by commas.
pub fn names() -> String {
    let names: Vec<&str> = DISTRIBUTIONS.iter().map(|family| family.name).collect();
    names.join(", ")
}

/// Removes control characters, which a terminal would interpret, from a name that was read from a
/// file.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_build_has_all_its_steps() {
        let text = steps_from_source();
        let steps = [
            "curl -O",
            "patch -p1",
            "make olddefconfig",
            "make -j",
            "make install",
        ];
        let places: Vec<usize> = (steps.iter())
            .map(|step| text.find(step).unwrap_or_else(|| panic!("no {step}")))
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(text.lines().all(|line| line.chars().count() <= 90));
    }

    #[test]
    fn each_family_has_steps_and_a_source() {
        for family in DISTRIBUTIONS {
            for id in family.ids.iter().chain([&family.name]) {
                let text = steps(id, &[], "x86_64").unwrap();
                for line in text.lines() {
                    assert!(line.chars().count() <= 90, "{line}");
                }
                assert!(family.source.contains("looked up"), "{id}");
                assert!(text.contains("/sys/kernel/realtime"), "{id}");
                assert!(!text.contains('{'), "{text}");
            }
        }
        assert!(
            steps("debian", &[], "aarch64")
                .unwrap()
                .contains("linux-image-rt-arm64")
        );
    }

    #[test]
    fn derived_distribution_gets_its_parents_steps() {
        let like = ["ubuntu".to_owned(), "debian".to_owned()];
        let text = steps("linuxmint", &like, "x86_64").unwrap();
        assert!(text.contains("pro enable realtime-kernel"), "{text}");
        assert!(text.contains("linuxmint is not known"), "{text}");
        let own = steps("ubuntu", &like[1..], "x86_64").unwrap();
        assert!(!own.contains("is not known"), "{own}");
    }

    #[test]
    fn another_is_refused_with_the_names() {
        let error = steps("plan\u{1b}9", &[], "x86_64").unwrap_err().to_string();
        assert!(
            error.contains("'plan9'") && error.contains("yocto"),
            "{error}"
        );
    }

    #[test]
    fn steps_fit_the_processor() {
        for (machine, package) in [
            ("x86_64", "linux-image-rt-amd64"),
            ("aarch64", "linux-image-rt-arm64"),
            ("armv7l", "linux-image-rt-armmp"),
            ("riscv64", "linux-image-rt-riscv64"),
        ] {
            let text = steps("debian", &[], machine).unwrap();
            assert!(text.contains(package), "{machine}: {text}");
        }
        let rhel = steps("rocky", &[], "aarch64").unwrap();
        assert!(rhel.contains("rhel-9-for-aarch64-rt-rpms"), "{rhel}");
        // The name on the command line and the IDs of os-release(5) have the same steps.
        assert_eq!(rhel, steps("rhel", &[], "aarch64").unwrap());
    }

    #[test]
    fn steps_have_a_heading_a_source_and_checks() {
        let text = steps("ubuntu", &[], "x86_64").unwrap();
        let head = "# How to install a real-time kernel on Ubuntu. This command only prints the\n\
                    #   steps.\n# Source: packages.ubuntu.com";
        assert!(text.starts_with(head), "{text}");
        assert!(text.ends_with(AFTER));
        let parts: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(parts.len(), 3, "{text}");
        assert!(parts[1].starts_with("# Ubuntu 22.04") && parts[1].ends_with("sudo reboot"));
    }

    #[test]
    fn comments_wrap_at_80_characters() {
        assert_eq!(comment("a b"), "# a b\n");
        let fits = format!("{} {}", "a".repeat(38), "b".repeat(39));
        assert_eq!(comment(&fits), format!("# {fits}\n"));
        assert_eq!(comment(&fits).trim_end().len(), 80);
        let long = format!("{} {}", "a".repeat(38), "b".repeat(40));
        let wrapped = format!("# {}\n#   {}\n", "a".repeat(38), "b".repeat(40));
        assert_eq!(comment(&long), wrapped);
        // A word that is longer than a line is not divided.
        let word = "w".repeat(100);
        assert_eq!(comment(&word), format!("# {word}\n"));
    }

    #[test]
    fn names_are_listed_and_unknown_ones_are_cut() {
        assert!(
            names().starts_with("debian, ubuntu, rhel, fedora"),
            "{}",
            names()
        );
        assert!(names().split(", ").count() == DISTRIBUTIONS.len());
        assert_eq!(shown("a\nb\u{7}c"), "abc");
        assert_eq!(shown(&"x".repeat(41)), "x".repeat(40));
        // The first known name in ID_LIKE counts.
        let like = ["plan9".to_owned(), "debian".to_owned(), "ubuntu".to_owned()];
        let text = steps("own", &like, "x86_64").unwrap();
        assert!(
            text.contains("linux-image-rt-amd64") && !text.contains("pro attach"),
            "{text}"
        );
    }
}
