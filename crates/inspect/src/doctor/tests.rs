//! Each rule on a pair of processes that are ill in one way, and on the same that are well.

use std::sync::atomic::Ordering;

use glassnic_events::{
    AsyncEventType, Call, Check, Event, Field as Arg, FirstCause, KeyAccess, ObjectKind, QpState, Refusal,
    Region, Rule as Broken, WcStatus,
};
use glassnic_explain::Lang;
use glassnic_nic::context::{ContextMemory, Header, Layout};
use glassnic_nic::recorder::Recorder;
use glassnic_verbs::driver::Field as D;
use glassnic_verbs::fields::Fields;
use glassnic_verbs::inspect::NicView;
use glassnic_verbs::qpc::{self, Field as F};
use glassnic_wire::command::{CommandOpcode, CommandRecord, body};

use super::*;
use crate::model::*;
use crate::read::NicReading;

const NOW: u64 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;
const GID: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
const ELSEWHERE: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 51, 100, 7];
const SERVER: usize = 0;
const CLIENT: usize = 1;

type Edit = Box<dyn Fn(&mut NicModel)>;

/// Two processes of this host, with a QP each; well until something is changed.
struct Lab {
    nics: Vec<ContextMemory>,
    edits: Vec<(usize, Edit)>,
}

impl Lab {
    fn new() -> Self {
        let layout = Layout { qp_slots: 64, object_slots: [0; 7], site_slots: 0, recorder_slots: 64 };
        let nic = |(pid, name, qpn, peer): (u64, &str, u64, u64)| {
            let memory = ContextMemory::private(layout);
            memory.set(Header::Pid, pid);
            memory.set_command(name);
            memory.set(Header::QpHigh, 1);
            (memory, qpn, peer)
        };
        let pairs = [(4711, "server", 0x12, 0x13), (4712, "client", 0x13, 0x12)].map(nic);
        let mut lab = Self { nics: Vec::new(), edits: Vec::new() };
        for (at, (memory, qpn, peer)) in pairs.into_iter().enumerate() {
            lab.nics.push(memory);
            lab.make(at, 0, qpn, peer);
            lab.edit(at, |nic| {
                nic.state = NicState::Open;
                nic.gids = vec![GidModel { index: 0, gid: GID }];
                nic.cqs = vec![cq(0x100)];
            });
        }
        lab
    }

    fn make(&mut self, nic: usize, slot: usize, qpn: u64, peer: u64) {
        let mut image = qpc::Image::default();
        let fields = [
            (F::Qpn, qpn),
            (F::QpType, 2),
            (F::State, 3),
            (F::Pd, 1),
            (F::SendCq, 0x100),
            (F::RecvCq, 0x100),
            (F::CreatedNs, NOW - 100 * SECOND),
            (F::DestQpn, peer),
            (F::PathMtu, 3),
            (F::Timeout, 14),
            (F::RetryCnt, 7),
            (F::RnrRetry, 7),
            (F::MaxRdAtomic, 1),
            (F::MaxDestRdAtomic, 1),
            (F::SqDepth, 4),
            (F::RqDepth, 4),
            (F::RqPosted, 4),
            (F::RqTail, 9),
            (F::SqTail, 9),
            (F::NextPsn, 0x20),
            (F::Unacknowledged, 0x20),
        ];
        fields.into_iter().for_each(|(field, value)| image.set(field, value));
        image.set_dgid(GID);
        image.store(self.nics[nic].qpc(slot).unwrap(), 0);
        let fields =
            [(D::Qpn, qpn), (D::State, 3), (D::ModifiedNs, NOW - 90 * SECOND), (D::SqPsn, 7), (D::RqPsn, 7)];
        for (field, value) in fields {
            self.driver(nic, slot, field, value);
        }
    }

    fn device(&mut self, nic: usize, field: F, value: u64) -> &mut Self {
        self.qpc(nic, 0, |image| image.set(field, value))
    }

