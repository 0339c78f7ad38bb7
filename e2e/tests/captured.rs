//! `glassnic capture` of stock programs: every packet once, as it would look on a wire, and why something was refused.

use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{capture, product, slot};
use serde_json::Value;

/// Messages to and fro, bytes of each, and the packets that these take at a path MTU of 1024.
const MESSAGES: usize = 20;
const BYTES: usize = 10_000;
const PACKETS: usize = 10;

fn script(port: u16, options: &str, host: &str) -> String {
    let program = format!("ibv_rc_pingpong -p {port} {options}");
    format!("{program} & sleep 1; {program} {host}; wait")
}

fn glassnic(words: &[&str], link: Option<&str>) -> Finished {
    let command = product::glassnic().display().to_string();
    let link = link.map(|link| format!("GLASSNIC_LINK={link}"));
    let front = ["env"].into_iter().chain(link.as_deref()).chain([command.as_str()]);
    Program::plain(front.chain(words.iter().copied())).run()
}

fn decoded(file: &str) -> Vec<Value> {
    let decoded = glassnic(&["decode", file, "--json"], None);
    assert!(decoded.succeeded(), "{decoded}");
    decoded.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_packet_is_there_once_whatever_link_it_took() {
    let _slot = slot::take();
    for (port, link) in [(18_811, None), (18_812, Some("udp"))] {
        let file = product::scratch().join(format!("captured-{port}.pcapng"));
        let name = file.display().to_string();
        let options = format!("-g 0 -n {MESSAGES} -s {BYTES}");
        let both = script(port, &options, "127.0.0.1");
        let run = glassnic(&["capture", "-o", &name, "--", "sh", "-c", &both], link);
        assert!(run.succeeded(), "{run}");
        let frames = decoded(&name);
        let packets: Vec<&Value> = frames.iter().filter(|frame| frame["roce"].is_object()).collect();
        let of = |opcode: &str| packets.iter().filter(|p| p["roce"]["bth"]["opcode"] == opcode).count();
        // Somebody may have to wait for a receive or an answer on a busy machine, and sends again.
        assert!(of("RC SEND_FIRST") >= 2 * MESSAGES && of("RC SEND_LAST") >= 2 * MESSAGES, "{run}");
        assert!(of("RC SEND_MIDDLE") >= 2 * MESSAGES * (PACKETS - 2) && of("RC ACKNOWLEDGE") > 0, "{run}");
        for packet in &packets {
            assert_eq!(packet["roce"]["icrc"]["verdict"], "good", "{packet}");
            assert_eq!(packet["odd"], serde_json::json!([]), "{packet}");
        }
        // On the clock of the records: sent after both were connected.
        let commands = |name: &str| frames.iter().filter(|f| f["command"]["opcode"] == name).count();
        assert_eq!((commands("CREATE_QP"), commands("DESTROY_QP")), (2, 2), "{run}");
        let at = |frame: &Value| frame["frame"].as_u64().unwrap();
        let create = frames.iter().filter(|f| f["command"]["opcode"] == "CREATE_QP").map(at).max();
        assert!(create < packets.first().map(|packet| at(packet)));
        let payload: u64 = packets.iter().map(|p| p["roce"]["payload_length"].as_u64().unwrap()).sum();
        assert!(payload as usize >= 2 * MESSAGES * BYTES);
        // An independent judge.
        let roce = product::scratch().join(format!("captured-{port}-roce.pcapng"));
        let display = roce.display().to_string();
        let cut = Program::plain(["tshark", "-r", &name, "-Y", "infiniband", "-w", &display]).run();
        assert!(cut.succeeded(), "{cut}");
        assert_eq!(capture::judge_with_tshark(&roce).unwrap().len(), packets.len());
    }
}

#[test]
fn a_refusal_is_explained_in_a_comment() {
    let _slot = slot::take();
    let file = product::scratch().join("captured-refused.pcapng").display().to_string();
    let both = script(18_813, "", "127.0.0.1");
    let run = glassnic(&["capture", "-o", &file, "--", "sh", "-c", &both], None);
    assert!(run.stdout.contains("local address"), "{run}");
    let comments =
        Program::plain(["tshark", "-r", &file, "-Y", "frame.comment", "-T", "fields", "-e", "frame.comment"])
            .run();
    assert!(comments.stdout.contains("refused: ibv_modify_qp(QP "), "{comments}");
    assert!(comments.stdout.contains("set ah_attr.is_global=1"), "{comments}");
}

#[test]
fn the_dissector_that_was_installed_tells_the_records() {
    let _slot = slot::take();
    let file = product::scratch().join("captured-records.pcapng").display().to_string();
    let both = script(18_815, "-g 0 -n 10", "127.0.0.1");
    let run = glassnic(&["capture", "-o", &file, "--", "sh", "-c", &both], None);
    assert!(run.succeeded(), "{run}");
    let dissector = product::prefix().join("share/glassnic/wireshark/glassnic.lua");
    let script = format!("lua_script:{}", dissector.display());
    let words = ["tshark", "-X", &script, "-r", &file, "-Y", "glassnic.opcode == 0x0004", "-T", "fields"];
    let told = Program::plain(words).args(["-e", "glassnic.opcode", "-e", "glassnic.qpn"]).run();
    assert!(told.succeeded() && !told.stderr.contains("Lua"), "{told}");
    assert_eq!(told.stdout.lines().count(), 2, "{told}");
    for file in ["include/glassnic.h", "share/man/man1/glassnic.1"] {
        assert!(product::prefix().join(file).exists(), "{file}");
    }
}

#[test]
fn processes_that_run_are_captured_for_as_long_as_somebody_asks() {
    let _slot = slot::take();
    let file = product::scratch().join("captured-running.pcapng").display().to_string();
    let command = product::glassnic().display().to_string();
    let talk = script(18_814, "-g 0 -n 1000000 -s 3000", "127.0.0.1");
    let talking = Program::plain([command.as_str(), "run", "sh", "-c", &talk]).start();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let shell = talking.pid().to_string();
    let pids = Program::plain(["pgrep", "-P", &shell, "-x", "ibv_rc_pingpong"]).run();
    let pids: Vec<&str> = pids.stdout.lines().collect();
    assert_eq!(pids.len(), 2, "{pids:?}");
    let words = ["capture", "-o", &file, "--pid", pids[0], "--pid", pids[1], "--seconds", "1"];
    let captured = glassnic(&words, None);
    assert!(captured.succeeded(), "{captured}");
    Program::plain(["kill", pids[0], pids[1]]).run();
    talking.wait();
    let frames = decoded(&file);
    let good = frames.iter().filter(|frame| frame["roce"]["icrc"]["verdict"] == "good").count();
    assert!(good > 100, "{captured}");
    assert!(frames.iter().any(|frame| frame["command"]["opcode"] == "CREATE_QP"), "what went before");
    let nobody = glassnic(&["capture", "-o", &file, "--pid", "1"], None);
    assert!(nobody.stderr.contains("process 1 has no open device of GlassNIC"), "{nobody}");
}
