use super::*;
use crate::testing::{Actor, Folder, role, say, wait_for_the_end};

#[test]
fn blocks_have_owners_while_they_are_claimed() {
    let folder = Folder::new();
    let (one, two) = (Node::join_in(folder.path()).unwrap(), Node::join_in(folder.path()).unwrap());
    assert_ne!(one.me(), two.me());
    let epoch = two.epoch();
    let block = one.claim_block(1).unwrap();
    assert_ne!(two.epoch(), epoch);
    let qpn = u32::from(block) * QPNS_PER_BLOCK;
    assert_eq!(two.owner_of(qpn), Some(one.me()));
    assert_eq!(two.owner_of(qpn + QPNS_PER_BLOCK - 1), Some(one.me()));
    assert_eq!(two.owner_of(qpn + QPNS_PER_BLOCK), None);
    two.release_block(block).unwrap();
    assert_eq!(two.owner_of(qpn), Some(one.me()), "only the owner releases");
    one.release_block(block).unwrap();
    assert_eq!(two.owner_of(qpn), None);
    for qpn in [0, 1, 1 << 24, u32::MAX] {
        assert_eq!(one.owner_of(qpn), None);
    }
}

#[test]
fn the_seed_decides_and_all_blocks_but_the_first_are_given_once() {
    let folder = Folder::new();
    let node = Node::join_in(folder.path()).unwrap();
    let mut blocks: Vec<_> = (0..u64::from(BLOCK_COUNT) - 1).map(|_| node.claim_block(42).unwrap()).collect();
    assert!(matches!(node.claim_block(42), Err(DirectoryError::BlocksExhausted)));
    let other = Folder::new();
    let other = Node::join_in(other.path()).unwrap();
    assert_eq!(other.claim_block(42).unwrap(), blocks[0]);
    assert_ne!(other.claim_block(43).unwrap(), blocks[1]);
    blocks.sort_unstable();
    assert_eq!(blocks, (1..BLOCK_COUNT).collect::<Vec<_>>());
}

#[test]
fn leaving_gives_everything_back_and_names_are_not_reused() {
    let folder = Folder::new();
    let watcher = Node::join_in(folder.path()).unwrap();
    let node = Node::join_in(folder.path()).unwrap();
    let (me, block) = (node.me(), node.claim_block(7).unwrap());
    assert!(watcher.is_alive(me));
    drop(node);
    assert!(!watcher.is_alive(me));
    assert_eq!(watcher.owner_of(u32::from(block) << 12), None);
    let next = Node::join_in(folder.path()).unwrap();
    assert_eq!(next.me().slot, me.slot);
    assert_ne!(next.me().generation, me.generation);
    assert_eq!(watcher.process(me.slot, me.generation), None);
    assert_eq!(watcher.processes().count(), 2);
}

