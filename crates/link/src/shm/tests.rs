use super::*;
use crate::directory::Node;
use crate::testing::{Actor, Folder, role, say, wait_for_the_end};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

fn node(folder: &Folder) -> Arc<Node> {
    Arc::new(Node::join_in(folder.path()).unwrap())
}

fn poll(inbox: &mut Inbox, budget: usize) -> Vec<(Owner, Vec<u8>)> {
    let mut got = Vec::new();
    let count = inbox.poll(budget, |sender, record| got.push((sender, record.to_vec())));
    assert_eq!(count, got.len());
    got
}

/// Whether the bell rings within a time.
fn rings(inbox: &Inbox, wait: Duration) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(inbox.wake_fd(), rustix::event::PollFlags::IN)];
    let wait = rustix::time::Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    rustix::event::poll(&mut fds, Some(&wait)).unwrap() == 1
}

#[test]
fn records_arrive_with_their_senders() {
    let folder = Folder::new();
    let (receiver, one, two) = (node(&folder), node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    assert!(inbox.is_empty() && poll(&mut inbox, 8).is_empty());
    let mut first = Peer::connect(&one, receiver.me()).unwrap();
    let mut second = Peer::connect(&two, receiver.me()).unwrap();
    first.try_push(&[b"hel", b"lo"]).unwrap();
    second.try_push(&[]).unwrap();
    second.try_push(&[&[7; RECORD_LEN_MAX]]).unwrap();
    assert_eq!(second.try_push(&[&[7; RECORD_LEN_MAX], b"!"]), Err(SendError::TooLong));
    assert!(!inbox.is_empty());
    let got = poll(&mut inbox, 8);
    let of =
        |sender: Owner| got.iter().filter(|got| got.0 == sender).map(|got| &got.1[..]).collect::<Vec<_>>();
    assert_eq!(of(one.me()), [b"hello"]);
    assert_eq!(of(two.me()), [&[][..], &[7; RECORD_LEN_MAX]]);
    assert!(inbox.is_empty());
}

#[test]
fn a_busy_sender_does_not_starve_another() {
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    let mut busy = Peer::connect(&sender, receiver.me()).unwrap();
    while busy.try_push(&[&[1; 1000]]).is_ok() {}
    assert_eq!(busy.try_push(&[&[1; 1000]]), Err(SendError::Full));
    let mut quiet = Peer::connect(&sender, receiver.me()).unwrap();
    quiet.try_push(&[&[2]]).unwrap();
    assert!(poll(&mut inbox, 16).iter().any(|(_, record)| record == &[2]));
}

#[test]
fn a_closed_peer_delivers_first_and_then_its_ring_is_free() {
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    // More than there are rings, so that they must be reused; and the memory must be given back.
    for round in 0..3 * RING_COUNT as u32 {
        let mut peer = Peer::connect(&sender, receiver.me()).unwrap();
        for part in 0..20 {
            peer.try_push(&[&(round + part).to_le_bytes(), &[9; 9000]]).unwrap();
        }
        drop(peer);
        let got = poll(&mut inbox, 100);
        assert_eq!(got.len(), 20);
        assert!((0..).zip(&got).all(|(part, got)| got.1[..4] == (round + part).to_le_bytes()));
    }
    assert_eq!(poll(&mut inbox, 1), []);
    let me = receiver.me();
    let path = folder.path().join(format!("inbox-{}-{}", me.slot, me.generation));
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(path).unwrap());
    assert!(blocks * 512 <= 4 * 4096, "{blocks} blocks of 512 bytes are still allocated");
}

#[test]
fn the_last_ring_and_the_one_after() {
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    let mut peers: Vec<_> = (0..RING_COUNT).map(|_| Peer::connect(&sender, receiver.me()).unwrap()).collect();
    assert!(matches!(Peer::connect(&sender, receiver.me()), Err(ConnectError::RingsExhausted { .. })));
    for peer in &mut peers {
        peer.try_push(&[b"x"]).unwrap();
    }
    assert_eq!(poll(&mut inbox, 1000).len(), RING_COUNT);
    peers.truncate(10);
    assert_eq!(inbox.reclaim_dead(), RING_COUNT - 10);
    assert!(Peer::connect(&sender, receiver.me()).is_ok());
}

