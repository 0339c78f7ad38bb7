//! Several queue pairs take their receives from one shared queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use glassnic_events::{AsyncEventType, AttrMask, Check, QpState, QpType, WcStatus, WrOpcode};
use glassnic_nic::{QpShared, Srq, SrqAttr, Subject};
use glassnic_sim::Rng;
use glassnic_sim::fabric::{Fabric, Grant, post_send};
use glassnic_transport::attr::{AccessFlags, AddressVector, Mtu, QpAttr};
use glassnic_transport::{Completion, SendRequest, Sge, UdDest};
use glassnic_wire::Qpn;

const MEMORY: usize = 4 << 20;
const SLOT: u64 = 8 << 10;
/// The server's receives lie from here on.
const RECEIVES: u64 = 1 << 20;

/// A client (host 0) with several queue pairs, each connected to one of the server's (host 1), whose receives come from one
/// shared queue.
struct Stage {
    fabric: Fabric,
    clients: Vec<Arc<QpShared>>,
    servers: Vec<Arc<QpShared>>,
    srq: Arc<Srq>,
    from: Grant,
    to: Grant,
}

fn rights() -> AccessFlags {
    AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE
}

fn attributes(fabric: &Fabric, peer: usize, dest_qp_num: u32) -> QpAttr {
    let dgid = fabric.hosts[peer].gids[0];
    QpAttr {
        port_num: 1,
        path_mtu: Mtu::M1024,
        dest_qp_num,
        ah: AddressVector { is_global: true, dgid, port_num: 1, hop_limit: 64, ..AddressVector::default() },
        access: AccessFlags::REMOTE_WRITE,
        qkey: 0x11,
        rq_psn: 0xff_fff0,
        sq_psn: 0xff_fff0,
        timeout: 8,
        retry_cnt: 7,
        rnr_retry: 7,
        min_rnr_timer: 1,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        ..QpAttr::default()
    }
}

impl Stage {
    fn new(qp_type: QpType, qps: usize, max_wr: u32) -> Self {
        let mut fabric = Fabric::new(2, MEMORY, Mtu::M1024);
        let pd = fabric.hosts[1].pd;
        let attr = SrqAttr { max_wr, max_sge: 2, limit: 0 };
        let srq = fabric.hosts[1].nic.create_srq(pd, &attr, 0).unwrap();
        let clients: Vec<_> = (0..qps).map(|_| fabric.hosts[0].create(qp_type)).collect();
        let on_srq = |fabric: &mut Fabric| fabric.hosts[1].create_on(pd, qp_type, Some(srq.handle));
        let servers: Vec<_> = (0..qps).map(|_| on_srq(&mut fabric)).collect();
        for (client, server) in clients.iter().zip(&servers) {
            for (side, qp, peer) in [(0, client, server), (1, server, client)] {
                let attr = attributes(&fabric, 1 - side, peer.qpn);
                fabric.hosts[side].raise_to(qp, QpState::Rts, &attr);
            }
        }
        let [a, b] = [0, 1].map(|host| {
            let pd = fabric.hosts[host].pd;
            fabric.hosts[host].register(pd, 0, MEMORY as u64, rights())
        });
        Self { fabric, clients, servers, srq, from: a, to: b }
    }

    /// Posts receive `slot` of the shared queue.
    fn post(&self, slot: u64) {
        self.srq.post(slot, [self.to.sge(RECEIVES + slot * SLOT, SLOT as u32)].into_iter()).unwrap();
    }

    /// A client sends what lies at `offset`.
    fn send(&self, client: usize, wr_id: u64, offset: u64, len: u32) {
        let mut request = SendRequest { wr_id, opcode: WrOpcode::Send, ..SendRequest::default() };
        let ah = attributes(&self.fabric, 1, 0).ah;
        request.ud = UdDest { av: ah, qpn: Qpn::new(self.servers[client].qpn), qkey: 0x11 };
        post_send(&self.clients[client], &request, &[self.from.sge(offset, len)]).unwrap();
    }

    /// The first of three packets comes, and the others are lost.
    fn send_first_of_three(&mut self, client: usize) {
        self.send(client, 99, 0, 3000);
        self.fabric.pump();
        self.fabric.lose_all_but(1);
        let until = self.fabric.now + 1_500;
        self.fabric.run_until(until);
    }

    fn poll(&self, host: usize) -> Vec<Completion> {
        let mut got = Vec::new();
        self.fabric.hosts[host].cq.poll(u32::MAX, |c| got.push(c.completion));
        got
    }

    /// What the server received: which slot, how it ended, by which of the queue pairs.
    fn received(&self) -> Vec<(u64, WcStatus, usize)> {
        let of = |c: &Completion| self.servers.iter().position(|qp| qp.qpn == c.qpn.value()).unwrap();
        self.poll(1).iter().map(|c| (c.wr_id, c.status, of(c))).collect()
    }

