//! `glassnic devices`: like ibv_devinfo(1), and why.

mod text;

use glassnic_explain::{Lang, both};
use serde::Serialize;

use glassnic_verbs::attr::Mtu;
use glassnic_verbs::events::Gid;
use glassnic_verbs::{
    Choice, Device, Force, GidEntry, GidKind, GidPlace, HEADER_RESERVE, HostDevice, Interface, Ways, Words,
};

use crate::{lang, out};

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
    let text = if json {
        let text = serde_json::to_string_pretty(&model).map_err(|error| error.to_string())?;
        format!("{text}\n")
    } else {
        text::write(lang(), &model)
    };
    out::print(&text).map(drop)
}

fn read() -> Result<Model, String> {
    let devices = glassnic_verbs::devices();
    let problems =
        glassnic_verbs::problems().iter().map(|problem| problem.in_words(lang())).collect::<Vec<_>>();
    if devices.is_empty() {
        let lang = lang();
        let none = || lang.pick("this host has no network interface", "本机没有网络接口").into();
        let why = problems.into_iter().next().unwrap_or_else(none);
        return Err(both!(lang, "no device: {why}", "没有设备：{why}"));
    }
    let models = devices.iter().map(Device::host).map(|host| match host.interface_now() {
        Some(interface) => Ok(device(lang(), host, &interface)),
        None => Err(gone(lang(), host)),
    });
    let devices = models.collect::<Result<_, _>>()?;
    Ok(Model { devices, links: links(glassnic_verbs::ways()), problems })
}

fn gone(lang: Lang, host: &HostDevice) -> String {
    let HostDevice { name, interface, .. } = host;
    let chosen = std::env::var("GLASSNIC_DEVICES").unwrap_or_else(|_| lang.pick("not set", "未设置").into());
    both!(
        lang,
        "device {name} stands on interface {interface}, which does not exist; ip link shows those that do, \
         GLASSNIC_DEVICES chooses (now {chosen})",
        "设备 {name} 建立在接口 {interface} 上，但该接口不存在；ip link 列出现有的接口，用 GLASSNIC_DEVICES 选择（现为 {chosen}）"
    )
}

fn device(lang: Lang, host: &HostDevice, interface: &Interface) -> DeviceModel {
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
        reason: gid_reason(lang, &entry),
        interface: entry.ifname,
    };
    DeviceModel {
        name: host.name.clone(),
        index: host.index,
        interface: host.interface.clone(),
        interface_reason: choice_reason(lang, host.choice),
        node_guid: guid_text(host.guid),
        port: port(lang, host, interface),
        gids: host.gids().into_iter().map(gid).collect(),
    }
}

fn port(lang: Lang, host: &HostDevice, interface: &Interface) -> PortModel {
    let Interface { name, mtu, .. } = interface;
    let port = host.port();
    let active_mtu = port.active_mtu.bytes();
    let room = mtu.saturating_sub(HEADER_RESERVE);
    let active_mtu_reason = if room < active_mtu {
        both!(
            lang,
            "the smallest there is, although {name}'s MTU of {mtu} is too small for it with its headers",
            "最小的 path MTU，尽管 {name} 的 MTU {mtu} 仍容不下它和报文头"
        )
    } else {
        both!(
            lang,
            "the largest path MTU within {name}'s MTU of {mtu} less {HEADER_RESERVE} for headers",
            "{name} 的 MTU {mtu} 减去报文头 {HEADER_RESERVE} 之后能容纳的最大 path MTU"
        )
    };
    PortModel {
        port_num: 1,
        state: if port.active { "active" } else { "down" },
        state_reason: state_reason(lang, interface),
        link_layer: "Ethernet",
        active_mtu,
        active_mtu_reason,
        max_mtu: Mtu::M4096.bytes(),
        max_mtu_reason: lang.pick("the largest that InfiniBand knows", "InfiniBand 规定的最大值"),
        interface_mtu: *mtu,
    }
}

