//! Models and text of NICs in this process's own memory.

use std::sync::atomic::Ordering;

use glassnic_explain::Lang;
use glassnic_nic::context::{ContextMemory, Header, Layout};
use glassnic_nic::recorder::{Executed, Recorder};
use glassnic_verbs::events::{Cause, Event, QpState};
use glassnic_verbs::fields::Fields;
use glassnic_verbs::inspect::NicView;
use glassnic_verbs::{driver, object, qpc};
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

use super::*;

const NOW: u64 = 100_000_000_000;

fn set_field(words: &[std::sync::atomic::AtomicU64], field: impl Fields, value: u64) {
    let info = field.info();
    let shift = info.offset % 8 * 8;
    words[info.offset / 8].fetch_or(value << shift, Ordering::Relaxed);
}

/// A NIC with a QP of each sort: one that works, one in error.
fn memory(pid: u64, qpn: u64, peer: u64) -> ContextMemory {
    let layout = Layout { qp_slots: 4, object_slots: [2; 7], site_slots: 2, recorder_slots: 32 };
    let memory = ContextMemory::private(layout);
    memory.set_name("glass0");
    memory.set_command("pingpong");
    memory.set(Header::Pid, pid);
    memory.set(Header::StartTime, 1);
    memory.set(Header::OpenedNs, NOW - 75_000_000_000);
    memory.set(Header::QpHigh, 2);
    let site = memory.site(7, || "main (pingpong.c:12)\n_start".into()).unwrap();
    for slot in 0..2 {
        use qpc::Field as F;
        let mut image = qpc::Image::default();
        let fields = [
            (F::Qpn, qpn + slot),
            (F::QpType, 2),
            (F::State, if slot == 0 { 3 } else { 6 }),
            (F::Pd, 1),
            (F::Access, 3),
            (F::CreatedNs, NOW - 2_500_000_000 + slot),
            (F::DestQpn, if slot == 0 { peer } else { 0 }),
            (F::SqUsed, 8),
            (F::SqDepth, 16),
            (F::RqUsed, 3),
            (F::RqDepth, 500),
            (F::Timeout, 14),
            (F::PathMtu, 3),
            (F::RnrRetry, 7),
        ];
        fields.into_iter().for_each(|(field, value)| image.set(field, value));
        if slot == 0 {
            image.set(F::SendCq, 0x100);
            image.set(F::RecvCq, 0x100);
        } else {
            image.set(F::FirstStatus, 12);
            image.set(F::FirstCheck, glassnic_verbs::events::Check::RetryExhausted.value().into());
            image.set(F::FirstPsn, 0x17);
        }
        let mut gid = [0; 16];
        gid[10..].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        image.set_dgid(gid);
        image.store(memory.qpc(slot as usize).unwrap(), 0);
        let words = memory.driver(slot as usize).unwrap();
        use driver::Field as D;
        let fields = [
            (D::Qpn, qpn + slot),
            (D::State, 3),
            (D::CreatedNs, NOW - 2_500_000_000),
            (D::CreatedBy, 4243),
            (D::Site, site.into()),
            (D::Modifies, 3),
            (D::ModifiedNs, NOW - 2_000_000_000),
            (D::ModifiedBy, 4243),
            (D::SqPosted, 20),
            (D::SqReleased, 12),
        ];
        fields.into_iter().for_each(|(field, value)| set_field(words, field, value));
    }
    // Handles of the first entry of each kind.
    for kind in object::Kind::ALL {
        let words = memory.object(kind, 0).unwrap();
        set_field(words, object::Head::Handle, 0x100);
        memory.raise_high(kind, 1);
        set_field(words, object::Head::CreatedNs, NOW - 1_000_000);
    }
    let cq = memory.object(object::Kind::Cq, 0).unwrap();
    set_field(cq, object::Cq::Depth, 501);
    set_field(cq, object::Cq::Waiting, 2);
    set_field(cq, object::Cq::Armed, 2);
    let mr = memory.object(object::Kind::Mr, 0).unwrap();
    set_field(mr, object::Head::Pd, 1);
    set_field(mr, object::Mr::Lkey, 0x11);
    set_field(mr, object::Mr::Rkey, 0x12);
    set_field(mr, object::Mr::Addr, 0x7f00_0000_1000);
    set_field(mr, object::Mr::Length, 4096);
    set_field(mr, object::Mr::Access, 3);
    memory
}

