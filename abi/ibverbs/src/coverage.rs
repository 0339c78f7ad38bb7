//! `docs/coverage.md`: what of `verbs.h` works, made of the tables that programs meet.
//!
//! `GLASSNIC_WRITE=1 cargo test -p glassnic-ibverbs --lib coverage` writes it anew.

use crate::layout::describe::CStruct;
use crate::layout::{ibv_context_ops, ibv_cq_ex, ibv_qp_ex, verbs_context};
use crate::operations;
use glassnic_verbs::check_opcode;
use glassnic_verbs::events::{QpType, WrOpcode};
use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coverage.md");

const TABLE: &str = include_str!("../symbols.txt");

/// What is refused for good, and why. All else that is refused is yet to be built.
const WHY: &[(&str, &[&str])] = &[
    (
        "whole Ethernet frames, and what steers, hashes or counts them, need the kernel's leave and traffic that does not pass a process",
        &[
            "ibv_create_flow",
            "ibv_destroy_flow",
            "create_flow_action_esp",
            "modify_flow_action_esp",
            "destroy_flow_action",
            "create_wq",
            "modify_wq",
            "destroy_wq",
            "create_rwq_ind_table",
            "destroy_rwq_ind_table",
            "attach_counters_point_flow",
            "create_counters",
            "destroy_counters",
            "read_counters",
            "wr_send_tso",
            "read_cvlan",
            "read_flow_tag",
        ],
    ),
    (
        "tag matching is what one vendor's hardware does; libraries match in software without it",
        &["post_srq_ops", "read_tm_info"],
    ),
    (
        "hints to a PCIe device about the processor's caches, and there is neither",
        &["ibv_alloc_dmah", "ibv_dealloc_dmah"],
    ),
    ("sending takes the time that it takes: there is no rate to be limited", &["modify_qp_rate_limit"]),
    (
        "extensions that a vendor's NICs agree on when they connect, and this device has none to agree on",
        &["ibv_query_ece", "ibv_set_ece"],
    ),
    (
        "for the kernel's drivers of hardware, which need a neighbour's hardware address: packets leave by the kernel's sockets, and it finds the way",
        &["ibv_resolve_eth_l2_from_gid"],
    ),
    ("a RoCE port has no LIDs, and nothing is read of them", &["read_slid", "read_dlid_path_bits"]),
];

const UNBUILT: &str = "not built";

/// Slots that no caller of these days reaches.
fn is_placeholder(name: &str) -> bool {
    name.starts_with('_')
        || name.contains("placeholder")
        || ["mutex", "cond", "priv", "r#priv", "sz", "context"].contains(&name)
}

/// The operations of a table from a field on: name, and whether it works.
fn slots<T: CStruct>(table: &T, first: &str) -> Vec<(&'static str, bool)> {
    let refused = operations::refused();
    let from = T::DESCRIPTION.fields.iter().position(|(name, ..)| *name == first).unwrap();
    let fields = T::DESCRIPTION.fields[from..].iter();
    let operations = fields.filter(|(name, _, size)| *size == size_of::<usize>() && !is_placeholder(name));
    operations
        .map(|(name, offset, _)| {
            // SAFETY: a field of the table, which holds a function pointer or null.
            let word = unsafe { (&raw const *table).cast::<usize>().byte_add(*offset).read() };
            (*name, word != 0 && !refused.contains(&word))
        })
        .collect()
}

/// The public names that a new program links to, and whether they work.
fn functions() -> Vec<(&'static str, bool)> {
    let lines = TABLE.lines().filter(|line| line.contains("@@IBVERBS_1."));
    let mut all: Vec<_> = lines
        .map(|line| {
            let (name, rest) = line.split_once("@@").unwrap();
            let behind = rest.split_whitespace().nth(1).unwrap();
            (name, behind.contains("::"))
        })
        .collect();
    all.sort_unstable();
    all
}

fn state(name: &str, works: bool) -> &'static str {
    let why = WHY.iter().find(|(_, names)| names.contains(&name)).map(|(why, _)| *why);
    match (works, why) {
        (true, None) => "works",
        (true, Some(_)) => panic!("{name} works, and there is a reason why it does not"),
        (false, why) => why.unwrap_or(UNBUILT),
    }
}