    fn move_to_error(&mut self, server: usize) {
        let attr = QpAttr { qp_state: QpState::Err, ..QpAttr::default() };
        let qpn = self.servers[server].qpn;
        let now = self.fabric.now;
        self.fabric.hosts[1].modify(qpn, AttrMask::STATE, &attr, now).unwrap();
        self.fabric.pump();
    }

    fn heard(&self) -> Vec<(AsyncEventType, Subject)> {
        let mut all = self.fabric.hosts[1].heard.take();
        all.retain(|(event, _)| *event != AsyncEventType::CommEst);
        all
    }
}

#[test]
fn eight_queue_pairs_share_a_queue_under_loss() {
    for seed in 0..12 {
        let mut stage = Stage::new(QpType::Rc, 8, 16);
        stage.fabric.loss = Some((40, Rng::new(seed)));
        let mut rng = Rng::new(seed ^ 0x55);
        // Fewer receives than messages on the way: each queue pair meets an empty queue at times.
        (0..6).for_each(|slot| stage.post(slot));
        let rounds = 24u64;
        let mut sent: BTreeMap<(usize, u64), Vec<u8>> = BTreeMap::new();
        for round in 0..rounds {
            for client in 0..8 {
                let (len, at) = (1 + rng.below(5000), (client as u64 * rounds + round) * SLOT % RECEIVES);
                let mut bytes = vec![0; len as usize];
                rng.fill(&mut bytes);
                stage.fabric.hosts[0].ground.bytes[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                stage.send(client, round, at, len as u32);
                sent.insert((client, round), bytes);
            }
            // The source of a message stays as it is until it is acknowledged: one round at a time.
            let mut next = [round; 8];
            let mut free: BTreeSet<u64> = BTreeSet::new();
            for _ in 0..10_000 {
                let until = stage.fabric.now + 50_000;
                stage.fabric.run_until(until);
                stage.fabric.now = until;
                for c in stage.poll(1) {
                    assert_eq!(c.status, WcStatus::Success);
                    let server = stage.servers.iter().position(|qp| qp.qpn == c.qpn.value()).unwrap();
                    assert_eq!(next[server], round, "one message of each");
                    next[server] += 1;
                    let want = &sent[&(server, round)];
                    let at = (RECEIVES + c.wr_id * SLOT) as usize;
                    assert_eq!(c.byte_len as usize, want.len());
                    assert_eq!(&stage.fabric.hosts[1].ground.bytes[at..][..want.len()], want, "seed {seed}");
                    assert!(free.insert(c.wr_id), "one receive took two messages");
                }
                free.iter().for_each(|slot| stage.post(*slot));
                free.clear();
                if next.iter().all(|n| *n == round + 1) {
                    break;
                }
            }
            assert!(next.iter().all(|n| *n == round + 1), "seed {seed}: {next:?}");
            let until = stage.fabric.now + 20_000_000;
            stage.fabric.run_until(until);
            assert!(stage.poll(0).iter().all(|c| c.status == WcStatus::Success));
        }
        assert_eq!(stage.srq.used(), (6, 6));
        assert!(stage.heard().is_empty(), "the limit was never armed");
    }
}

#[test]
fn an_empty_shared_queue_makes_a_sender_wait_until_there_is_a_receive() {
    let mut stage = Stage::new(QpType::Rc, 2, 4);
    stage.send(0, 1, 0, 8);
    stage.send(1, 2, 8, 8);
    stage.fabric.run_until(100_000);
    assert!(stage.received().is_empty() && stage.poll(0).is_empty());
    let naks = stage.fabric.hosts[1].ground.sent.iter().filter(|h| h.aeth.is_some()).count();
    assert!(naks >= 4, "both are told to wait, again and again: {naks}");
    stage.post(0);
    stage.fabric.run_until(1_000_000);
    assert_eq!(stage.received().len(), 1, "one receive is for one message, whoever sends it");
    stage.post(1);
    stage.fabric.run();
    assert_eq!(stage.received().len(), 1);
    assert_eq!(stage.poll(0).iter().filter(|c| c.status == WcStatus::Success).count(), 2);
}

#[test]
fn a_limit_is_told_once_each_time_it_is_armed() {
    let mut stage = Stage::new(QpType::Rc, 2, 8);
    let told = (AsyncEventType::SrqLimitReached, Subject::Srq(stage.srq.handle));
    (0..6).for_each(|slot| stage.post(slot));
    stage.fabric.hosts[1].nic.modify_srq(stage.srq.handle, None, Some(4), 0).unwrap();
    assert_eq!(stage.srq.attr().limit, 4);
    stage.send(0, 1, 0, 8);
    stage.send(1, 2, 0, 8);
    stage.fabric.run();
    assert!(stage.heard().is_empty(), "four are not fewer than four");
    stage.send(0, 3, 0, 8);
    stage.fabric.run();
    assert_eq!(stage.heard(), [told]);
    assert_eq!(stage.srq.attr().limit, 0, "not armed any more");
    stage.send(1, 4, 0, 8);
    stage.fabric.run();
    assert!(stage.heard().is_empty());
    // There are two. Armed with three it has fewer already.
    stage.fabric.hosts[1].nic.modify_srq(stage.srq.handle, None, Some(3), 0).unwrap();
    assert_eq!((stage.heard(), stage.srq.attr().limit), (vec![told], 0));
    stage.fabric.hosts[1].nic.modify_srq(stage.srq.handle, None, Some(2), 0).unwrap();
    assert!(stage.heard().is_empty());
}

#[test]
fn an_error_of_one_queue_pair_leaves_the_shared_queue_to_the_others() {
    let mut stage = Stage::new(QpType::Rc, 3, 8);
    (0..4).for_each(|slot| stage.post(slot));
    stage.send_first_of_three(0);
    assert_eq!(stage.srq.used(), (3, 4));
    stage.move_to_error(0);
    assert_eq!(stage.received(), [(0, WcStatus::WrFlushErr, 0)], "what it had in hand, and no more");
    let last = |server: usize| (AsyncEventType::QpLastWqeReached, Subject::Qp(stage.servers[server].qpn));
    assert_eq!(stage.heard(), [last(0)]);
    assert_eq!(stage.srq.used(), (3, 3));
    // Again in error: nothing is told twice.
    stage.move_to_error(0);
    assert!(stage.heard().is_empty());
    stage.send(1, 2, 0, 8);
    stage.fabric.run();
    assert_eq!(stage.received(), [(1, WcStatus::Success, 1)]);

    // A fault of its own: the message is longer than the receive.
    stage.send(1, 3, 0, SLOT as u32 + 1);
    stage.fabric.run();
    assert_eq!(stage.received(), [(2, WcStatus::LocLenErr, 1)]);
    assert_eq!(stage.servers[1].state(), QpState::Err);
    assert_eq!(
        stage.heard().last(),
        Some(&(AsyncEventType::QpLastWqeReached, Subject::Qp(stage.servers[1].qpn)))
    );
    stage.send(2, 4, 0, 8);
    stage.fabric.run();
    assert_eq!(stage.received(), [(3, WcStatus::Success, 2)]);
}

#[test]
fn what_a_queue_pair_has_in_hand_at_its_end_is_the_others() {
    for destroys in [true, false] {
        let mut stage = Stage::new(QpType::Rc, 2, 2);
        (0..2).for_each(|slot| stage.post(slot));
        // A completion that is not polled, and a message of which one packet has come.
        stage.send(0, 1, 0, 8);
        stage.fabric.run();
        stage.send_first_of_three(0);
        assert_eq!(stage.srq.used(), (0, 2));
        let (qpn, now) = (stage.servers[0].qpn, stage.fabric.now);
        if destroys {
            stage.fabric.hosts[1].nic.destroy_qp(qpn, now).unwrap();
        } else {
            let attr = QpAttr { qp_state: QpState::Reset, ..QpAttr::default() };
            stage.fabric.hosts[1].modify(qpn, AttrMask::STATE, &attr, now).unwrap();
        }
        assert_eq!(stage.fabric.hosts[1].cq.waiting(), 0);
        assert_eq!(
            stage.srq.used(),
            (1, 1),
            "the completion's slot is free, the unfinished message's receive is back"
        );
        stage.post(0);
        stage.send(1, 3, 0, 8);
        stage.send(1, 4, 0, 8);
        let until = stage.fabric.now + 50_000;
        stage.fabric.run_until(until);
        assert_eq!(stage.received(), [(1, WcStatus::Success, 1), (0, WcStatus::Success, 1)]);
    }
}

#[test]
fn an_unreliable_message_that_is_not_whole_gives_its_receive_back() {
    let mut stage = Stage::new(QpType::Uc, 2, 4);
    stage.post(0);
    stage.send_first_of_three(0);
    assert_eq!(stage.srq.used(), (0, 1));
    // The next message starts afresh: it finds the receive that the one before had.
    stage.send_first_of_three(0);
    assert_eq!(stage.srq.used(), (0, 1));
    // A packet from the middle of a message that never began: what there was of the one before is given up.
    stage.send(0, 3, 0, 3000);
    stage.fabric.pump();
    stage.fabric.lose_first();
    stage.fabric.run();
    assert_eq!((stage.received(), stage.srq.used()), (vec![], (1, 1)));
    stage.send(1, 4, 0, 8);
    stage.fabric.run();
    assert_eq!(stage.received(), [(0, WcStatus::Success, 1)]);
    assert_eq!(stage.srq.used(), (0, 0));
}

#[test]
fn a_datagram_that_does_not_fit_leaves_the_receive_to_another_queue_pair() {
    let mut stage = Stage::new(QpType::Ud, 2, 4);
    stage.srq.post(7, [stage.to.sge(RECEIVES, 40 + 100)].into_iter()).unwrap();
    stage.send(0, 1, 0, 101);
    stage.fabric.run();
    assert_eq!((stage.received(), stage.srq.used()), (vec![], (1, 1)));
    stage.send(1, 2, 0, 100);
    stage.fabric.run();
    assert_eq!(stage.received(), [(7, WcStatus::Success, 1)]);
}

#[test]
fn keys_of_shared_receives_are_of_the_shared_queues_domain() {
    let mut stage = Stage::new(QpType::Rc, 0, 4);
    let other = stage.fabric.hosts[1].nic.alloc_pd(0).unwrap();
    let foreign = stage.fabric.hosts[1].register(other, 0, 4096, rights());
    for (grant, status) in [(stage.to, WcStatus::Success), (foreign, WcStatus::LocProtErr)] {
        // A queue pair of the other domain.
        let client = stage.fabric.hosts[0].create(QpType::Rc);
        let server = stage.fabric.hosts[1].create_on(other, QpType::Rc, Some(stage.srq.handle));
        for (side, qp, peer) in [(0, &client, &server), (1, &server, &client)] {
            let attr = attributes(&stage.fabric, 1 - side, peer.qpn);
            stage.fabric.hosts[side].raise_to(qp, QpState::Rts, &attr);
        }
        (stage.clients, stage.servers) = (vec![client], vec![server]);
        stage.srq.post(1, [grant.sge(0, 64)].into_iter()).unwrap();
        stage.send(0, 1, 0, 8);
        stage.fabric.run();
        let got = stage.poll(1);
        assert_eq!(got.iter().map(|c| c.status).collect::<Vec<_>>(), [status]);
        if status != WcStatus::Success {
            assert_eq!(got[0].vendor_err, Check::LkeyPd.value());
        }
    }
}

#[test]
fn a_write_with_immediate_takes_a_shared_receive() {
    let mut stage = Stage::new(QpType::Rc, 1, 4);
    stage.post(0);
    stage.fabric.hosts[0].ground.bytes[..4].copy_from_slice(b"here");
    let request = SendRequest {
        opcode: WrOpcode::RdmaWriteWithImm,
        imm: 77,
        remote_addr: stage.to.addr + 64,
        rkey: stage.to.rkey,
        ..SendRequest::default()
    };
    post_send(&stage.clients[0], &request, &[stage.from.sge(0, 4)]).unwrap();
    stage.fabric.run();
    let got = stage.poll(1);
    assert_eq!((got.len(), got[0].wr_id, got[0].imm, got[0].byte_len), (1, 0, 77, 4));
    assert_eq!(stage.fabric.hosts[1].bytes(64, 4), b"here");
    assert_eq!(stage.srq.used(), (0, 0));
}

#[test]
fn many_threads_post_while_the_device_takes() {
    let mut stage = Stage::new(QpType::Rc, 4, 64);
    let srq = stage.srq.clone();
    let sge = stage.to.sge(RECEIVES, 8);
    let posted = std::thread::scope(|scope| {
        let post = |from: u64| {
            let srq = &srq;
            move || {
                let mut posted = 0;
                let mut id = from;
                while posted < 200 {
                    if srq.post(id, std::iter::once::<Sge>(sge).collect::<Vec<_>>().into_iter()).is_ok() {
                        posted += 1;
                        id += 1;
                    } else {
                        std::thread::yield_now();
                    }
                }
            }
        };
        let threads = [scope.spawn(post(0)), scope.spawn(post(1_000_000))];
        let mut seen: Vec<u64> = Vec::new();
        let mut sent = 0;
        while seen.len() < 400 {
            if sent < 400 && sent < seen.len() + 8 {
                stage.send(sent % 4, 0, 0, 8);
                sent += 1;
            }
            let until = stage.fabric.now + 100_000;
            stage.fabric.run_until(until);
            stage.fabric.now = until;
            seen.extend(stage.poll(1).iter().map(|c| c.wr_id));
            stage.poll(0);
        }
        for thread in threads {
            thread.join().unwrap();
        }
        seen
    });
    let mut sorted = posted.clone();
    sorted.sort_unstable();
    let want: Vec<u64> = (0..200).chain(1_000_000..1_000_200).collect();
    assert_eq!(sorted, want, "each receive once");
}
