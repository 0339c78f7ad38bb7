//! The devices as text.

use std::fmt::Write;

use glassnic_explain::{Lang, both};
use unicode_width::UnicodeWidthStr;

use super::{DeviceModel, Links, Model};

/// Width of the column of names.
const NAME: usize = 13;
/// Width of the column of values, where reasons follow.
const VALUE: usize = 10;

pub(super) fn write(lang: Lang, model: &Model) -> String {
    let mut out = String::new();
    for device in &model.devices {
        write_device(lang, &mut out, device);
    }
    write_links(lang, &mut out, &model.links);
    if !model.problems.is_empty() {
        out.push_str(lang.pick("\nproblems\n", "\n问题\n"));
    }
    for problem in &model.problems {
        let _ = writeln!(out, "  {problem}");
    }
    out
}

fn write_device(lang: Lang, out: &mut String, device: &DeviceModel) {
    let DeviceModel { name, interface, interface_reason, node_guid, port, gids, .. } = device;
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "{}",
        both!(
            lang,
            "{name} on {interface}: {interface_reason}",
            "{name} 在 {interface} 上：{interface_reason}"
        )
    );
    let _ = writeln!(out, "  {:NAME$}{node_guid}", "node_guid");
    let _ = writeln!(out, "  {:NAME$}{}, {}", "port", port.port_num, port.link_layer);
    let mut row = |name, value: &str, reason: &str| {
        let _ = writeln!(out, "  {name:NAME$}{value:VALUE$}{reason}");
    };
    row("state", &port.state.to_uppercase(), &port.state_reason);
    row("active_mtu", &port.active_mtu.to_string(), &port.active_mtu_reason);
    row("max_mtu", &port.max_mtu.to_string(), port.max_mtu_reason);
    if gids.is_empty() {
        let reason = both!(
            lang,
            "{interface} has no address; give it one: ip address add … dev {interface}",
            "{interface} 没有地址；给它一个：ip address add … dev {interface}"
        );
        row("gids", lang.pick("none", "无"), &reason);
    }
    let longest = gids.iter().map(|gid| gid.gid.len()).max().unwrap_or(0);
    for gid in gids {
        let index = format!("gid {}", gid.index);
        let _ = writeln!(out, "  {index:NAME$}{:longest$}  {}  {}", gid.gid, gid.gid_type, gid.reason);
    }
    out.push('\n');
}

fn write_links(lang: Lang, out: &mut String, links: &Links) {
    match links.forced {
        Some(link) => {
            let _ =
                writeln!(out, "{}", both!(lang, "links, GLASSNIC_LINK={link}", "链路，GLASSNIC_LINK={link}"));
        }
        None => out.push_str(lang.pick("links, by destination\n", "链路，按目的地\n")),
    }
    let rows = [
        (lang.pick("own process", "本进程"), links.own_process),
        (lang.pick("this host", "本机"), links.own_host),
        (lang.pick("other hosts", "其他主机"), links.other_hosts),
    ];
    let column = rows.iter().map(|(destination, _)| destination.width()).max().unwrap_or(0).max(NAME);
    for (destination, link) in rows {
        let words = match link {
            Some("memory") => lang
                .pick("memory    from one queue pair to the other", "memory    从一个 QP 直接到另一个")
                .to_owned(),
            Some("shm") => lang
                .pick(
                    "shm       rings in shared memory, long messages by single copy",
                    "shm       共享内存中的环形队列，长消息只复制一次",
                )
                .to_owned(),
            Some(_) => both!(lang, "udp       RoCEv2, port {}", "udp       RoCEv2，端口 {}", links.udp_port),
            None => lang.pick("none      out of reach", "none      不可达").to_owned(),
        };
        let gap = " ".repeat(column.saturating_sub(destination.width()));
        let _ = writeln!(out, "  {destination}{gap}{words}");
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
        insta::assert_snapshot!(write(Lang::En, &model()));
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
        insta::assert_snapshot!(write(Lang::En, &model));
    }

    #[test]
    fn what_is_said_in_chinese() {
        let said = write(Lang::Zh, &model());
        assert!(said.contains("glass0 在 eth9 上：") && said.contains("\n链路，按目的地\n"), "{said}");
        assert!(said.contains("  本机         shm       共享内存") && said.contains("\n问题\n"), "{said}");
    }

    #[test]
    fn json_is_snake_case_with_numbers_as_numbers() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&model()).unwrap());
    }
}