fn rows(page: &mut String, title: &str, about: &str, all: &[(&str, bool)]) {
    let works = all.iter().filter(|(_, works)| *works).count();
    write!(page, "\n## {title}\n\n{about} {works} of {} work.\n\n| | |\n|---|---|\n", all.len()).unwrap();
    for (name, works) in all {
        let state = state(name, *works);
        let mark = if *works { "works".into() } else { format!("refused: {state}") };
        writeln!(page, "| `{}` | {mark} |", name.trim_start_matches("r#")).unwrap();
    }
}

fn page() -> String {
    let mut page = String::from(
        "# What of verbs works\n\n\
         Made of the tables that programs meet (`abi/ibverbs/src/coverage.rs`; a test compares). What is refused answers with \
         EOPNOTSUPP, or null and errno EOPNOTSUPP, and says so where explanations are asked for.\n",
    );
    rows(&mut page, "Functions", "Names that `libibverbs.so.1` exports to new programs.", &functions());
    let context = operations::CONTEXT;
    let extended = slots(&context, "query_port");
    rows(
        &mut page,
        "Operations behind the inline functions of `verbs.h`",
        "Slots of `verbs_context`.",
        &extended,
    );
    let plain = slots::<ibv_context_ops>(&context.context.ops, "_compat_query_device");
    rows(&mut page, "Operations of the data path", "Slots of `ibv_context_ops`.", &plain);
    let posting = slots::<ibv_qp_ex>(&operations::QP.qp_ex, "wr_atomic_cmp_swp");
    rows(&mut page, "Extended posting", "Slots of `ibv_qp_ex`.", &posting);
    let polling = slots::<ibv_cq_ex>(&operations::CQ, "start_poll");
    rows(&mut page, "Extended polling", "Slots of `ibv_cq_ex`.", &polling);
    opcodes(&mut page);
    let private = TABLE.lines().filter(|line| line.contains("IBVERBS_PRIVATE_34")).count();
    write!(
        page,
        "\n## Others\n\nNames of the interface to hardware providers ({private} in the version of Debian 12) are there for libmlx5 \
         and libefa to load, and refuse. Those of programs linked before 2008 refuse too.\n"
    )
    .unwrap();
    page
}

/// Opcodes of work requests, by type of QP.
fn opcodes(page: &mut String) {
    let types = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend];
    page.push_str("\n## Opcodes of work requests\n\n| |");
    for qp_type in types {
        write!(page, " {} |", qp_type.name()).unwrap();
    }
    page.push_str("\n|---|---|---|---|---|\n");
    for opcode in WrOpcode::ALL {
        write!(page, "| `{}` |", opcode.name()).unwrap();
        for qp_type in types {
            page.push_str(if check_opcode(qp_type, *opcode).is_ok() { " works |" } else { " |" });
        }
        page.push('\n');
    }
}

#[test]
fn the_page_says_what_the_tables_say() {
    let page = page();
    if std::env::var_os("GLASSNIC_WRITE").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/coverage.md is out of date: GLASSNIC_WRITE=1 cargo test -p glassnic-ibverbs --lib coverage"
    );
}

#[test]
fn a_table_tells_what_works_from_what_is_refused() {
    let posting = slots::<ibv_qp_ex>(&operations::QP.qp_ex, "wr_atomic_cmp_swp");
    assert!(posting.contains(&("wr_send", true)) && posting.contains(&("wr_send_tso", false)), "{posting:?}");
    let context = slots::<verbs_context>(&operations::CONTEXT, "query_port");
    assert!(
        context.contains(&("query_port", true)) && context.contains(&("create_wq", false)),
        "{context:?}"
    );
    assert!(functions().contains(&("ibv_reg_mr", true)) && functions().contains(&("ibv_alloc_dmah", false)));
    // Reasons are for what there is.
    let all = [posting, context, functions(), slots(&operations::CQ, "start_poll")].concat();
    for name in WHY.iter().flat_map(|(_, names)| *names) {
        assert!(all.iter().any(|(known, works)| known == name && !works), "{name}");
    }
}
