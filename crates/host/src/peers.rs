//! The other end of a QP, where it is one of this user on this host: what its segment shows of it.

use glassnic_events::{PathAttrs, PeerState, QpState};
use glassnic_nic::driver;
use glassnic_nic::object::{Head, Kind, Srq};
use glassnic_nic::qpc::Field;

use crate::inspect::{Folder, NicView, QpView};
use crate::runtime::Runtime;
use crate::sys::monotonic_ns;

/// The QP that a path leads to, as it is now. `None` if it is not one of this host, or nobody can know. Reads the segments of all
/// processes: for a QP that has failed.
pub(crate) fn peer_state(runtime: &Runtime, qpn: u32, path: &PathAttrs) -> Option<PeerState> {
    let ours = |gid| runtime.devices().iter().any(|device| device.port().gids.contains(&Some(gid)));
    if runtime.node.is_none() || !ours(path.dgid.0) {
        return None;
    }
    let folder = Folder::open().ok()?;
    let views: Vec<NicView> =
        folder.segments().ok()?.iter().filter_map(|name| folder.nic(name).ok().flatten()).collect();
    let of_view = |view: &NicView| {
        let found = view.qps().find(|qp| qp.context.get(Field::Qpn) == u64::from(path.dest_qp_num))?;
        Some(state(view, &found))
    };
    let alive = views.iter().filter(|view| view.is_open() && view.is_alive());
    // Numbers are unique among the processes of a user on a host; one of another user is not seen, and not missed.
    let found = alive.clone().find_map(of_view);
    let mine = || alive.clone().any(|view| view.contexts().any(|c| c.get(Field::Qpn) == u64::from(qpn)));
    found.or_else(|| mine().then(gone))
}

fn state(view: &NicView, qp: &QpView) -> PeerState {
    let of = |field| qp.context.get(field);
    // Of one whose receives are shared, what all that share them were given counts.
    let srq = view.objects(Kind::Srq).find(|srq| srq.get(Head::Handle) == of(Field::Srq));
    let receives = srq.map_or(qp.driver.get(driver::Field::RqPosted), |srq| srq.get(Srq::EverPosted));
    let empty = Some(of(Field::EmptySinceNs)).filter(|since| *since != 0);
    PeerState {
        pid: view.pid(),
        state: QpState::try_from(of(Field::State) as u32).ok(),
        dest_qp_num: of(Field::DestQpn) as u32,
        expected_psn: of(Field::ExpectedPsn) as u32,
        receives_posted: receives as u32,
        empty_ns: empty.map(|since| monotonic_ns().saturating_sub(since)),
    }
}

/// No QP of this user has the number.
fn gone() -> PeerState {
    PeerState { pid: 0, state: None, dest_qp_num: 0, expected_psn: 0, receives_posted: 0, empty_ns: None }
}
