//! `glassnic devices`: like ibv_devinfo(1), and why.

mod text;

use serde::Serialize;

use glassnic_verbs::attr::Mtu;
use glassnic_verbs::events::Gid;
use glassnic_verbs::{Choice, Device, Force, GidKind, HEADER_RESERVE, HostDevice, Interface, Ways};

/// UDP port of RoCEv2 (annex A17).
const ROCE_PORT: u16 = 4791;

/// What is shown, as JSON has it.
#[derive(Debug, Serialize)]
struct Model {
    devices: Vec<DeviceModel>,
    links: Links,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DeviceModel {
    name: String,
    index: u32,
    interface: String,
    interface_reason: &'static str,
    /// As ibv_devinfo(1) writes it.
    node_guid: String,
    port: PortModel,
    gids: Vec<GidModel>,
}

#[derive(Debug, Serialize)]
struct PortModel {
    port_num: u8,
    state: &'static str,
    state_reason: String,
    link_layer: &'static str,
    /// Bytes.
    active_mtu: u32,
    active_mtu_reason: String,
    /// Bytes.
    max_mtu: u32,
    max_mtu_reason: &'static str,
    /// Bytes.
    interface_mtu: u32,
}

#[derive(Debug, Serialize)]
struct GidModel {
    index: u16,
    gid: String,
    #[serde(rename = "type")]
    gid_type: &'static str,
    kind: &'static str,
    address: String,
    interface: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Links {
    /// `GLASSNIC_LINK`.
    forced: Option<&'static str>,
    own_process: Option<&'static str>,
    own_host: Option<&'static str>,
    other_hosts: Option<&'static str>,
    udp_port: u16,
}

/// Prints the devices of this host.
///
/// # Errors
/// A line when there is no device, or one stands on an interface that does not exist.
pub(crate) fn devices(json: bool) -> Result<(), String> {
    let model = read()?;
    if json {
        let text = serde_json::to_string_pretty(&model).map_err(|error| error.to_string())?;
        println!("{text}");
    } else {
        print!("{}", text::write(&model));
    }
    Ok(())
}

fn read() -> Result<Model, String> {
    let devices = glassnic_verbs::devices();
    let problems = glassnic_verbs::problems().to_vec();
    if devices.is_empty() {
        let why = problems.into_iter().next().unwrap_or_else(|| "this host has no network interface".into());
        return Err(format!("no device: {why}"));
    }
    let models = devices.iter().map(Device::host).map(|host| match host.interface_now() {
        Some(interface) => Ok(device(host, &interface)),
        None => Err(format!(
            "device {} stands on interface {}, which does not exist; ip link shows those that do, GLASSNIC_DEVICES \
             chooses (now {})",
            host.name,
            host.interface,
            std::env::var("GLASSNIC_DEVICES").unwrap_or_else(|_| "not set".into())
        )),
    });
    let devices = models.collect::<Result<_, _>>()?;
    Ok(Model { devices, links: links(glassnic_verbs::ways()), problems })
}

fn device(host: &HostDevice, interface: &Interface) -> DeviceModel {
    let gid = |entry: glassnic_verbs::GidEntry| GidModel {
        index: entry.index,
        gid: Gid(entry.gid).to_string(),
        gid_type: "RoCE v2",
        kind: match entry.kind {
            GidKind::LinkLocal => "link_local",
            GidKind::Ipv4Mapped => "ipv4_mapped",
            GidKind::Global => "global",
        },
        address: entry.addr.to_string(),
        interface: entry.ifname,
        reason: entry.reason,
    };
    DeviceModel {
        name: host.name.clone(),
        index: host.index,
        interface: host.interface.clone(),
        interface_reason: choice_reason(host.choice),
        node_guid: guid_text(host.guid),
        port: port(host, interface),
        gids: host.gids().into_iter().map(gid).collect(),
    }
}

fn port(host: &HostDevice, interface: &Interface) -> PortModel {
    let Interface { name, mtu, .. } = interface;
    let port = host.port();
    let active_mtu = port.active_mtu.bytes();
    let room = mtu.saturating_sub(HEADER_RESERVE);
    let active_mtu_reason = if room < active_mtu {
        format!("the smallest there is, although {name}'s MTU of {mtu} is too small for it with its headers")
    } else {
        format!("the largest path MTU within {name}'s MTU of {mtu} less {HEADER_RESERVE} for headers")
    };
    PortModel {
        port_num: 1,
        state: if port.active { "active" } else { "down" },
        state_reason: state_reason(interface),
        link_layer: "Ethernet",
        active_mtu,
        active_mtu_reason,
        max_mtu: Mtu::M4096.bytes(),
        max_mtu_reason: "the largest that InfiniBand knows",
        interface_mtu: *mtu,
    }
}

fn state_reason(interface: &Interface) -> String {
    let name = &interface.name;
    match (interface.up, interface.running) {
        (true, true) => format!("{name} is up and has a carrier"),
        (true, false) => format!("{name} is up, but has no carrier"),
        (false, _) => format!("{name} is down; set it up: ip link set {name} up"),
    }
}

fn links(ways: Ways) -> Links {
    let udp = ways.udp.then_some("udp");
    let shm = ways.shm.then_some("shm");
    let (own_process, own_host, other_hosts) = match ways.forced {
        Some(Force::Udp) => (udp, udp, udp),
        Some(Force::Shm) => (Some("memory"), shm, None),
        None => (Some("memory"), shm.or(udp), udp),
    };
    let forced = ways.forced.map(|force| match force {
        Force::Udp => "udp",
        Force::Shm => "shm",
    });
    Links { forced, own_process, own_host, other_hosts, udp_port: ROCE_PORT }
}

fn choice_reason(choice: Choice) -> &'static str {
    match choice {
        Choice::Listed => "GLASSNIC_DEVICES says so",
        Choice::DefaultRoute => "it has the default route",
        Choice::Loopback => {
            "no interface that is up has the default route, and loopback reaches every process here"
        }
        Choice::FirstUsable => {
            "neither the default route nor loopback can be used, and it is the first that is up with an address"
        }
        Choice::NothingUsable => {
            "no interface is up with an address, and a program should find a device all the same"
        }
    }
}

/// `0242:acff:fe11:0002`, as ibv_devinfo(1) writes it.
fn guid_text(guid: u64) -> String {
    let parts = [48, 32, 16, 0].map(|shift| format!("{:04x}", guid >> shift & 0xffff));
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface {
            name: "eth9".into(),
            index: 9,
            up: true,
            running: true,
            loopback: false,
            mtu: 1500,
            mac: None,
            addrs: Vec::new(),
        }
    }

