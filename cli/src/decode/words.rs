//! What is said of frames. In English the values say it themselves.

use glassnic_capture::CaptureError;
use glassnic_capture::hex::{HexError, MAX_LEN};
use glassnic_explain::Lang;
use glassnic_wire::WireError;
use glassnic_wire::dissect::{Link, Oddity, Verdict};

/// The verdict on an ICRC.
pub(super) fn verdict(lang: Lang, verdict: Verdict) -> String {
    match (lang, verdict) {
        (Lang::Zh, Verdict::Good) => "正确".into(),
        (Lang::Zh, Verdict::GoodForId(id)) => format!("除 IPv4 id 之外正确：计算时 id 为 {id:#06x}"),
        (Lang::Zh, Verdict::Wrong { expected, found }) => {
            format!("错误：应为 {expected:#010x}，实为 {found:#010x}")
        }
        (Lang::Zh, Verdict::CutOff) => "没有捕获".into(),
        _ => verdict.to_string(),
    }
}

/// What is odd about a frame.
pub(super) fn oddity(lang: Lang, odd: &Oddity) -> String {
    if lang != Lang::Zh {
        return odd.to_string();
    }
    match odd {
        Oddity::Ipv4Checksum { found, fits } => {
            format!("IPv4 头部校验和 {found:#06x} 不对；应为 {fits:#06x}")
        }
        Oddity::Missing { says, got } => {
            format!("缺少 {} 字节：IP 声明 {says} 字节，实有 {got} 字节", says.saturating_sub(*got))
        }
        Oddity::NoUdpHeader(udp) => format!(
            "IP 声明上层是 UDP，但那样的话 UDP 头部就是源端口 {}、目的端口 {}、长度 {}：没有网络协议栈会发出这样的报文",
            udp.sport, udp.dport, udp.len
        ),
        Oddity::CommandInFrame => {
            "真实的线路上不会有它：创建、修改、查询和销毁是驱动程序发给设备的命令".into()
        }
        Oddity::PackedHead { is_udp_length } => {
            let also = if *is_udp_length { "。这个句柄恰好也是 UDP 长度应有的值" } else { "" };
            format!(
                "头部没有空隙：QPN 是偏移 2 处的 3 字节，PD 句柄是偏移 5 处的 4 字节；命令记录的这两项在偏移 4 和 8{also}"
            )
        }
        Oddity::HeaderVersion(tver) => format!("BTH 的 TVer 为 {tver}；接收方丢弃所有非 0 的报文"),
        Oddity::Pad => "填充字节不是零".into(),
        // One that has no Chinese yet.
        _ => odd.to_string(),
    }
}

/// Why a frame is neither a packet nor a record.
pub(super) fn neither(lang: Lang, error: &WireError) -> String {
    if lang != Lang::Zh {
        return error.to_string();
    }
    match error {
        WireError::Truncated { what, need, got } => {
            format!("{}需要 {need} 字节，实有 {got} 字节", apart(what))
        }
        WireError::UnknownOpcode(opcode) => format!("不认识操作码 {:#04x}", opcode.0),
        WireError::Misaligned(len) => format!("负载和填充共 {len} 字节，不是 4 的倍数"),
        WireError::Pad { pad, len } => format!("负载和填充共 {len} 字节，容不下 {pad} 字节的填充"),
        WireError::UnexpectedPayload { opcode, len } => {
            format!("{opcode} 不带负载，但它的头部之后还有 {len} 字节")
        }
        WireError::NotUdp(why) => format!("不是普通的 UDP 帧：{}", noun(why)),
        WireError::OtherPort(port) => format!("UDP 目的端口为 {port}；RoCEv2 用 4791 端口"),
        WireError::Length { what, says, got } => format!("{}为 {says} 字节，实有 {got} 字节", apart(what)),
        WireError::UnknownCommand(opcode) => format!("不认识命令操作码 {opcode:#06x}"),
        WireError::Icrc { computed, found } => {
            format!("报文中的 ICRC 为 {found:#010x}，算得 {computed:#010x}")
        }
        // Errors of those that make packets.
        _ => error.to_string(),
    }
}