#[test]
fn a_gone_receiver_is_told_apart() {
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let target = receiver.me();
    assert!(matches!(Peer::connect(&sender, target), Err(ConnectError::Unreachable { .. })));
    let inbox = Inbox::create(&receiver).unwrap();
    let mut peer = Peer::connect(&sender, target).unwrap();
    assert!(peer.is_alive());
    drop(inbox);
    assert_eq!(peer.try_push(&[b"x"]), Err(SendError::Gone));
    assert!(!peer.is_alive());
    drop(receiver);
    assert!(matches!(Peer::connect(&sender, target), Err(ConnectError::Gone { .. })));
    assert_eq!(folder.files(), ["node-1"]);
}

#[test]
fn a_corrupt_ring_ends_alone() {
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    let mut bad = Peer::connect(&sender, receiver.me()).unwrap();
    let mut good = Peer::connect(&sender, receiver.me()).unwrap();
    bad.try_push(&[b"one"]).unwrap();
    assert_eq!(poll(&mut inbox, 9).len(), 1);
    // The header word of the second record.
    bad.layout.0.u64(ring_at(bad.ring) + 128 + 16).store(u64::MAX, Release);
    good.try_push(&[b"two"]).unwrap();
    assert_eq!(poll(&mut inbox, 9).len(), 1);
    assert_eq!(bad.try_push(&[b"x"]), Err(SendError::Gone));
    let ring = bad.ring;
    inbox.layout.used().fetch_or(1 << ring, Release);
    assert_eq!(poll(&mut inbox, 9), []);
    assert!(inbox.is_empty(), "a bit set by a liar keeps nobody awake");
    drop(bad);
    assert_eq!(poll(&mut inbox, 9), [], "what was read once is not read again");
    assert_eq!(inbox.layout.sender(ring).load(Acquire), 0, "free for the next");
    let mut next = Peer::connect(&sender, receiver.me()).unwrap();
    assert_eq!(next.ring, ring);
    next.try_push(&[b"three"]).unwrap();
    assert_eq!(poll(&mut inbox, 9)[0].1, b"three");
}

#[test]
fn scribbled_claims_do_no_harm() {
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    let mut peer = Peer::connect(&sender, receiver.me()).unwrap();
    for (ring, word) in (1..).zip([u64::MAX, 1, 0xFFFF, 5 << 32 | 300, 0]) {
        inbox.layout.sender(ring).store(word, Relaxed);
        inbox.layout.stage(ring).store(ring as u32, Relaxed);
        inbox.layout.used().fetch_or(1 << ring, Release);
    }
    peer.try_push(&[b"x"]).unwrap();
    assert_eq!(poll(&mut inbox, 9).len(), 1);
    assert_eq!(inbox.reclaim_dead(), 4);
}

#[test]
fn a_sleeping_receiver_is_woken_and_an_awake_one_is_not() {
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    let mut peer = Peer::connect(&sender, receiver.me()).unwrap();
    peer.try_push(&[b"x"]).unwrap();
    assert!(!peer.wake_if_asleep());
    assert!(!rings(&inbox, Duration::ZERO));
    poll(&mut inbox, 9);
    inbox.sleeper().announce();
    assert!(inbox.is_empty());
    peer.try_push(&[b"y"]).unwrap();
    assert!(peer.wake_if_asleep() && !peer.wake_if_asleep());
    assert!(rings(&inbox, Duration::ZERO));
    inbox.sleeper().awake();
    inbox.clear_wake();
    assert!(!rings(&inbox, Duration::ZERO));
}