    fn qpc(&mut self, nic: usize, slot: usize, change: impl FnOnce(&mut qpc::Image)) -> &mut Self {
        let words = self.nics[nic].qpc(slot).unwrap();
        let mut image = qpc::Image::load(words, 9).unwrap();
        change(&mut image);
        image.store(words, 0);
        self
    }

    fn driver(&mut self, nic: usize, slot: usize, field: D, value: u64) -> &mut Self {
        let info = field.info();
        let word = &self.nics[nic].driver(slot).unwrap()[info.offset / 8];
        let shift = info.offset % 8 * 8;
        let mask = if info.width == 8 { u64::MAX } else { (1 << (info.width * 8)) - 1 };
        word.store(word.load(Ordering::Relaxed) & !(mask << shift) | value << shift, Ordering::Relaxed);
        self
    }

    fn edit(&mut self, nic: usize, edit: impl Fn(&mut NicModel) + 'static) -> &mut Self {
        self.edits.push((nic, Box::new(edit)));
        self
    }

    fn recorder(&self, nic: usize) -> Recorder {
        Recorder::new(self.nics[nic].clone())
    }

    fn record<B: body::Body>(
        &mut self,
        nic: usize,
        qpn: u32,
        opcode: CommandOpcode,
        ago_ns: u64,
        b: &B,
    ) -> &mut Self {
        let mut record = CommandRecord::with_body(opcode, b).unwrap();
        record.set_qpn(qpn);
        self.recorder(nic).keep(NOW - ago_ns, record);
        self
    }

    /// A QP's requests have no answer, and were given up.
    fn in_vain(&mut self, nic: usize) -> &mut Self {
        self.device(nic, F::NextPsn, 0x23).device(nic, F::Timeouts, 8);
        self.failed(nic, Check::RetryExhausted, WcStatus::RetryExcErr)
    }

    fn failed(&mut self, nic: usize, check: Check, status: WcStatus) -> &mut Self {
        self.device(nic, F::State, 6).device(nic, F::FirstPsn, 0x20).device(nic, F::FirstWrId, 0x77);
        self.device(nic, F::FirstCheck, check.value().into()).device(
            nic,
            F::FirstStatus,
            status.value().into(),
        )
    }

    fn host(&self) -> Host {
        let read = |memory: &ContextMemory| {
            NicReading::of(Lang::En, &NicView::in_memory(memory.clone()), "nic-0", NOW)
        };
        let mut nics: Vec<_> = self.nics.iter().map(read).collect();
        for (at, edit) in &self.edits {
            edit(&mut nics[*at].model);
        }
        Host::of(nics, NOW)
    }

    fn findings(&self) -> Vec<Finding> {
        examine(&self.host(), Whom::default())
    }

    fn rules(&self) -> Vec<&'static str> {
        self.findings().iter().map(|finding| finding.fault.rule()).collect()
    }
}

fn object(handle: u32, line: u32) -> ObjectModel {
    let site = vec![format!("setup (program.c:{line})")];
    ObjectModel { handle, pd: 1, created_by: 1, age_ns: 100 * SECOND, site: site.into() }
}

fn cq(handle: u32) -> CqModel {
    CqModel {
        object: object(handle, 10),
        depth: 1000,
        worst_case: 8,
        waiting: 0,
        channel: 0x200,
        armed: "none",
        overrun: false,
        armed_with: 0,
        raised: 0,
        unacknowledged: 0,
        moderate_count: 0,
        moderate_period_us: 0,
        lost: 0,
    }
}

fn channel(asleep_ns: u64) -> ChannelModel {
    ChannelModel { object: object(0x200, 11), fd: 5, waiting: 0, asleep_ns: Some(asleep_ns), sleeper: 99 }
}

