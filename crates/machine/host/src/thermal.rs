//! Temperatures of the thermal zones, and the trip points at which the kernel reacts.

use crate::root::Root;

const ZONES: &str = "/sys/class/thermal";

/// A thermal zone (kernel: Documentation/driver-api/thermal/sysfs-api.rst).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThermalZone {
    /// Type and number, such as `x86_pkg_temp (0)`.
    pub name: String,
    /// Temperature in 0.001 degrees Celsius.
    pub milli_celsius: i64,
    /// Lowest temperature in 0.001 degrees Celsius at which the kernel slows the machine down or
    /// switches it off; `None` if unknown.
    pub trip_milli_celsius: Option<i64>,
}

impl ThermalZone {
    /// Returns whether the temperature is high enough for the kernel to slow the machine down.
    pub fn is_hot(&self) -> bool {
        let trip = self.trip_milli_celsius;
        trip.is_some_and(|trip| self.milli_celsius >= trip)
    }
}

/// Returns each zone whose temperature can be read.
pub(crate) fn zones(root: &Root) -> Vec<ThermalZone> {
    let numbers = root.numbered(ZONES, "thermal_zone").unwrap_or_default();
    numbers
        .into_iter()
        .filter_map(|number| zone(root, number))
        .collect()
}

fn zone(root: &Root, number: u32) -> Option<ThermalZone> {
    let folder = format!("{ZONES}/thermal_zone{number}");
    let kind = root.text(&format!("{folder}/type")).unwrap_or_default();
    let read = |name: &str| -> Option<i64> {
        root.text(&format!("{folder}/{name}"))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let trips = (0..).map_while(|trip| {
        let kind = root
            .text(&format!("{folder}/trip_point_{trip}_type"))
            .ok()?;
        Some((kind, read(&format!("trip_point_{trip}_temp"))))
    });
    let lowest = trips
        .filter(|(kind, _)| matches!(kind.trim(), "passive" | "hot" | "critical"))
        // Firmware reports 0 or less if there is no such trip point.
        .filter_map(|(_, at)| at.filter(|at| *at > 0))
        .min();
    Some(ThermalZone {
        name: format!("{} ({number})", kind.trim()),
        milli_celsius: read("temp")?,
        trip_milli_celsius: lowest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_is_hot_from_lowest_trip() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join("sys/class/thermal").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("thermal_zone0/type", "x86_pkg_temp\n");
        put("thermal_zone0/temp", "84999\n");
        for (trip, kind, at) in [
            (0, "active", "50000"),
            (1, "critical", "105000"),
            (2, "passive", "85000"),
            (3, "hot", "0"),
        ] {
            put(&format!("thermal_zone0/trip_point_{trip}_type"), kind);
            put(&format!("thermal_zone0/trip_point_{trip}_temp"), at);
        }
        put("thermal_zone1/type", "acpitz\n");
        put("thermal_zone2/temp", "27800\n");
        let root = Root::new(folder.path().to_owned());
        let cool = zones(&root);
        // Zone 1 has no temperature, and zone 2 has no trip point.
        assert_eq!(cool.len(), 2, "{cool:?}");
        assert_eq!(cool[0].trip_milli_celsius, Some(85_000));
        assert!(!cool[0].is_hot() && !cool[1].is_hot());
        put("thermal_zone0/temp", "85000\n");
        assert!(zones(&root)[0].is_hot());
        assert_eq!(zones(&root)[0].name, "x86_pkg_temp (0)");
    }
}
