//! Two managers and a channel that loses, doubles and reorders, in virtual time.

mod net;

use glassnic_cm::{Answer, ConnId, Listen, Manager, Query, State, What, Why, timing};
use glassnic_wire::cm::{IpHeader, Mad, Message, Rej, RejReason, SidrStatus};
use glassnic_wire::ip;

use net::*;

#[test]
fn a_connection_is_made_with_three_messages_and_ended_with_two() {
    let mut net = Net::listening(1);
    let conn = net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 1));
    let other = net.conn_of(1, established);
    assert_eq!(net.names, [(0, "REQ"), (1, "REP"), (0, "RTU")]);
    assert_eq!(net.sides[0].state(conn), Some(State::Established));
    assert_eq!((Manager::owner_of(conn.0), Manager::owner_of(other.0)), (3, 5));
    let (ours, theirs) = (net.sides[0].terms(conn).unwrap().0, net.sides[1].terms(other).unwrap().0);
    // What one has on its way at a time the other takes.
    assert_eq!((ours.initiator_depth, ours.responder_resources), (1, 4));
    assert_eq!((theirs.initiator_depth, theirs.responder_resources), (4, 1));
    assert_eq!((ours.dest_psn, theirs.dest_psn), (99, 77));
    assert_eq!((ours.dest_qpn, theirs.dest_qpn), (other.0 & 0xff_ffff, 0x101));
    assert_eq!((ours.rnr_retry_count, theirs.rnr_retry_count, theirs.retry_count), (3, 6, 7));
    assert!(ours.srq && !theirs.srq);

    net.names.clear();
    let now = net.now;
    net.sides[0].disconnect(now, conn).unwrap();
    assert!(net.run(SEC, |net| net.happened(1, disconnected) == 1));
    let now = net.now;
    net.sides[1].disconnect(now, other).unwrap();
    assert!(net.run(SEC, |net| net.happened(0, disconnected) == 1));
    assert_eq!(net.names, [(0, "DREQ"), (1, "DREP")]);
    assert!(net.run(10 * SEC, |net| net.happened(0, |w| *w == What::TimeWaitExit) == 1));
    assert!(net.run(10 * SEC, |net| net.happened(1, |w| *w == What::TimeWaitExit) == 1));
    let now = net.now;
    net.sides[0].destroy(now, conn);
    net.sides[1].destroy(now, other);
    assert!(net.sides.iter().all(Manager::is_empty), "nothing is left");
    assert_eq!(net.sides[0].deadline(), None);
}

#[test]
fn private_data_and_addresses_arrive() {
    let mut net = Net::listening(2);
    net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 1));
    let request = net.events.iter().find(|(_, _, event)| asked(&event.what)).unwrap().2.clone();
    let What::Request { ip: Some(header), private_data, service, .. } = request.what else { panic!() };
    assert_eq!((request.token, service), (LISTENER, SERVICE));
    assert_eq!(header.src, "10.0.0.1:4000".parse().unwrap());
    assert_eq!(private_data[36..40], *b"abc\0");
    let told =
        |what: &What| matches!(what, What::Response { private_data } if private_data.starts_with(b"xyz"));
    assert_eq!(net.happened(0, told), 1);
}