/// Why a file is no capture, or none that is whole.
pub(super) fn capture_error(lang: Lang, error: CaptureError) -> String {
    match (lang, error) {
        (Lang::Zh, CaptureError::NoCapture) => "不是 pcap 或 pcapng 文件".into(),
        (Lang::Zh, CaptureError::CutShort { what, missing }) => {
            format!("文件不完整：离{}的结尾还差 {missing} 字节", noun(what))
        }
        (Lang::Zh, CaptureError::BlockLength { block, len }) => {
            format!("类型为 {block:#x} 的块长度为 {len}，这不可能")
        }
        (Lang::Zh, CaptureError::NoInterface(interface)) => {
            format!("有报文属于接口 {interface}，但文件中没有描述这个接口")
        }
        _ => error.to_string(),
    }
}

/// Why a text is no dump.
pub(super) fn hex_error(lang: Lang, error: &HexError) -> String {
    match (lang, error) {
        (Lang::Zh, HexError::Empty) => "没有十六进制数字".into(),
        (Lang::Zh, HexError::NotHex { line, word }) => format!("第 {line} 行：{word:?} 不是十六进制字节"),
        (Lang::Zh, HexError::Offset { line, offset, got }) => {
            format!("第 {line} 行：偏移 {offset:#x} 之前却有 {got:#x} 字节")
        }
        (Lang::Zh, HexError::TooLong { line }) => format!("第 {line} 行：这一帧超过 {MAX_LEN} 字节"),
        _ => error.to_string(),
    }
}

/// What a frame begins with.
pub(super) fn link(lang: Lang, link: Option<Link>) -> &'static str {
    let Some(link) = link else { return lang.pick("unknown link", "未知链路") };
    let chinese = match link {
        Link::Ethernet => "以太网",
        Link::RawIp => "裸 IP",
        Link::Null => "环回",
        Link::LinuxSll | Link::LinuxSll2 => "Linux cooked",
        Link::Command => "命令记录",
    };
    lang.pick(link.name(), chinese)
}