#[test]
fn refuses_folders_that_others_can_touch() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new();
    std::fs::create_dir(folder.path()).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let reason = |result: Result<Node, DirectoryError>| match result {
        Err(DirectoryError::Folder { reason, .. }) => reason.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    };
    assert!(reason(Node::join_in(folder.path())).contains("mode 755"));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let link = Folder::new();
    symlink(folder.path(), link.path()).unwrap();
    assert!(reason(Node::join_in(link.path())).contains("cannot be opened"));
    std::fs::remove_file(link.path()).unwrap();
    drop(Node::join_in(folder.path()).unwrap());
    let mode = std::fs::metadata(folder.path().join(NODE_FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn garbage_in_the_file_names_nobody() {
    let folder = Folder::new();
    let node = Node::join_in(folder.path()).unwrap();
    let block = node.claim_block(3).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join(NODE_FILE)).unwrap();
    for word in [u64::MAX, 0xFFFF_FFFF, 257, 1 << 32 | 300, u64::from(node.me().generation + 1) << 32 | 1] {
        let at = 20480 + u64::from(block) * 8;
        std::os::unix::fs::FileExt::write_all_at(&file, &word.to_le_bytes(), at).unwrap();
        assert_eq!(node.owner_of(u32::from(block) << 12), None, "{word:#x}");
    }
    assert!(node.reclaim_dead().is_ok());
}

#[test]
fn threads_claim_without_collision() {
    let folder = Folder::new();
    let node = Node::join_in(folder.path()).unwrap();
    let mut blocks: Vec<u16> = std::thread::scope(|scope| {
        let claim = |_| scope.spawn(|| (0..50).map(|_| node.claim_block(9).unwrap()).collect::<Vec<_>>());
        let threads: Vec<_> = (0..4).map(claim).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), 200);
}

#[test]
fn bind_order_follows_the_kernel() {
    let folder = Folder::new();
    let mut nodes: Vec<_> = (0..4).map(|_| Node::join_in(folder.path()).unwrap()).collect();
    let blocks: Vec<_> =
        nodes.iter().map(|node| node.claim_block(u64::from(node.me().slot)).unwrap()).collect();
    for node in &nodes {
        node.bind_in_order(|| Ok::<_, DirectoryError>(())).unwrap();
    }
    let place = |nodes: &[Node], block| {
        nodes[0].steering().into_iter().find(|rule| rule.0 == block).map(|rule| rule.1)
    };
    let places = |nodes: &[Node]| blocks.iter().map(|block| place(nodes, *block)).collect::<Vec<_>>();
    assert_eq!(places(&nodes), [Some(0), Some(1), Some(2), Some(3)]);
    // Closing the second moves the last into its place.
    nodes[1].close_in_order(|| ()).unwrap();
    assert_eq!(places(&nodes), [Some(0), None, Some(2), Some(1)]);
    // So does leaving altogether.
    drop(nodes.remove(2));
    assert_eq!(places(&nodes), [Some(0), None, None, Some(1)]);
}

/// Not a test by itself: a process that joins, claims, and waits to be killed.
#[test]
fn actor() {
    let Some(role) = role() else { return };
    let (part, path) = role.split_once(' ').unwrap();
    let node = Node::join_in(Path::new(path)).unwrap();
    let block = node.claim_block(5).unwrap();
    // Held until death: the worst moment to be killed.
    let lock = (part == "lock").then(|| node.lock().unwrap());
    say(block);
    wait_for_the_end();
    drop(lock);
}

#[test]
fn a_killed_process_leaves_nothing_behind() {
    let folder = Folder::new();
    let watcher = Node::join_in(folder.path()).unwrap();
    for part in ["idle", "lock"] {
        let mut child =
            Actor::start("directory::tests::actor", &format!("{part} {}", folder.path().display()));
        let qpn = child.hear().parse::<u32>().unwrap() << 12;
        let owner = watcher.owner_of(qpn).unwrap();
        assert!(watcher.is_alive(owner));
        std::fs::write(folder.path().join(file_name(INBOX, owner.slot, owner.generation)), "left").unwrap();
        std::fs::write(folder.path().join(file_name(WAKE, owner.slot, owner.generation)), "left").unwrap();
        child.kill();
        assert!(!watcher.is_alive(owner), "known at once, by pid");
        assert_eq!(watcher.reclaim_dead().unwrap(), 1);
        assert_eq!(watcher.owner_of(qpn), None);
        assert_eq!(folder.files(), [NODE_FILE]);
    }
}

#[test]
fn the_next_to_join_cleans_up() {
    let folder = Folder::new();
    let mut child = Actor::start("directory::tests::actor", &format!("idle {}", folder.path().display()));
    let qpn = child.hear().parse::<u32>().unwrap() << 12;
    child.kill();
    // A stray of somebody who died while cleaning up, and a file that is none of ours.
    std::fs::write(folder.path().join("inbox-9-77"), "left").unwrap();
    std::fs::write(folder.path().join("inbox-of-mine"), "kept").unwrap();
    let node = Node::join_in(folder.path()).unwrap();
    assert_eq!(node.owner_of(qpn), None);
    assert_eq!(node.processes().collect::<Vec<_>>(), [node.me()]);
    assert_eq!(folder.files(), ["inbox-of-mine", NODE_FILE]);
}

#[test]
fn a_forked_child_cannot_touch_the_parents_entry() {
    let folder = Folder::new();
    let mut node = Node::join_in(folder.path()).unwrap();
    let block = node.claim_block(1).unwrap();
    let parent = node.me();
    // What a child of fork(2) holds: the same value in another process.
    node.me.process.pid += 1;
    assert!(matches!(node.claim_block(2), Err(DirectoryError::Forked)));
    assert!(matches!(node.release_block(block), Err(DirectoryError::Forked)));
    drop(node);
    let watcher = Node::join_in(folder.path()).unwrap();
    assert_eq!(watcher.owner_of(u32::from(block) << 12), Some(parent));
}
