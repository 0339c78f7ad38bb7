//! The devices as text.

use std::fmt::Write;

use super::{DeviceModel, Links, Model};

/// Width of the column of names.
const NAME: usize = 13;
/// Width of the column of values, where reasons follow.
const VALUE: usize = 10;

pub(super) fn write(model: &Model) -> String {
    let mut out = String::new();
    for device in &model.devices {
        write_device(&mut out, device);
    }
    write_links(&mut out, &model.links);
    if !model.problems.is_empty() {
        out.push_str("\nproblems\n");
    }
    for problem in &model.problems {
        let _ = writeln!(out, "  {problem}");
    }
    out
}

fn write_device(out: &mut String, device: &DeviceModel) {
    let DeviceModel { name, interface, interface_reason, node_guid, port, gids, .. } = device;
    // Writing to a string does not fail.
    let _ = writeln!(out, "{name} on {interface}: {interface_reason}");
    let _ = writeln!(out, "  {:NAME$}{node_guid}", "node_guid");
    let _ = writeln!(out, "  {:NAME$}{}, {}", "port", port.port_num, port.link_layer);
    let mut row = |name, value: &str, reason: &str| {
        let _ = writeln!(out, "  {name:NAME$}{value:VALUE$}{reason}");
    };
    row("state", &port.state.to_uppercase(), &port.state_reason);
    row("active_mtu", &port.active_mtu.to_string(), &port.active_mtu_reason);
    row("max_mtu", &port.max_mtu.to_string(), port.max_mtu_reason);
    if gids.is_empty() {
        row(
            "gids",
            "none",
            &format!("{interface} has no address; give it one: ip address add … dev {interface}"),
        );
    }
    let longest = gids.iter().map(|gid| gid.gid.len()).max().unwrap_or(0);
    for gid in gids {
        let index = format!("gid {}", gid.index);
        let _ = writeln!(out, "  {index:NAME$}{:longest$}  {}  {}", gid.gid, gid.gid_type, gid.reason);
    }
    out.push('\n');
}

fn write_links(out: &mut String, links: &Links) {
    match links.forced {
        Some(link) => {
            let _ = writeln!(out, "links, GLASSNIC_LINK={link}");
        }
        None => out.push_str("links, by destination\n"),
    }
    let rows = [
        ("own process", links.own_process),
        ("this host", links.own_host),
        ("other hosts", links.other_hosts),
    ];
    for (destination, link) in rows {
        let words = match link {
            Some("memory") => "memory    from one queue pair to the other".to_owned(),
            Some("shm") => "shm       rings in shared memory, long messages by single copy".to_owned(),
            Some(_) => format!("udp       RoCEv2, port {}", links.udp_port),
            None => "none      out of reach".to_owned(),
        };
        let _ = writeln!(out, "  {destination:NAME$}{words}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GidModel, PortModel};
    use super::*;

    fn model() -> Model {
        let gid = |index, gid: &str, kind, address: &str, reason: &str| GidModel {
            index,
            gid: gid.into(),
            gid_type: "RoCE v2",
            kind,
            address: address.into(),
            interface: "eth9".into(),
            reason: reason.into(),
        };
        Model {
            devices: vec![DeviceModel {
                name: "glass0".into(),
                index: 0,
                interface: "eth9".into(),
                interface_reason: "it has the default route",
                node_guid: "0200:00ff:fe00:0009".into(),
                port: PortModel {
                    port_num: 1,
                    state: "active",
                    state_reason: "eth9 is up and has a carrier".into(),
                    link_layer: "Ethernet",
                    active_mtu: 1024,
                    active_mtu_reason: "the largest path MTU within eth9's MTU of 1500 less 80 for headers"
                        .into(),
                    max_mtu: 4096,
                    max_mtu_reason: "the largest that InfiniBand knows",
                    interface_mtu: 1500,
                },
                gids: vec![
                    gid(0, "fe80::9", "link_local", "fe80::9", "link-local address fe80::9 of eth9; first"),
                    gid(1, "::ffff:192.0.2.7", "ipv4_mapped", "192.0.2.7", "IPv4 address; second"),
                ],
            }],
            links: Links {
                forced: None,
                own_process: Some("memory"),
                own_host: Some("shm"),
                other_hosts: None,
                udp_port: 4791,
            },
            problems: vec!["no RoCEv2: UDP port 4791 is held".into()],
        }
    }

    #[test]
    fn text_has_a_reason_in_each_line() {
        insta::assert_snapshot!(write(&model()));
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut model = model();
        model.devices[0].gids.clear();
        model.problems.clear();
        model.links = Links {
            forced: Some("udp"),
            own_process: None,
            own_host: None,
            other_hosts: None,
            udp_port: 4791,
        };
        insta::assert_snapshot!(write(&model));
    }

    #[test]
    fn json_is_snake_case_with_numbers_as_numbers() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&model()).unwrap());
    }
}
