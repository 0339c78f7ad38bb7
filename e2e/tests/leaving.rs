//! What a program is told when it ends: what it leaves behind, without a change of how it ends.

use std::os::unix::process::ExitStatusExt;

use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{c_program, slot};

fn leaves(how: &str, explain: &str) -> Finished {
    let program = c_program::compile("leaves").display().to_string();
    Program::new([program.as_str(), how]).env("GLASSNIC_LANG", "en").env("GLASSNIC_EXPLAIN", explain).run()
}

#[test]
fn what_is_left_is_told_in_a_line_each_and_the_status_is_the_programs() {
    let _slot = slot::take();
    let finished = leaves("7", "1");
    assert_eq!(finished.code(), Some(7), "{finished}");
    let lines: Vec<_> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{finished}");
    for (line, kind) in lines.iter().zip(["2 QPs were", "1 CQ was", "1 PD was"]) {
        assert!(line.starts_with(&format!("glassnic: at exit: {kind} not destroyed (")), "{finished}");
        assert!(line.contains(", created at leaves+0x"), "{finished}");
    }
    assert_eq!(leaves("7", "0").stderr, "", "told without being asked");
}

#[test]
fn the_same_is_told_to_programs_in_json() {
    let _slot = slot::take();
    let finished = leaves("0", "json");
    let lines = finished.stderr.lines().map(serde_json::from_str::<serde_json::Value>);
    let lines = lines.collect::<Result<Vec<_>, _>>().unwrap_or_else(|error| panic!("{error}: {finished}"));
    assert!(lines.iter().all(|line| line["kind"] == "leak"), "{finished}");
    assert_eq!((&lines[0]["object"], &lines[0]["count"]), (&"QP".into(), &2.into()), "{finished}");
}

#[test]
fn a_signal_ends_a_program_as_ever() {
    let _slot = slot::take();
    let finished = leaves("TERM", "1");
    assert_eq!(finished.status.and_then(|status| status.signal()), Some(15), "{finished}");
    assert_eq!(finished.stderr, "");
}

#[test]
fn a_program_that_clears_up_is_told_nothing() {
    let _slot = slot::take();
    let port = glassnic_e2e::free_port().to_string();
    let words = ["ibv_rc_pingpong", "-g", "1", "-p", port.as_str()];
    let mut server = Program::new(words).start();
    server.wait_listening(port.parse().unwrap_or_default()).unwrap_or_else(|error| panic!("{error}"));
    let client = Program::new(words).args(["localhost"]).run();
    for finished in [client, server.wait()] {
        assert!(finished.succeeded() && !finished.stderr.contains("glassnic"), "{finished}");
    }
}
