//! Reads the flight recorders of the two sides from outside, while they run and after.

use glassnic_events::Call;
use glassnic_explain::both;
use glassnic_inspect::{Repeats, Told, tell};

use super::summary::Lives;
use crate::follow::{Follower, Nic, Whom};
use crate::lang;

/// Something that happened at a side.
#[derive(Debug)]
pub(super) struct Seen {
    /// On the host's monotonic clock.
    pub(super) at_ns: u64,
    pub(super) side: &'static str,
    pub(super) told: Told,
}

/// A side, and what was told of its NICs.
struct Side {
    name: &'static str,
    follower: Follower,
    /// One for each NIC that is followed.
    told: Vec<ToldOf>,
}

/// What was told of a NIC.
struct ToldOf {
    /// Number of the record to be read next.
    next: u64,
    repeats: Repeats,
}

/// Watches the NICs of some programs.
#[derive(Default)]
pub(super) struct Watcher {
    sides: Vec<Side>,
    lives: Lives,
}

impl Watcher {
    /// Watches a program of ours too.
    ///
    /// # Errors
    /// In a line, why the folder of this host's processes cannot be opened.
    pub(super) fn add(&mut self, run: u64, side: &'static str) -> Result<(), String> {
        let follower = Follower::of(Whom::Program(run))?;
        self.sides.push(Side { name: side, follower, told: Vec::new() });
        Ok(())
    }

    /// What has happened since the last call: in order for each NIC.
    pub(super) fn look(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for Side { name, follower, told } in &mut self.sides {
            follower.find();
            for nic in &follower.nics()[told.len()..] {
                seen.push(opened(name, nic));
                told.push(ToldOf { next: 1, repeats: Repeats::default() });
            }
            for (nic, told) in follower.nics().iter().zip(told) {
                told.look(name, nic, &mut self.lives, &mut seen);
            }
        }
        seen
    }

    /// What became of each QP, a line each; those that were not destroyed by what their contexts say.
    pub(super) fn summary(&mut self) -> Vec<String> {
        for side in &self.sides {
            for image in side.follower.nics().iter().flat_map(|nic| nic.view.contexts()) {
                self.lives.note_context(side.name, &image);
            }
        }
        self.lives.lines(lang())
    }

    /// Removes the segments of the sides, which were kept for us.
    pub(super) fn remove(&mut self, interrupted: bool) {
        self.sides.iter_mut().for_each(|side| side.follower.remove(interrupted));
    }
}

impl ToldOf {
    fn look(&mut self, side: &'static str, nic: &Nic, lives: &mut Lives, seen: &mut Vec<Seen>) {
        for record in nic.records(self.next) {
            let missed = record.seq().saturating_sub(self.next);
            let mut say = |told| seen.push(Seen { at_ns: record.timestamp_ns(), side, told });
            if missed > 0 {
                let how = both!(
                    lang(),
                    "{missed} records were overwritten before they were read",
                    "{missed} 条记录在读取之前已被覆盖"
                );
                say(Told::new("NIC", "…", how));
            }
            self.next = record.seq() + 1;
            lives.note(side, &record);
            if !self.repeats.has(&record) {
                say(tell(lang(), &record));
            }
        }
    }
}

