//! What is wrong with the NICs of this host, with the evidence and what to change: rules over one reading.
//!
//! Each rule is a pure function of a [`Host`]; ages count from the time of the reading. A rule says nothing about what a
//! healthy program may look like at some moment: where a state is right for a while, it must have lasted. What is found is
//! data ([`Fault`]); one function a language makes words of it.

mod calls;
mod chinese;
mod completions;
mod ends;
mod english;
mod errors;
mod finding;
mod growth;
mod leaks;
mod peers;
mod queues;
mod report;

pub use finding::{Certainty, Fault, Finding, Group, Process, Severity, Who};
pub use growth::growth;
pub use report::{Report, json, text};

use crate::read::Host;

/// A rule.
type Rule = fn(&Host) -> Vec<Finding>;

/// All of them, in the order in which findings of one weight are told.
const RULES: &[Rule] =
    &[peers::rules, errors::rules, queues::rules, completions::rules, calls::rules, leaks::rules];

/// Whom to look at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whom<'a> {
    /// These processes only; `None` for all.
    pub pids: Option<&'a [u32]>,
    /// Only what is left of processes that are gone, or have closed their NIC.
    pub gone: bool,
}

impl Whom<'_> {
    fn concerns(&self, host: &Host, finding: &Finding) -> bool {
        let among = |pid: &u32| self.pids.is_none_or(|pids| pids.contains(pid));
        // Whether it is found at one end or at the other, it concerns both.
        let mut all = std::iter::once(&finding.process.pid).chain(&finding.others);
        let is_gone = |pid: &u32| {
            let mut nics = host.nics.iter().filter(|nic| nic.model.pid == *pid);
            !self.gone || nics.any(|nic| nic.model.state != crate::NicState::Open)
        };
        all.any(|pid| among(pid) && is_gone(pid))
    }
}

/// All that is wrong, the heaviest first; of one weight, the most certain first.
#[must_use]
pub fn examine(host: &Host, whom: Whom<'_>) -> Vec<Finding> {
    let mut findings: Vec<_> = RULES.iter().flat_map(|rule| rule(host)).collect();
    findings.retain(|finding| whom.concerns(host, finding));
    // Stable: within, the order of the rules.
    findings.sort_by_key(|finding| (finding.severity, finding.certainty));
    findings
}

#[cfg(test)]
mod tests;
