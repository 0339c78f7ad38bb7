//! What `glassnic` itself tells of devices and queue pairs is what stock programs find.

use glassnic_e2e::device::Device;
use glassnic_e2e::place::Place;
use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{c_program, product, slot};

fn glassnic(word: &str) -> Finished {
    let command = product::glassnic().display().to_string();
    let finished = Program::plain([command.as_str(), word]).run();
    assert!(finished.succeeded(), "{finished}");
    finished
}

#[test]
fn devices_shows_the_gids_and_mtus_that_ibv_devinfo_shows() {
    let _slot = slot::take();
    let told = glassnic("devices").stdout;
    let found = Device::query(&Place::Here, &[]).text;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let gids = told.lines().map(words).filter(|words| words.first().is_some_and(|word| word == "gid"));
    let mut told_gids = gids.map(|words| format!("{}: {}", words[1], words[2])).collect::<Vec<_>>();
    let found_gids = found.lines().filter_map(|line| {
        let (index, gid) = line.trim().strip_prefix("GID[")?.split_once("]:")?;
        Some(format!("{}: {}", index.trim(), gid.split(',').next()?.trim()))
    });
    let mut found_gids = found_gids.collect::<Vec<_>>();
    assert!(!found_gids.is_empty(), "{found}");
    told_gids.sort();
    found_gids.sort();
    assert_eq!(told_gids, found_gids, "{told}{found}");
    for label in ["active_mtu", "max_mtu", "node_guid"] {
        let value = |text: &str| {
            let line = text
                .lines()
                .map(words)
                .find(|words| words[..].first().is_some_and(|w| w.trim_end_matches(':') == label));
            line.unwrap_or_else(|| panic!("no {label}: {text}"))[1].clone()
        };
        assert_eq!(value(&told), value(&found), "{label}: {told}{found}");
    }
}

#[test]
fn the_demo_tells_the_whole_life_of_both_queue_pairs() {
    let _slot = slot::take();
    let told = glassnic("demo").stdout;
    for side in ["server", "client"] {
        let life = told.lines().filter(|line| line.contains(&format!(" ms  {side}  QP 0x")));
        let steps: Vec<_> = life.map(|line| line.split("  QP 0x").nth(1).unwrap_or_default()).collect();
        let qpn = steps[0].split_whitespace().next().unwrap();
        assert!(steps.iter().all(|step| step.starts_with(qpn)), "{told}");
        let order = ["created", "RESET → INIT", "INIT → RTR", "RTR → RTS", "destroyed"];
        let told_at =
            order.map(|word| steps.iter().position(|step| step[qpn.len()..].trim_start().starts_with(word)));
        assert!(told_at.iter().all(Option::is_some) && told_at.is_sorted(), "{side} {told_at:?}: {told}");
        assert!(steps.iter().any(|step| step.contains("first send")), "{told}");
        // The program says its own number: the QP told of is the program's.
        assert!(told.contains(&format!("QPN 0x{:0>6}", qpn)), "{told}");
        let short =
            told.lines().find(|line| line.trim().starts_with(&format!("{side} QP 0x{qpn}: "))).unwrap();
        assert!(short.contains("1000 of 1000 sends finished, 1000 messages came in, no error"), "{told}");
    }
    let times = told.lines().filter_map(|line| line.split_once(" ms  ")?.0.trim().parse::<f64>().ok());
    assert!(times.is_sorted(), "{told}");
    assert!(told.contains("Try next:\n"), "{told}");
}

#[test]
fn a_program_may_end_from_the_handler_of_a_signal_that_comes_while_it_is_told_something() {
    let _slot = slot::take();
    let program = c_program::compile("exit_in_handler");
    let finished = Program::new([program.display().to_string()]).run();
    assert_eq!(finished.code(), Some(7), "{finished}");
}
