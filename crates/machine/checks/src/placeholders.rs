//! Replaces the placeholders in commands with the CPUs of this audit.

use punctual_model::CpuSet;

/// Replaces `{cpus}` and `{others}` with CPU lists. If every CPU is measured, `{cpus}` becomes
/// CPUS, and the user must choose the CPUs. Returns `None` if the text needs other CPUs and there
/// are none.
pub(crate) fn fill(text: &str, cpus: &CpuSet, others: &CpuSet) -> Option<String> {
    if text.contains("{others") && others.is_empty() {
        return None;
    }
    // If all CPUs are measured, the user must first choose some of them.
    let list = if others.is_empty() {
        "CPUS".to_owned()
    } else {
        cpus.to_string()
    };
    Some(
        text.replace("{cpus}", &list)
            .replace("{others}", &others.to_string()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_cpus() {
        let (cpus, others): (CpuSet, CpuSet) = ("2-3".parse().unwrap(), "0-1".parse().unwrap());
        let text = "{cpus} {others}";
        assert_eq!(fill(text, &cpus, &others).unwrap(), "2-3 0-1");
        assert_eq!(fill("{others}", &cpus, &CpuSet::new()), None);
        assert_eq!(fill("{cpus}", &cpus, &CpuSet::new()).unwrap(), "CPUS");
    }
}