/// What a part of a frame or file is called; a name of the specification stays.
fn noun(english: &'static str) -> &'static str {
    NOUNS.iter().find(|(known, _)| *known == english).map_or(english, |(_, chinese)| chinese)
}

/// The same before Chinese words, with the space that Latin letters have to those.
fn apart(english: &'static str) -> String {
    let noun = noun(english);
    if noun.ends_with(|last: char| last.is_ascii()) { format!("{noun} ") } else { noun.to_owned() }
}

const NOUNS: &[(&str, &str)] = &[
    ("header", "头部"),
    ("Ethernet header", "以太网头部"),
    ("VLAN tag", "VLAN 标签"),
    ("loopback header", "环回头部"),
    ("cooked header", "Linux cooked 头部"),
    ("IPv4 header", "IPv4 头部"),
    ("IPv6 header", "IPv6 头部"),
    ("UDP header", "UDP 头部"),
    ("IPv4 total length", "IPv4 总长度"),
    ("UDP length", "UDP 长度"),
    ("payload, pad and ICRC", "负载、填充和 ICRC"),
    ("command record", "命令记录"),
    ("not IPv4 without options", "不是没有选项的 IPv4"),
    ("another IP protocol", "是另一种 IP 协议"),
    ("a fragment", "是一个分片"),
    ("not IPv6", "不是 IPv6"),
    ("another EtherType", "是另一种 EtherType"),
    ("packet header", "报文头部"),
    ("packet", "报文"),
    ("block header", "块头部"),
    ("block", "块"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use glassnic_capture::{Reader, hex};
    use glassnic_wire::dissect::dissect;

    /// Words of English that are none of a specification's names.
    fn is_chinese(said: &str) -> bool {
        let english =
            ["header", "bytes", "length", "packet", "the ", " is ", "not ", "wrong", "tag", "block"];
        !said.is_ascii() && english.iter().all(|word| !said.contains(word))
    }

    /// A packet of IPv4 or IPv6 with a BTH and an ICRC that is none.
    fn frames() -> Vec<(Link, Vec<u8>)> {
        let bth = "04ff ffff 0000 0012 8000 0005 0102 0304 aabb ccdd";
        let v4 = format!("4500 0030 0000 4000 4011 0000 7f00 0001 7f00 0001 c000 12b7 001c 0000 {bth}");
        let v6 = format!(
            "6000 0000 001c 1140 {0} {0} c000 12b7 001c 0000 {bth}",
            "0000 0000 0000 0000 0000 0000 0000 0001"
        );
        let bytes = |text: &str| hex::parse(text).unwrap().remove(0);
        let eth = |kind: &str, ip: &str| bytes(&format!("0011 2233 4455 0011 2233 4456 {kind} {ip}"));
        vec![
            (Link::Ethernet, eth("0800", &v4)),
            (Link::Ethernet, eth("86dd", &v6)),
            (Link::Ethernet, eth("8100 0005 0800", &v4)),
            (Link::RawIp, bytes(&v4)),
            (Link::Null, bytes(&format!("0200 0000 {v4}"))),
            (Link::LinuxSll, bytes(&format!("{} 0800 {v4}", "0000 ".repeat(7)))),
            (Link::LinuxSll2, bytes(&format!("0800 {} {v4}", "0000 ".repeat(9)))),
            (Link::Command, vec![4; 72]),
        ]
    }

    #[test]
    fn what_is_wrong_with_a_frame_is_said_in_chinese() {
        let mut said = std::collections::BTreeSet::new();
        for (link, frame) in frames() {
            // Cut anywhere, and damaged anywhere.
            let cut = (0..frame.len()).map(|len| frame[..len].to_vec());
            let damaged = (0..frame.len()).flat_map(|at| {
                let frame = &frame;
                [0, 1, 0x20, 0xff].map(|byte| {
                    let mut frame = frame.clone();
                    frame[at] = byte;
                    frame
                })
            });
            for frame in cut.chain(damaged) {
                for sent_len in [frame.len(), 2000] {
                    match dissect(link, &frame, sent_len) {
                        Err(error) => said.extend([neither(Lang::Zh, &error)]),
                        Ok(found) => said.extend(found.odd.iter().map(|odd| oddity(Lang::Zh, odd))),
                    }
                }
            }
        }
        assert!(said.len() > 60, "{}", said.len());
        for line in said {
            assert!(is_chinese(&line), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_in_chinese() {
        let pcap = [&0xa1b2_c3d4_u32.to_le_bytes()[..], &[0; 20], &[9; 16]].concat();
        let block = |kind: u32, len: u32, rest: usize| {
            let section = [0x0a0d_0d0a_u32, 28, 0x1a2b_3c4d, 1, 0, 0, 28];
            let words = section.into_iter().chain([kind, len]).flat_map(u32::to_le_bytes);
            words.chain(vec![0; rest]).collect::<Vec<u8>>()
        };
        let files = [
            pcap[..20].to_vec(),
            pcap[..30].to_vec(),
            pcap,
            block(6, 32, 24),
            block(6, 7, 0),
            block(6, 64, 8),
        ];
        for file in files.iter().chain([&block(6, 64, 8)[..32].to_vec(), &b"no capture".to_vec()]) {
            let error = Reader::new(file).err().or_else(|| Reader::new(file).unwrap().find_map(Result::err));
            let said = capture_error(Lang::Zh, error.unwrap_or_else(|| panic!("{file:?}")));
            assert!(is_chinese(&said), "{said}");
        }
        for text in ["", "xy", "0000 00 11\n0010 22 33", &"00 ".repeat(MAX_LEN + 1)] {
            let said = hex_error(Lang::Zh, &hex::parse(text).unwrap_err());
            assert!(is_chinese(&said), "{said}");
        }
    }

    #[test]
    fn what_is_odd_and_what_the_icrc_says_is_said_in_chinese() {
        let udp = glassnic_wire::frame::Udp { sport: 1, dport: 0, len: 3, checksum: 0 };
        let odd = [
            Oddity::Ipv4Checksum { found: 1, fits: 2 },
            Oddity::Missing { says: 3, got: 1 },
            Oddity::NoUdpHeader(udp),
            Oddity::CommandInFrame,
            Oddity::PackedHead { is_udp_length: true },
            Oddity::PackedHead { is_udp_length: false },
            Oddity::HeaderVersion(1),
            Oddity::Pad,
        ];
        let verdicts =
            [Verdict::Good, Verdict::GoodForId(1), Verdict::Wrong { expected: 1, found: 2 }, Verdict::CutOff];
        let said = odd.iter().map(|odd| oddity(Lang::Zh, odd));
        for line in said.chain(verdicts.map(|given| verdict(Lang::Zh, given))) {
            assert!(is_chinese(&line), "{line}");
        }
        assert_eq!(verdict(Lang::En, Verdict::Good), "good");
    }
}
