//! `glassnic doctor` on programs that are ill in one way each, and on programs that are well.

use std::time::Duration;

use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::Family;
use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{c_program, free_port, product, slot};
use rustix::process::Signal;
use serde_json::Value;

fn doctor<'a>(words: impl IntoIterator<Item = &'a str>) -> Finished {
    let command = product::glassnic().display().to_string();
    let words = words.into_iter().map(str::to_owned);
    let front = ["env", "GLASSNIC_LANG=en", &command, "doctor"].map(str::to_owned);
    Program::plain(front.into_iter().chain(words)).run()
}

/// What is found, as programs read it.
fn findings(finished: &Finished) -> Vec<Value> {
    let all: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished}"));
    all.as_array().unwrap().clone()
}

fn rules(findings: &[Value]) -> Vec<&str> {
    findings.iter().map(|finding| finding["rule"].as_str().unwrap()).collect()
}

/// Both ends of the C program in this case, examined once they are stuck, and then ended.
fn two_ends(case: &str, options: &[&str]) -> Finished {
    let program = c_program::compile("patient").display().to_string();
    let port = free_port();
    let script = format!("{program} {case} server {port} & exec {program} {case} client {port}");
    let words = options.iter().copied().chain(["--after", "3", "--end", "--", "sh", "-c", &script]);
    doctor(words)
}

#[test]
fn a_side_that_never_left_init_is_named_with_the_missing_call() {
    let _slot = slot::take();
    let told = two_ends("init", &[]);
    assert_eq!(told.code(), Some(1), "{told}");
    let text = told.stdout.lines().filter(|line| !line.starts_with("status ")).collect::<Vec<_>>();
    let [first, evidence @ .., remedy] = &text[..] else { panic!("{told}") };
    // The server is the one to be changed.
    assert!(first.starts_with("error: process ") && first.contains(" init server "), "{told}");
    assert!(first.contains("never left INIT, while its peer, QP 0x"), "{told}");
    assert!(first.contains("init client") && first.ends_with("sends to it"), "{told}");
    assert!(evidence.iter().any(|line| line.contains("is in ERR") || line.contains("is in RTS")), "{told}");
    assert!(remedy.contains("ibv_modify_qp to RTR with dest_qp_num=0x"), "{told}");
    assert!(remedy.contains("rq_psn=0x200, path_mtu=IBV_MTU_1024, ah_attr.grh.dgid="), "{told}");
    assert_eq!(text.iter().filter(|line| !line.starts_with(' ')).count(), 1, "one cause, told once: {told}");
}

#[test]
fn ends_that_do_not_fit_together_are_told_as_data() {
    let _slot = slot::take();
    for (case, rule) in
        [("psn", "psn_mismatch"), ("no_receive", "no_receive"), ("lkey_as_rkey", "keys_mixed_up")]
    {
        let mut told = two_ends(case, &["--json"]);
        assert_eq!(told.code(), Some(1), "{told}");
        told.stdout = told.stdout.split_once('[').map(|(_, rest)| format!("[{rest}")).unwrap_or_default();
        let found = findings(&told);
        let first = &found[0];
        assert_eq!(
            (first["rule"].as_str(), first["severity"].as_str()),
            (Some(rule), Some("error")),
            "{told}"
        );
        assert!(first["qpn"].is_u64() && first["pid"].is_u64() && first["remedy"].is_string(), "{told}");
        let errors = found.iter().filter(|finding| finding["severity"] == "error").count();
        assert_eq!(errors, 1, "one cause, told once: {told}");
    }
}

#[test]
fn a_healthy_program_has_nothing_wrong() {
    let _slot = slot::take();
    let program = c_program::compile("patient").display().to_string();
    let port = free_port();
    let script = format!("{program} healthy server {port} & {program} healthy client {port} && wait");
    let told = doctor(["--", "sh", "-c", &script]);
    assert_eq!((told.code(), told.stdout.as_str()), (Some(0), "nothing wrong\n"), "{told}");
}

