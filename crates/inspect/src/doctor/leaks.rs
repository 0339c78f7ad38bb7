//! Objects that nothing uses, and tables that fill up.

use std::collections::{BTreeMap, BTreeSet};

use glassnic_events::{Gid, QpState};
use glassnic_verbs::qpc;

use super::ends::End;
use super::finding::{Certainty, Fault, Finding, Group, Pile, Severity};
use crate::model::{NicModel, NicState, ObjectModel, QpModel, Site};
use crate::read::{Host, NicReading};

/// As many of one place are no accident.
pub(super) const MANY: usize = 16;
/// Address handles are cheap: there may be some more.
const MANY_AHS: usize = 64;
/// What is used later is made a little earlier.
const YOUNG_NS: u64 = 10_000_000_000;
/// A pool of QPs may wait, though seldom so many for so long.
const IDLE_NS: u64 = 60_000_000_000;
/// A table that is so full, in percent, will be full.
const NEAR_PERCENT: usize = 80;
/// Sites of one kind that are named.
const SITES: usize = 3;

/// An object.
#[derive(Clone, Copy)]
pub(super) struct Made<'a> {
    /// Where it was made.
    pub(super) site: &'a Site,
    /// In nanoseconds.
    pub(super) age_ns: u64,
    /// Its handle, or QPN.
    pub(super) id: u32,
}

impl<'a> From<&'a QpModel> for Made<'a> {
    fn from(qp: &'a QpModel) -> Self {
        Self { site: &qp.site, age_ns: qp.age_ns, id: qp.qpn }
    }
}

impl<'a> From<&'a ObjectModel> for Made<'a> {
    fn from(object: &'a ObjectModel) -> Self {
        Self { site: &object.site, age_ns: object.age_ns, id: object.handle }
    }
}

/// QPs of one place in one state.
type SiteAndState<'a> = (&'a Site, u32);

/// Everything about objects that are left over.
pub(super) fn rules(host: &Host) -> Vec<Finding> {
    let of_nic = |nic: &NicReading| {
        let mut found = near_limits(nic);
        if nic.model.state == NicState::Open {
            found.extend(piles(nic));
            found.extend(idle(nic));
        } else {
            found.extend(left_behind(nic));
        }
        found
    };
    host.nics.iter().flat_map(of_nic).collect()
}

/// A kind's objects, by the place that they were made at: how many, and how old the oldest.
fn by_site<'a>(kind: &'static str, sites: impl Iterator<Item = Made<'a>>) -> Vec<(Group, u64)> {
    let mut counts: BTreeMap<&Site, (usize, u64)> = BTreeMap::new();
    for made in sites {
        let (count, oldest) = counts.entry(made.site).or_default();
        (*count, *oldest) = (*count + 1, made.age_ns.max(*oldest));
    }
    let mut groups: Vec<_> = counts
        .into_iter()
        .map(|(site, (count, oldest))| (Group { kind, count, site: site.clone() }, oldest))
        .collect();
    groups.sort_by_key(|(group, _)| std::cmp::Reverse(group.count));
    groups
}

/// Every object of a NIC, by kind.
pub(super) fn all(nic: &NicModel) -> [(&'static str, Vec<Made<'_>>); 8] {
    [
        ("QP", nic.qps.iter().map(Made::from).collect()),
        ("CQ", nic.cqs.iter().map(|cq| (&cq.object).into()).collect()),
        ("MR", nic.mrs.iter().map(|mr| (&mr.object).into()).collect()),
        ("MW", nic.mws.iter().map(|mw| (&mw.object).into()).collect()),
        ("SRQ", nic.srqs.iter().map(|srq| (&srq.object).into()).collect()),
        ("AH", nic.ahs.iter().map(|ah| (&ah.object).into()).collect()),
        ("channel", nic.channels.iter().map(|channel| (&channel.object).into()).collect()),
        ("PD", nic.pds.iter().map(|pd| (&pd.object).into()).collect()),
    ]
}

fn groups(nic: &NicModel) -> Vec<Group> {
    let all = all(nic).into_iter().flat_map(|(kind, objects)| by_site(kind, objects.into_iter()));
    all.map(|(group, _)| group).collect()
}

fn near_limits(nic: &NicReading) -> Vec<Finding> {
    let limits = &nic.model.limits;
    let limit = |kind: &str| match kind {
        "QP" => limits.max_qp,
        "CQ" => limits.max_cq,
        "MR" => limits.max_mr,
        "PD" => limits.max_pd,
        "AH" => limits.max_ah,
        "SRQ" => limits.max_srq,
        _ => 0,
    };
    let finding = |(kind, objects): (&'static str, Vec<Made<'_>>)| {
        let (held, limit) = (objects.len(), limit(kind));
        if limit == 0 || held.saturating_mul(100) < limit.saturating_mul(NEAR_PERCENT) {
            return None;
        }
        let sites = by_site(kind, objects.into_iter()).into_iter().map(|(group, _)| group).take(SITES);
        let fault = Fault::NearLimit { kind, held, limit, sites: sites.collect() };
        let severity = if held >= limit { Severity::Error } else { Severity::Warning };
        Some(Finding::of(nic, severity, Certainty::Certain, fault))
    };
    all(&nic.model).into_iter().filter_map(finding).collect()
}

