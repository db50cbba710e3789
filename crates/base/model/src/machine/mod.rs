//! The machine: its facts, CPUs, interrupts and power.

mod core_type;
mod fact_set;
mod facts;
mod interference;
mod interrupt;
mod interruptions;
mod power;
mod reserved;
mod topology;

pub use core_type::CoreType;
pub use fact_set::{
    FACT_SET_SCHEMA, FactSet, FactSetError, Reading, TaskFact, name_matches, path_matches,
};
pub use facts::{
    ClockFacts, CpuFacts, DistributionFacts, Fact, HostFacts, IdleState, KernelFacts, MemoryFacts,
    ProcessorFacts, VirtualisationFacts,
};
pub use interference::{CounterDelta, CpuInterference, GroupThrottle, Interference};
pub use interrupt::{HandlerThread, InterruptKind, InterruptRecord};
pub use interruptions::{
    Interruptions, KeptTicks, SentInterrupts, TICK_DEPENDENCIES, TickReasons, tick_dependencies,
};
pub use power::{
    EnergyUse, FrequencyUse, IdleUse, Power, PowerPoint, ResidencyUse, TemperatureUse,
};
pub use reserved::ReservedCpus;
pub use topology::{Cache, CpuLocation, MemoryNode, Placement, PlacementError, Topology};

#[cfg(test)]
mod tests;
