//! Findings as text and as JSON.

use std::fmt::Write;

use glassnic_events::{Failure, QpState};
use glassnic_explain::{Explanation, Lang, explain_failure_in};
use serde::Serialize;

use super::finding::{Certainty, Fault, Finding, Severity};
use super::{chinese, english};

/// A finding in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) what: String,
    pub(super) evidence: Vec<String>,
    pub(super) remedy: String,
}

impl Said {
    pub(super) fn new(
        what: impl Into<String>,
        evidence: impl IntoIterator<Item = String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), evidence: evidence.into_iter().collect(), remedy: remedy.into() }
    }
}

/// A finding for programs, with its words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The rule that found it.
    pub rule: &'static str,
    /// Its weight.
    pub severity: Severity,
    /// How sure it is.
    pub certainty: Certainty,
    /// The process that is to be changed.
    pub pid: u32,
    /// The name of its program.
    pub command: String,
    /// What became of it.
    pub process_state: &'static str,
    /// The QP, where it is about one.
    pub qpn: Option<u32>,
    /// Other processes that it concerns.
    pub other_pids: Vec<u32>,
    /// What is wrong.
    pub what: String,
    /// How that is known.
    pub evidence: Vec<String>,
    /// What to change.
    pub remedy: String,
}

/// What a language has to say of findings. Each group of faults has its function, which is given no other.
pub(super) struct Words {
    /// That nothing was found.
    pub(super) nothing: &'static str,
    /// Weight, process and QP, and what is wrong with it.
    pub(super) head: fn(&Finding, what: &str) -> String,
    /// One end waits for the other.
    pub(super) handshake: fn(&Finding) -> Said,
    /// The other end is not there, or not for this one.
    pub(super) wrong_peer: fn(&Finding) -> Said,
    /// The ends do not fit together.
    pub(super) mismatch: fn(&Fault) -> Said,
    /// A first error.
    pub(super) failed: fn(&Finding) -> Said,
    /// Work queues.
    pub(super) queue: fn(&Fault) -> Said,
    /// Completion queues and events.
    pub(super) completion: fn(&Fault) -> Said,
    /// Calls.
    pub(super) call: fn(&Fault) -> Said,
    /// Objects that nothing uses.
    pub(super) objects: fn(&Fault) -> Said,
}

const fn words(lang: Lang) -> &'static Words {
    match lang {
        Lang::Zh => &chinese::WORDS,
        _ => &english::WORDS,
    }
}

/// What is wrong, how that is known, and what to change.
fn say(words: &Words, finding: &Finding) -> Said {
    match &finding.fault {
        Fault::NotReady { .. } | Fault::BothInInit { .. } => (words.handshake)(finding),
        Fault::PeerMissing { .. } | Fault::PeerGone { .. } | Fault::PeerElsewhere { .. } => {
            (words.wrong_peer)(finding)
        }
        fault @ (Fault::TypeMismatch { .. }
        | Fault::PsnMismatch { .. }
        | Fault::MtuMismatch { .. }
        | Fault::RdAtomicMismatch { .. }
        | Fault::GidMismatch { .. }
        | Fault::QkeyMismatch { .. }) => (words.mismatch)(fault),
        Fault::Failed { .. } => (words.failed)(finding),
        fault @ (Fault::NoReceive { .. } | Fault::RnrLoop { .. } | Fault::QueueFull { .. }) => {
            (words.queue)(fault)
        }
        fault @ (Fault::CqTooSmall { .. }
        | Fault::AsleepOverCompletions { .. }
        | Fault::DestroyWaits { .. }
        | Fault::AsyncUnread { .. }) => (words.completion)(fault),
        fault @ (Fault::ForkedUse { .. }
        | Fault::Overlaps { .. }
        | Fault::EarlyQueries { .. }
        | Fault::Refused { .. }) => (words.call)(fault),
        fault @ (Fault::NearLimit { .. }
        | Fault::LeftBehind { .. }
        | Fault::Piled { .. }
        | Fault::Growing { .. }
        | Fault::Idle { .. }) => (words.objects)(fault),
    }
}

/// Findings for programs.
#[must_use]
pub fn json(lang: Lang, findings: &[Finding]) -> Vec<Report> {
    let words = words(lang);
    let report = |finding: &Finding| {
        let Said { what, evidence, remedy } = say(words, finding);
        let Finding { severity, certainty, process, qpn, others, fault } = finding;
        Report {
            rule: fault.rule(),
            severity: *severity,
            certainty: *certainty,
            pid: process.pid,
            command: process.command.clone(),
            process_state: process.state.name(),
            qpn: *qpn,
            other_pids: others.clone(),
            what,
            evidence,
            remedy,
        }
    };
    findings.iter().map(report).collect()
}

/// Findings for people: what is wrong, below it how that is known, and what to change.
#[must_use]
pub fn text(lang: Lang, findings: &[Finding]) -> String {
    let words = words(lang);
    if findings.is_empty() {
        return format!("{}\n", words.nothing);
    }
    let mut out = String::new();
    for finding in findings {
        let Said { what, evidence, remedy } = say(words, finding);
        // Writing to a string does not fail.
        let _ = writeln!(out, "{}", (words.head)(finding, &what));
        for line in &evidence {
            let _ = writeln!(out, "    {line}");
        }
        let _ = writeln!(out, "  → {remedy}");
    }
    out
}

/// What a modify to RTR of the QP of [`Fault::NotReady`] needs to know of its peer, as C spells it.
pub(super) fn needs(fault: &Fault) -> String {
    let Fault::NotReady { peer, psn, path_mtu, gid, .. } = fault else { return String::new() };
    let mut fields = vec![format!("dest_qp_num={:#x}", peer.qpn)];
    // Before RTS the peer has not said where it begins.
    if !matches!(peer.state, QpState::Rtr) {
        fields.push(format!("rq_psn={psn:#x}"));
    }
    fields.push(format!("path_mtu=IBV_MTU_{path_mtu}"));
    fields.extend(gid.map(|gid| format!("ah_attr.grh.dgid={gid}")));
    fields.join(", ")
}

/// A first error, explained.
pub(super) fn failure(lang: Lang, finding: &Finding) -> Option<Explanation> {
    let Fault::Failed { cause, state, path, access, .. } = &finding.fault else { return None };
    let failure = Failure {
        qpn: finding.qpn.unwrap_or(0),
        state: state.unwrap_or_default(),
        cause: *cause,
        path: *path,
        access: *access,
        peer: None,
    };
    // A destroyed QP has no state; where it is now is told beside it.
    Some(explain_failure_in(lang, &failure))
}