/// During and after.
fn stock_program_is_well(program: &'static str, options: &'static [&'static str]) {
    let way = Way::one_host(Gid::Of(Family::V4));
    let mut pair = way.start(&Case { program, options });
    pair.server.wait_connected(pair.port).unwrap_or_else(|why| panic!("{why}"));
    let pids = [pair.server.pid(), pair.client.pid()].map(|pid| pid.to_string());
    let mut looks = 0;
    for _ in 0..15 {
        for pid in &pids {
            let told = doctor([pid.as_str()]);
            // It has not opened its device yet, or has ended.
            if told.code() == Some(2) {
                continue;
            }
            assert_eq!((told.code(), told.stdout.as_str()), (Some(0), "nothing wrong\n"), "{told}");
            looks += 1;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    pair.wait().assert_both_succeed();
    assert!(looks > 0, "{looks}");
    for pid in &pids {
        let told = doctor([pid.as_str()]);
        assert!(told.code() == Some(2) && told.stderr.contains("has no NIC"), "{told}");
    }
}

#[test]
fn ib_write_bw_is_well() {
    let _slot = slot::take();
    stock_program_is_well("ib_write_bw", &["-D", "3"]);
}

#[test]
fn ib_send_lat_is_well() {
    let _slot = slot::take();
    stock_program_is_well("ib_send_lat", &["-D", "3"]);
}

#[test]
fn rc_pingpong_is_well() {
    let _slot = slot::take();
    stock_program_is_well("ibv_rc_pingpong", &["-n", "4000"]);
}

#[test]
fn what_a_program_leaves_is_counted_by_the_place_that_made_it() {
    let _slot = slot::take();
    let program = c_program::compile("patient").display().to_string();
    let told = doctor(["--json", "--", &program, "leak"]);
    let found = findings(&told);
    assert_eq!(rules(&found), ["left_behind"], "{told}");
    let evidence: Vec<_> =
        found[0]["evidence"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(
        evidence.iter().any(|line| line.starts_with("20 x QP, made at ") && line.contains("patient")),
        "{told}"
    );
}

#[test]
fn a_queue_full_of_unsignalled_requests_is_told() {
    let _slot = slot::take();
    let program = c_program::compile("patient").display().to_string();
    let told = doctor(["--json", "--after", "2", "--end", "--", &program, "unsignalled"]);
    assert_eq!(rules(&findings(&told)), ["queue_full_unsignalled"], "{told}");
}

#[test]
fn a_completion_queue_too_small_for_its_qps_is_a_hint_at_once() {
    let _slot = slot::take();
    let program = c_program::compile("patient").display().to_string();
    let told = doctor(["--json", "--after", "1", "--end", "--", &program, "small_cq"]);
    let found = findings(&told);
    assert_eq!(rules(&found), ["cq_too_small"], "{told}");
    assert_eq!(found[0]["severity"], "hint", "{told}");
    // Three QPs of 4 and 4.
    let evidence = found[0]["evidence"][0].as_str().unwrap();
    assert!(evidence.starts_with("it holds 8;") && evidence.ends_with(" hold 24"), "{told}");
}

#[test]
fn objects_that_become_more_and_more_are_told_with_their_place() {
    let _slot = slot::take();
    let program = c_program::compile("patient").display().to_string();
    let told = doctor(["--json", "--after", "3", "--end", "--", &program, "grow"]);
    let found = findings(&told);
    assert_eq!(rules(&found), ["growth"], "{told}");
    assert!(found[0]["what"].as_str().unwrap().contains("more and more MRs"), "{told}");
    assert!(found[0]["evidence"][1].as_str().unwrap().contains("patient"), "{told}");
}

#[test]
fn a_crashed_process_is_examined_post_mortem() {
    let _slot = slot::take();
    let program = c_program::compile("patient").display().to_string();
    let crashing = Program::new([program.as_str(), "crash"]).start();
    let pid = crashing.pid().to_string();
    let crashed = crashing.wait();
    assert!(crashed.code().is_none(), "{crashed}");
    let told = doctor(["--post-mortem", pid.as_str(), "--json"]);
    assert_eq!(told.code(), Some(1), "{told}");
    let found = findings(&told);
    assert_eq!(rules(&found), ["first_error"], "{told}");
    assert_eq!(found[0]["process_state"], "crashed", "{told}");
    assert!(found[0]["what"].as_str().unwrap().contains("lkey names no memory region"), "{told}");
    // One that lives is not looked at.
    let living = Program::new([program.as_str(), "init", "server", &free_port().to_string()]).start();
    std::thread::sleep(Duration::from_secs(1));
    let pid = living.pid().to_string();
    assert_eq!(doctor([pid.as_str(), "--post-mortem"]).code(), Some(0));
    living.signal(Signal::KILL);
}

#[test]
fn wrong_use_is_a_line_and_status_2() {
    let _slot = slot::take();
    for words in
        [&["1"][..], &["twelve"], &["--after", "1"], &["12", "--", "true"], &["--", "/no/such/program"]]
    {
        let told = doctor(words.iter().copied());
        assert_eq!((told.code(), told.stderr.lines().count()), (Some(2), 1), "{told}");
    }
}
