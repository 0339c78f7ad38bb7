//! Programs that are killed, and what becomes of their peers and of the next run.

use std::time::{Duration, Instant};

use glassnic_e2e::pair::{Case, Gid, Way};
use glassnic_e2e::place::{Cable, Family};
use glassnic_e2e::slot;
use rustix::process::Signal;

/// Always has requests in flight, so the death of its server never goes unnoticed.
const STEADY: &str = "ib_write_bw";

/// perftest's retry count for RC.
const RETRIES: u32 = 7;

/// Kills the server in the middle; the client must end with status 12 in the time that `timeout`, the
/// exponent of the QP's attribute, says (IBA 9.7.6.1.3: each try waits from one to four times
/// 4.096 us * 2^timeout).
fn peer_of_a_dead_server_ends(way: &Way<'_>, timeout: &'static str) {
    let options: Vec<&'static str> = vec!["-D", "20", "-u", timeout];
    let mut pair = way.start(&Case { program: STEADY, options: options.leak() });
    pair.server.wait_connected(pair.port).unwrap_or_else(|why| panic!("{why}"));
    // perftest measures the clock of the processor for a second before its traffic starts.
    std::thread::sleep(Duration::from_secs(3));
    pair.server.signal(Signal::KILL);
    let killed = Instant::now();
    let client = pair.client.wait();
    let took = killed.elapsed();
    assert!(client.status.is_some_and(|status| !status.success()), "{client}");
    let text = format!("{}{}", client.stdout, client.stderr);
    assert!(text.contains("Failed status 12"), "{client}");
    let interval = Duration::from_nanos(4096) * (1 << timeout.parse::<u32>().unwrap());
    let (least, most) = (interval * (RETRIES + 1), 4 * interval * (RETRIES + 1));
    // One more second for a busy machine, and for the program's own end.
    let expected = least.mul_f64(0.9)..most + Duration::from_secs(1);
    assert!(expected.contains(&took), "{took:?} is not within {expected:?}\n{client}");
}

#[test]
fn a_dead_peer_on_one_host_is_status_12_in_the_time_of_timeout_14() {
    let _slot = slot::take();
    peer_of_a_dead_server_ends(&Way::one_host(Gid::Of(Family::V4)), "14");
}

#[test]
fn a_dead_peer_on_one_host_is_status_12_in_the_time_of_timeout_16() {
    let _slot = slot::take();
    peer_of_a_dead_server_ends(&Way::one_host(Gid::Of(Family::V4)), "16");
}

#[test]
fn a_dead_peer_behind_a_cable_is_status_12_in_the_time_of_timeout_14() {
    let _slot = slot::take();
    peer_of_a_dead_server_ends(&Way::cable(&Cable::lay(), Family::V4), "14");
}

#[test]
fn a_dead_peer_behind_a_cable_is_status_12_in_the_time_of_timeout_16() {
    let _slot = slot::take();
    peer_of_a_dead_server_ends(&Way::cable(&Cable::lay(), Family::V4), "16");
}

/// Kills both sides again and again; a pair after each must not notice.
fn next_run_is_unharmed(way: &Way<'_>) {
    for round in 0..8 {
        let mut pair = way.start(&Case { program: STEADY, options: &["-D", "20"] });
        pair.server.wait_connected(pair.port).unwrap_or_else(|why| panic!("{why}"));
        // From the midst of the set-up to the midst of the traffic.
        std::thread::sleep(Duration::from_millis(40 * round));
        pair.server.signal(Signal::KILL);
        pair.client.signal(Signal::KILL);
        pair.wait();
        way.run(&Case { program: "ibv_rc_pingpong", options: &["-c", "-n", "200"] });
    }
}

#[test]
fn killed_programs_leave_nothing_that_the_next_run_trips_over() {
    let _slot = slot::take();
    next_run_is_unharmed(&Way::one_host(Gid::Of(Family::V4)));
}

#[test]
fn killed_programs_leave_nothing_that_the_next_run_trips_over_behind_a_cable() {
    let _slot = slot::take();
    next_run_is_unharmed(&Way::cable(&Cable::lay(), Family::V6));
}

#[test]
fn a_stopped_program_that_goes_on_in_time_loses_nothing() {
    let _slot = slot::take();
    let way = Way::one_host(Gid::Of(Family::V4));
    let case = Case { program: "ibv_rc_pingpong", options: &["-c", "-n", "200000"] };
    let mut pair = way.start(&case);
    pair.server.wait_connected(pair.port).unwrap_or_else(|why| panic!("{why}"));
    std::thread::sleep(Duration::from_millis(100));
    pair.server.signal(Signal::STOP);
    // Shorter than the retries of the pingpong's QP last (timeout 14, retry_cnt 7: 540 ms).
    std::thread::sleep(Duration::from_millis(250));
    pair.server.signal(Signal::CONT);
    pair.wait().assert_both_succeed();
}
