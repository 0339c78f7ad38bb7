//! Why? From what happened to a cause and a remedy, in plain words.
//!
//! Pure rules over the vocabulary of `glassnic-events`: the engine decides *what* is wrong and hands over the
//! numbers; only the words live here. A refusal becomes one line,
//!
//! ```
//! use glassnic_events::{Call, QpState, Refusal, Rule};
//!
//! let rule = Rule::MtuAbovePort { offered: 4096, active_mtu: 1024, port: 1 };
//! let refusal = Refusal::on_qp(Call::ModifyQp, 0x12, rule).moving(QpState::Init, QpState::Rtr);
//! assert_eq!(
//!     glassnic_explain::explain(&refusal).to_string(),
//!     "ibv_modify_qp(QP 0x12 INIT→RTR): path_mtu=4096 exceeds port 1's active_mtu=1024; use at most 1024"
//! );
//! ```
//!
//! and the first error of a queue pair becomes another ([`explain_first_cause`]), because the completion statuses that a
//! program sees (flush above all) are seldom the cause.

#![forbid(unsafe_code)]

mod english;
#[cfg(test)]
mod tests;

use core::fmt;

use glassnic_events::{Call, FirstCause, Refusal};

/// A language that explanations are written in. Each has one module of sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lang {
    /// English.
    #[default]
    En,
}

/// Why, in words. Displays as one line: `subject: what; remedy`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Explanation {
    /// The call or object that it is about: `ibv_modify_qp(QP 0x12 INIT→RTR)`.
    pub subject: String,
    /// What is wrong, with the values.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.subject, self.what, self.remedy)
    }
}

/// What a language says: what is wrong, and what to do about it.
struct Said {
    what: String,
    remedy: String,
}

/// Explains a refused call in English.
pub fn explain(refusal: &Refusal) -> Explanation {
    explain_in(Lang::En, refusal)
}

/// Explains a refused call.
pub fn explain_in(lang: Lang, refusal: &Refusal) -> Explanation {
    let said = match lang {
        Lang::En => english::rule::say(refusal.call, &refusal.rule),
    };
    Explanation { subject: subject(refusal), what: said.what, remedy: said.remedy }
}

/// Explains in English how a queue pair came into error.
pub fn explain_first_cause(qpn: u32, cause: &FirstCause) -> Explanation {
    explain_first_cause_in(Lang::En, qpn, cause)
}

/// Explains how a queue pair came into error.
pub fn explain_first_cause_in(lang: Lang, qpn: u32, cause: &FirstCause) -> Explanation {
    let said = match lang {
        Lang::En => english::check::say(cause),
    };
    Explanation { subject: format!("QP {qpn:#x}"), what: said.what, remedy: said.remedy }
}

/// `ibv_modify_qp(QP 0x12 INIT→RTR)`: names only, the same in every language.
fn subject(refusal: &Refusal) -> String {
    let call: Call = refusal.call;
    match (refusal.qpn, refusal.moving) {
        (Some(qpn), Some((from, to))) => format!("{call}(QP {qpn:#x} {from}→{to})"),
        (Some(qpn), None) => format!("{call}(QP {qpn:#x})"),
        (None, _) => call.to_string(),
    }
}
