//! Names of enum values: `ibv_event_type_str(3)` and its kin.
//!
//! The words are those that Linux users know from `libibverbs`; scripts search for them. `tests/original.rs` compares them.

use crate::layout::{ibv_event_type, ibv_node_type, ibv_port_state, ibv_wc_status, ibv_wr_opcode};
use core::ffi::{CStr, c_char};

const UNKNOWN: &CStr = c"unknown";

const WC_STATUS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

const EVENT_TYPE: [&CStr; 20] = [
    c"CQ error",
    c"local work queue catastrophic error",
    c"invalid request local work queue error",
    c"local access violation work queue error",
    c"communication established",
    c"send queue drained",
    c"path migrated",
    c"path migration request error",
    c"local catastrophic error",
    c"port active",
    c"port error",
    c"LID change",
    c"P_Key change",
    c"SM change",
    c"SRQ catastrophic error",
    c"SRQ limit reached",
    c"last WQE reached",
    c"client reregistration",
    c"GID table change",
    c"WQ fatal",
];

const NODE_TYPE: [&CStr; 8] = [
    UNKNOWN,
    c"InfiniBand channel adapter",
    c"InfiniBand switch",
    c"InfiniBand router",
    c"iWARP NIC",
    c"usNIC",
    c"usNIC UDP",
    c"unspecified",
];

const PORT_STATE: [&CStr; 6] =
    [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];

/// The numbers 12 and 13 are not opcodes.
const WR_OPCODE: [&CStr; 16] = [
    c"rdma-write",
    c"rdma-write-with-imm",
    c"send",
    c"send-with-imm",
    c"rdma-read",
    c"atomic-cmp-and-swp",
    c"atomic-fetch-and-add",
    c"local-inv",
    c"bind-mw",
    c"send-with-inv",
    c"tso",
    c"driver1",
    UNKNOWN,
    UNKNOWN,
    c"flush",
    c"atomic-write",
];

fn name(table: &'static [&'static CStr], value: impl TryInto<usize>) -> *const c_char {
    value.try_into().ok().and_then(|index| table.get(index)).unwrap_or(&UNKNOWN).as_ptr()
}

pub(crate) extern "C" fn ibv_wc_status_str(status: ibv_wc_status) -> *const c_char {
    name(&WC_STATUS, status)
}

pub(crate) extern "C" fn ibv_event_type_str(event: ibv_event_type) -> *const c_char {
    name(&EVENT_TYPE, event)
}

pub(crate) extern "C" fn ibv_node_type_str(node_type: ibv_node_type) -> *const c_char {
    name(&NODE_TYPE, node_type)
}

pub(crate) extern "C" fn ibv_port_state_str(port_state: ibv_port_state) -> *const c_char {
    name(&PORT_STATE, port_state)
}

pub(crate) extern "C" fn ibv_wr_opcode_str(opcode: ibv_wr_opcode) -> *const c_char {
    name(&WR_OPCODE, opcode)
}
