//! Several programs at once on one address.

use glassnic_e2e::pair::{Case, Gid, Pair, Way};
use glassnic_e2e::place::{Cable, Family};
use glassnic_e2e::slot;

const PROGRAMS: [Case; 3] = [
    Case { program: "ibv_rc_pingpong", options: &["-c", "-e", "-n", "3000"] },
    Case { program: "ib_write_bw", options: &["-n", "1000"] },
    Case { program: "ibv_ud_pingpong", options: &["-e", "-s", "@mtu"] },
];

/// Three different programs, then three times the same: every pair must succeed.
fn three_pairs(way: &Way<'_>) {
    for cases in [PROGRAMS, [PROGRAMS[0]; 3]] {
        let pairs: Vec<Pair> = cases.iter().map(|case| way.start(case)).collect();
        let outcomes: Vec<_> = pairs.into_iter().map(Pair::wait).collect();
        for outcome in outcomes {
            outcome.assert_both_succeed();
        }
    }
}

#[test]
fn three_pairs_on_one_host() {
    let _slot = slot::take();
    three_pairs(&Way::one_host(Gid::Of(Family::V4)));
}

#[test]
fn three_pairs_on_one_host_over_udp() {
    let _slot = slot::take();
    let way = Way { environment: &[("GLASSNIC_LINK", "udp")], ..Way::one_host(Gid::Of(Family::V4)) };
    three_pairs(&way);
}

#[test]
fn three_pairs_between_the_ends_of_a_cable() {
    let _slot = slot::take();
    three_pairs(&Way::cable(&Cable::lay(), Family::V4));
}
