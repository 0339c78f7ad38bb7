//! The structs and constants of `layout` are those of the installed headers, as the C compiler sees them.
//!
//! The layout is that of the newest rdma-core. Structs only grew: where the installed header is older, what it has must lie where
//! we have it.

mod common;
#[path = "../src/layout/mod.rs"]
mod layout;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

/// Structs of headers that are not installed, or that the header leaves unnamed.
const NOT_INSTALLED: [&str; 3] = ["verbs_device", "verbs_device_ops", "verbs_qp"];

/// Fields that older headers do not have, or that C names otherwise (checked in [`RENAMED`]).
const OTHER_FIELDS: [(&str, &str); 11] = [
    ("ibv_port_attr", "active_speed_ex"),
    ("ibv_qp_ex", "wr_flush"),
    ("verbs_context", "_newest"),
    ("ibv_odp_caps", "rc_odp_caps"),
    ("ibv_odp_caps", "uc_odp_caps"),
    ("ibv_odp_caps", "ud_odp_caps"),
    ("ibv_send_wr", "extra"),
    ("ibv_send_wr", "imm_data"),
    ("ibv_wc", "imm_data"),
    ("ibv_send_wr", "qp_type"),
    ("ibv_async_event", "element"),
];

/// Constants that older headers do not have.
const NEWER_CONSTANTS: [&str; 3] = ["IBV_WC_FLUSH", "IBV_WR_FLUSH", "IBV_QP_EX_WITH_FLUSH"];

/// The ways that C writes fields of unions, and where we have them.
fn renamed() -> Vec<(&'static str, &'static str, usize)> {
    use core::mem::offset_of;
    use layout::*;
    vec![
        ("ibv_odp_caps", "per_transport_caps.rc_odp_caps", offset_of!(ibv_odp_caps, rc_odp_caps)),
        ("ibv_odp_caps", "per_transport_caps.uc_odp_caps", offset_of!(ibv_odp_caps, uc_odp_caps)),
        ("ibv_odp_caps", "per_transport_caps.ud_odp_caps", offset_of!(ibv_odp_caps, ud_odp_caps)),
        ("ibv_async_event", "element.qp", offset_of!(ibv_async_event, element)),
        ("ibv_async_event", "element.port_num", offset_of!(ibv_async_event, element)),
        ("ibv_wc", "imm_data", offset_of!(ibv_wc, imm_data)),
        ("ibv_wc", "invalidated_rkey", offset_of!(ibv_wc, imm_data)),
        ("ibv_send_wr", "imm_data", offset_of!(ibv_send_wr, imm_data)),
        ("ibv_send_wr", "invalidate_rkey", offset_of!(ibv_send_wr, imm_data)),
        ("ibv_send_wr", "wr.rdma.remote_addr", offset_of!(ibv_send_wr, wr.rdma.remote_addr)),
        ("ibv_send_wr", "wr.rdma.rkey", offset_of!(ibv_send_wr, wr.rdma.rkey)),
        ("ibv_send_wr", "wr.atomic.remote_addr", offset_of!(ibv_send_wr, wr.atomic.remote_addr)),
        ("ibv_send_wr", "wr.atomic.compare_add", offset_of!(ibv_send_wr, wr.atomic.compare_add)),
        ("ibv_send_wr", "wr.atomic.swap", offset_of!(ibv_send_wr, wr.atomic.swap)),
        ("ibv_send_wr", "wr.atomic.rkey", offset_of!(ibv_send_wr, wr.atomic.rkey)),
        ("ibv_send_wr", "wr.ud.ah", offset_of!(ibv_send_wr, wr.ud.ah)),
        ("ibv_send_wr", "wr.ud.remote_qpn", offset_of!(ibv_send_wr, wr.ud.remote_qpn)),
        ("ibv_send_wr", "wr.ud.remote_qkey", offset_of!(ibv_send_wr, wr.ud.remote_qkey)),
        ("ibv_send_wr", "qp_type.xrc.remote_srqn", offset_of!(ibv_send_wr, qp_type)),
        ("ibv_send_wr", "bind_mw.mw", offset_of!(ibv_send_wr, extra.bind_mw.mw)),
        ("ibv_send_wr", "bind_mw.rkey", offset_of!(ibv_send_wr, extra.bind_mw.rkey)),
        ("ibv_send_wr", "bind_mw.bind_info", offset_of!(ibv_send_wr, extra.bind_mw.bind_info)),
        ("ibv_send_wr", "tso.hdr", offset_of!(ibv_send_wr, extra.tso.hdr)),
        ("ibv_send_wr", "tso.hdr_sz", offset_of!(ibv_send_wr, extra.tso.hdr_sz)),
        ("ibv_send_wr", "tso.mss", offset_of!(ibv_send_wr, extra.tso.mss)),
    ]
}