/// The life of the first QP, as its recorder has it.
fn record_life(memory: &ContextMemory, qpn: u32, peer: u32, from_ns: u64) {
    let recorder = Recorder::new(memory.clone());
    let command = |opcode, started_ns| Executed { opcode, qpn, handle: 1, thread: 4243, started_ns };
    let mut create = CommandRecord::with_body(
        CommandOpcode::CreateQp,
        &body::CreateQp { qp_type: 2, max_send_wr: 16.into(), max_recv_wr: 500.into(), ..Default::default() },
    )
    .unwrap();
    create.set_qpn(qpn);
    recorder.keep(from_ns, create);
    recorder.executed(from_ns + 1500, &command(CommandOpcode::CreateQp, from_ns), None);
    let mask = glassnic_verbs::events::AttrMask::STATE | glassnic_verbs::events::AttrMask::DEST_QPN;
    let modify = body::ModifyQp {
        attr_mask: mask.bits().into(),
        from_state: 1,
        to_state: 2,
        dest_qpn_or_qkey: peer.into(),
        ..Default::default()
    };
    let mut modify = CommandRecord::with_body(CommandOpcode::ModifyQp, &modify).unwrap();
    modify.set_qpn(qpn);
    let at = from_ns + 10_000;
    recorder.keep(at, modify);
    let moved =
        Event::StateMoved { qpn, from: QpState::Init, to: QpState::Rtr, cause: Cause::Modify, wr_id: None };
    recorder.event(at, &moved);
    recorder.executed(at + 900, &command(CommandOpcode::ModifyQp, at), None);
    recorder.event(at + 40_000, &Event::FirstPacketSent { qpn, to_qpn: peer, opcode: 4, psn: 7 });
    recorder.event(at + 50_000, &Event::FirstPacket { qpn, from_qpn: Some(peer), psn: 5 });
}

fn host() -> Host {
    let (one, two) = (memory(0x7fff_fff0, 0x1234, 0x2234), memory(0x7fff_fff1, 0x2234, 0x1234));
    record_life(&one, 0x1234, 0x2234, NOW - 1_000_000);
    record_life(&two, 0x2234, 0x1234, NOW - 995_000);
    let read = |memory, name| NicReading::of(Lang::En, &NicView::in_memory(memory), name, NOW);
    Host::of(vec![read(two, "nic-two"), read(one, "nic-one")], NOW)
}

fn models(host: &Host) -> Vec<&NicModel> {
    host.nics.iter().map(|nic| &nic.model).collect()
}

#[test]
fn the_first_line_of_a_qp_is_as_scripts_know_it() {
    let host = host();
    let qps = &host.nics[0].model.qps;
    assert_eq!(qp_text::headline(&qps[0]), "QPN: 0x1234 State: RTS SQ WQE count: 8/16 Last error: None");
    assert!(qp_text::show(Lang::En, &host.nics[0].model, &qps[0]).starts_with(&qp_text::headline(&qps[0])));
    assert!(qp_text::headline(&qps[1]).ends_with(" Last error: IBV_WC_RETRY_EXC_ERR"));
}

#[test]
fn lists() {
    let host = host();
    let nics = models(&host);
    // No such processes: both look crashed.
    let all = [text::ps, text::qps, text::cqs, text::mrs, text::mws, text::pds, text::srqs, text::ahs];
    insta::assert_snapshot!(all.map(|list| list(Lang::En, &nics)).join("\n"));
    assert_eq!(all.map(|list| list(Lang::En, &[]).lines().count()), [1; 8]);
}

#[test]
fn a_qp_in_full() {
    let host = host();
    let nic = &host.nics[0].model;
    insta::assert_snapshot!(qp_text::show(Lang::En, nic, &nic.qps[1]));
}

#[test]
fn a_qp_in_bytes() {
    let host = host();
    insta::assert_snapshot!(qp_text::hex(Lang::En, &host.nics[0].model.qps[0]));
}

