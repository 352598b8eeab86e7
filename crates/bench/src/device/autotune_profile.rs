//! Mode `profile`: the engine's own measurement of a device, and the protocol that it chooses from
//! it.

use std::num::NonZeroU16;

use namiki::{Isolation, TunedConfig};
use namiki_platform::disk::{DeviceProfile, open_best};
use namiki_platform::machine::Machine;
use serde::Serialize;

use crate::error::BenchError;
use crate::result_writer::{Cell, Row};
use crate::run_folder::Place;

/// A result. The keys are a stable contract.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProfileRow<'a> {
    mode: &'static str,
    flush_us: f64,
    writers: u16,
    parallelism: f64,
    cores: u16,
    serializable: String,
    strictly_serializable: String,
    streams: u16,
    epoch_ms: f64,
    round: u32,
    machine: &'a Machine,
}

impl Row for ProfileRow<'_> {
    fn cells(&self) -> Vec<(&'static str, Cell)> {
        vec![
            ("mode", Cell::key(self.mode)),
            ("flush us", Cell::measure(Some(self.flush_us))),
            ("writers", Cell::key(self.writers)),
            ("parallelism", Cell::measure(Some(self.parallelism))),
            ("cores", Cell::key(self.cores)),
            ("serializable", Cell::key(&self.serializable)),
            ("strictly so", Cell::key(&self.strictly_serializable)),
            ("streams", Cell::key(self.streams)),
            ("epoch ms", Cell::measure(Some(self.epoch_ms))),
        ]
    }
}

/// Measures the disk as the engine does, and applies its rule.
pub(super) fn row<'a>(
    place: &Place,
    machine: &'a Machine,
    round: u32,
) -> Result<ProfileRow<'a>, BenchError> {
    let dir = place.scratch()?;
    let cores = TunedConfig::cores();
    let measured = open_best(dir.path()).and_then(|(disk, _)| {
        DeviceProfile::measure(&*disk, dir.path(), TunedConfig::writers(cores))
    });
    let device = measured.map_err(BenchError::system("measure the device"))?;
    let choice = |isolation| TunedConfig::of(isolation, device, cores);
    let (serializable, strict) = (
        choice(Isolation::Serializable),
        choice(Isolation::StrictlySerializable),
    );
    Ok(ProfileRow {
        mode: "profile",
        flush_us: device.flush.as_secs_f64() * 1e6,
        writers: device.writers.get(),
        parallelism: device.parallelism,
        cores: NonZeroU16::get(cores),
        serializable: serializable.spec.to_string(),
        strictly_serializable: strict.spec.to_string(),
        streams: serializable.streams.get(),
        epoch_ms: serializable.epoch_length.as_secs_f64() * 1e3,
        round,
        machine,
    })
}
