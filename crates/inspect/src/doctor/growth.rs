//! Objects that become more and more while somebody looks.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Certainty, Fault, Finding, Group, Severity};
use super::leaks::{MANY, all};
use crate::model::{NicModel, NicState, Site};
use crate::read::Host;

/// What one place in the program has made of one kind.
type Grown<'a> = BTreeMap<(&'static str, &'a Site), BTreeSet<u32>>;

/// Kinds of objects that one place in a program made more of between any two looks, and destroyed none of, in these processes or all. A program that
/// is being set up does so too: the first look should come after that. Fewer than three looks tell nothing.
#[must_use]
pub fn growth(looks: &[Host], pids: Option<&[u32]>) -> Vec<Finding> {
    let (Some(first), Some(last)) = (looks.first(), looks.last().filter(|_| looks.len() > 2)) else {
        return Vec::new();
    };
    let span_ns = last.now_ns.saturating_sub(first.now_ns);
    let mut findings = Vec::new();
    let is_meant = |nic: &NicModel| pids.is_none_or(|pids| pids.contains(&nic.pid));
    let open = |nic: &NicModel| nic.state == NicState::Open && is_meant(nic);
    for nic in last.nics.iter().filter(|nic| open(&nic.model)) {
        let is_it = |model: &NicModel| (model.pid, &model.segment) == (nic.model.pid, &nic.model.segment);
        let models = looks.iter().filter_map(|host| host.nics.iter().find(|nic| is_it(&nic.model)));
        let grown: Vec<_> = models.map(|nic| by_site(&nic.model)).collect();
        if grown.len() < looks.len() {
            continue;
        }
        for ((kind, site), there) in grown.last().into_iter().flatten() {
            let none = BTreeSet::new();
            let ever: Vec<_> = grown.iter().map(|look| look.get(&(*kind, *site)).unwrap_or(&none)).collect();
            let is_growing =
                ever.windows(2).all(|two| two[0].len() < two[1].len() && two[0].is_subset(two[1]));
            let (before, count) = (ever.first().map_or(0, |ids| ids.len()), there.len());
            if is_growing && count >= before + MANY {
                let group = Group { kind, count, site: (*site).clone() };
                let fault = Fault::Growing { group, before, span_ns };
                findings.push(Finding::of(nic, Severity::Hint, Certainty::Possible, fault));
            }
        }
    }
    findings
}

fn by_site(nic: &NicModel) -> Grown<'_> {
    let mut grown = Grown::new();
    for (kind, objects) in all(nic) {
        for made in objects {
            grown.entry((kind, made.site)).or_default().insert(made.id);
        }
    }
    grown
}
