//! Explanations for programs: one JSON object each in a line, with the numbers as numbers beside the words.

use glassnic_events::{Failure, Leftover, Refusal, Rule, errno};
use serde_json::{Value, json};

use crate::Explanation;

/// A refused call: the call, the rule, what was offered and what is allowed, the remedy, the errno.
pub fn refusal(refusal: &Refusal, said: &Explanation) -> String {
    let errno = errno(&refusal.rule);
    let (offered, allowed) = values(&refusal.rule);
    let (from, to) = refusal.moving.map(|(from, to)| (from.name(), to.name())).unzip();
    with_words(
        json!({
            "kind": "refusal", "call": refusal.call.name(), "qpn": refusal.qpn, "state": from, "to_state": to,
            "rule": refusal.rule.name(), "rule_code": refusal.rule.code(), "offered": offered, "allowed": allowed,
            "errno": errno.0, "errno_name": errno.name(),
        }),
        said,
    )
}

/// A queue pair that failed.
pub fn failure(failure: &Failure, said: &Explanation) -> String {
    let cause = &failure.cause;
    with_words(
        json!({
            "kind": "failure", "qpn": failure.qpn, "state": failure.state.name(), "status": cause.status.value(),
            "status_name": cause.status.name(), "check": format!("{:?}", cause.check),
            "check_code": cause.check.value(), "wr_id": cause.wr_id, "psn": cause.psn,
            "dest_qp_num": failure.path.map(|path| path.dest_qp_num),
            "peer_state": failure.peer.and_then(|peer| peer.state).map(|state| state.name()),
        }),
        said,
    )
}

/// Something that was left at the end.
pub fn leftover(left: &Leftover, said: &Explanation) -> String {
    let facts = match *left {
        Leftover::Objects { kind, count, first, .. } => {
            json!({ "kind": "leak", "object": kind.name(), "count": count, "first": first })
        }
        Leftover::Completions { cq, count, qpn, wr_id, status } => json!({
            "kind": "unread_completions", "cq": cq, "count": count, "qpn": qpn, "wr_id": wr_id, "status_name": status.name(),
        }),
        Leftover::AsyncEvents { count, event, subject } => json!({
            "kind": "unread_events", "count": count, "event": event.name(), "subject": subject,
        }),
    };
    with_words(facts, said)
}

fn with_words(mut facts: Value, said: &Explanation) -> String {
    facts["subject"] = json!(said.subject);
    facts["what"] = json!(said.what);
    facts["remedy"] = json!(said.remedy);
    facts["after"] = json!(said.after);
    facts.to_string()
}

/// What was offered and what is allowed, where a rule compares them.
fn values(rule: &Rule) -> (Value, Value) {
    match *rule {
        Rule::ExceedsLimit { offered, limit, .. } => (json!(offered), json!(limit)),
        Rule::CapAboveLimit { offered, limit, .. } => (json!(offered), json!(limit)),
        Rule::OutOfRange { offered, min, max, .. } => (json!(offered), json!([min, max])),
        Rule::UnknownValue { value, .. } | Rule::NotSupported { value, .. } => (json!(value), Value::Null),
        Rule::UnknownBits { bits, .. } => (json!(bits), json!(0)),
        Rule::NotListedTransition { at, reachable } => (json!(at.to.name()), json!(states(reachable))),
        Rule::MissingAttrs { missing, .. } => (Value::Null, json!(missing.bits())),
        Rule::ForbiddenAttrs { forbidden, .. } => (json!(forbidden.bits()), Value::Null),
        Rule::StateMismatch { given, actual } => (json!(given.name()), json!(actual.name())),
        Rule::WrongState { state, needs } => (json!(state.name()), json!(states(needs))),
        Rule::MtuAbovePort { offered, active_mtu, .. } => (json!(offered), json!(active_mtu)),
        Rule::GidIndexEmpty { index, valid, .. } | Rule::GidIndexBeyond { index, valid, .. } => {
            (json!(index), json!(valid.iter().collect::<Vec<_>>()))
        }
        Rule::PortMismatch { given, qp_port, .. } => (json!(given), json!(qp_port)),
        Rule::QueueFull { depth, .. } => (Value::Null, json!(depth)),
        Rule::TooManySges { offered, max, .. } => (json!(offered), json!(max)),
        Rule::InlineTooLarge { offered, max } => (json!(offered), json!(max)),
        Rule::MessageTooLong { offered, max } => (json!(offered), json!(max)),
        Rule::LimitReached { limit, held, .. } => (json!(held + 1), json!(limit)),
        Rule::MemlockExceeded { needed, limit } => (json!(needed), json!(limit)),
        Rule::ShrinksBelowUse { offered, held, .. } => (json!(offered), json!(held)),
        _ => (Value::Null, Value::Null),
    }
}

fn states(set: glassnic_events::StateSet) -> Vec<&'static str> {
    set.iter().map(|state| state.name()).collect()
}
