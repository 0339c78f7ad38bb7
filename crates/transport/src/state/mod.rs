//! Which moves does a queue pair make, and what has to be said for each?
//!
//! One table ([`arrow`]) holds every legal move with its required and optional attributes, per type of queue pair
//! (IBA volume 1, section 11.2.5.2; `ibv_modify_qp(3)`). The check of a call, the refusal's text, the diagram
//! ([`dot`]) and the tests all read it.
//!
//! A call is checked as a whole and then applied as a whole, so that a refused call has changed nothing:
//!
//! ```
//! use glassnic_events::{AttrMask, QpState, QpType, Rule};
//! use glassnic_transport::attr::QpAttr;
//! use glassnic_transport::state::{self, DeviceFacts, PortFacts};
//!
//! let ports = [PortFacts::default()];
//! let facts = DeviceFacts { ports: &ports, ..DeviceFacts::default() };
//! let mut qp = QpAttr::default();
//!
//! let offered = QpAttr { qp_state: QpState::Init, port_num: 1, ..QpAttr::default() };
//! let mask = AttrMask::STATE | AttrMask::PORT | AttrMask::PKEY_INDEX;
//! let refused = state::check_modify(&facts, QpType::Rc, &qp, mask, &offered);
//! assert!(matches!(refused, Err(Rule::MissingAttrs { missing: AttrMask::ACCESS_FLAGS, .. })));
//!
//! let mask = mask | AttrMask::ACCESS_FLAGS;
//! let moved = state::check_modify(&facts, QpType::Rc, &qp, mask, &offered).expect("nothing is missing");
//! state::apply(mask, &offered, &mut qp);
//! assert_eq!(qp.qp_state, moved.to);
//! ```

mod apply;
mod check;
mod print;
mod table;
#[cfg(test)]
mod tests;

pub use apply::apply;
pub use check::{DeviceFacts, PortFacts, check_attrs, check_modify};
pub use print::{dot, text};
pub use table::{Arrow, arrow, check_transition, moves_allowing, reachable};
