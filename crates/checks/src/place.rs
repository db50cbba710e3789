//! What is filled into commands: the CPUs of this audit.

use punctual_model::CpuSet;

/// Replaces `{cpus}` (CPUS where every CPU counts, to be chosen), `{others}`
/// (lists), `{others_mask}` (the kernel's
/// hexadecimal masks) and `{each}` (the measured CPUs one by one, for a shell
/// loop). `None` where there are no other CPUs and the text needs them.
pub(crate) fn fill(text: &str, cpus: &CpuSet, others: &CpuSet) -> Option<String> {
    if text.contains("{others") && others.is_empty() {
        return None;
    }
    // Where all CPUs count there is a choice to be made first.
    let list = match others.is_empty() {
        true => "CPUS".to_owned(),
        false => cpus.to_string(),
    };
    let each: Vec<String> = cpus.iter().map(|cpu| cpu.to_string()).collect();
    Some(
        text.replace("{cpus}", &list)
            .replace("{others}", &others.to_string())
            .replace("{others_mask}", &mask(others))
            .replace("{each}", &each.join(" ")),
    )
}

/// The set as the kernel writes masks: groups of eight hexadecimal digits,
/// the highest CPUs first.
pub(crate) fn mask(cpus: &CpuSet) -> String {
    let groups = cpus.iter().next_back().map_or(0, |cpu| cpu as usize / 32);
    let mut words = vec![0u32; groups + 1];
    for cpu in cpus.iter() {
        words[cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let mut text = format!("{:x}", words[groups]);
    for word in words[..groups].iter().rev() {
        text.push_str(&format!(",{word:08x}"));
    }
    text
}

/// Reads such a mask; `None` where it is none.
pub(crate) fn read_mask(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    let mut any = false;
    for (group, word) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        any = true;
        for bit in (0..32).filter(|bit| bits & (1 << bit) != 0) {
            let cpu = u32::try_from(group).ok()?.checked_mul(32)? + bit;
            if cpu > CpuSet::MAX_CPU {
                return None;
            }
            cpus.insert(cpu);
        }
    }
    any.then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn masks_are_those_of_the_kernel() {
        let set = |list: &str| list.parse::<CpuSet>().unwrap();
        assert_eq!(mask(&set("0-1")), "3");
        assert_eq!(mask(&set("32-63")), "ffffffff,00000000");
        assert_eq!(mask(&set("")), "0");
        assert_eq!(read_mask("00000000,00000003\n"), Some(set("0-1")));
        assert_eq!(read_mask(""), None);
        assert_eq!(read_mask("0-3"), None);
        assert_eq!(read_mask(&"f,".repeat(9_000)), None);
    }

    #[test]
    fn commands_name_the_cpus() {
        let (cpus, others): (CpuSet, CpuSet) = ("2-3".parse().unwrap(), "0-1".parse().unwrap());
        let text = "{cpus} {others} {others_mask} {each}";
        assert_eq!(fill(text, &cpus, &others).unwrap(), "2-3 0-1 3 2 3");
        assert_eq!(fill("{others}", &cpus, &CpuSet::new()), None);
        assert_eq!(fill("{cpus}", &cpus, &CpuSet::new()).unwrap(), "CPUS");
    }

    proptest! {
        #[test]
        fn a_mask_is_read_back(cpus in proptest::collection::btree_set(0u32..500, 0..40)) {
            let set: CpuSet = cpus.into_iter().collect();
            prop_assert_eq!(read_mask(&mask(&set)), Some(set));
        }

        #[test]
        fn no_mask_panics(text in "[0-9a-f,x]{0,60}|\\PC{0,20}") {
            let _ = read_mask(&text);
        }
    }
}
