//! UCX over GlassNIC's verbs, as Debian ships it.

use glassnic_e2e::process::{Finished, Program};
use glassnic_e2e::{free_port, slot};

/// What UCX is told.
const DEVICE: (&str, &str) = ("UCX_NET_DEVICES", "glass0:1");

fn ucx_info(environment: &[(&str, &str)], user: Option<&'static str>) -> Finished {
    let program = Program::new(["ucx_info", "-d"]).as_user(user);
    let finished = environment.iter().fold(program, |program, (name, value)| program.env(name, value)).run();
    assert!(finished.succeeded(), "{finished}");
    finished
}

#[test]
fn ucx_finds_the_device() {
    let _slot = slot::take();
    for user in [None, Some("nobody")] {
        let finished = ucx_info(&[], user);
        for transport in ["rc_verbs", "ud_verbs"] {
            let lines: Vec<&str> =
                finished.stdout.lines().map(|line| line.trim_start_matches(['#', ' '])).collect();
            let at = lines.iter().position(|line| *line == format!("Transport: {transport}"));
            let at = at.unwrap_or_else(|| panic!("no {transport}: {finished}"));
            assert!(lines[at + 1].contains("glass0:1"), "{finished}");
        }
    }
    let finished = ucx_info(&[("GLASSNIC_UCX", "0")], None);
    assert!(!finished.stdout.contains("glass0"), "{finished}");
}

/// Two processes. `rc_v` is `rc_verbs` with `ud_verbs` for its connections: by itself, and without a connection manager, it has none.
fn perftest(transports: &str, test: &str, options: &[&str]) {
    let _slot = slot::take();
    let port = free_port();
    let program = || {
        let port = port.to_string();
        let program = Program::new(["ucx_perftest", "-p", &port, "-t", test, "-n", "2000", "-w", "100"]);
        program.args(options.iter().copied()).env(DEVICE.0, DEVICE.1).env("UCX_TLS", transports)
    };
    let mut server = program().start();
    server.wait_listening(port).unwrap_or_else(|why| panic!("{why}"));
    let client = program().args(["127.0.0.1"]).run();
    assert!(client.succeeded(), "{client}");
    // Without the transport asked for it ends well, and says that it has done nothing.
    assert!(client.stdout.contains("Final:"), "{client}");
    let server = server.wait();
    assert!(server.succeeded(), "{server}");
}

macro_rules! perftests {
    ($($name:ident $transports:literal $test:literal $options:tt;)*) => {$(
        #[test]
        fn $name() {
            perftest($transports, $test, &$options);
        }
    )*};
}

perftests! {
    rc_tag_latency "rc_v,self" "tag_lat" [];
    rc_tag_bandwidth_eager "rc_v,self" "tag_bw" ["-s", "4096"];
    rc_tag_bandwidth_rendezvous "rc_v,self" "tag_bw" ["-s", "1048576", "-n", "200"];
    rc_put "rc_v,self" "ucp_put_bw" ["-s", "65536"];
    rc_get "rc_v,self" "ucp_get" ["-s", "65536"];
    rc_add "rc_v,self" "ucp_add" [];
    rc_fetch_add "rc_v,self" "ucp_fadd" [];
    rc_swap "rc_v,self" "ucp_swap" [];
    rc_compare_swap "rc_v,self" "ucp_cswap" [];
    ud_tag_latency "ud_verbs,self" "tag_lat" [];
    ud_tag_bandwidth_eager "ud_verbs,self" "tag_bw" ["-s", "4096"];
    ud_tag_bandwidth_rendezvous "ud_verbs,self" "tag_bw" ["-s", "262144", "-n", "200"];
    ud_put "ud_verbs,self" "ucp_put_bw" ["-s", "4096"];
    ud_get "ud_verbs,self" "ucp_get" ["-s", "4096"];
    ud_add "ud_verbs,self" "ucp_add" [];
    ud_compare_swap "ud_verbs,self" "ucp_cswap" [];
}
