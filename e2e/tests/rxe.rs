//! GlassNIC and Linux's own soft-RoCE, each as server and as client, over IPv4.

use std::time::Duration;

use glassnic_e2e::device::Device;
use glassnic_e2e::free_port;
use glassnic_e2e::pair::Case;
use glassnic_e2e::place::Family;
use glassnic_e2e::rig::Rig;
use glassnic_e2e::slot;

/// The guest is emulated: a round trip takes a quarter of a millisecond and more.
const LIMIT: Duration = Duration::from_secs(60);

const CASES: &[Case] = &[
    Case { program: "ibv_rc_pingpong", options: &["-c", "-n", "200"] },
    Case { program: "ibv_rc_pingpong", options: &["-n", "50", "-e", "-s", "65536"] },
    Case { program: "ibv_uc_pingpong", options: &["-n", "200"] },
    Case { program: "ibv_ud_pingpong", options: &["-n", "200", "-s", "1000"] },
    Case { program: "ib_write_bw", options: &["-n", "200", "-s", "65536"] },
    Case { program: "ib_write_bw", options: &["-n", "20", "-s", "1048576"] },
    Case { program: "ib_read_bw", options: &["-n", "200", "-s", "65536"] },
    Case { program: "ib_atomic_lat", options: &["-n", "200"] },
    Case { program: "ib_atomic_lat", options: &["-n", "200", "-A", "CMP_AND_SWAP"] },
    Case { program: "ib_send_bw", options: &["-n", "200", "-s", "3001"] },
];

/// What both sides printed, if either failed.
fn check(rig: &Rig, case: &Case, glassnic_serves: bool) -> Result<(), String> {
    let port = free_port();
    let host = rig.host();
    let device = Device::query(&host, &[]);
    let ours =
        case.program(Some(device.gid_index(Family::V4)), device.active_mtu, port).at(&host).limit(LIMIT);
    let gid_option = if case.program.starts_with("ib_") { "-F -x" } else { "-g" };
    let theirs = format!("{} -p {port} {gid_option} $(gid) {}", case.program, case.options.join(" "));
    let (ours, theirs) = if glassnic_serves {
        let mut server = ours.start();
        server.wait_listening(port)?;
        let client = rig.guest(&format!("timeout {} {theirs} {}", LIMIT.as_secs(), Rig::HOST));
        if client.code != 0 {
            server.limit_from_now(Duration::from_secs(3));
        }
        (server.wait(), client)
    } else {
        rig.start_server(&theirs, port, LIMIT)?;
        let client = ours.args([Rig::GUEST]).run();
        let patience = if client.succeeded() { Duration::from_secs(20) } else { Duration::from_secs(3) };
        (client, rig.wait_server(patience))
    };
    if ours.succeeded() && theirs.code == 0 {
        return Ok(());
    }
    let role = if glassnic_serves { "server" } else { "client" };
    Err(format!(
        "{} {:?}, GlassNIC as {role}:\n{ours}soft-RoCE: status {}\n{}",
        case.program, case.options, theirs.code, theirs.text
    ))
}

#[test]
fn every_program_talks_to_linux_soft_roce_as_server_and_as_client() {
    let _slot = slot::take();
    let rig = Rig::up();
    let mut failures = Vec::new();
    for case in CASES {
        for glassnic_serves in [true, false] {
            let result = check(&rig, case, glassnic_serves);
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            println!("{} {:?} GlassNIC serves: {glassnic_serves}: {verdict}", case.program, case.options);
            failures.extend(result.err());
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}
