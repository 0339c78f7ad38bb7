//! NICs of other processes, as the command shows them: a process that died, and wrong use.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use glassnic_verbs::attr::QpCap;
use glassnic_verbs::events::QpType;
use glassnic_verbs::{QpInit, attr::AccessFlags};
use serde_json::Value;

const INNER: &str = "GLASSNIC_TEST_INNER";

/// Not a test by itself: a program that dies with a NIC, a QP and memory.
#[test]
fn actor() {
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let context = glassnic_verbs::devices().remove(0).open().unwrap();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(16, None).unwrap();
    let memory = vec![0_u8; 4096];
    let at = memory.as_ptr() as u64;
    let _mr = pd.reg_mr(at, 4096, at, AccessFlags::LOCAL_WRITE).unwrap();
    let cap = QpCap { max_send_wr: 3, max_recv_wr: 5, ..QpCap::default() };
    let init = QpInit { qp_type: QpType::Rc, send_cq: &cq, recv_cq: &cq, srq: None, cap, sq_sig_all: false };
    let _qp = pd.create_qp(&init).unwrap();
    std::process::abort();
}

/// A folder of processes of the test's own.
fn folder(test: &str) -> PathBuf {
    let dir = PathBuf::from("/dev/shm").join(format!("glassnic-look-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn glassnic(dir: &PathBuf, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_glassnic")).env("GLASSNIC_DIR", dir).args(words).output().unwrap()
}

fn json(dir: &PathBuf, words: &[&str]) -> Value {
    let output = glassnic(dir, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_process_that_died_is_shown_with_all_it_had() {
    let dir = folder("died");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "actor"])
        .envs([(INNER, "1"), ("GLASSNIC_DEVICES", "glass0=lo")])
        .env("GLASSNIC_DIR", &dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(!child.wait().unwrap().success());
    let pid = child.id();
    let ps = json(&dir, &["ps", "--json"]);
    assert_eq!(
        (&ps[0]["pid"], &ps[0]["state"], &ps[0]["qps"]["RESET"]),
        (&pid.into(), &"crashed".into(), &1.into())
    );
    let qps = json(&dir, &["qp", "ls", "--json", "--pid", &pid.to_string()]);
    assert_eq!((&qps[0]["sq"]["depth"], &qps[0]["rq"]["depth"]), (&3.into(), &5.into()));
    assert_eq!((&qps[0]["state"], &qps[0]["process_state"]), (&"RESET".into(), &"crashed".into()));
    let qpn = qps[0]["qpn"].as_u64().unwrap();
    // Decimal and hexadecimal are the same QP.
    let (decimal, hex) = (qpn.to_string(), format!("{qpn:#x}"));
    let shown = String::from_utf8(glassnic(&dir, &["qp", "show", &decimal]).stdout).unwrap();
    let first = format!("QPN: {hex} State: RESET SQ WQE count: 0/3 Last error: None");
    assert_eq!(shown.lines().next(), Some(&*first));
    let bytes = json(&dir, &["qp", "hex", &hex, "--json"]);
    assert_eq!(bytes["bytes"].as_array().unwrap().len(), 256);
    let log = json(&dir, &["qp", "log", &hex, "--json"]);
    assert_eq!((&log[0]["record"], &log[0]["pid"]), (&"CREATE_QP".into(), &pid.into()));
    assert!(log[0]["thread"].as_u64().is_some() && log[0]["took_ns"].as_u64().is_some());
    for (kind, count) in [("cq", 1), ("mr", 1), ("pd", 1), ("srq", 0), ("ah", 0)] {
        assert_eq!(json(&dir, &[kind, "ls", "--json"]).as_array().unwrap().len(), count, "{kind}");
    }
    let wrong = glassnic(&dir, &["qp", "show", &hex, "--pid", "1"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert_eq!(said, format!("glassnic: no QP {hex} in process 1, but in {pid}; choose that with --pid\n"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_qp_that_nobody_has_is_one_line_and_status_2() {
    let dir = folder("nobody");
    for task in ["show", "hex", "log"] {
        for qpn in ["0x123456", "0", "x"] {
            let output = glassnic(&dir, &["qp", task, qpn]);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{task} {qpn}: {said}");
            assert!(output.stdout.is_empty() && said.starts_with("glassnic: "), "{said}");
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn watching_ends_when_nobody_reads() {
    use std::io::{BufRead, BufReader};
    let dir = folder("watching");
    let mut child = Command::new(env!("CARGO_BIN_EXE_glassnic"))
        .env("GLASSNIC_DIR", &dir)
        .args(["ps", "--json", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert_eq!(lines.next().unwrap().unwrap(), "[]");
    }
    drop(lines);
    assert!(child.wait().unwrap().success());
    std::fs::remove_dir_all(&dir).unwrap();
}