#[test]
fn with_loss_and_doubles_every_connection_is_made_once_and_ended_once() {
    for seed in 0..40 {
        let mut net = Net::listening(seed);
        (net.loss_per_mille, net.double_per_mille) = (200, 200);
        let conns: Vec<ConnId> = (1..=25).map(|token| net.connect(token)).collect();
        assert!(net.run_friendly(60 * SEC, |net| net.happened(1, established) == 25), "seed {seed}");
        assert_eq!(net.happened(1, asked), 25, "seed {seed}: no request is told twice");
        for conn in &conns {
            assert_eq!(net.sides[0].state(*conn), Some(State::Established), "seed {seed}");
            let now = net.now;
            net.sides[0].disconnect(now, *conn).unwrap();
        }
        let mut at = 0;
        let ended = net.run(120 * SEC, |net| {
            while at < net.events.len() {
                let (_, side, event) = net.events[at].clone();
                at += 1;
                if side == 1 && disconnected(&event.what) {
                    let now = net.now;
                    let _ = net.sides[1].disconnect(now, event.conn);
                }
            }
            net.happened(0, disconnected) == 25 && net.happened(1, disconnected) == 25
        });
        assert!(ended, "seed {seed}");
        let now = net.now;
        for (_, side, event) in net.events.clone() {
            net.sides[side].destroy(now, event.conn);
        }
        assert!(
            net.run(300 * SEC, |net| net.sides.iter().all(Manager::is_empty)),
            "seed {seed}: nothing is left"
        );
    }
}

#[test]
fn two_thousand_at_once_with_loss_are_all_connected() {
    let mut net = Net::listening(11);
    net.listen(LISTENER, SERVICE, 128);
    net.loss_per_mille = 50;
    for token in 1..=2000 {
        net.connect(token);
    }
    assert!(net.run_friendly(timing::patience_ns(), |net| net.happened(1, established) == 2000));
    assert_eq!(net.happened(0, |w| matches!(w, What::Unreachable { .. })), 0);
    // Retries do not collapse: a few messages a connection.
    assert!(net.names.len() < 2000 * 6, "{}", net.names.len());
}

#[test]
fn nobody_listens() {
    let mut net = Net::new(3);
    let conn = net.connect(1);
    let why = |w: &What| matches!(w, What::Rejected { reason: RejReason::INVALID_SERVICE_ID, .. });
    assert!(net.run(SEC, |net| net.happened(0, why) == 1));
    assert_eq!(net.sides[1].poll_unseen(), Some(Why::NoListener(SERVICE)));
    assert!(net.sides[1].is_empty());
    let now = net.now;
    net.sides[0].destroy(now, conn);
    assert!(net.sides[0].is_empty());
}

#[test]
fn a_rejection_brings_the_other_programs_words() {
    let mut net = Net::listening(4);
    net.connect(1);
    assert!(net.run(SEC, |net| net.happened(1, asked) == 1));
    let (conn, now) = (net.conn_of(1, asked), net.now);
    let mut words = [0; 148];
    words[..2].copy_from_slice(b"no");
    net.sides[1].reject(now, conn, RejReason::CONSUMER, b"info", &words).unwrap();
    let said_no = |w: &What| {
        matches!(w, What::Rejected { reason: RejReason::CONSUMER, message }
            if message.private_data.starts_with(b"no") && message.info_len == 4 && message.info.starts_with(b"info"))
    };
    assert!(net.run(SEC, |net| net.happened(0, said_no) == 1));
    assert!(net.sides[1].reject(now, conn, RejReason::CONSUMER, &[], &words).is_err());
}

#[test]
fn a_rejection_that_is_lost_is_said_again() {
    let mut net = Net::listening(5);
    net.connect(1);
    assert!(net.run(SEC, |net| net.happened(1, asked) == 1));
    let (conn, now) = (net.conn_of(1, asked), net.now);
    net.loss_per_mille = 1000;
    net.sides[1].reject(now, conn, RejReason::CONSUMER, &[], &[0; 148]).unwrap();
    net.collect();
    net.loss_per_mille = 0;
    // The request comes again and is told again: the program decides anew.
    assert!(net.run(5 * SEC, |net| net.happened(1, asked) == 2));
}

#[test]
fn a_program_that_thinks_makes_the_other_side_wait() {
    let mut net = Net::listening(6);
    net.connect(1);
    assert!(net.run(SEC, |net| net.happened(1, asked) == 1));
    // Far longer than the patience of one who hears nothing.
    let until = net.now + 2 * timing::patience_ns();
    while net.step(until) {}
    assert!(net.names.contains(&(1, "MRA")));
    assert_eq!(net.happened(0, |w| matches!(w, What::Unreachable { .. })), 0);
    let conn = net.conn_of(1, asked);
    net.accept(conn);
    assert!(net.run_friendly(100 * SEC, |net| net.happened(1, established) == 1));
}

