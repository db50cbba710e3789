//! Values in events other than numbers and threads.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Comm;

/// A text shared by many events, such as the name of an interrupt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub Arc<str>);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Ok(Self(text.as_ref().into()))
    }
}

/// An interrupt without a device handler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vector {
    /// The local timer, on which hrtimers expire.
    LocalTimer,
    /// A request from another CPU to reschedule.
    Reschedule,
    /// A request from another CPU to call functions on this CPU.
    CallFunction,
    /// A request to call a function on this CPU only.
    CallFunctionSingle,
    /// Work deferred to an interrupt.
    IrqWork,
    /// The thermal sensor.
    ThermalApic,
    /// A spurious interrupt.
    SpuriousApic,
    /// An error of the interrupt controller.
    ErrorApic,
    /// Another interrupt, named after its event without `_entry` and `_exit`.
    Other(Text),
}

impl Vector {
    /// Known vectors, with their names in `irq_vectors`.
    pub const NAMED: [(Self, &'static str); 8] = [
        (Self::LocalTimer, "local_timer"),
        (Self::Reschedule, "reschedule"),
        (Self::CallFunction, "call_function"),
        (Self::CallFunctionSingle, "call_function_single"),
        (Self::IrqWork, "irq_work"),
        (Self::ThermalApic, "thermal_apic"),
        (Self::SpuriousApic, "spurious_apic"),
        (Self::ErrorApic, "error_apic"),
    ];

    /// Returns the vector with this name.
    pub fn named(name: &str) -> Self {
        let known = Self::NAMED.iter().find(|(_, known)| *known == name);
        known.map_or_else(|| Self::Other(name.into()), |(vector, _)| vector.clone())
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Other(name) => &name.0,
            known => Self::NAMED
                .iter()
                .find(|(vector, _)| vector == known)
                .map_or("", |(_, name)| name),
        }
    }
}

/// The source of noise that the kernel's osnoise tracer reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the fields are the same as in the kernel's events"
)]
pub enum NoiseSource {
    /// `irq_noise`.
    Irq { vector: i32, desc: Text },
    /// `softirq_noise`.
    Softirq { vector: u32 },
    /// `thread_noise`.
    Thread { pid: u32, comm: Comm },
    /// `nmi_noise`.
    Nmi,
}

/// Point at which timerlat took a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerlatContext {
    /// In the timer's interrupt.
    Irq,
    /// In the thread that the timer woke.
    Thread,
    /// After that thread returned to user space.
    User,
}
