//! `glassnic trace` and `glassnic draw` of stock programs: every control verb, from the driver's record to the status.

use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{product, slot};
use serde_json::Value;

/// A server and its client.
fn pair(program: &str, host: &str) -> String {
    format!("{program} & sleep 1; {program} {host}; wait")
}

fn glassnic(words: &[&str]) -> Finished {
    let command = product::glassnic().display().to_string();
    let front = ["env", "GLASSNIC_LANG=en", command.as_str()];
    Program::plain(front.iter().chain(words).copied()).run()
}

fn traced(script: &str) -> (Finished, Vec<Value>) {
    let run = glassnic(&["trace", "--json", "--", "sh", "-c", script]);
    let verbs = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}\n{run}")));
    let verbs = verbs.collect();
    (run, verbs)
}

/// The verbs on QPs that succeeded, of each process, with the states between which the context moved.
fn lives(verbs: &[Value]) -> Vec<(u64, Vec<String>)> {
    let mut lives: Vec<(u64, Vec<String>)> = Vec::new();
    for verb in verbs
        .iter()
        .filter(|verb| verb["qpn"].is_u64() && verb["status"]["errno"] == 0 && verb["call"] != "ibv_query_qp")
    {
        let qpn = verb["qpn"].as_u64().unwrap();
        let call = verb["call"].as_str().unwrap().trim_start_matches("ibv_");
        let state = verb["changes"].as_array().unwrap().iter().find(|change| change["field"] == "state");
        let moved = state.filter(|_| call == "modify_qp").map_or_else(String::new, |change| {
            format!(" {}→{}", change["old"].as_str().unwrap(), change["new"].as_str().unwrap())
        });
        let step = format!("{call}{moved}");
        match lives.iter_mut().find(|(known, _)| *known == qpn) {
            Some((_, steps)) => steps.push(step),
            None => lives.push((qpn, vec![step])),
        }
    }
    lives
}

const LIFE: [&str; 5] =
    ["create_qp", "modify_qp RESET→INIT", "modify_qp INIT→RTR", "modify_qp RTR→RTS", "destroy_qp"];

fn is_whole(verb: &Value) -> bool {
    let numbers = ["pid", "seq", "at_ns", "took_ns", "thread"];
    let changes = verb["changes"].as_array().unwrap();
    let record = &verb["record"];
    numbers.iter().all(|name| verb[*name].is_u64())
        && changes.iter().all(|change| change["offset"].is_u64() && change["old_bytes"].is_array())
        && record["opcode_number"].is_u64()
        && verb["hex"].as_str().unwrap().len() == 144
        && verb["doorbell"] == true
        && !verb["device"].as_array().unwrap().is_empty()
}

#[test]
fn each_verb_of_a_ping_pong_is_told_with_what_it_changed() {
    let _slot = slot::take();
    let (run, verbs) = traced(&pair("ibv_rc_pingpong -p 18821 -g 0 -n 50", "127.0.0.1"));
    assert!(run.succeeded() && run.stderr.contains("50 iters"), "the program's words are elsewhere: {run}");
    let lives = lives(&verbs);
    assert_eq!(lives.len(), 2, "{run}");
    assert!(lives.iter().all(|(_, steps)| *steps == LIFE), "{lives:?}");
    assert!(verbs.iter().all(is_whole), "{run}");
    let create = verbs.iter().find(|verb| verb["call"] == "ibv_create_qp").unwrap();
    let number =
        create["changes"].as_array().unwrap().iter().find(|change| change["field"] == "qpn").unwrap();
    assert_eq!((&number["old_value"], &number["new_value"]), (&Value::from(0), &create["qpn"]));
    for call in
        ["ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq", "ibv_dereg_mr", "ibv_destroy_cq", "ibv_dealloc_pd"]
    {
        assert_eq!(verbs.iter().filter(|verb| verb["call"] == call).count(), 2, "{call}: {run}");
    }
    assert!(verbs.is_sorted_by_key(|verb| verb["at_ns"].as_u64()) || verbs.len() > 2);
}

#[test]
fn perftest_is_told_for_people() {
    let _slot = slot::take();
    let script = pair("ib_write_bw -F -p 18822 -n 200 -s 4096", "127.0.0.1");
    let run = glassnic(&["trace", "--hex", "--", "sh", "-c", &script]);
    assert!(run.succeeded(), "{run}");
    let said = &run.stdout;
    for words in [
        "ibv_create_qp  QP 0x",
        "MODIFY_QP (0x0005) qpn=0x",
        "state               RESET → INIT",
        "INIT → RTR",
        "RTR → RTS",
        "ibv_destroy_qp  QP 0x",
        "doorbell rung for record ",
        "device   loads the context; the requester may send",
        "status   0, took ",
        "bytes    00  04 00 00 80 ",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(said).contains(&squeezed(words)), "no {words:?} in {run}");
    }
}

#[test]
fn a_refused_verb_is_told_with_its_rule() {
    let _slot = slot::take();
    // Without a GID: refused, as RoCE hardware does.
    let (run, verbs) = traced(&pair("ibv_rc_pingpong -p 18823", "127.0.0.1"));
    let refused: Vec<&Value> = verbs.iter().filter(|verb| verb["status"]["errno"] != 0).collect();
    assert!(!refused.is_empty(), "{run}");
    for verb in refused {
        assert_eq!((&verb["call"], &verb["status"]["name"]), (&"ibv_modify_qp".into(), &"EINVAL".into()));
        assert_eq!((&verb["what"], &verb["doorbell"]), (&"INIT → RTR".into(), &false.into()));
        let why = verb["status"]["explanation"].as_str().unwrap();
        assert!(why.contains("set ah_attr.is_global=1") && why.contains("stays in INIT"), "{why}");
        assert_eq!(verb["changes"], serde_json::json!([]));
    }
}

