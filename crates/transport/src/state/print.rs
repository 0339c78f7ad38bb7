//! The table as text and as a picture.

use core::fmt::Write;

use glassnic_events::{AttrMask, QpState, QpType};

use super::table::arrow;

/// The table of one type, a line a move: `RESET→INIT  required …  optional …`.
pub fn text(qp_type: QpType) -> String {
    let mut out = String::new();
    for &from in QpState::ALL {
        for &to in QpState::ALL {
            let Some(arrow) = arrow(qp_type, from, to) else { continue };
            let move_name = format!("{from}→{to}");
            let line = match (arrow.required.is_empty(), arrow.optional.is_empty()) {
                (true, true) => move_name,
                (false, true) => format!("{move_name:<12} needs {}", words(arrow.required)),
                (true, false) => format!("{move_name:<12} takes {}", words(arrow.optional)),
                (false, false) => {
                    let (required, optional) = (words(arrow.required), words(arrow.optional));
                    format!("{move_name:<12} needs {required}; takes {optional}")
                }
            };
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

/// The state diagram of one type in the language of Graphviz. Moves to RESET and ERR, which every state has, are drawn
/// once; what is required stands on the arrow, what is optional there in brackets; what only the device does is dotted.
pub fn dot(qp_type: QpType) -> String {
    let mut out = format!("digraph \"{qp_type}\" {{\n  rankdir=LR;\n  node [shape=box, style=rounded];\n");
    for &from in QpState::ALL {
        for &to in QpState::ALL {
            let Some(arrow) = arrow(qp_type, from, to) else { continue };
            if matches!(to, QpState::Reset | QpState::Err) {
                continue;
            }
            let required = arrow.required.iter_names().map(|(name, _)| name.to_owned());
            let optional = arrow.optional.iter_names().map(|(name, _)| format!("[{name}]"));
            let label = required.chain(optional).collect::<Vec<_>>().join("\\n");
            writeln!(out, "  {from} -> {to} [label=\"{label}\"];").ok();
        }
    }
    if goes_to_sqe(qp_type) {
        out.push_str("  RTS -> SQE [label=\"a send fails\", style=dotted];\n");
    }
    out.push_str("  any [label=\"any state\", style=dashed];\n  any -> RESET;\n");
    out.push_str("  any -> ERR [label=\"except RESET\"];\n}\n");
    out
}

/// Only the device moves a queue pair to SQE, and only where one failed send says nothing about the next: in services
/// without acknowledgement (IBA volume 1, section 10.3.1). The table shows it by the way back.
fn goes_to_sqe(qp_type: QpType) -> bool {
    let acknowledged = matches!(qp_type, QpType::Rc | QpType::XrcSend | QpType::XrcRecv);
    !acknowledged && arrow(qp_type, QpState::Sqe, QpState::Rts).is_some()
}

fn words(mask: AttrMask) -> String {
    let names: Vec<_> = mask.iter_names().map(|(name, _)| name).collect();
    names.join(" ")
}