fn state_reason(lang: Lang, interface: &Interface) -> String {
    let name = &interface.name;
    match (interface.up, interface.running) {
        (true, true) => both!(lang, "{name} is up and has a carrier", "{name} 已启用，且有载波"),
        (true, false) => both!(lang, "{name} is up, but has no carrier", "{name} 已启用，但没有载波"),
        (false, _) => both!(
            lang,
            "{name} is down; set it up: ip link set {name} up",
            "{name} 未启用；启用它：ip link set {name} up"
        ),
    }
}

fn gid_reason(lang: Lang, entry: &GidEntry) -> String {
    let GidEntry { addr, ifname, .. } = entry;
    let what = match entry.kind {
        GidKind::LinkLocal => lang.pick("link-local address", "链路本地地址"),
        GidKind::Ipv4Mapped => lang.pick("IPv4 address", "IPv4 地址"),
        GidKind::Global => lang.pick("IPv6 address", "IPv6 地址"),
    };
    let why = match (entry.place, entry.kind) {
        (GidPlace::Later, _) => lang.pick(
            "came later, so it took the first index never used",
            "后来出现，因此占用第一个从未用过的下标",
        ),
        (GidPlace::Hole, _) => lang.pick(
            "came later, when all indices had been used, so it took an empty one",
            "后来出现，那时所有下标都已用过，因此占用一个空的下标",
        ),
        (_, GidKind::LinkLocal) => lang.pick("link-local addresses come first", "链路本地地址排在最前"),
        (_, GidKind::Ipv4Mapped) => lang.pick(
            "IPv4 stands after link-local and before other IPv6 addresses",
            "IPv4 地址排在链路本地地址之后、其他 IPv6 地址之前",
        ),
        (_, GidKind::Global) => lang.pick("other IPv6 addresses come last", "其他 IPv6 地址排在最后"),
    };
    both!(lang, "{what} {addr} of {ifname}; {why}", "{ifname} 的 {what} {addr}；{why}")
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

fn choice_reason(lang: Lang, choice: Choice) -> &'static str {
    match choice {
        Choice::Listed => lang.pick("GLASSNIC_DEVICES says so", "由 GLASSNIC_DEVICES 指定"),
        Choice::DefaultRoute => lang.pick("it has the default route", "默认路由在它上面"),
        Choice::Loopback => lang.pick(
            "no interface that is up has the default route, and loopback reaches every process here",
            "没有已启用的接口带默认路由，而环回接口可以到达本机的每个进程",
        ),
        Choice::FirstUsable => lang.pick(
            "neither the default route nor loopback can be used, and it is the first that is up with an address",
            "默认路由和环回接口都不可用，而它是第一个已启用且有地址的接口",
        ),
        Choice::NothingUsable => lang.pick(
            "no interface is up with an address, and a program should find a device all the same",
            "没有已启用且有地址的接口，但程序仍应找到一个设备",
        ),
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
        assert_eq!(state_reason(Lang::En, &up), "eth9 is up and has a carrier");
        assert_eq!(state_reason(Lang::En, &unplugged), "eth9 is up, but has no carrier");
        assert_eq!(state_reason(Lang::En, &down), "eth9 is down; set it up: ip link set eth9 up");
    }

    #[test]
    fn a_gids_reason_names_its_address_and_its_place() {
        let mut entry = GidEntry {
            index: 1,
            gid: [0; 16],
            kind: GidKind::Ipv4Mapped,
            addr: [192, 0, 2, 7].into(),
            ifindex: 9,
            ifname: "eth9".into(),
            place: GidPlace::Ordered,
        };
        assert_eq!(
            gid_reason(Lang::En, &entry),
            "IPv4 address 192.0.2.7 of eth9; IPv4 stands after link-local and before other IPv6 addresses"
        );
        entry.place = GidPlace::Later;
        assert_eq!(
            gid_reason(Lang::Zh, &entry),
            "eth9 的 IPv4 地址 192.0.2.7；后来出现，因此占用第一个从未用过的下标"
        );
    }
}