fn mr(handle: u32, addr: u64) -> MrModel {
    let (lkey, rkey) = (2 * handle, 2 * handle + 1);
    MrModel { object: object(handle, 12), lkey, rkey, addr, length: 4096, iova: addr, access: Vec::new() }
}

fn access(key: u32, region: Option<Region>) -> KeyAccess {
    KeyAccess { check: Check::RkeyUnknown, key, addr: 0x1000, len: 64, pd: 1, region }
}

/// An illness: the rule that finds it, what makes a pair ill, and what makes the same pair well again.
type Case = (&'static str, fn(&mut Lab), fn(&mut Lab));

fn peer_cases() -> Vec<Case> {
    fn init(lab: &mut Lab) {
        lab.device(SERVER, F::State, 1).device(SERVER, F::DestQpn, 0).in_vain(CLIENT);
    }
    fn late(lab: &mut Lab) {
        lab.device(SERVER, F::State, 1).device(SERVER, F::DestQpn, 0);
    }
    vec![
        ("peer_not_ready", init, |lab| {
            lab.device(SERVER, F::State, 3).device(SERVER, F::DestQpn, 0x13);
            *lab = Lab::new();
        }),
        // Nobody sends yet; a handshake may take a moment.
        ("peer_not_ready", late, |lab| {
            lab.driver(SERVER, 0, D::ModifiedNs, NOW - SECOND);
        }),
        (
            "both_in_init",
            |lab| {
                for nic in [SERVER, CLIENT] {
                    lab.device(nic, F::State, 1).device(nic, F::DestQpn, 0);
                }
            },
            |lab| {
                lab.driver(SERVER, 0, D::ModifiedNs, NOW - SECOND);
            },
        ),
        (
            "peer_missing",
            |lab| {
                lab.in_vain(CLIENT).device(CLIENT, F::DestQpn, 0x55).device(SERVER, F::State, 0);
                lab.device(SERVER, F::DestQpn, 0);
                lab.record(SERVER, 0x55, CommandOpcode::DestroyQp, SECOND, &body::DestroyQp::default());
            },
            |lab| {
                lab.qpc(CLIENT, 0, |image| image.set_dgid(ELSEWHERE)).device(CLIENT, F::Timeouts, 0);
                lab.device(CLIENT, F::State, 3).device(CLIENT, F::FirstCheck, 0).device(
                    CLIENT,
                    F::FirstStatus,
                    0,
                );
            },
        ),
        (
            "peer_gone",
            |lab| {
                lab.in_vain(CLIENT).edit(SERVER, |nic| nic.state = NicState::Crashed);
            },
            |lab| {
                lab.device(CLIENT, F::State, 3).device(CLIENT, F::NextPsn, 0x20).device(
                    CLIENT,
                    F::FirstCheck,
                    0,
                );
                lab.device(CLIENT, F::FirstStatus, 0);
            },
        ),
        (
            "qpn_mismatch",
            |lab| {
                lab.in_vain(CLIENT).device(SERVER, F::DestQpn, 0x99);
                lab.qpc(SERVER, 0, |image| image.set_dgid(ELSEWHERE));
            },
            |lab| *lab = Lab::new(),
        ),
        (
            "psn_mismatch",
            |lab| {
                lab.driver(SERVER, 0, D::RqPsn, 8).in_vain(CLIENT);
            },
            |lab| {
                *lab = Lab::new();
                // Just connected anew at one end.
                lab.driver(SERVER, 0, D::RqPsn, 8).driver(SERVER, 0, D::ModifiedNs, NOW - SECOND / 2);
            },
        ),
        (
            "mtu_mismatch",
            |lab| {
                lab.device(SERVER, F::PathMtu, 5);
            },
            |lab| {
                lab.device(CLIENT, F::PathMtu, 5);
            },
        ),
        (
            "rd_atomic_mismatch",
            |lab| {
                lab.device(CLIENT, F::MaxRdAtomic, 4);
            },
            |lab| {
                lab.device(SERVER, F::MaxDestRdAtomic, 4);
            },
        ),
        (
            "gid_mismatch",
            |lab| {
                lab.qpc(CLIENT, 0, |image| image.set_dgid(ELSEWHERE));
            },
            |lab| {
                lab.qpc(CLIENT, 0, |image| image.set_dgid(GID));
            },
        ),
        (
            "type_mismatch",
            |lab| {
                lab.device(CLIENT, F::QpType, 3);
            },
            |lab| {
                lab.device(CLIENT, F::QpType, 2);
            },
        ),
        (
            "qkey_mismatch",
            |lab| {
                lab.device(CLIENT, F::QpType, 4).device(SERVER, F::QpType, 4);
                lab.device(CLIENT, F::Qkey, 0x1111).device(CLIENT, F::Dropped, 3).device(
                    CLIENT,
                    F::LastDrop,
                    6,
                );
            },
            |lab| {
                lab.device(CLIENT, F::LastDrop, 0).device(CLIENT, F::Dropped, 0);
            },
        ),
    ]
}

fn error_cases() -> Vec<Case> {
    vec![
        (
            "first_error",
            |lab| {
                lab.failed(CLIENT, Check::LkeyUnknown, WcStatus::LocProtErr);
            },
            // What the program asked for is no fault.
            |lab| {
                lab.failed(CLIENT, Check::ModifiedToErr, WcStatus::WrFlushErr);
            },
        ),
        // A QP that is gone, whose error the recorder has.
        (
            "first_error",
            |lab| {
                let cause = FirstCause {
                    wr_id: Some(5),
                    psn: None,
                    status: WcStatus::LocLenErr,
                    check: Check::LkeyBounds,
                };
                lab.recorder(CLIENT).event(NOW - SECOND, &Event::FirstError { qpn: 0x77, cause });
            },
            |lab| *lab = Lab::new(),
        ),
        (
            "keys_mixed_up",
            |lab| {
                lab.failed(SERVER, Check::RkeyUnknown, WcStatus::RemAccessErr);
                lab.failed(CLIENT, Check::NakRemoteAccess, WcStatus::RemAccessErr);
                let region = Region { start: 0x1000, len: 4096, access: 1, pd: 1, other_key: true };
                lab.recorder(SERVER).turned_down(NOW - SECOND, 0x12, &access(0x20, Some(region)));
            },
            |lab| *lab = Lab::new(),
        ),
        (
            "memory_deregistered",
            |lab| {
                lab.failed(SERVER, Check::RkeyInvalidated, WcStatus::RemAccessErr);
                lab.failed(CLIENT, Check::NakRemoteAccess, WcStatus::RemAccessErr);
                let keys = body::RegMr { lkey: 0x20.into(), rkey: 0x21.into(), ..Default::default() };
                lab.record(SERVER, 0, CommandOpcode::DeregMr, 2 * SECOND, &keys);
                lab.recorder(SERVER).turned_down(NOW - SECOND, 0x12, &access(0x21, None));
            },
            |lab| *lab = Lab::new(),
        ),
    ]
}

fn queue_cases() -> Vec<Case> {
    vec![
        (
            "no_receive",
            |lab| {
                lab.device(SERVER, F::RqPosted, 0).device(SERVER, F::EmptySinceNs, NOW - 5 * SECOND);
                lab.device(SERVER, F::RnrSent, 40).device(CLIENT, F::RnrSinceNs, NOW - 5 * SECOND);
            },
            |lab| {
                lab.device(SERVER, F::EmptySinceNs, NOW - SECOND / 10);
            },
        ),
        (
            "rnr_loop",
            |lab| {
                lab.qpc(CLIENT, 0, |image| image.set_dgid(ELSEWHERE)).device(CLIENT, F::DestQpn, 0x99);
                lab.device(CLIENT, F::RnrSinceNs, NOW - 5 * SECOND).device(CLIENT, F::RnrReceived, 90);
                lab.qpc(SERVER, 0, |image| image.set_dgid(ELSEWHERE)).device(SERVER, F::DestQpn, 0x98);
            },
            |lab| {
                lab.device(CLIENT, F::RnrSinceNs, 0);
            },
        ),
        (
            "queue_full_unsignalled",
            |lab| {
                lab.device(CLIENT, F::SqUnsignalled, 4).device(CLIENT, F::SqUsed, 4);
                lab.driver(CLIENT, 0, D::SqPosted, 4);
            },
            // One slot is left for a signalled request.
            |lab| {
                lab.device(CLIENT, F::SqUnsignalled, 3).driver(CLIENT, 0, D::SqPosted, 3);
            },
        ),
    ]
}

fn completion_cases() -> Vec<Case> {
    vec![
        (
            "cq_too_small",
            |lab| {
                lab.edit(CLIENT, |nic| (nic.cqs[0].depth, nic.cqs[0].waiting) = (6, 4));
            },
            |lab| {
                lab.edit(CLIENT, |nic| nic.cqs[0].depth = 8);
            },
        ),
        // At once, though nothing waits in it.
        (
            "cq_too_small",
            |lab| {
                lab.edit(CLIENT, |nic| nic.cqs[0].depth = 3);
                lab.device(CLIENT, F::SqTail, 0).device(CLIENT, F::RqTail, 0);
            },
            // One of its QP's queues may be there for nothing.
            |lab| {
                lab.edit(CLIENT, |nic| nic.cqs[0].depth = 4);
            },
        ),
        (
            "cq_overrun",
            |lab| {
                lab.edit(CLIENT, |nic| (nic.cqs[0].depth, nic.cqs[0].overrun) = (8, true));
                lab.failed(CLIENT, Check::CqOverrun, WcStatus::FatalErr);
            },
            |lab| *lab = Lab::new(),
        ),
        (
            "asleep_over_completions",
            |lab| {
                lab.edit(CLIENT, |nic| {
                    let cq = &mut nic.cqs[0];
                    (cq.waiting, cq.armed_with, cq.armed) = (2, 2, "next");
                    nic.channels = vec![channel(5 * SECOND)];
                });
            },
            |lab| {
                lab.edit(CLIENT, |nic| nic.cqs[0].waiting = 0);
            },
        ),
        (
            "destroy_waits",
            |lab| {
                let kind = (ObjectKind::Cq.value() as u16).into();
                let waits = body::Waiting { kind, events: 1.into(), thread: 7.into(), ..Default::default() };
                lab.record(CLIENT, 0, CommandOpcode::DestroyWaits, 5 * SECOND, &waits);
            },
            |lab| {
                let waited =
                    body::Waiting { kind: (ObjectKind::Cq.value() as u16).into(), ..Default::default() };
                lab.record(CLIENT, 0, CommandOpcode::DestroyWaited, 4 * SECOND, &waited);
            },
        ),
        (
            "async_events_unread",
            |lab| {
                let event =
                    Event::Async { event: AsyncEventType::QpAccessErr, subject: 0x12, qpn: Some(0x12) };
                lab.recorder(SERVER).event(NOW - 5 * SECOND, &event);
                lab.edit(SERVER, |nic| {
                    nic.asynchronous = AsyncModel { waiting: 1, raised: 1, waiting_ns: Some(5 * SECOND) };
                });
            },
            |lab| {
                lab.edit(SERVER, |nic| {
                    nic.asynchronous = AsyncModel { waiting: 0, raised: 1, waiting_ns: None }
                });
            },
        ),
    ]
}

fn call_cases() -> Vec<Case> {
    vec![
        (
            "forked_child",
            |lab| {
                lab.edit(CLIENT, |nic| nic.forked_use = Some(ForkedUse { child: 4713, times: 2 }));
            },
            |lab| *lab = Lab::new(),
        ),
        (
            "concurrent_modify",
            |lab| {
                lab.driver(CLIENT, 0, D::Overlaps, 1).driver(CLIENT, 0, D::OverlapWith, 8);
                lab.driver(CLIENT, 0, D::OverlapBy, 9);
            },
            |lab| {
                lab.driver(CLIENT, 0, D::Overlaps, 0);
            },
        ),
        (
            "early_query",
            |lab| {
                lab.driver(CLIENT, 0, D::EarlyQueries, 3).edit(CLIENT, |nic| nic.write_back_ns = 10_000);
            },
            |lab| {
                lab.driver(CLIENT, 0, D::EarlyQueries, 0);
            },
        ),
        (
            "concurrent_modify",
            |lab| {
                let end = body::DestroyQp { overlaps: 2.into(), ..body::DestroyQp::default() };
                lab.record(CLIENT, 0x77, CommandOpcode::DestroyQp, SECOND, &end);
            },
            |lab| *lab = Lab::new(),
        ),
        (
            "early_query",
            |lab| {
                let end = body::DestroyQp { early_queries: 1.into(), ..body::DestroyQp::default() };
                lab.record(CLIENT, 0x77, CommandOpcode::DestroyQp, SECOND, &end);
                lab.edit(CLIENT, |nic| nic.write_back_ns = 10_000);
            },
            |lab| *lab = Lab::new(),
        ),
        (
            "refused",
            |lab| {
                let rule = Broken::OutOfRange { what: Arg::Timeout, offered: 40, min: 0, max: 31 };
                let refusal = Refusal::on_qp(Call::ModifyQp, 0x13, rule).moving(QpState::Rtr, QpState::Rts);
                lab.recorder(CLIENT).refused(NOW - 5 * SECOND, &refusal, 7);
            },
            |lab| *lab = Lab::new(),
        ),
    ]
}

fn object_cases() -> Vec<Case> {
    vec![
        (
            "near_limit",
            |lab| {
                lab.edit(CLIENT, |nic| {
                    nic.limits.max_mr = 10;
                    nic.mrs = (1..=8).map(|n| mr(n, u64::from(n) << 20)).collect();
                });
            },
            |lab| {
                lab.edit(CLIENT, |nic| nic.mrs.truncate(7));
            },
        ),
        (
            "left_behind",
            |lab| {
                lab.edit(CLIENT, |nic| nic.state = NicState::Exited);
            },
            // One that was killed could not clean up.
            |lab| {
                lab.edit(CLIENT, |nic| nic.state = NicState::Crashed);
            },
        ),
        (
            "leak",
            |lab| {
                lab.edit(CLIENT, |nic| nic.mrs = (1..=20).map(|n| mr(n, 0x10_0000)).collect());
            },
            |lab| {
                lab.edit(CLIENT, |nic| nic.mrs = (1..=20).map(|n| mr(n, u64::from(n) << 20)).collect());
            },
        ),
        (
            "leak",
            |lab| {
                lab.edit(CLIENT, |nic| nic.cqs.extend((0..16).map(|n| cq(0x300 + n))));
            },
            |lab| {
                lab.edit(CLIENT, |nic| nic.cqs.truncate(4));
            },
        ),
        (
            "idle_qp",
            |lab| {
                for slot in 1..20 {
                    lab.make(CLIENT, slot, 0x40 + slot as u64, 0);
                    lab.qpc(CLIENT, slot, |image| {
                        image.set(F::State, 1);
                        image.set(F::SqTail, 0);
                    });
                }
                lab.nics[CLIENT].set(Header::QpHigh, 20);
            },
            |lab| {
                lab.nics[CLIENT].set(Header::QpHigh, 3);
            },
        ),
    ]
}

fn cases() -> Vec<Case> {
    [peer_cases(), error_cases(), queue_cases(), completion_cases(), call_cases(), object_cases()].concat()
}

#[test]
fn a_healthy_pair_has_nothing_wrong() {
    assert_eq!(Lab::new().findings(), []);
    assert_eq!(text(Lang::En, &[]), "nothing wrong\n");
    assert_eq!(text(Lang::Zh, &[]), "没有发现问题\n");
}

#[test]
fn each_illness_is_found_once_and_its_healthy_twin_is_left_in_peace() {
    for (rule, ill, well) in cases() {
        let mut lab = Lab::new();
        ill(&mut lab);
        assert_eq!(lab.rules(), [rule]);
        well(&mut lab);
        assert_eq!(lab.rules(), [""; 0], "{rule}");
    }
}

#[test]
fn findings_in_words() {
    for lang in [Lang::En, Lang::Zh] {
        let told = cases().into_iter().map(|(_, ill, _)| {
            let mut lab = Lab::new();
            ill(&mut lab);
            text(lang, &lab.findings())
        });
        insta::assert_snapshot!(format!("findings_{}", lang.code()), told.collect::<Vec<_>>().join("\n"));
    }
}

#[test]
fn the_side_that_is_to_be_changed_is_named_and_the_other_one_is_concerned() {
    let mut lab = Lab::new();
    lab.device(SERVER, F::State, 1).device(SERVER, F::DestQpn, 0).in_vain(CLIENT);
    let host = lab.host();
    for pids in [&[4711][..], &[4712]] {
        let found = examine(&host, Whom { pids: Some(pids), gone: false });
        assert_eq!(found.len(), 1, "{pids:?}");
        assert_eq!(
            (found[0].process.pid, found[0].qpn, &found[0].others[..]),
            (4711, Some(0x12), &[4712][..])
        );
    }
    assert_eq!(examine(&host, Whom { pids: Some(&[1]), gone: false }), []);
    assert_eq!(examine(&host, Whom { pids: None, gone: true }), []);
}

#[test]
fn the_heaviest_comes_first_and_json_has_numbers_as_numbers() {
    let mut lab = Lab::new();
    lab.driver(SERVER, 0, D::Overlaps, 1).edit(CLIENT, |nic| nic.state = NicState::Exited);
    lab.failed(SERVER, Check::LkeyUnknown, WcStatus::LocProtErr);
    assert_eq!(lab.rules(), ["first_error", "concurrent_modify", "left_behind"]);
    let json = serde_json::to_value(json(Lang::En, &lab.findings())).unwrap();
    assert_eq!((&json[0]["pid"], &json[0]["qpn"]), (&4711.into(), &0x12.into()));
    assert_eq!((&json[0]["severity"], &json[2]["severity"]), (&"error".into(), &"hint".into()));
    assert!(json[0]["evidence"].is_array() && json[2]["qpn"].is_null());
}

#[test]
fn a_queue_pair_that_waits_for_a_shared_queue_is_told_to_fill_that() {
    let ill = |posted| {
        let mut lab = Lab::new();
        lab.device(SERVER, F::RqPosted, 0).device(SERVER, F::EmptySinceNs, NOW - 5 * SECOND);
        lab.device(SERVER, F::RnrSent, 40).device(CLIENT, F::RnrSinceNs, NOW - 5 * SECOND);
        lab.device(SERVER, F::Srq, 0x77);
        let (depth, ever_posted, max_sge, limit) = (16, 9, 1, 0);
        let srq = SrqModel { object: object(0x77, 12), depth, posted, ever_posted, max_sge, limit };
        lab.edit(SERVER, move |nic| nic.srqs = vec![srq.clone()]);
        lab
    };
    let found = ill(0).findings();
    let said = text(Lang::En, &found);
    for part in ["SRQ 0x77, which is empty", "9 receives were posted", "call ibv_post_srq_recv"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(text(Lang::Zh, &found).contains("SRQ 0x77"));
    assert!(!ill(1).rules().contains(&"no_receive"), "one is there by now");
}

#[test]
fn nonsense_in_a_segment_is_borne() {
    let mut lab = Lab::new();
    lab.qpc(CLIENT, 0, |image| {
        for field in
            [F::State, F::QpType, F::PathMtu, F::FirstCheck, F::FirstStatus, F::LastDrop, F::EmptySinceNs]
        {
            image.set(field, u64::MAX);
        }
    });
    lab.edit(CLIENT, |nic| nic.limits = LimitsModel { max_qp: usize::MAX, ..LimitsModel::default() });
    let found = lab.findings();
    assert!(!text(Lang::En, &found).is_empty() && !text(Lang::Zh, &found).is_empty());
}

/// The same pair at three moments, of whose client somebody registers memory.
fn looks(registered: [std::ops::Range<u32>; 3]) -> Vec<Host> {
    let look = |(second, mrs): (u64, std::ops::Range<u32>)| {
        let mut lab = Lab::new();
        lab.edit(CLIENT, move |nic| nic.mrs = mrs.clone().map(|n| mr(n + 1, u64::from(n) << 20)).collect());
        let mut host = lab.host();
        host.now_ns += second * SECOND;
        host
    };
    (0..).zip(registered).map(look).collect()
}

#[test]
fn what_grows_from_look_to_look_is_told() {
    let growing = looks([0..5, 0..20, 0..40]);
    let found = growth(&growing, None);
    let told = |lang| text(lang, &found);
    insta::assert_snapshot!(format!("{}\n{}", told(Lang::En), told(Lang::Zh)));
    assert_eq!((found[0].fault.rule(), found[0].process.pid), ("growth", 4712));
    assert_eq!(growth(&growing, Some(&[4711])), []);
    assert_eq!(growth(&growing[1..], None), [], "two looks are too few");
    // Made once; made and given up again; few.
    for well in [[0..5, 0..40, 0..40], [0..20, 10..40, 20..70], [0..5, 0..9, 0..14]] {
        assert_eq!(growth(&looks(well), None), []);
    }
}

#[test]
fn a_completion_queue_that_may_overrun_is_a_hint_until_it_fills() {
    let mut lab = Lab::new();
    lab.edit(CLIENT, |nic| nic.cqs[0].depth = 3);
    assert_eq!(lab.findings()[0].severity, Severity::Hint);
    lab.edit(CLIENT, |nic| nic.cqs[0].waiting = 2);
    assert_eq!(lab.findings()[0].severity, Severity::Warning);
    lab.edit(CLIENT, |nic| (nic.cqs[0].waiting, nic.state) = (0, NicState::Crashed));
    assert!(!lab.rules().contains(&"cq_too_small"), "what is gone will not fill it");
}

/// A thousand QPs with a CQ each, all made by one line, are one hint.
#[test]
fn completion_queues_of_one_place_are_one_hint() {
    let mut lab = Lab::new();
    lab.edit(CLIENT, |nic| {
        nic.cqs[0].depth = 3;
        let (cq, qp) = (nic.cqs[0].clone(), nic.qps[0].clone());
        for handle in 0..1000 {
            let mut cq = cq.clone();
            cq.object.handle = 0x5000 + handle;
            nic.cqs.push(cq);
            let mut qp = qp.clone();
            qp.qpn += 1 + handle;
            qp.context.set(F::SendCq, (0x5000 + handle).into());
            qp.context.set(F::RecvCq, (0x5000 + handle).into());
            nic.qps.push(qp);
        }
    });
    let findings = lab.findings();
    let small: Vec<_> = findings.iter().filter(|f| f.fault.rule() == "cq_too_small").collect();
    assert_eq!(small.len(), 1);
    assert!(text(Lang::En, &findings).contains("and 1000 more like it can overrun"));
    assert!(text(Lang::Zh, &findings).contains("1000 个同样的 CQ"));
}