fn opened(side: &'static str, Nic { view, .. }: &Nic) -> Seen {
    let (call, device, pid) = (Call::OpenDevice, view.device(), view.pid());
    let how = both!(lang(), "{call}: {device}, process {pid}", "{call}: {device}，进程 {pid}");
    Seen { at_ns: view.opened_ns(), side, told: Told::new("NIC", lang().pick("opened", "已打开"), how) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use glassnic_verbs::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
    use glassnic_verbs::events::{AttrMask, QpState, QpType};
    use glassnic_verbs::{Qp, QpInit, SendRequest, Sge};

    use super::*;
    use crate::run::prepare_to_follow;

    const INNER: &str = "GLASSNIC_TEST_INNER";
    const NAME: &str = "demo::watch::tests::actor";

    /// Not a test by itself: a program whose QP sends to itself, and that ends as a program should, or at once.
    #[test]
    fn actor() {
        let Ok(how) = std::env::var(INNER) else { return };
        let context = glassnic_verbs::devices().remove(0).open().unwrap();
        let gid = context.port().gid(0).unwrap();
        let pd = context.alloc_pd().unwrap();
        let cq = context.create_cq(16, None).unwrap();
        let memory = vec![0_u8; 4096];
        let at = memory.as_ptr() as u64;
        let mr = pd.reg_mr(at, 4096, at, AccessFlags::LOCAL_WRITE).unwrap();
        let cap =
            QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
        let init =
            QpInit { qp_type: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, sq_sig_all: true };
        let qp = pd.create_qp(&init).unwrap();
        connect(&qp, gid);
        let sge = |offset| Sge { addr: at + offset, length: 64, lkey: mr.lkey() };
        for wr_id in 0..2 {
            qp.post_recv(wr_id, std::iter::once(sge(64))).unwrap();
            let mut sender = qp.sender().unwrap();
            sender.stage(&SendRequest::default(), std::iter::once(sge(0))).unwrap();
            sender.commit();
        }
        let mut done = 0;
        while done < 4 {
            qp.kick();
            cq.poll(4, |_| done += 1);
        }
        if how == "die" {
            std::process::abort();
        }
        drop((qp, mr, cq, pd, context));
    }

    fn connect(qp: &Qp, dgid: [u8; 16]) {
        let mut attr = QpAttr { qp_state: QpState::Init, port_num: 1, ..QpAttr::default() };
        let mask = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        qp.modify(mask, &attr).unwrap();
        attr.qp_state = QpState::Rtr;
        attr.ah = AddressVector { is_global: true, dgid, port_num: 1, hop_limit: 64, ..Default::default() };
        attr.path_mtu = Mtu::M1024;
        attr.dest_qp_num = qp.qpn();
        let mask =
            AttrMask::STATE | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
        qp.modify(mask | AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER, &attr).unwrap();
        (attr.qp_state, attr.timeout) = (QpState::Rts, 14);
        let mask = AttrMask::STATE | AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY;
        qp.modify(mask | AttrMask::SQ_PSN | AttrMask::MAX_QP_RD_ATOMIC, &attr).unwrap();
    }

    fn start(how: &str, watcher: &mut Watcher) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let run = prepare_to_follow(&mut command, Path::new("/"));
        watcher.add(run, "one").unwrap();
        command
            .args(["--exact", NAME])
            .envs([(INNER, how), ("GLASSNIC_DEVICES", "glass0=lo")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// What is the same in each run.
    fn story(seen: &[Seen]) -> Vec<String> {
        let kind = |told: &Told| told.subject.split(' ').next().unwrap_or_default().to_owned();
        seen.iter().map(|s| format!("{} {} {}", s.side, kind(&s.told), s.told.what)).collect()
    }

    const STORY: [&str; 15] = [
        "one NIC opened",
        "one PD allocated",
        "one CQ created",
        "one PD memory",
        "one QP created",
        "one QP RESET → INIT",
        "one QP INIT → RTR",
        "one QP RTR → RTS",
        "one QP first send",
        "one QP first packet",
        "one QP first packet",
        "one QP destroyed",
        "one MR deregistered",
        "one CQ destroyed",
        "one PD freed",
    ];

    #[test]
    fn nothing_is_lost_of_a_program_that_was_never_seen_alive() {
        let mut watcher = Watcher::default();
        let mut child = start("end", &mut watcher);
        assert!(child.wait().unwrap().success());
        assert_eq!(story(&watcher.look()), STORY);
        let summary = watcher.summary();
        assert_eq!(summary.len(), 1, "{summary:?}");
        let (_, told) = summary[0].split_once(": ").unwrap();
        assert!(told.starts_with("RESET → INIT → RTR → RTS → destroyed, "), "{told}");
        assert!(told.ends_with("; 2 of 2 sends finished, 2 messages came in, no error"), "{told}");
        watcher.remove(false);
        let follower = &watcher.sides[0].follower;
        assert!(follower.folder().nic(&follower.nics()[0].name).is_err());
    }

    #[test]
    fn nothing_is_told_twice_of_a_program_that_is_looked_at_all_the_time() {
        let mut watcher = Watcher::default();
        let mut child = start("end", &mut watcher);
        let mut seen = Vec::new();
        while child.try_wait().unwrap().is_none() {
            seen.extend(watcher.look());
        }
        seen.extend(watcher.look());
        assert_eq!(story(&seen), STORY);
        assert!(seen.is_sorted_by_key(|s| s.at_ns));
        watcher.remove(false);
    }

    #[test]
    fn a_program_that_dies_leaves_its_story() {
        let mut watcher = Watcher::default();
        let mut child = start("die", &mut watcher);
        assert!(!child.wait().unwrap().success());
        assert_eq!(story(&watcher.look()), STORY[..11]);
        let summary = watcher.summary();
        assert!(summary[0].contains("RTR → RTS, "), "{summary:?}");
        assert!(summary[0].ends_with("2 messages came in, no error"), "{summary:?}");
        // What crashed stays to be looked at, but for what we ended.
        let is_kept = |watcher: &Watcher| {
            let follower = &watcher.sides[0].follower;
            follower.folder().nic(&follower.nics()[0].name).is_ok()
        };
        watcher.remove(false);
        assert!(is_kept(&watcher));
        watcher.remove(true);
        assert!(!is_kept(&watcher));
    }
}