    #[test]
    fn guids_are_written_as_ibv_devinfo_does() {
        assert_eq!(guid_text(0x0242_acff_fe11_0002), "0242:acff:fe11:0002");
    }

    #[test]
    fn forcing_a_link_leaves_no_other_way() {
        let show = |forced, shm, udp| {
            let l = links(Ways { forced, shm, udp });
            [l.own_process, l.own_host, l.other_hosts]
        };
        assert_eq!(show(None, true, true), [Some("memory"), Some("shm"), Some("udp")]);
        assert_eq!(show(None, false, true), [Some("memory"), Some("udp"), Some("udp")]);
        assert_eq!(show(None, true, false), [Some("memory"), Some("shm"), None]);
        assert_eq!(show(Some(Force::Shm), true, true), [Some("memory"), Some("shm"), None]);
        assert_eq!(show(Some(Force::Udp), true, true), [Some("udp"); 3]);
        assert_eq!(show(Some(Force::Udp), true, false), [None; 3]);
    }

    #[test]
    fn the_reason_of_a_state_names_its_remedy() {
        let up = interface();
        let unplugged = Interface { running: false, ..interface() };
        let down = Interface { up: false, ..unplugged.clone() };
        assert_eq!(state_reason(&up), "eth9 is up and has a carrier");
        assert_eq!(state_reason(&unplugged), "eth9 is up, but has no carrier");
        assert_eq!(state_reason(&down), "eth9 is down; set it up: ip link set eth9 up");
    }
}
