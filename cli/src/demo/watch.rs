//! Reads the flight recorders of the two sides from outside, while they run and after.

use std::collections::BTreeSet;

use glassnic_events::Call;
use glassnic_explain::both;
use glassnic_inspect::{Repeats, Told, tell};
use glassnic_verbs::Words;
use glassnic_verbs::inspect::{Folder, NicView};

use super::summary::Lives;
use crate::lang;

/// Something that happened at a side.
#[derive(Debug)]
pub(super) struct Seen {
    /// On the host's monotonic clock.
    pub(super) at_ns: u64,
    pub(super) side: &'static str,
    pub(super) told: Told,
}

/// A NIC of one of the sides.
struct Watched {
    side: &'static str,
    name: String,
    view: NicView,
    /// Number of the record to be read next.
    next: u64,
    repeats: Repeats,
}

/// Watches the NICs of some processes.
pub(super) struct Watcher {
    folder: Folder,
    /// Processes and the names that they go by.
    sides: Vec<(u32, &'static str)>,
    nics: Vec<Watched>,
    /// Segments of others.
    foreign: BTreeSet<String>,
    lives: Lives,
}

impl Watcher {
    /// Watches nobody yet. What is there already belongs to others.
    ///
    /// # Errors
    /// In a line, why the folder of this host's processes cannot be read.
    pub(super) fn new() -> Result<Self, String> {
        let folder = Folder::open().map_err(|error| error.in_words(lang()))?;
        let foreign = folder.segments().map_err(|error| error.in_words(lang()))?.into_iter().collect();
        Ok(Self { folder, sides: Vec::new(), nics: Vec::new(), foreign, lives: Lives::default() })
    }

    /// Watches a process too.
    pub(super) fn add(&mut self, pid: u32, side: &'static str) {
        self.sides.push((pid, side));
    }

    /// What has happened since the last call: in order for each NIC.
    pub(super) fn look(&mut self) -> Vec<Seen> {
        let mut seen = Vec::new();
        self.find_nics(&mut seen);
        for nic in &mut self.nics {
            let side = nic.side;
            for record in nic.view.records(nic.next) {
                let missed = record.seq().saturating_sub(nic.next);
                let mut say = |told| seen.push(Seen { at_ns: record.timestamp_ns(), side, told });
                if missed > 0 {
                    let how = both!(
                        lang(),
                        "{missed} records were overwritten before they were read",
                        "{missed} 条记录在读取之前已被覆盖"
                    );
                    say(Told::new("NIC", "…", how));
                }
                nic.next = record.seq() + 1;
                self.lives.note(side, &record);
                if !nic.repeats.has(&record) {
                    say(tell(lang(), &record));
                }
            }
        }
        seen
    }

    /// Finds NICs that were opened since the last look.
    fn find_nics(&mut self, seen: &mut Vec<Seen>) {
        // A folder that cannot be read now is read at the next look.
        for name in self.folder.segments().unwrap_or_default() {
            if self.foreign.contains(&name) || self.nics.iter().any(|nic| nic.name == name) {
                continue;
            }
            // Gone, or not made yet.
            let Ok(Some(view)) = self.folder.nic(&name) else { continue };
            let Some((_, side)) = self.sides.iter().find(|(pid, _)| *pid == view.pid()) else {
                self.foreign.insert(name);
                continue;
            };
            let (call, device, pid) = (Call::OpenDevice, view.device(), view.pid());
            let how = both!(lang(), "{call}: {device}, process {pid}", "{call}: {device}，进程 {pid}");
            let told = Told::new("NIC", lang().pick("opened", "已打开"), how);
            seen.push(Seen { at_ns: view.opened_ns(), side, told });
            self.nics.push(Watched { side, name, view, next: 1, repeats: Repeats::default() });
        }
    }

    /// What became of each QP, a line each; those that were not destroyed by what their contexts say.
    pub(super) fn summary(&mut self) -> Vec<String> {
        for nic in &self.nics {
            for image in nic.view.contexts() {
                self.lives.note_context(nic.side, &image);
            }
        }
        self.lives.lines(lang())
    }

    /// Removes the segments of the sides, which were kept for us.
    pub(super) fn remove(&self) {
        for nic in &self.nics {
            // Somebody else may have cleaned up before.
            let _ = self.folder.remove(&nic.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use glassnic_verbs::attr::{AccessFlags, AddressVector, Mtu, QpAttr, QpCap};
    use glassnic_verbs::events::{AttrMask, QpState, QpType};
    use glassnic_verbs::{Qp, QpInit, SendRequest, Sge};

    use super::*;

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

    fn start(how: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .envs([(INNER, how), ("GLASSNIC_DEVICES", "glass0=lo"), ("GLASSNIC_KEEP", "1")])
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
        let mut watcher = Watcher::new().unwrap();
        let mut child = start("end");
        watcher.add(child.id(), "one");
        assert!(child.wait().unwrap().success());
        assert_eq!(story(&watcher.look()), STORY);
        let summary = watcher.summary();
        assert_eq!(summary.len(), 1, "{summary:?}");
        let (_, told) = summary[0].split_once(": ").unwrap();
        assert!(told.starts_with("RESET → INIT → RTR → RTS → destroyed, "), "{told}");
        assert!(told.ends_with("; 2 of 2 sends finished, 2 messages came in, no error"), "{told}");
        watcher.remove();
        assert!(watcher.folder.nic(&watcher.nics[0].name).is_err());
    }

    #[test]
    fn nothing_is_told_twice_of_a_program_that_is_looked_at_all_the_time() {
        let mut watcher = Watcher::new().unwrap();
        let mut child = start("end");
        watcher.add(child.id(), "one");
        let mut seen = Vec::new();
        while child.try_wait().unwrap().is_none() {
            seen.extend(watcher.look());
        }
        seen.extend(watcher.look());
        assert_eq!(story(&seen), STORY);
        assert!(seen.is_sorted_by_key(|s| s.at_ns));
        watcher.remove();
    }

    #[test]
    fn a_program_that_dies_leaves_its_story() {
        let mut watcher = Watcher::new().unwrap();
        let mut child = start("die");
        watcher.add(child.id(), "one");
        assert!(!child.wait().unwrap().success());
        assert_eq!(story(&watcher.look()), STORY[..11]);
        let summary = watcher.summary();
        assert!(summary[0].contains("RTR → RTS, "), "{summary:?}");
        assert!(summary[0].ends_with("2 messages came in, no error"), "{summary:?}");
        watcher.remove();
    }
}