#[test]
fn one_who_hears_nothing_gives_up_after_the_time_that_was_told_ahead() {
    let mut net = Net::listening(7);
    net.dead[1] = true;
    let (conn, begun) = (net.connect(1), net.now);
    let gone = |w: &What| matches!(w, What::Unreachable { tries: 16, .. });
    assert!(net.run(100 * SEC, |net| net.happened(0, gone) == 1));
    assert_eq!(net.now - begun, timing::patience_ns());
    assert_eq!(net.names.iter().filter(|(_, name)| *name == "REQ").count(), 16);
    assert_eq!(net.sides[0].state(conn), Some(State::Over));
}

#[test]
fn a_side_that_dies_at_any_step_leaves_nothing_behind() {
    for dies in 0..2 {
        for after in 0..6 {
            let mut net = Net::listening(8);
            let conn = net.connect(1);
            let mut seen = 0;
            // After so many messages one side is gone.
            net.run_friendly(SEC, |net| {
                seen = net.names.len();
                seen > after || net.happened(1, established) == 1
            });
            net.dead[dies] = true;
            let lives = 1 - dies;
            let now = net.now;
            if lives == 0 {
                let _ = net.sides[0].disconnect(now, conn);
            }
            net.run_friendly(300 * SEC, |_| false);
            let now = net.now;
            net.sides[lives].destroy_all(now);
            assert!(
                net.run(300 * SEC, |net| net.sides[lives].is_empty()),
                "side {dies} dies after {after} messages: {:?}",
                net.events
            );
        }
    }
}

#[test]
fn a_side_that_was_started_anew_is_told_that_its_connection_is_unknown() {
    let mut net = Net::listening(9);
    let conn = net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 1));
    net.sides[1] = Manager::new(5, 4711);
    let now = net.now;
    net.sides[0].disconnect(now, conn).unwrap();
    assert!(net.run(SEC, |net| net.happened(0, disconnected) == 1), "whoever knows nothing agrees");
}

#[test]
fn both_ask_to_end_at_once() {
    let mut net = Net::listening(10);
    let conn = net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 1));
    let (other, now) = (net.conn_of(1, established), net.now);
    net.sides[0].disconnect(now, conn).unwrap();
    net.sides[1].disconnect(now, other).unwrap();
    assert!(net.run(SEC, |net| net.happened(0, disconnected) == 1 && net.happened(1, disconnected) == 1));
    assert!(net.run(60 * SEC, |net| net.happened(0, |w| *w == What::TimeWaitExit) == 1));
    assert_eq!(net.happened(0, disconnected), 1, "once");
}

#[test]
fn destroying_a_connected_one_tells_the_other_side() {
    let mut net = Net::listening(12);
    let conn = net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 1));
    let now = net.now;
    net.sides[0].destroy(now, conn);
    assert!(net.run(SEC, |net| net.happened(1, disconnected) == 1));
    let (other, now) = (net.conn_of(1, established), net.now);
    net.sides[1].destroy(now, other);
    assert!(net.run(60 * SEC, |net| net.sides.iter().all(Manager::is_empty)));
    assert_eq!(net.happened(0, disconnected), 0, "nobody is there to be told");
}

#[test]
fn a_request_for_a_qp_that_is_in_timewait_is_stale() {
    let mut net = Net::listening(13);
    let conn = net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 1));
    let (other, now) = (net.conn_of(1, established), net.now);
    net.sides[1].destroy(now, other);
    net.sides[0].destroy(now, conn);
    net.run(SEC / 20, |_| false);
    // The same QP asks at once.
    let again = net.connect(1);
    let stale = |w: &What| matches!(w, What::Rejected { reason: RejReason::STALE, .. });
    assert!(net.run_friendly(SEC / 10, |net| net.happened(0, stale) == 1), "{:?}", net.events);
    let why = net.sides[1].poll_unseen();
    assert!(matches!(why, Some(Why::Stale { qpn: 0x101, for_ns: 1.. })), "{why:?}");
    let now = net.now;
    net.sides[0].destroy(now, again);
    net.run(5 * SEC, |_| false);
    net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 2), "later it may");
}

