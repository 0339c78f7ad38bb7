//! Devices: which interfaces of the host are RDMA devices, and what their ports look like.

use std::io;
use std::sync::{Mutex, PoisonError};

use glassnic_link::iface::{self, Choice, GidEntry, GidTable, Interface};
use glassnic_nic::limits::Limits;
use glassnic_nic::port::{GID_TABLE_LEN, Port};
use glassnic_transport::attr::Mtu;

use crate::problem::Problem;

/// A device of this host: an interface under a device's name.
#[derive(Debug)]
pub struct HostDevice {
    /// Device name: `glass0`.
    pub name: String,
    /// Interface name.
    pub interface: String,
    /// Why this interface.
    pub choice: Choice,
    /// Index among the devices, from 0.
    pub index: u32,
    /// Node GUID, never 0.
    pub guid: u64,
    /// What it can do.
    pub limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    table: GidTable,
    interface: Option<Interface>,
}

impl HostDevice {
    fn new(spec: iface::DeviceSpec, index: u32, now: Option<Interface>, limits: Limits) -> Self {
        let iface::DeviceSpec { device: name, interface, choice } = spec;
        let mut table = GidTable::default();
        if let Some(i) = &now {
            table.update(i);
        }
        let guid = guid(now.as_ref(), &name);
        let state = Mutex::new(State { table, interface: now });
        Self { name, interface, choice, index, guid, limits, state }
    }

    /// Reads the interface again. True if something has changed.
    ///
    /// # Errors
    /// getifaddrs(3).
    pub fn refresh(&self) -> io::Result<bool> {
        let all = iface::interfaces()?;
        Ok(self.update(all.iter().find(|i| i.name == self.interface)))
    }

    pub(crate) fn update(&self, now: Option<&Interface>) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = state.interface.as_ref() != now;
        let gids = now.is_some_and(|i| state.table.update(i));
        state.interface = now.cloned();
        changed || gids
    }

    /// The port as it is now.
    #[must_use]
    pub fn port(&self) -> Port {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let gids = (0..GID_TABLE_LEN).map(|i| state.table.get(i.into()).map(|e| e.gid)).collect();
        let mtu = state.interface.as_ref().map_or(1024, Interface::active_mtu);
        Port {
            gids,
            active_mtu: Mtu::at_most(mtu.min(self.limits.max_mtu)).unwrap_or_default(),
            active: state.interface.as_ref().is_some_and(|i| i.up && i.running),
        }
    }

    /// The entries of the GID table.
    #[must_use]
    pub fn gids(&self) -> Vec<GidEntry> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.table.iter().filter(|e| e.index < GID_TABLE_LEN.into()).cloned().collect()
    }

    /// The interface as it was read last; `None` if it is gone.
    #[must_use]
    pub fn interface_now(&self) -> Option<Interface> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).interface.clone()
    }
}

/// EUI-64 from the MAC address; where there is none, a number made of the name, locally administered.
fn guid(interface: Option<&Interface>, name: &str) -> u64 {
    let mac = interface.and_then(|i| i.mac).filter(|m| *m != [0; 6]);
    match mac {
        Some([a, b, c, d, e, f]) => u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]),
        None => {
            let sum = name.bytes().fold(0u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
            0x0200_5eff_fe00_0000 | (sum & 0xff_ffff) | 1
        }
    }
}

/// The devices that the environment asks for.
///
/// # Errors
/// What is wrong with `GLASSNIC_DEVICES` or `GLASSNIC_PROFILE`; or that interfaces cannot be read.
pub(crate) fn discover() -> Result<Vec<HostDevice>, Problem> {
    let limits = crate::profile::from_env().map_err(Problem::Profile)?;
    let all = iface::interfaces().map_err(Problem::Interfaces)?;
    let specs = match std::env::var("GLASSNIC_DEVICES") {
        Ok(text) if !text.is_empty() => iface::parse_devices(&text).map_err(Problem::Devices)?,
        _ => iface::default_device(&all).into_iter().collect(),
    };
    let find = |name: &str| all.iter().find(|i| i.name == name).cloned();
    let make = |(n, spec): (usize, iface::DeviceSpec)| {
        let now = find(&spec.interface);
        HostDevice::new(spec, n as u32, now, limits)
    };
    Ok(specs.into_iter().enumerate().map(make).collect())
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A device of a name on an interface, which need not exist.
    pub(crate) fn device(name: &str, interface: &Interface) -> HostDevice {
        let spec = iface::DeviceSpec {
            device: name.into(),
            interface: interface.name.clone(),
            choice: Choice::Listed,
        };
        HostDevice::new(spec, 0, Some(interface.clone()), Limits::default())
    }
}