#[test]
fn both_ends_in_one_timeline() {
    let host = host();
    let entries = timeline::of_qp(Lang::En, &host, 0x7fff_fff0, 0x1234);
    insta::assert_snapshot!(qp_text::log(Lang::En, &entries));
    assert_eq!(entries.len(), 8);
    assert_eq!((entries[0].thread, entries[0].took_ns), (Some(4243), Some(1500)));
    assert!(entries.is_sorted_by_key(|entry| entry.at_ns));
    assert_eq!(timeline::of_qp(Lang::En, &host, 0x7fff_fff0, 0x9999), []);
}

/// There may be a hundred thousand.
#[test]
fn the_model_of_an_idle_qp_is_small() {
    let host = host();
    let [qp, other] = &host.nics[0].model.qps[..] else { panic!("two") };
    let strings = [&qp.qp_type, &qp.state, &qp.driver_state].map(String::capacity);
    let peer = qp.peer.as_ref().map_or(0, |peer| peer.gid.capacity());
    let size = size_of::<QpModel>() + strings.iter().sum::<usize>() + peer;
    assert!(size <= 1024, "{size} bytes");
    // The names of frames are longer than all the rest: those of one place are kept once.
    assert!(!qp.site.is_empty() && std::ptr::eq(&*qp.site, &*other.site));
}

#[test]
fn qps_and_records_are_found_by_number() {
    let host = host();
    let pids = |qpn| host.qps_of(qpn).map(|(nic, qp)| (nic.model.pid, qp.qpn)).collect::<Vec<_>>();
    assert_eq!(pids(0x1234), [(0x7fff_fff0, 0x1234)]);
    assert_eq!(pids(0x2235), [(0x7fff_fff1, 0x2235)]);
    assert_eq!((pids(0), pids(0x1236)), (vec![], vec![]));
    let nic = &host.nics[0];
    let seqs: Vec<_> = nic.records_of(0x1234).map(CommandRecord::seq).collect();
    let all = nic.records.iter().filter(|record| record.qpn() == 0x1234);
    assert!(seqs.len() > 3 && all.map(CommandRecord::seq).eq(seqs));
    assert_eq!(nic.records_of(0x2234).count(), 0);
}

#[test]
fn json_has_numbers_as_numbers() {
    let host = host();
    let json = serde_json::to_value(&host.nics[0].model).unwrap();
    assert_eq!(json["state"], "crashed");
    assert_eq!(json["qps"][0]["qpn"], 0x1234);
    assert_eq!(json["qps"][0]["peer"]["pid"], 0x7fff_fff1);
    assert_eq!(json["qps"][0]["sq"]["used"], 8);
    assert_eq!(json["qps"][1]["first_error"]["status"], 12);
    assert_eq!(json["mrs"][0]["access"].as_array().unwrap().len(), 2);
    assert_eq!(json["cqs"][0]["handle"], 0x100);
}

#[test]
fn all_of_it_in_chinese() {
    let lang = Lang::Zh;
    let (one, two) = (memory(0x7fff_fff0, 0x1234, 0x2234), memory(0x7fff_fff1, 0x2234, 0x1234));
    record_life(&one, 0x1234, 0x2234, NOW - 1_000_000);
    record_life(&two, 0x2234, 0x1234, NOW - 995_000);
    let read = |memory, name| NicReading::of(lang, &NicView::in_memory(memory), name, NOW);
    let host = Host::of(vec![read(two, "nic-two"), read(one, "nic-one")], NOW);
    let nics = models(&host);
    let all = [text::ps, text::qps, text::cqs, text::mrs, text::mws, text::pds, text::srqs, text::ahs];
    let qp = &nics[0].qps[1];
    let shown = qp_text::show(lang, nics[0], qp);
    // Scripts rely on it in every language.
    assert!(shown.starts_with(&qp_text::headline(qp)));
    let hex = qp_text::hex(lang, &nics[0].qps[0]);
    let log = qp_text::log(lang, &timeline::of_qp(lang, &host, 0x7fff_fff0, 0x1234));
    insta::assert_snapshot!(format!(
        "{}\n{shown}\n{hex}\n{log}",
        all.map(|list| list(lang, &nics)).join("\n")
    ));
}
