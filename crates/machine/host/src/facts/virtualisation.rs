//! Detects whether the machine is virtual, and its hypervisor.

use punctual_model::{Fact, VirtualisationFacts};

use super::cpuinfo::{CPUINFO, CpuInfo};
use crate::root::Root;

const DMI: &str = "/sys/class/dmi/id";
/// Two paths of the same table. The first does not exist if procfs is not mounted.
const DEVICE_TREE: [&str; 2] = [
    "/proc/device-tree/model",
    "/sys/firmware/devicetree/base/model",
];
/// File with the name that Xen and IBM hypervisors provide.
const HYPERVISOR_TYPE: &str = "/sys/hypervisor/type";

/// Vendors and models of virtual machines in DMI or the device tree. Each entry is the start of the
/// name, in lower case, and the hypervisor.
const VIRTUAL_MACHINES: &[(&str, &str)] = &[
    ("kvm", "KVM"),
    ("qemu", "QEMU"),
    ("linux,dummy-virt", "QEMU"),
    ("vmware", "VMware"),
    ("virtualbox", "VirtualBox"),
    ("innotek gmbh", "VirtualBox"),
    ("xen", "Xen"),
    ("hvm domu", "Xen"),
    ("bochs", "Bochs"),
    ("parallels virtual", "Parallels"),
    ("bhyve", "bhyve"),
    ("firecracker", "Firecracker"),
    ("virtual machine", "Hyper-V"),
    ("openstack", "KVM"),
    ("rhev hypervisor", "KVM"),
    ("apple virtualization", "Apple Virtualization"),
    ("google compute engine", "Google Compute Engine"),
    ("amazon ec2", "Amazon EC2"),
];

pub(super) fn facts(root: &Root, info: &CpuInfo) -> VirtualisationFacts {
    let machine = machine(root);
    let firmware_says = firmware_hypervisor(root, &machine);
    let virtual_machine = virtual_machine(root, info, &machine, &firmware_says);
    VirtualisationFacts {
        hypervisor: hypervisor(root, &virtual_machine, firmware_says),
        virtual_machine,
        machine,
        firmware: root.word(&format!("{DMI}/bios_version")),
    }
}

/// Returns the maker and model from DMI, or else the board's name from the device tree.
fn machine(root: &Root) -> Fact<String> {
    let product = root.word(&format!("{DMI}/product_name"));
    let vendor = root.word(&format!("{DMI}/sys_vendor"));
    match (vendor.value, product.value) {
        (Some(vendor), Some(product)) if !product.starts_with(&vendor) => {
            Fact::known(format!("{vendor} {product}"), DMI)
        }
        (_, Some(product)) => Fact::known(product, DMI),
        (Some(vendor), None) => Fact::known(vendor, DMI),
        (None, None) => DEVICE_TREE
            .iter()
            .map(|file| root.word(file))
            .find(|board| board.value.is_some())
            .unwrap_or(Fact {
                value: None,
                source: DMI.to_owned(),
                unknown: product.unknown,
            }),
    }
}

/// Detects the hypervisor by the vendor and model that the firmware reports.
fn firmware_hypervisor(root: &Root, machine: &Fact<String>) -> Option<Fact<String>> {
    let product = root.word(&format!("{DMI}/product_name"));
    // Bare-metal machines from Amazon and others also report the vendor's name.
    let metal = product.get().is_some_and(|name| name.ends_with(".metal"));
    if metal {
        return None;
    }
    let vendor = root.word(&format!("{DMI}/sys_vendor"));
    [product, vendor, machine.clone()]
        .into_iter()
        .find_map(|name| {
            let text = name.value?.to_lowercase();
            let known = VIRTUAL_MACHINES
                .iter()
                .find(|(start, _)| text.starts_with(start))?;
            Some(Fact::known(known.1.to_owned(), name.source))
        })
}

/// Returns whether the machine is virtual. x86 processors have a flag that indicates a hypervisor.
/// Some hypervisors hide the flag but not their firmware. On other architectures, the names in the
/// firmware decide: a board counts as bare metal unless its name is that of a known virtual
/// machine.
fn virtual_machine(
    root: &Root,
    info: &CpuInfo,
    machine: &Fact<String>,
    firmware: &Option<Fact<String>>,
) -> Fact<bool> {
    if info.flag("hypervisor") == Some(true) {
        return Fact::known(true, CPUINFO);
    }
    let named = root.word(HYPERVISOR_TYPE);
    if named.value.is_some() {
        return Fact::known(true, HYPERVISOR_TYPE);
    }
    if let Some(firmware) = firmware {
        return Fact::known(true, firmware.source.clone());
    }
    match (info.flag("hypervisor"), &machine.value) {
        (Some(false), _) => Fact::known(false, CPUINFO),
        (_, Some(_)) => Fact::known(false, machine.source.clone()),
        _ => Fact::unknown(CPUINFO, "neither the processor nor the firmware reports it"),
    }
}

