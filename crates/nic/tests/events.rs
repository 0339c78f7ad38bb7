//! Asynchronous events of port, device, QPs and CQs: by what they are brought about, and what they stop.

use std::sync::{Arc, Mutex};

use glassnic_events::{AsyncEventType as E, AttrMask, Errno, QpState, QpType, errno};
use glassnic_nic::context::{ContextMemory, Header, Layout};
use glassnic_nic::limits::Limits;
use glassnic_nic::port::Port;
use glassnic_nic::window::WindowType;
use glassnic_nic::{Nic, Notifier, QpInit, QpShared, REQUEST_REFUSED, SrqAttr, Subject, World, request};
use glassnic_transport::attr::{AddressVector, Mtu, QpAttr, QpCap};
use glassnic_transport::{AtomicOp, KeyFault, Payload, SendFlags, SendRequest, Tx};
use glassnic_wire::{Qpn, Service};

/// Keeps the events.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<(E, Subject)>>);

impl Told {
    fn take(&self) -> Vec<(E, Subject)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Notifier for Told {
    fn completion(&self, _: u32) {}
    fn asynchronous(&self, event: E, subject: Subject) {
        self.0.lock().unwrap().push((event, subject));
    }
}

/// Counts what leaves.
#[derive(Default)]
struct Wire(u32);

impl World for Wire {
    fn burst(&self, _: &AddressVector, _: Qpn, _: Service, _: u32) -> u32 {
        1
    }
    fn room(&mut self, _: &AddressVector, _: Qpn, _: Service, _: usize) -> bool {
        true
    }
    fn transmit(&mut self, _: [u8; 16], _: &Tx<'_>) {
        self.0 += 1;
    }
    fn store(&mut self, _: u64, _: &Payload<'_>, _: usize, _: usize) -> Result<(), KeyFault> {
        Ok(())
    }
    fn atomic(&mut self, _: u64, _: AtomicOp) -> Result<u64, KeyFault> {
        Ok(0)
    }
}

const GID: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const PORT: Subject = Subject::Port(1);

fn port() -> Port {
    Port { gids: vec![Some(GID), None], active_mtu: Mtu::M1024, active: true }
}

fn nic() -> (Nic, Arc<Told>) {
    let told = Arc::new(Told::default());
    let memory = ContextMemory::private(Layout::bare(4, 64));
    let mut nic = Nic::new(Limits::default(), port(), memory, told.clone(), 11);
    nic.add_qpn_block(3);
    (nic, told)
}

/// A UC QP that can send, the handle of its CQ, and its PD.
fn ready(nic: &mut Nic, depth: u32) -> (Arc<QpShared>, u32, u32) {
    let pd = nic.alloc_pd(0).unwrap();
    let (cq, _) = nic.create_cq(depth, 0).unwrap();
    let cap = QpCap { max_send_wr: 8, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
    let init =
        QpInit { pd, qp_type: QpType::Uc, send_cq: cq, recv_cq: cq, srq: None, cap, sq_sig_all: false };
    let qp = nic.create_qp(&init, 0).unwrap();
    let ah = AddressVector { is_global: true, dgid: GID, port_num: 1, ..AddressVector::default() };
    let attr = QpAttr { port_num: 1, dest_qp_num: 0x77, ah, ..QpAttr::default() };
    use AttrMask as M;
    let moves = [
        (QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS),
        (QpState::Rtr, M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN),
        (QpState::Rts, M::SQ_PSN),
    ];
    for (qp_state, mask) in moves {
        nic.modify_qp(&mut Wire::default(), qp.qpn, mask | M::STATE, &QpAttr { qp_state, ..attr }, 0)
            .unwrap();
    }
    (qp, cq, pd)
}

fn post(qp: &QpShared, count: u64) {
    let mut sender = qp.send().unwrap();
    for wr_id in 0..count {
        let request = SendRequest { wr_id, flags: SendFlags::SIGNALED, ..SendRequest::default() };
        sender.stage(&request, std::iter::empty()).unwrap();
    }
    sender.commit();
}

#[test]
fn what_the_host_does_to_the_port_is_told_once() {
    let (mut nic, told) = nic();
    nic.set_port(port(), 0);
    assert_eq!(told.take(), []);
    let more = Port { gids: vec![Some(GID), Some([1; 16])], ..port() };
    nic.set_port(more.clone(), 1);
    assert_eq!(told.take(), [(E::GidChange, PORT)]);
    nic.set_port(Port { active: false, ..more.clone() }, 2);
    nic.set_port(Port { active: false, ..more.clone() }, 3);
    assert_eq!(told.take(), [(E::PortErr, PORT)]);
    nic.set_port(more, 4);
    assert_eq!(told.take(), [(E::PortActive, PORT)]);
}

#[test]
fn nothing_leaves_a_port_that_was_taken_down() {
    let (mut nic, told) = nic();
    let (qp, ..) = ready(&mut nic, 16);
    let mut wire = Wire::default();
    assert!(nic.provoke(&mut wire, E::PortErr, 0, 1));
    assert!(nic.provoke(&mut wire, E::PortErr, 0, 1));
    assert_eq!((told.take(), nic.port_is_up()), (vec![(E::PortErr, PORT)], false));
    post(&qp, 2);
    nic.progress(&mut wire, 2);
    assert_eq!(wire.0, 0);
    nic.set_port(port(), 3);
    assert_eq!(told.take(), [], "the interface was up all the time");
    assert!(nic.provoke(&mut wire, E::PortActive, 0, 4));
    assert_eq!(told.take(), [(E::PortActive, PORT)]);
    post(&qp, 2);
    nic.progress(&mut wire, 5);
    assert_eq!(wire.0, 2);
}

#[test]
fn a_device_that_has_stopped_serves_only_what_ends_objects() {
    let (mut nic, told) = nic();
    let (qp, cq, pd) = ready(&mut nic, 16);
    let shared = SrqAttr { max_wr: 4, max_sge: 1, limit: 0 };
    let srq = nic.create_srq(pd, &shared, 0).unwrap().handle;
    let mut wire = Wire::default();
    assert!(nic.provoke(&mut wire, E::DeviceFatal, 0, 1));
    assert!(nic.provoke(&mut wire, E::DeviceFatal, 0, 1), "again: nothing happens");
    assert_eq!(told.take(), [(E::DeviceFatal, Subject::Device)]);
    assert_eq!(qp.state(), QpState::Err);
    let to_reset = QpAttr::default();
    let refused = [
        nic.alloc_pd(2).unwrap_err(),
        nic.create_cq(4, 2).unwrap_err(),
        nic.resize_cq(cq, 4, 2).unwrap_err(),
        nic.modify_qp(&mut wire, qp.qpn, AttrMask::STATE, &to_reset, 2).unwrap_err(),
        nic.query_qp(qp.qpn, AttrMask::STATE, 2).unwrap_err(),
        nic.alloc_mw(pd, WindowType::One, 2).unwrap_err(),
        nic.alloc_dm(64, 2).unwrap_err(),
        nic.create_srq(pd, &shared, 2).unwrap_err(),
        nic.modify_srq(srq, Some(8), None, 2).unwrap_err(),
    ];
    for refusal in refused {
        assert_eq!(errno(&refusal.rule), Errno(5), "{refusal:?}");
    }
    nic.destroy_qp(qp.qpn, 3).unwrap();
    nic.destroy_srq(srq, 3).unwrap();
    nic.destroy_cq(cq, 3).unwrap();
    nic.dealloc_pd(pd, 3).unwrap();
}

#[test]
fn an_overrun_is_told_of_the_queue_and_of_the_qp_that_it_ends() {
    let (mut nic, told) = nic();
    let (qp, cq, _) = ready(&mut nic, 1);
    post(&qp, 3);
    nic.progress(&mut Wire::default(), 1);
    assert_eq!(told.take(), [(E::CqErr, Subject::Cq(cq)), (E::QpFatal, Subject::Qp(qp.qpn))]);
}

#[test]
fn what_is_asked_for_from_outside_happens_or_is_refused() {
    let (mut nic, told) = nic();
    let (qp, cq, _) = ready(&mut nic, 16);
    let mut wire = Wire::default();
    let mut ask = |event, subject| {
        nic.memory().set(Header::EventAsked, request(event, subject));
        nic.take_request(&mut wire, 1);
        (nic.memory().get(Header::EventAsked), told.take())
    };
    assert_eq!(ask(E::PathMig, qp.qpn), (0, vec![(E::PathMig, Subject::Qp(qp.qpn))]));
    assert_eq!(ask(E::LidChange, 0), (0, vec![(E::LidChange, PORT)]));
    assert_eq!(ask(E::PathMig, 9), (REQUEST_REFUSED, vec![]));
    assert_eq!(ask(E::CqErr, 9), (REQUEST_REFUSED, vec![]));
    assert_eq!(ask(E::WqFatal, 0), (REQUEST_REFUSED, vec![]));
    assert_eq!(ask(E::CqErr, cq), (0, vec![(E::CqErr, Subject::Cq(cq))]));
    assert_eq!(ask(E::QpFatal, qp.qpn), (0, vec![(E::QpFatal, Subject::Qp(qp.qpn))]));
    assert_eq!(qp.state(), QpState::Err);
    for nonsense in [0xff, 0x80, u64::MAX - 1] {
        nic.memory().set(Header::EventAsked, nonsense);
        nic.take_request(&mut wire, 1);
        assert_eq!(nic.memory().get(Header::EventAsked), REQUEST_REFUSED, "{nonsense:#x}");
    }
}