/// One that was killed could not clean up; one that ended by itself did not.
fn left_behind(nic: &NicReading) -> Option<Finding> {
    let groups = groups(&nic.model);
    let fault = Fault::LeftBehind { groups: groups.clone() };
    let by_itself = matches!(nic.model.state, NicState::Exited | NicState::Closed);
    (by_itself && !groups.is_empty()).then(|| Finding::of(nic, Severity::Hint, Certainty::Certain, fault))
}

fn piles(nic: &NicReading) -> Vec<Finding> {
    let model = &nic.model;
    let mut found = Vec::new();
    let mut add = |many: usize, pile: Pile, groups: Vec<(Group, u64)>| {
        for (group, age_ns) in groups {
            if group.count >= many && age_ns > YOUNG_NS {
                let fault = Fault::Piled { group, pile, age_ns };
                found.push(Finding::of(nic, Severity::Warning, Certainty::Likely, fault));
            }
        }
    };
    let unmodified = model.qps.iter().filter(|qp| End { nic, qp }.state() == QpState::Reset);
    add(MANY, Pile::NeverModified, by_site("QP", unmodified.map(Made::from)));
    let reports = |field: qpc::Field| model.qps.iter().map(move |qp| qp.context.get(field) as u32);
    let used: BTreeSet<u32> = reports(qpc::Field::SendCq).chain(reports(qpc::Field::RecvCq)).collect();
    let idle = model.cqs.iter().filter(|cq| !used.contains(&cq.object.handle));
    add(MANY, Pile::Unused, by_site("CQ", idle.map(|cq| (&cq.object).into())));
    let owners: BTreeSet<u32> = reports(qpc::Field::Pd)
        .chain(model.mrs.iter().map(|mr| mr.object.pd))
        .chain(model.mws.iter().map(|mw| mw.object.pd))
        .chain(model.srqs.iter().map(|srq| srq.object.pd))
        .chain(model.ahs.iter().map(|ah| ah.object.pd))
        .collect();
    let idle = model.pds.iter().filter(|pd| !owners.contains(&pd.object.handle));
    add(MANY, Pile::Unused, by_site("PD", idle.map(|pd| (&pd.object).into())));
    let mut regions: BTreeMap<(u64, u64), Vec<Made<'_>>> = BTreeMap::new();
    for mr in &model.mrs {
        regions.entry((mr.addr, mr.length)).or_default().push((&mr.object).into());
    }
    for ((addr, length), objects) in regions {
        add(MANY, Pile::SameMemory { addr, length }, by_site("MR", objects.into_iter()));
    }
    let mut handles: BTreeMap<&String, Vec<Made<'_>>> = BTreeMap::new();
    for ah in &model.ahs {
        handles.entry(&ah.dgid).or_default().push((&ah.object).into());
    }
    for (dgid, objects) in handles {
        let dgid = dgid.parse::<std::net::Ipv6Addr>().map_or(Gid([0; 16]), |address| Gid(address.octets()));
        add(MANY_AHS, Pile::SameDestination { dgid }, by_site("AH", objects.into_iter()));
    }
    found
}

/// QPs that were set up and never used, where they are several.
fn idle(nic: &NicReading) -> Vec<Finding> {
    let mut groups: BTreeMap<SiteAndState<'_>, (Vec<u32>, u64)> = BTreeMap::new();
    for qp in &nic.model.qps {
        let end = End { nic, qp };
        let counters = [qpc::Field::SqTail, qpc::Field::Msn, qpc::Field::Dropped];
        let carried = counters.into_iter().any(|field| end.device(field) != 0);
        // In RESET they are a pile or about to be used; in ERR told of.
        let is_set_up = matches!(end.state(), QpState::Init | QpState::Rtr | QpState::Rts);
        if is_set_up && !carried && qp.age_ns > IDLE_NS {
            let (qpns, oldest) = groups.entry((&qp.site, end.state().value())).or_default();
            qpns.push(qp.qpn);
            *oldest = qp.age_ns.max(*oldest);
        }
    }
    let finding = |((site, state), (qpns, age_ns)): (SiteAndState<'_>, (Vec<u32>, u64))| {
        let state = QpState::try_from(state).ok()?;
        if qpns.len() < MANY {
            return None;
        }
        let fault = Fault::Idle { qpns, state, age_ns, site: site.clone() };
        Some(Finding::of(nic, Severity::Hint, Certainty::Possible, fault))
    };
    groups.into_iter().filter_map(finding).collect()
}
