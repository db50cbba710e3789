//! What events hold beside numbers and threads.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Comm;
use crate::schema::JsonSchema;

/// A text shared by many events: an interrupt's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct Text(#[schemars(with = "String")] pub Arc<str>);

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

/// An interrupt that has no handler of a device.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Vector {
    /// The local timer: hrtimers expire here.
    LocalTimer,
    /// Another CPU asks the scheduler to come.
    Reschedule,
    /// Another CPU has functions to be called here.
    CallFunction,
    /// The same, for this CPU alone.
    CallFunctionSingle,
    /// Work that was put off to an interrupt.
    IrqWork,
    /// The thermal sensor.
    ThermalApic,
    /// One that nobody asked for.
    SpuriousApic,
    /// An error of the interrupt controller.
    ErrorApic,
    /// Another, by the name of its event without `_entry` and `_exit`.
    Other(Text),
}

impl Vector {
    /// Each with its name in `irq_vectors`.
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

    /// Of this name.
    pub fn named(name: &str) -> Self {
        let known = Self::NAMED.iter().find(|(_, known)| *known == name);
        known.map_or_else(|| Self::Other(name.into()), |(vector, _)| vector.clone())
    }

    /// Its name.
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

/// Whose noise the kernel's osnoise tracer reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the fields are those of the kernel's events")]
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

/// Where timerlat took its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimerlatContext {
    /// In the timer's interrupt.
    Irq,
    /// In the thread it woke.
    Thread,
    /// When that thread was back in user space.
    User,
}