#[test]
fn the_programs_end_is_ours() {
    let _slot = slot::take();
    let status = |words: &[&str]| {
        let run = glassnic(words);
        (run.code(), run)
    };
    let (code, run) = status(&["trace", "--", "sh", "-c", "echo mine; exit 7"]);
    assert_eq!(code, Some(7), "{run}");
    assert_eq!(run.stdout, "mine\n");
    assert_eq!(status(&["trace", "--", "sh", "-c", "kill -TERM $$"]).0, Some(128 + 15));
    let (code, run) = status(&["trace", "--pid", "1"]);
    assert_eq!(code, Some(2), "{run}");
    assert!(run.stderr.contains("process 1 has no NIC"), "{run}");
}

/// The words of a picture, which must be well-formed.
fn words_of(file: &std::path::Path) -> Vec<String> {
    let svg = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    assert_eq!(document.root_element().tag_name().name(), "svg");
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn a_program_is_drawn_with_each_of_its_queue_pairs() {
    let _slot = slot::take();
    let file = product::scratch().join("life.svg");
    let name = file.display().to_string();
    let script = pair("ibv_rc_pingpong -p 18824 -g 0 -n 50", "127.0.0.1");
    let run = glassnic(&["draw", "-o", &name, "--", "sh", "-c", &script]);
    assert!(run.succeeded(), "{run}");
    // The programs say their own numbers.
    let numbers = run.stdout.lines().filter_map(|line| {
        let (_, rest) = line.trim().strip_prefix("local address:")?.split_once("QPN 0x")?;
        u32::from_str_radix(rest.split(',').next()?, 16).ok()
    });
    let numbers: Vec<u32> = numbers.collect();
    let words = words_of(&file);
    assert_eq!(numbers.len(), 2, "{run}");
    for qpn in numbers {
        assert!(words.contains(&format!("QP {qpn:#x}")), "{qpn:#x}: {words:?}");
    }
    assert!(words[0].starts_with("Life of the queue pairs of ibv_rc_pingpong on glass0"), "{words:?}");
    for said in ["insert", "change", "remove", "RESET → INIT", "INIT → RTR", "RTR → RTS", "unlinked"] {
        assert!(words.iter().any(|word| word == said), "no {said}: {words:?}");
    }
    let failed = glassnic(&["draw", "-o", &name, "--", "sh", "-c", "exit 3"]);
    assert_eq!(failed.code(), Some(3), "{failed}");
    assert!(words_of(&file).iter().any(|word| word.starts_with("No queue pair")));
}

#[test]
fn a_refusal_is_drawn_with_its_rule() {
    let _slot = slot::take();
    let file = product::scratch().join("refused.svg");
    let script = pair("ibv_rc_pingpong -p 18825", "127.0.0.1");
    let run = glassnic(&["draw", "-o", &file.display().to_string(), "--", "sh", "-c", &script]);
    let words = words_of(&file);
    assert!(
        words.iter().any(|word| word == "1 EINVAL") && words.iter().any(|word| word == "refused"),
        "{run}{words:?}"
    );
    assert!(words.iter().any(|word| word.contains("set ah_attr.is_global=1")), "{words:?}");
}

#[test]
fn the_state_machine_is_drawn_from_its_table() {
    let run = glassnic(&["draw", "--dot"]);
    assert!(run.succeeded() && run.stdout.starts_with("digraph \"RC\" {"), "{run}");
    for said in ["RESET -> INIT", "INIT -> RTR", "RTR -> RTS", "MAX_DEST_RD_ATOMIC", "[ALT_PATH]"] {
        assert!(run.stdout.contains(said), "no {said}: {run}");
    }
    let file = product::scratch().join("ud.dot");
    let saved = glassnic(&["draw", "--dot=ud", "-o", &file.display().to_string()]);
    assert!(saved.succeeded(), "{saved}");
    assert!(std::fs::read_to_string(file).unwrap().contains("RTS -> SQE"));
}

#[test]
fn the_command_speaks_chinese() {
    let _slot = slot::take();
    let command = product::glassnic().display().to_string();
    let said = |words: &[&str]| {
        let front = ["env", "GLASSNIC_LANG=zh", command.as_str()];
        Program::plain(front.iter().chain(words).copied()).run()
    };
    let traced = said(&["trace", "--", "ibv_rc_pingpong", "-p", "18826", "-g", "0", "127.0.0.1"]);
    assert!(
        traced.stdout.contains("ibv_create_qp  QP 0x") && traced.stdout.contains("载入上下文"),
        "{traced}"
    );
    let devices = said(&["devices"]);
    assert!(devices.succeeded() && devices.stdout.contains("链路，按目的地"), "{devices}");
    let unknown = said(&["qp", "show", "1"]);
    assert!(unknown.stderr.contains("没有 QP 0x1"), "{unknown}");
    assert!(said(&["profiles"]).stdout.contains("模仿 NVIDIA ConnectX"));
}
