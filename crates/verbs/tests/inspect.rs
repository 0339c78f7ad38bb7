//! A NIC is seen from outside: while it is open, after it is closed, and after its process has died.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use glassnic_verbs::events::QpType;
use glassnic_verbs::inspect::{Folder, NicView};
use glassnic_verbs::qpc::Field;
use glassnic_verbs::{QpInit, attr::QpCap};

const INNER: &str = "GLASSNIC_TEST_INNER";

/// Not a test by itself: a process with a NIC and two QPs, which it says; a line asks it to destroy one and close.
#[test]
fn actor() {
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let device = glassnic_verbs::devices().remove(0);
    let context = device.open().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(16, None).unwrap();
    let cap = QpCap { max_send_wr: 3, max_recv_wr: 5, ..QpCap::default() };
    let init = QpInit { qp_type: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, sq_sig_all: false };
    let (one, two) = (pd.create_qp(&init).unwrap(), pd.create_qp(&init).unwrap());
    println!("\nqps {} {}", one.qpn(), two.qpn());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    if line.trim() == "die" {
        std::process::abort();
    }
    one.destroy().unwrap();
    drop((one, two, cq, pd, context));
}

struct Actor {
    child: Child,
    qpns: [u32; 2],
}

impl Actor {
    fn start(keep: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "actor", "--nocapture"])
            .envs([(INNER, "1"), ("GLASSNIC_DEVICES", "some-long-device-name=lo"), ("GLASSNIC_KEEP", keep)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.find_map(|line| line.strip_prefix("qps ").map(str::to_owned)).unwrap();
        let (one, two) = said.split_once(' ').unwrap();
        Self { qpns: [one.parse().unwrap(), two.parse().unwrap()], child }
    }

    /// The NIC and the name of its segment.
    fn nic(&self, folder: &Folder) -> Option<(String, NicView)> {
        let views = folder.segments().unwrap().into_iter().filter_map(|name| {
            // Those of other tests come and go.
            let view = folder.nic(&name).ok()??;
            Some((name, view))
        });
        views.into_iter().find(|(_, view)| view.pid() == self.child.id())
    }

    fn end(&mut self, how: &str) {
        writeln!(self.child.stdin.take().unwrap(), "{how}").unwrap();
        let _ = self.child.wait();
    }
}

fn qpns(view: &NicView) -> Vec<u32> {
    view.contexts().map(|image| image.get(Field::Qpn) as u32).collect()
}

#[test]
fn a_nic_is_seen_while_it_is_open_and_its_view_outlives_it() {
    let folder = Folder::open().unwrap();
    let mut actor = Actor::start("0");
    let (name, view) = actor.nic(&folder).unwrap();
    assert!(view.is_open() && view.opened_ns() > 0);
    assert_eq!(view.device(), "some-long-device");
    assert_eq!(qpns(&view), actor.qpns);
    let context = view.contexts().next().unwrap();
    assert_eq!((context.get(Field::SqDepth), context.get(Field::RqDepth)), (3, 5));
    let before = view.records(1);
    let mut names: Vec<_> = before.iter().map(|r| r.opcode().unwrap().name()).collect();
    assert_eq!(names.last(), Some(&"EXECUTED"));
    names.retain(|name| *name != "EXECUTED");
    assert_eq!(names, ["ALLOC_PD", "CREATE_CQ", "CREATE_QP", "CREATE_QP"]);

    actor.end("close");
    assert!(!view.is_open());
    let after = view.records(before.last().unwrap().seq() + 1);
    assert_eq!((after[0].opcode().unwrap().name(), after[0].qpn()), ("DESTROY_QP", actor.qpns[0]));
    assert_eq!(qpns(&view), [0u32; 0]);
    assert!(folder.nic(&name).is_err(), "a clean end removes the file");
}

#[test]
fn a_segment_that_is_to_be_kept_outlives_a_clean_end() {
    let folder = Folder::open().unwrap();
    let mut actor = Actor::start("1");
    actor.end("close");
    let (name, view) = actor.nic(&folder).unwrap();
    assert!(!view.is_open());
    assert!(view.records(1).len() > 4);
    folder.remove(&name).unwrap();
    assert!(actor.nic(&folder).is_none());
    assert!(view.records(1).len() > 4);
}

#[test]
fn a_process_that_dies_leaves_its_contexts() {
    let folder = Folder::open().unwrap();
    let mut actor = Actor::start("0");
    actor.end("die");
    let (name, view) = actor.nic(&folder).unwrap();
    assert!(view.is_open());
    assert_eq!(qpns(&view), actor.qpns);
    folder.remove(&name).unwrap();
}

#[test]
fn what_is_no_segment_is_not_taken_for_one() {
    let folder = Folder::open().unwrap();
    let name = format!("nic-0-0-{}", std::process::id());
    let file = folder.path().join(&name);
    for content in [&b""[..], b"x", &[0; 8192]] {
        std::fs::write(&file, content).unwrap();
        assert!(folder.nic(&name).unwrap().is_none(), "{} bytes", content.len());
    }
    folder.remove(&name).unwrap();
}