fn hypervisor(
    root: &Root,
    virtual_machine: &Fact<bool>,
    firmware: Option<Fact<String>>,
) -> Fact<String> {
    let named = root.word(HYPERVISOR_TYPE);
    if virtual_machine.value == Some(false) {
        return Fact::unknown(HYPERVISOR_TYPE, "not a virtual machine");
    }
    if named.value.is_some() {
        return named;
    }
    let cpuid = root.is_live().then(cpuid_hypervisor).flatten();
    cpuid.or(firmware).unwrap_or(named)
}

/// Returns the twelve-letter signature of the hypervisor in CPUID leaf 0x40000000, or its common
/// name if known.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn cpuid_hypervisor() -> Option<Fact<String>> {
    use raw_cpuid::{CpuId, Hypervisor};
    let name = match CpuId::new().get_hypervisor_info()?.identify() {
        Hypervisor::Xen => "Xen".to_owned(),
        Hypervisor::VMware => "VMware".to_owned(),
        Hypervisor::HyperV => "Hyper-V".to_owned(),
        Hypervisor::KVM => "KVM".to_owned(),
        Hypervisor::QEMU => "QEMU".to_owned(),
        Hypervisor::Bhyve => "bhyve".to_owned(),
        Hypervisor::QNX => "QNX".to_owned(),
        Hypervisor::ACRN => "ACRN".to_owned(),
        Hypervisor::Unknown(ebx, ecx, edx) => signature([ebx, ecx, edx])?,
    };
    Some(Fact::known(name, "CPUID 0x40000000"))
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
fn cpuid_hypervisor() -> Option<Fact<String>> {
    None
}

/// Returns the printable characters of a signature.
#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn signature(registers: [u32; 3]) -> Option<String> {
    let letters: String = registers
        .iter()
        .flat_map(|register| register.to_le_bytes())
        .filter(|byte| byte.is_ascii_graphic())
        .map(char::from)
        .collect();
    (!letters.is_empty()).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn facts_of(files: &[(&str, &str)]) -> VirtualisationFacts {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(&name[1..]);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path().to_owned());
        facts(&root, &CpuInfo::read(&root))
    }

    const VENDOR: &str = "/sys/class/dmi/id/sys_vendor";
    const PRODUCT: &str = "/sys/class/dmi/id/product_name";
    const METAL: (&str, &str) = (CPUINFO, "flags : fpu vmx\n");
    const GUEST: (&str, &str) = (CPUINFO, "flags : fpu hypervisor\n");

    #[test]
    fn flag_file_and_firmware_reveal_hypervisors() {
        for (files, name) in [
            (vec![GUEST, (VENDOR, "QEMU\n")], Some("QEMU")),
            (vec![GUEST, (PRODUCT, "VMware20,1\n")], Some("VMware")),
            (vec![METAL, (PRODUCT, "VirtualBox\n")], Some("VirtualBox")),
            (vec![(HYPERVISOR_TYPE, "xen\n")], Some("xen")),
            (vec![(DEVICE_TREE[0], "linux,dummy-virt\0")], Some("QEMU")),
            (
                vec![
                    GUEST,
                    (VENDOR, "Microsoft Corporation\n"),
                    (PRODUCT, "Virtual Machine\n"),
                ],
                Some("Hyper-V"),
            ),
            (vec![GUEST], None),
        ] {
            let facts = facts_of(&files);
            assert_eq!(facts.virtual_machine.value, Some(true), "{files:?}");
            assert_eq!(facts.hypervisor.value.as_deref(), name, "{files:?}");
        }
    }

    #[test]
    fn metal_is_not_taken_for_a_guest() {
        for files in [
            vec![METAL],
            vec![METAL, (VENDOR, "Amazon EC2\n"), (PRODUCT, "c5.metal\n")],
            vec![
                METAL,
                (VENDOR, "Microsoft Corporation\n"),
                (PRODUCT, "Surface Pro\n"),
            ],
            vec![(DEVICE_TREE[1], "Raspberry Pi 4 Model B Rev 1.4\0")],
        ] {
            let facts = facts_of(&files);
            assert_eq!(facts.virtual_machine.value, Some(false), "{files:?}");
            assert_eq!(
                facts.hypervisor.unknown.as_deref(),
                Some("not a virtual machine")
            );
        }
        assert_eq!(facts_of(&[]).virtual_machine.value, None);
    }

    #[test]
    fn the_maker_is_not_said_twice() {
        let machine = |vendor, product| {
            facts_of(&[(VENDOR, vendor), (PRODUCT, product)])
                .machine
                .value
                .unwrap()
        };
        assert_eq!(
            machine("Dell Inc.", "PowerEdge R650"),
            "Dell Inc. PowerEdge R650"
        );
        assert_eq!(machine("Foo", "Foo Box"), "Foo Box");
    }

    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    #[test]
    fn a_signature_is_its_letters() {
        assert_eq!(signature([0x6564_6362, 0, 0x66]), Some("bcdef".to_owned()));
        assert_eq!(signature([0; 3]), None);
    }
}