/// What is compared: a C expression, what we have, and how much may differ.
struct Check {
    expression: String,
    ours: i64,
    rule: Rule,
}

#[derive(Clone, Copy)]
enum Rule {
    Same,
    /// The size of a struct that grew.
    AtMost,
    /// An offset in the one struct that grows at its head: counted from its end.
    FromTheEnd,
}

fn c_name(field: &str) -> &str {
    field.strip_prefix("r#").unwrap_or(field)
}

fn checks() -> Vec<Check> {
    let same = |expression: String, ours: usize| Check { expression, ours: ours as i64, rule: Rule::Same };
    let mut checks = Vec::new();
    for description in layout::STRUCTS.iter().copied().flatten() {
        let name = description.name;
        if NOT_INSTALLED.contains(&name) {
            continue;
        }
        let grew = ["ibv_port_attr", "ibv_qp_ex", "verbs_context"].contains(&name);
        checks.push(Check {
            rule: if grew { Rule::AtMost } else { Rule::Same },
            ..same(format!("sizeof(struct {name})"), description.size)
        });
        for (field, offset, size) in description.fields {
            if OTHER_FIELDS.contains(&(name, *field)) {
                continue;
            }
            let field = c_name(field);
            let rule = if name == "verbs_context" { Rule::FromTheEnd } else { Rule::Same };
            let ours = if name == "verbs_context" { description.size - offset } else { *offset };
            let from = if name == "verbs_context" { "sizeof(struct verbs_context) - " } else { "" };
            checks.push(Check { rule, ..same(format!("{from}offsetof(struct {name}, {field})"), ours) });
            checks.push(same(format!("sizeof(((struct {name} *)0)->{field})"), *size));
        }
    }
    checks.extend(
        renamed()
            .into_iter()
            .map(|(name, field, ours)| same(format!("offsetof(struct {name}, {field})"), ours)),
    );
    checks.push(same("sizeof(union ibv_gid)".to_owned(), size_of::<layout::ibv_gid>()));
    checks.push(same("_Alignof(union ibv_gid)".to_owned(), align_of::<layout::ibv_gid>()));
    for (name, value) in
        layout::CONSTANTS.iter().copied().flatten().filter(|(name, _)| !NEWER_CONSTANTS.contains(name))
    {
        checks.push(Check { expression: (*name).to_owned(), ours: *value, rule: Rule::Same });
    }
    checks
}

fn program(checks: &[Check]) -> String {
    let mut source = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n\
         #include <rdma/ib_user_verbs.h>\n#include <rdma/ib_user_sa.h>\nint main(void)\n{\n",
    );
    for check in checks {
        let _ = writeln!(source, "    printf(\"%lld\\n\", (long long)({}));", check.expression);
    }
    source.push_str("    return 0;\n}\n");
    source
}

#[test]
fn structs_and_constants_are_those_of_the_installed_headers() {
    let checks = checks();
    let folder = common::scratch("layout");
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program(&checks)).expect("a file in a new folder");
    let mut compile = Command::new("cc");
    compile.arg("-o").arg(&binary).arg(&source);
    let has_headers = std::path::Path::new("/usr/include/infiniband/verbs.h").exists();
    if !has_headers {
        eprintln!("skipped: libibverbs-dev is not installed");
        return;
    }
    let Some(output) = common::run(&mut compile) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = common::text(&mut Command::new(&binary)).expect("a program that was just compiled");
    let theirs: Vec<i64> = printed.lines().map(|line| line.parse().expect("a number a line")).collect();
    assert_eq!(theirs.len(), checks.len());
    let mut wrong = BTreeMap::new();
    for (check, theirs) in checks.iter().zip(theirs) {
        let right = match check.rule {
            Rule::Same | Rule::FromTheEnd => theirs == check.ours,
            Rule::AtMost => theirs <= check.ours,
        };
        if !right {
            wrong.insert(&check.expression, format!("C says {theirs}, we say {}", check.ours));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checks.len() > 900, "only {} things were compared", checks.len());
}

/// The sizes of the newest rdma-core, which may be newer than the installed headers.
#[test]
fn sizes_are_those_of_the_newest_rdma_core() {
    use layout::*;
    let sizes = [
        (size_of::<verbs_context>(), 696),
        (size_of::<ibv_context>(), 328),
        (size_of::<ibv_port_attr>(), 56),
        (size_of::<ibv_qp_ex>(), 360),
        (size_of::<ibv_cq_ex>(), 288),
        (size_of::<ibv_device_attr_ex>(), 400),
        (size_of::<ibv_qp_init_attr_ex>(), 136),
        (size_of::<verbs_device>(), 712),
    ];
    for (ours, theirs) in sizes {
        assert_eq!(ours, theirs);
    }
    // mlx5dv_is_supported() and its kin read the table of a device there.
    assert_eq!(core::mem::offset_of!(verbs_device, ops), 0x298);
}
