//! Which devices there are: `GLASSNIC_DEVICES=glass0=eth0,glass1=lo`, else one on the default route's interface.

use super::{Interface, default_route_interface};

/// Why a device stands on its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The device list names it.
    Listed,
    /// It has the default route.
    DefaultRoute,
    /// No usable interface has the default route, and the loopback interface reaches every process of this host.
    Loopback,
    /// Neither of these is usable, and it is the first that is.
    FirstUsable,
    /// No interface is up and has an address.
    NothingUsable,
}

/// A device and the interface it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Device name, as `ibv_get_device_name` gives it.
    pub device: String,
    /// Interface name.
    pub interface: String,
    /// Why this interface.
    pub choice: Choice,
}

/// What is wrong with a device list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The same device name twice.
    #[error("device {0} is named twice")]
    Duplicate(String),
    /// The list names nothing.
    #[error("the device list is empty; expected e.g. glass0=eth0,glass1=lo")]
    Empty,
    /// A device name that is empty, longer than 63 bytes, or has other characters than letters, digits, `_`, `-`, `.`.
    #[error("{0:?} is not a device name")]
    Name(String),
    /// An entry without `=` or without an interface.
    #[error("{0:?} is not of the form device=interface")]
    Syntax(String),
}

/// IBV_SYSFS_NAME_MAX (64) with its terminator.
const NAME_LEN_MAX: usize = 63;

/// Parse a device list. Blanks around entries do not matter. Whether the interfaces exist is asked later: they may yet come.
///
/// # Errors
/// See [`SelectError`].
pub fn parse_devices(text: &str) -> Result<Vec<DeviceSpec>, SelectError> {
    let mut devices: Vec<DeviceSpec> = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let syntax = || SelectError::Syntax(entry.to_owned());
        let (device, interface) = entry.split_once('=').ok_or_else(syntax)?;
        let (device, interface) = (device.trim(), interface.trim());
        if interface.is_empty() || interface.contains(['/', '=']) || interface.len() >= libc::IFNAMSIZ {
            return Err(syntax());
        }
        // The name becomes a path component in sysfs look-alikes.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if device.is_empty()
            || device.len() > NAME_LEN_MAX
            || device.starts_with('.')
            || !device.bytes().all(fits)
        {
            return Err(SelectError::Name(device.to_owned()));
        }
        if devices.iter().any(|known| known.device == device) {
            return Err(SelectError::Duplicate(device.to_owned()));
        }
        devices.push(DeviceSpec {
            device: device.to_owned(),
            interface: interface.to_owned(),
            choice: Choice::Listed,
        });
    }
    if devices.is_empty() { Err(SelectError::Empty) } else { Ok(devices) }
}

/// `glass0` on the default route's interface if that is up and has an address; else on the loopback interface, which
/// reaches every process of this host; else on whatever there is, down or not. `None` on a host without interfaces.
pub fn default_device(interfaces: &[Interface]) -> Option<DeviceSpec> {
    default_device_with(interfaces, default_route_interface().as_deref())
}

pub(super) fn default_device_with(interfaces: &[Interface], route: Option<&str>) -> Option<DeviceSpec> {
    let usable = |interface: &&Interface| interface.is_usable() && !interface.addrs.is_empty();
    let routed = interfaces.iter().filter(usable).find(|interface| Some(interface.name.as_str()) == route);
    let loopback = || interfaces.iter().filter(usable).find(|interface| interface.loopback);
    let first_usable = || interfaces.iter().find(usable);
    let any = || interfaces.iter().find(|interface| interface.loopback).or_else(|| interfaces.first());
    let (interface, choice) = routed
        .map(|interface| (interface, Choice::DefaultRoute))
        .or_else(|| Some((loopback()?, Choice::Loopback)))
        .or_else(|| Some((first_usable()?, Choice::FirstUsable)))
        .or_else(|| Some((any()?, Choice::NothingUsable)))?;
    Some(DeviceSpec { device: "glass0".to_owned(), interface: interface.name.clone(), choice })
}