#[test]
fn a_receiver_that_sleeps_between_records_gets_all_of_them() {
    const RECORDS: u64 = 20_000;
    let folder = Folder::new();
    let (receiver, sender) = (node(&folder), node(&folder));
    let mut inbox = Inbox::create(&receiver).unwrap();
    let mut peer = Peer::connect(&sender, receiver.me()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..RECORDS {
                while peer.try_push(&[&number.to_le_bytes()]).is_err() {
                    std::thread::yield_now();
                }
                peer.wake_if_asleep();
            }
        });
        let mut next = 0_u64;
        while next < RECORDS {
            inbox.poll(64, |_, record| {
                assert_eq!(record, next.to_le_bytes());
                next += 1;
            });
            if next < RECORDS {
                inbox.sleeper().announce();
                if inbox.is_empty() {
                    assert!(rings(&inbox, Duration::from_secs(20)), "lost wake-up after {next}");
                }
                inbox.sleeper().awake();
                inbox.clear_wake();
            }
        }
    });
}

/// Not a test by itself: a process that sends to the first other one for ever, or receives.
#[test]
fn actor() {
    let Some(role) = role() else { return };
    let (part, path) = role.split_once(' ').unwrap();
    let node = Arc::new(Node::join_in(Path::new(path)).unwrap());
    if part == "receive" {
        let _inbox = Inbox::create(&node).unwrap();
        say(node.me().slot);
        wait_for_the_end();
        return;
    }
    let target = node.processes().find(|process| *process != node.me()).unwrap();
    let mut peer = Peer::connect(&node, target).unwrap();
    say("connected");
    for number in 0_u64.. {
        let bytes = [number as u8; 3000];
        while peer.try_push(&[&number.to_le_bytes(), &bytes[..number as usize % 3000]])
            == Err(SendError::Full)
        {
            std::hint::spin_loop();
        }
        peer.wake_if_asleep();
    }
}

#[test]
fn a_sender_killed_in_the_middle_leaves_whole_records_and_a_free_ring() {
    let folder = Folder::new();
    let receiver = node(&folder);
    let mut inbox = Inbox::create(&receiver).unwrap();
    for round in 0..10 {
        let mut child = Actor::start("shm::tests::actor", &format!("send {}", folder.path().display()));
        child.hear();
        let next = Cell::new(0_u64);
        let mut check = |_: Owner, record: &[u8]| {
            let (head, filler) = record.split_at(8);
            assert_eq!(head, next.get().to_le_bytes());
            assert_eq!(filler.len(), next.get() as usize % 3000);
            assert!(filler.iter().all(|byte| *byte == next.get() as u8));
            next.set(next.get() + 1);
        };
        // From its first record on: it may be long until a busy machine lets it write one.
        let deadline = Instant::now() + Duration::from_secs(20);
        while next.get() == 0 && Instant::now() < deadline {
            inbox.poll(32, &mut check);
        }
        let until = Instant::now() + Duration::from_millis(5 + round);
        while Instant::now() < until {
            inbox.poll(32, &mut check);
        }
        child.kill();
        while inbox.poll(32, &mut check) > 0 {}
        assert!(next.get() > 0);
        assert_eq!(inbox.reclaim_dead(), 1);
        assert_eq!(inbox.layout.used().load(Relaxed), 0);
        receiver.reclaim_dead().unwrap();
    }
}

#[test]
fn a_killed_receiver_is_noticed_and_removed() {
    let folder = Folder::new();
    let sender = node(&folder);
    let mut child = Actor::start("shm::tests::actor", &format!("receive {}", folder.path().display()));
    let slot = child.hear().parse::<u16>().unwrap();
    let target = sender.processes().find(|process| process.slot == slot).unwrap();
    let mut peer = Peer::connect(&sender, target).unwrap();
    peer.try_push(&[b"x"]).unwrap();
    child.kill();
    assert!(!peer.is_alive());
    assert!(matches!(Peer::connect(&sender, target), Err(ConnectError::Gone { .. })));
    sender.reclaim_dead().unwrap();
    assert_eq!(folder.files(), ["node-1"]);
    // Its memory is still mapped here, and harmless.
    let _ = peer.try_push(&[b"y"]);
    assert!(!peer.wake_if_asleep());
}
