//! The opcode table: as a whole, and that the two ways to look things up agree.

use glassnic_wire::opcode::{HeaderSet, Kind, OPCODES, Opcode, Position, Service};
use glassnic_wire::{MAX_HEADERS_LEN, Psn, Qpn};

#[test]
fn the_table() {
    let lines: Vec<String> = OPCODES
        .iter()
        .map(|info| {
            let headers: Vec<_> = info.headers.iter_names().map(|(name, _)| name).collect();
            let flags = [
                (info.payload, "payload"),
                (info.is_request, "request"),
                (info.consumes_receive, "takes-receive"),
                (info.completes_receive, "completes-receive"),
            ];
            let flags: Vec<_> = flags.iter().filter_map(|(set, name)| set.then_some(*name)).collect();
            let (opcode, kind, position) = (info.opcode, format!("{:?}", info.kind), info.position);
            format!(
                "{:#04x} {opcode:<33} {kind:<12} {position:<6?} {:>2} [{}] {}",
                opcode.0,
                info.headers_len,
                headers.join(" "),
                flags.join(" "),
                opcode = opcode.to_string(),
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn numbers_ascend_and_are_found() {
    assert!(OPCODES.is_sorted_by(|a, b| a.opcode.0 < b.opcode.0));
    for number in 0..=u8::MAX {
        let row = OPCODES.iter().find(|info| info.opcode == Opcode(number));
        assert_eq!(Opcode(number).info(), row);
    }
}

#[test]
fn meanings_lead_back_to_their_numbers() {
    const SERVICES: [Service; 5] = [Service::Rc, Service::Uc, Service::Ud, Service::Xrc, Service::Cnp];
    const KINDS: [Kind; 11] = [
        Kind::Send,
        Kind::Write,
        Kind::ReadRequest,
        Kind::ReadResponse,
        Kind::Ack,
        Kind::AtomicAck,
        Kind::CmpSwap,
        Kind::FetchAdd,
        Kind::Flush,
        Kind::AtomicWrite,
        Kind::Cnp,
    ];
    const POSITIONS: [Position; 4] = [Position::First, Position::Middle, Position::Last, Position::Only];
    let extras = HeaderSet::IMMDT | HeaderSet::IETH;
    let mut found = 0;
    for service in SERVICES {
        for kind in KINDS {
            for position in POSITIONS {
                for extra in [HeaderSet::empty(), HeaderSet::IMMDT, HeaderSet::IETH] {
                    let row = OPCODES.iter().find(|info| {
                        (info.service, info.kind, info.position, info.headers & extras)
                            == (service, kind, position, extra)
                    });
                    let opcode = Opcode::find(service, kind, position, extra);
                    assert_eq!(opcode, row.map(|info| info.opcode));
                    found += usize::from(opcode.is_some());
                }
                assert_eq!(Opcode::find(service, kind, position, extras), None);
                assert_eq!(Opcode::find(service, kind, position, HeaderSet::RETH), None);
            }
        }
    }
    assert_eq!(found, OPCODES.len(), "each opcode has one meaning");
}

#[test]
fn xrc_is_rc_with_the_srq_in_its_requests() {
    for rc in OPCODES.iter().filter(|info| info.service == Service::Rc) {
        if matches!(rc.kind, Kind::Flush | Kind::AtomicWrite) {
            continue;
        }
        let xrc = Opcode(rc.opcode.0 | 0xa0).info().unwrap();
        let srq = if rc.is_request { HeaderSet::XRCETH } else { HeaderSet::empty() };
        assert_eq!((xrc.kind, xrc.position, xrc.name), (rc.kind, rc.position, rc.name));
        assert_eq!(xrc.headers, rc.headers | srq);
    }
}

#[test]
fn lengths_are_those_of_the_specification() {
    use glassnic_wire::Headers;
    let len = |opcode| Headers::new(opcode, Qpn::new(1), Psn::new(0)).len();
    assert_eq!(len(Opcode::RC_SEND_ONLY), 12);
    assert_eq!(len(Opcode::RC_ACKNOWLEDGE), 16);
    assert_eq!(len(Opcode::UD_SEND_ONLY_WITH_IMMEDIATE), 24);
    assert_eq!(len(Opcode::RC_ATOMIC_ACKNOWLEDGE), 24);
    assert_eq!(len(Opcode::RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE), 32);
    assert_eq!(len(Opcode::RC_COMPARE_SWAP), 40);
    assert_eq!(len(Opcode::XRC_COMPARE_SWAP), 44);
    assert_eq!(MAX_HEADERS_LEN, 44);
    assert_eq!(len(Opcode(0xff)), 12);
}