#[test]
fn a_full_backlog_says_nothing_and_takes_the_request_when_there_is_room() {
    let mut net = Net::new(14);
    net.listen(LISTENER, SERVICE, 2);
    (1..=5).for_each(|token| {
        net.connect(token);
    });
    net.run(SEC / 10, |_| false);
    assert_eq!(net.happened(1, asked), 2);
    assert_eq!(net.sides[1].poll_unseen(), Some(Why::BacklogFull { service: SERVICE, backlog: 2 }));
    assert_eq!(net.happened(0, |w| matches!(w, What::Rejected { .. })), 0);
    assert!(net.run_friendly(20 * SEC, |net| net.happened(1, established) == 5));
}

#[test]
fn the_end_of_a_listener_rejects_what_nobody_has_taken() {
    let mut net = Net::listening(15);
    net.connect(1);
    net.run(SEC / 10, |_| false);
    assert_eq!(net.happened(1, asked), 1);
    let now = net.now;
    net.sides[1].unlisten(now, LISTENER);
    let no = |w: &What| matches!(w, What::Rejected { reason: RejReason::CONSUMER, .. });
    assert!(net.run(SEC, |net| net.happened(0, no) == 1));
    assert!(net.sides[1].is_empty());
}

#[test]
fn a_request_taken_back_is_told_to_whoever_has_not_answered() {
    let mut net = Net::listening(16);
    let conn = net.connect(1);
    assert!(net.run(SEC, |net| net.happened(1, asked) == 1));
    let now = net.now;
    net.sides[0].destroy(now, conn);
    let back = |w: &What| matches!(w, What::Rejected { reason: RejReason::TIMEOUT, .. });
    assert!(net.run(SEC, |net| net.happened(1, back) == 1));
    assert!(net.sides[0].is_empty());
}

#[test]
fn a_first_message_is_as_good_as_an_rtu() {
    let mut net = Net::listening(17);
    net.connect(1);
    assert!(net.run(SEC, |net| net.happened(1, asked) == 1));
    let conn = net.conn_of(1, asked);
    net.accept(conn);
    net.sides[1].notify_established(conn).unwrap();
    net.collect();
    assert_eq!(net.happened(1, established), 1);
    assert!(net.run_friendly(SEC, |net| net.happened(0, |w| matches!(w, What::Response { .. })) == 1));
    net.run_friendly(SEC, |_| false);
    assert_eq!(net.happened(1, established), 1, "the RTU that follows tells nothing new");
}

#[test]
fn listeners_take_their_own_addresses() {
    let at = |address: &str, v6_only| Listen {
        service: SERVICE,
        address: address.parse().unwrap(),
        v6_only,
        backlog: 1,
    };
    let takes = |listen: &Listen, address: &str| listen.takes(SERVICE, address.parse().unwrap());
    assert!(takes(&at("0.0.0.0", false), "10.0.0.1") && !takes(&at("0.0.0.0", false), "::1"));
    assert!(takes(&at("::", false), "10.0.0.1") && !takes(&at("::", true), "10.0.0.1"));
    assert!(takes(&at("10.0.0.1", false), "10.0.0.1") && !takes(&at("10.0.0.1", false), "10.0.0.2"));
    assert!(!at("::", false).takes(DATAGRAMS, "::1".parse().unwrap()));
    let mut manager = Manager::new(1, 1);
    manager.listen(7, at("10.0.0.1", false));
    assert!(manager.listens(SERVICE, "10.0.0.1".parse().unwrap()));
    assert!(!manager.listens(SERVICE, "10.0.0.2".parse().unwrap()));
}

#[test]
fn a_question_for_a_qp_is_answered_again_when_the_answer_is_lost() {
    for seed in 0..20 {
        let mut net = Net::new(seed);
        net.listen(LISTENER, DATAGRAMS, 8);
        (net.loss_per_mille, net.double_per_mille) = (400, 200);
        let mut private_data = [0; 216];
        let header = IpHeader { src: "10.0.0.1:9".parse().unwrap(), dst: ip::ip_from_gid(gid(1)) };
        private_data[..36].copy_from_slice(&header.emit());
        let now = net.now;
        net.sides[0].ask(now, &Query { token: 1, service: DATAGRAMS, path: path(), private_data });
        let asked = |w: &What| matches!(w, What::Query { ip: Some(_), .. });
        assert!(net.run(60 * SEC, |net| net.happened(1, asked) == 1), "seed {seed}");
        let (conn, now) = (net.conn_of(1, asked), net.now);
        let yes =
            Answer { status: SidrStatus::SUCCESS, qpn: 0x77, qkey: 0x0123_4567, private_data: [9; 136] };
        net.sides[1].answer_query(now, conn, &yes).unwrap();
        let told = |w: &What| {
            matches!(w, What::Answer { status: SidrStatus::SUCCESS, qpn: 0x77, qkey: 0x0123_4567, .. })
        };
        assert!(net.run(60 * SEC, |net| net.happened(0, told) == 1), "seed {seed}");
        net.run(60 * SEC, |_| false);
        assert_eq!(net.happened(0, told), 1);
        assert_eq!(net.happened(1, asked), 1);
    }
}

#[test]
fn a_question_that_nobody_answers_for_is_told_so() {
    let mut net = Net::new(1);
    let now = net.now;
    net.sides[0].ask(now, &Query { token: 1, service: DATAGRAMS, path: path(), private_data: [0; 216] });
    let no = |w: &What| matches!(w, What::Answer { status: SidrStatus::UNSUPPORTED, .. });
    assert!(net.run(SEC, |net| net.happened(0, no) == 1));
}

#[test]
fn strangers_cannot_end_a_connection() {
    let mut net = Net::listening(18);
    let conn = net.connect(1);
    assert!(net.run_friendly(SEC, |net| net.happened(1, established) == 1));
    let stranger = ip::gid_from_ip([10, 0, 0, 99].into());
    let rej = Rej { remote_comm_id: conn.0, reason: 4, ..Rej::default() };
    let now = net.now;
    net.sides[0].handle_mad(now, gid(0), stranger, &Mad { tid: 1, message: Message::Rej(rej) });
    assert_eq!(net.sides[0].state(conn), Some(State::Established));
}

#[test]
fn any_message_at_any_time_is_survived() {
    let mut chance = Chance(99);
    let mut net = Net::listening(19);
    net.connect(1);
    net.run_friendly(SEC, |net| net.happened(1, established) == 1);
    let ids: Vec<u32> = net.events.iter().map(|(_, _, event)| event.conn.0).collect();
    let good = Mad { tid: 1, message: Rej::default().into() }.emit();
    for _ in 0..20_000 {
        let mut bytes = good;
        bytes[16..18].copy_from_slice(&(0x10 + chance.below(11) as u16).to_be_bytes());
        bytes[24..].iter_mut().for_each(|byte| *byte = chance.below(256) as u8);
        if chance.below(2) == 0 {
            bytes[28..32].copy_from_slice(&ids[chance.below(ids.len() as u64) as usize].to_be_bytes());
        }
        let mad = Mad::parse(&bytes).unwrap();
        let side = chance.below(2) as usize;
        net.now += chance.below(SEC);
        let now = net.now;
        net.sides[side].handle_mad(now, gid(side), gid(1 - side), &mad);
        net.sides[side].handle_timeouts(now);
        net.collect();
    }
}
