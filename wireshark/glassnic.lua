-- Wireshark's dissector for GlassNIC's command records: link type USER0 (147), 72 bytes, little-endian.
--
-- Made from the tables of crates/wire and crates/events; do not change it by hand:
--   GLASSNIC_UPDATE=1 cargo test -p glassnic-capture
-- To use it: wireshark -X lua_script:glassnic.lua CAPTURE, or copy it into Wireshark's folder of personal Lua plugins.

local LEN = 72
local record = Proto("glassnic", "GlassNIC command record")

local names = {
  QpState = {
    [0] = "RESET",
    [1] = "INIT",
    [2] = "RTR",
    [3] = "RTS",
    [4] = "SQD",
    [5] = "SQE",
    [6] = "ERR",
  },
  QpType = {
    [0] = "SMI",
    [1] = "GSI",
    [2] = "RC",
    [3] = "UC",
    [4] = "UD",
    [8] = "RAW_PACKET",
    [9] = "XRC_SEND",
    [10] = "XRC_RECV",
  },
  WcStatus = {
    [0] = "IBV_WC_SUCCESS",
    [1] = "IBV_WC_LOC_LEN_ERR",
    [2] = "IBV_WC_LOC_QP_OP_ERR",
    [3] = "IBV_WC_LOC_EEC_OP_ERR",
    [4] = "IBV_WC_LOC_PROT_ERR",
    [5] = "IBV_WC_WR_FLUSH_ERR",
    [6] = "IBV_WC_MW_BIND_ERR",
    [7] = "IBV_WC_BAD_RESP_ERR",
    [8] = "IBV_WC_LOC_ACCESS_ERR",
    [9] = "IBV_WC_REM_INV_REQ_ERR",
    [10] = "IBV_WC_REM_ACCESS_ERR",
    [11] = "IBV_WC_REM_OP_ERR",
    [12] = "IBV_WC_RETRY_EXC_ERR",
    [13] = "IBV_WC_RNR_RETRY_EXC_ERR",
    [14] = "IBV_WC_LOC_RDD_VIOL_ERR",
    [15] = "IBV_WC_REM_INV_RD_REQ_ERR",
    [16] = "IBV_WC_REM_ABORT_ERR",
    [17] = "IBV_WC_INV_EECN_ERR",
    [18] = "IBV_WC_INV_EEC_STATE_ERR",
    [19] = "IBV_WC_FATAL_ERR",
    [20] = "IBV_WC_RESP_TIMEOUT_ERR",
    [21] = "IBV_WC_GENERAL_ERR",
    [22] = "IBV_WC_TM_ERR",
    [23] = "IBV_WC_TM_RNDV_INCOMPLETE",
  },
  AsyncEventType = {
    [0] = "IBV_EVENT_CQ_ERR",
    [1] = "IBV_EVENT_QP_FATAL",
    [2] = "IBV_EVENT_QP_REQ_ERR",
    [3] = "IBV_EVENT_QP_ACCESS_ERR",
    [4] = "IBV_EVENT_COMM_EST",
    [5] = "IBV_EVENT_SQ_DRAINED",
    [6] = "IBV_EVENT_PATH_MIG",
    [7] = "IBV_EVENT_PATH_MIG_ERR",
    [8] = "IBV_EVENT_DEVICE_FATAL",
    [9] = "IBV_EVENT_PORT_ACTIVE",
    [10] = "IBV_EVENT_PORT_ERR",
    [11] = "IBV_EVENT_LID_CHANGE",
    [12] = "IBV_EVENT_PKEY_CHANGE",
    [13] = "IBV_EVENT_SM_CHANGE",
    [14] = "IBV_EVENT_SRQ_ERR",
    [15] = "IBV_EVENT_SRQ_LIMIT_REACHED",
    [16] = "IBV_EVENT_QP_LAST_WQE_REACHED",
    [17] = "IBV_EVENT_CLIENT_REREGISTER",
    [18] = "IBV_EVENT_GID_CHANGE",
    [19] = "IBV_EVENT_WQ_FATAL",
  },
  Cause = {
    [1] = "modified by the program",
    [2] = "a send request failed",
    [3] = "an incoming request failed",
    [4] = "its completion queue overran",
    [5] = "the send queue is drained",
    [6] = "moved by the connection manager",
    [7] = "the device stopped",
    [8] = "its process died",
    [9] = "provoked by glassnic event",
  },
  Check = {
    [0] = "no check failed",
    [1] = "lkey names no memory region",
    [2] = "lkey belongs to another PD",
    [3] = "buffer reaches outside the lkey's region",
    [4] = "the lkey's region has no IBV_ACCESS_LOCAL_WRITE",
    [5] = "the memory is no longer mapped",
    [16] = "rkey names no memory region",
    [17] = "rkey belongs to another PD",
    [18] = "access reaches outside the rkey's region",
    [19] = "the rkey's region does not permit this access",
    [20] = "the responder's qp_access_flags do not permit this access",
    [21] = "the memory window is bound to another QP",
    [22] = "the memory window is not bound",
    [23] = "atomic on an address that is not a multiple of 8",
    [25] = "the rkey was invalidated, or its region deregistered",
    [24] = "the key cannot be invalidated remotely",
    [32] = "the posted receive is smaller than the message",
    [33] = "no receive is posted",
    [34] = "more outstanding reads or atomics than max_dest_rd_atomic",
    [35] = "the packet's opcode does not follow the one before",
    [36] = "the opcode is not served by this QP",
    [37] = "the packet's length does not fit its opcode, header or path MTU",
    [38] = "the message is longer than the service can carry",
    [39] = "the SRQ number names no XRC SRQ",
    [40] = "the responder is out of resources",
    [48] = "no acknowledgement within the retries",
    [49] = "receiver not ready within rnr_retry",
    [50] = "the peer answered: invalid request",
    [51] = "the peer answered: remote access error",
    [52] = "the peer answered: remote operational error",
    [53] = "the response does not fit the request",
    [54] = "the address handle is not usable",
    [55] = "the memory window cannot be bound this way",
    [58] = "the window's region has no IBV_ACCESS_MW_BIND",
    [59] = "the window permits remote writing, its region no local writing",
    [60] = "the window, its region and the QP are not of one PD",
    [61] = "the window reaches outside its region",
    [62] = "a type 2 window is set free by an invalidation alone",
    [63] = "the key is not that of a bound type 2 window",
    [56] = "no link leads to the destination",
    [57] = "the QP cannot carry out the operation",
    [64] = "the program moved the QP to ERR",
    [65] = "the completion queue overran",
    [66] = "the peer is gone",
    [67] = "the device stopped",
    [68] = "flushed after an earlier error",
    [69] = "somebody asked for a fatal error with glassnic event",
  },
  DropReason = {
    [1] = "malformed packet",
    [2] = "ICRC does not match",
    [3] = "no QP has this number",
    [4] = "the QP does not take packets in its state",
    [5] = "P_Key does not match",
    [6] = "Q_Key does not match",
    [7] = "not from the connected peer",
    [8] = "sent to another address than the QP's GID",
    [9] = "opcode of another transport service",
    [10] = "unknown opcode",
    [11] = "no receive is posted",
    [12] = "the receive cannot take the message",
    [13] = "out of sequence",
    [14] = "duplicate",
    [15] = "response to nothing outstanding",
    [16] = "no member of the multicast group",
    [17] = "no room in the device's queue",
    [18] = "dropped by fault injection",
    [19] = "the link could not carry it",
    [20] = "behind a gap that is already reported",
  },
  ObjectKind = {
    [1] = "context",
    [2] = "PD",
    [3] = "MR",
    [4] = "MW",
    [5] = "CQ",
    [6] = "QP",
    [7] = "SRQ",
    [8] = "AH",
    [9] = "completion channel",
    [10] = "XRC domain",
    [11] = "thread domain",
    [12] = "parent domain",
    [13] = "multicast group",
    [14] = "device memory",
    [15] = "unacknowledged event",
    [16] = "work request",
    [17] = "device",
    [18] = "port",
  },
  Opcode = {
    [1] = "OPEN_DEVICE",
    [2] = "CLOSE_DEVICE",
    [3] = "QUERY_DEVICE",
    [4] = "CREATE_QP",
    [5] = "MODIFY_QP",
    [6] = "QUERY_QP",
    [7] = "DESTROY_QP",
    [8] = "ALLOC_PD",
    [9] = "DEALLOC_PD",
    [10] = "REG_MR",
    [11] = "REREG_MR",
    [12] = "DEREG_MR",
    [13] = "ALLOC_MW",
    [14] = "DEALLOC_MW",
    [16] = "CREATE_CQ",
    [17] = "MODIFY_CQ",
    [18] = "RESIZE_CQ",
    [19] = "DESTROY_CQ",
    [20] = "CREATE_AH",
    [21] = "DESTROY_AH",
    [22] = "CREATE_COMP_CHANNEL",
    [23] = "DESTROY_COMP_CHANNEL",
    [24] = "CREATE_SRQ",
    [25] = "MODIFY_SRQ",
    [26] = "QUERY_SRQ",
    [27] = "DESTROY_SRQ",
    [28] = "OPEN_XRCD",
    [29] = "CLOSE_XRCD",
    [30] = "ATTACH_MCAST",
    [31] = "DETACH_MCAST",
    [32] = "QUERY_PORT",
    [33] = "ALLOC_DM",
    [34] = "FREE_DM",
    [256] = "STATE_MOVED",
    [257] = "REFUSAL",
    [258] = "COMPLETION_ERROR",
    [259] = "NAK_SENT",
    [260] = "NAK_RECEIVED",
    [261] = "TIMEOUT",
    [262] = "ASYNC_EVENT",
    [263] = "FIRST_POST",
    [264] = "FIRST_PACKET_SENT",
    [265] = "FIRST_PACKET_RECEIVED",
    [266] = "PACKET_DROPPED",
    [267] = "RETRANSMIT",
    [268] = "FIRST_ERROR",
    [269] = "EXECUTED",
    [270] = "DESTROY_WAITS",
    [271] = "DESTROY_WAITED",
    [272] = "ACCESS_DENIED",
  },
  Errno = {
    [0] = "none",
    [1] = "EPERM",
    [2] = "ENOENT",
    [5] = "EIO",
    [11] = "EAGAIN",
    [12] = "ENOMEM",
    [14] = "EFAULT",
    [16] = "EBUSY",
    [19] = "ENODEV",
    [22] = "EINVAL",
    [61] = "ENODATA",
    [95] = "EOPNOTSUPP",
    [101] = "ENETUNREACH",
    [110] = "ETIMEDOUT",
  },
}

local f = {
  opcode = ProtoField.uint16("glassnic.opcode", "Opcode", base.HEX, names.Opcode),
  status = ProtoField.uint16("glassnic.status", "Status and flags", base.HEX),
  errno = ProtoField.uint16("glassnic.errno", "Errno", base.DEC, names.Errno, 0x0fff),
  done = ProtoField.bool("glassnic.flags.done", "Done", 16, nil, 0x8000),
  async = ProtoField.bool("glassnic.flags.async", "Submitted without waiting", 16, nil, 0x4000),
  batch = ProtoField.bool("glassnic.flags.batch", "Under one doorbell with the next", 16, nil, 0x2000),
  qpn = ProtoField.uint32("glassnic.qpn", "QPN", base.HEX),
  pd = ProtoField.uint32("glassnic.pd", "PD or object handle", base.HEX),
  seq = ProtoField.uint64("glassnic.seq", "Sequence number", base.DEC),
  timestamp_ns = ProtoField.uint64("glassnic.timestamp_ns", "Time (monotonic ns)", base.DEC),
}

-- Each body's fields: field, offset, bytes.
local b = {
  create_qp = {
    { ProtoField.uint32("glassnic.create_qp.send_cq", "send_cq", base.HEX), 12, 4 },
    { ProtoField.uint32("glassnic.create_qp.recv_cq", "recv_cq", base.HEX), 16, 4 },
    { ProtoField.uint32("glassnic.create_qp.srq", "srq", base.HEX), 20, 4 },
    { ProtoField.uint32("glassnic.create_qp.max_send_wr", "max_send_wr", base.DEC), 24, 4 },
    { ProtoField.uint32("glassnic.create_qp.max_recv_wr", "max_recv_wr", base.DEC), 28, 4 },
    { ProtoField.uint32("glassnic.create_qp.max_inline", "max_inline", base.DEC), 32, 4 },
    { ProtoField.uint16("glassnic.create_qp.max_send_sge", "max_send_sge", base.DEC), 36, 2 },
    { ProtoField.uint16("glassnic.create_qp.max_recv_sge", "max_recv_sge", base.DEC), 38, 2 },
    { ProtoField.uint8("glassnic.create_qp.qp_type", "qp_type", base.DEC, names.QpType), 40, 1 },
    { ProtoField.uint8("glassnic.create_qp.sq_sig_all", "sq_sig_all", base.DEC), 41, 1 },
    { ProtoField.uint16("glassnic.create_qp.create_flags", "create_flags", base.DEC), 42, 2 },
    { ProtoField.uint32("glassnic.create_qp.xrcd", "xrcd", base.HEX), 44, 4 },
    { ProtoField.uint64("glassnic.create_qp.user_handle", "user_handle", base.HEX), 48, 8 },
  },
  modify_qp = {
    { ProtoField.uint32("glassnic.modify_qp.attr_mask", "attr_mask", base.HEX), 12, 4 },
    { ProtoField.uint8("glassnic.modify_qp.from_state", "from_state", base.DEC, names.QpState), 16, 1 },
    { ProtoField.uint8("glassnic.modify_qp.to_state", "to_state", base.DEC, names.QpState), 17, 1 },
    { ProtoField.uint8("glassnic.modify_qp.path_mtu", "path_mtu", base.DEC), 18, 1 },
    { ProtoField.uint8("glassnic.modify_qp.timeout", "timeout", base.DEC), 19, 1 },
    { ProtoField.uint32("glassnic.modify_qp.dest_qpn_or_qkey", "dest_qpn_or_qkey", base.HEX), 20, 4 },
    { ProtoField.uint32("glassnic.modify_qp.rq_psn", "rq_psn", base.HEX), 24, 4 },
    { ProtoField.uint32("glassnic.modify_qp.sq_psn", "sq_psn", base.HEX), 28, 4 },
    { ProtoField.ipv6("glassnic.modify_qp.dgid", "dgid"), 32, 16 },
    { ProtoField.uint8("glassnic.modify_qp.access", "access", base.HEX), 48, 1 },
    { ProtoField.uint8("glassnic.modify_qp.max_rd_atomic", "max_rd_atomic", base.DEC), 49, 1 },
    { ProtoField.uint8("glassnic.modify_qp.max_dest_rd_atomic", "max_dest_rd_atomic", base.DEC), 50, 1 },
    { ProtoField.uint8("glassnic.modify_qp.min_rnr_timer", "min_rnr_timer", base.DEC), 51, 1 },
    { ProtoField.uint8("glassnic.modify_qp.retry_cnt", "retry_cnt", base.DEC), 52, 1 },
    { ProtoField.uint8("glassnic.modify_qp.rnr_retry", "rnr_retry", base.DEC), 53, 1 },
    { ProtoField.uint8("glassnic.modify_qp.sgid_index", "sgid_index", base.DEC), 54, 1 },
    { ProtoField.uint8("glassnic.modify_qp.port_num", "port_num", base.DEC), 55, 1 },
  },
  query_qp = {
    { ProtoField.uint32("glassnic.query_qp.attr_mask", "attr_mask", base.HEX), 12, 4 },
    { ProtoField.uint8("glassnic.query_qp.state", "state", base.DEC, names.QpState), 16, 1 },
    { ProtoField.uint32("glassnic.query_qp.rq_psn", "rq_psn", base.HEX), 20, 4 },
    { ProtoField.uint32("glassnic.query_qp.sq_psn", "sq_psn", base.HEX), 24, 4 },
    { ProtoField.uint32("glassnic.query_qp.sq_used", "sq_used", base.DEC), 28, 4 },
    { ProtoField.uint32("glassnic.query_qp.rq_used", "rq_used", base.DEC), 32, 4 },
    { ProtoField.uint32("glassnic.query_qp.last_error", "last_error", base.DEC, names.WcStatus), 36, 4 },
  },
  destroy_qp = {
    { ProtoField.uint8("glassnic.destroy_qp.state", "state", base.DEC, names.QpState), 12, 1 },
    { ProtoField.uint32("glassnic.destroy_qp.sq_tail", "sq_tail", base.DEC), 16, 4 },
    { ProtoField.uint32("glassnic.destroy_qp.sq_head", "sq_head", base.DEC), 20, 4 },
    { ProtoField.uint32("glassnic.destroy_qp.sq_psn", "sq_psn", base.HEX), 24, 4 },
    { ProtoField.uint32("glassnic.destroy_qp.rq_psn", "rq_psn", base.HEX), 28, 4 },
    { ProtoField.uint32("glassnic.destroy_qp.msn", "msn", base.DEC), 32, 4 },
    { ProtoField.uint32("glassnic.destroy_qp.rq_tail", "rq_tail", base.DEC), 36, 4 },
    { ProtoField.uint16("glassnic.destroy_qp.first_status", "first_status", base.DEC, names.WcStatus), 40, 2 },
    { ProtoField.uint16("glassnic.destroy_qp.first_check", "first_check", base.DEC, names.Check), 42, 2 },
    { ProtoField.uint16("glassnic.destroy_qp.overlaps", "overlaps", base.DEC), 44, 2 },
    { ProtoField.uint16("glassnic.destroy_qp.early_queries", "early_queries", base.DEC), 46, 2 },
    { ProtoField.uint32("glassnic.destroy_qp.overlap_by", "overlap_by", base.DEC), 48, 4 },
    { ProtoField.uint32("glassnic.destroy_qp.overlap_with", "overlap_with", base.DEC), 52, 4 },
  },
  reg_mr = {
    { ProtoField.uint32("glassnic.reg_mr.access", "access", base.HEX), 12, 4 },
    { ProtoField.uint64("glassnic.reg_mr.addr", "addr", base.HEX), 16, 8 },
    { ProtoField.uint64("glassnic.reg_mr.length", "length", base.DEC), 24, 8 },
    { ProtoField.uint64("glassnic.reg_mr.iova", "iova", base.HEX), 32, 8 },
    { ProtoField.uint32("glassnic.reg_mr.lkey", "lkey", base.HEX), 40, 4 },
    { ProtoField.uint32("glassnic.reg_mr.rkey", "rkey", base.HEX), 44, 4 },
  },
  alloc_mw = {
    { ProtoField.uint8("glassnic.alloc_mw.mw_type", "mw_type", base.DEC), 12, 1 },
    { ProtoField.uint32("glassnic.alloc_mw.rkey", "rkey", base.HEX), 16, 4 },
  },
  create_queue = {
    { ProtoField.uint32("glassnic.create_queue.entries", "entries", base.DEC), 12, 4 },
    { ProtoField.uint32("glassnic.create_queue.granted", "granted", base.DEC), 16, 4 },
    { ProtoField.uint32("glassnic.create_queue.max_sge", "max_sge", base.DEC), 20, 4 },
    { ProtoField.uint32("glassnic.create_queue.channel_or_type", "channel_or_type", base.DEC), 24, 4 },
    { ProtoField.uint32("glassnic.create_queue.comp_vector", "comp_vector", base.DEC), 28, 4 },
    { ProtoField.uint32("glassnic.create_queue.limit", "limit", base.DEC), 32, 4 },
    { ProtoField.uint16("glassnic.create_queue.moderate_count", "moderate_count", base.DEC), 36, 2 },
    { ProtoField.uint16("glassnic.create_queue.moderate_period", "moderate_period", base.DEC), 38, 2 },
  },
  create_ah = {
    { ProtoField.ipv6("glassnic.create_ah.dgid", "dgid"), 12, 16 },
    { ProtoField.uint8("glassnic.create_ah.sgid_index", "sgid_index", base.DEC), 28, 1 },
    { ProtoField.uint8("glassnic.create_ah.hop_limit", "hop_limit", base.DEC), 29, 1 },
    { ProtoField.uint8("glassnic.create_ah.traffic_class", "traffic_class", base.DEC), 30, 1 },
    { ProtoField.uint8("glassnic.create_ah.port_num", "port_num", base.DEC), 31, 1 },
    { ProtoField.uint32("glassnic.create_ah.flow_label", "flow_label", base.DEC), 32, 4 },
  },
  state_moved = {
    { ProtoField.uint8("glassnic.state_moved.from_state", "from_state", base.DEC, names.QpState), 12, 1 },
    { ProtoField.uint8("glassnic.state_moved.to_state", "to_state", base.DEC, names.QpState), 13, 1 },
    { ProtoField.uint16("glassnic.state_moved.cause", "cause", base.DEC, names.Cause), 14, 2 },
    { ProtoField.uint64("glassnic.state_moved.wr_id", "wr_id", base.HEX), 16, 8 },
  },
  refusal = {
    { ProtoField.bytes("glassnic.refusal.words", "words"), 12, 40 },
    { ProtoField.uint32("glassnic.refusal.thread", "thread", base.DEC), 52, 4 },
  },
  executed = {
    { ProtoField.uint16("glassnic.executed.command", "command", base.DEC, names.Opcode), 12, 2 },
    { ProtoField.uint8("glassnic.executed.used", "used", base.DEC), 14, 1 },
    { ProtoField.uint32("glassnic.executed.thread", "thread", base.DEC), 15, 4 },
    { ProtoField.uint32("glassnic.executed.took_ns", "took_ns", base.DEC), 19, 4 },
    { ProtoField.bytes("glassnic.executed.changes", "changes"), 23, 33 },
  },
  completion_error = {
    { ProtoField.uint8("glassnic.completion_error.status", "status", base.DEC, names.WcStatus), 12, 1 },
    { ProtoField.uint8("glassnic.completion_error.wc_opcode", "wc_opcode", base.DEC), 13, 1 },
    { ProtoField.uint8("glassnic.completion_error.syndrome", "syndrome", base.HEX), 14, 1 },
    { ProtoField.uint32("glassnic.completion_error.vendor_err", "vendor_err", base.DEC), 16, 4 },
    { ProtoField.uint32("glassnic.completion_error.psn", "psn", base.HEX), 20, 4 },
    { ProtoField.uint64("glassnic.completion_error.wr_id", "wr_id", base.HEX), 24, 8 },
    { ProtoField.uint32("glassnic.completion_error.cq", "cq", base.HEX), 32, 4 },
    { ProtoField.uint16("glassnic.completion_error.check", "check", base.DEC, names.Check), 36, 2 },
  },
  nak = {
    { ProtoField.uint8("glassnic.nak.syndrome", "syndrome", base.HEX), 12, 1 },
    { ProtoField.uint8("glassnic.nak.retries_left", "retries_left", base.DEC), 13, 1 },
    { ProtoField.uint16("glassnic.nak.check", "check", base.DEC, names.Check), 14, 2 },
    { ProtoField.uint32("glassnic.nak.psn", "psn", base.HEX), 16, 4 },
    { ProtoField.uint32("glassnic.nak.expected_psn", "expected_psn", base.HEX), 20, 4 },
    { ProtoField.uint32("glassnic.nak.peer_qpn", "peer_qpn", base.HEX), 24, 4 },
    { ProtoField.uint32("glassnic.nak.msn", "msn", base.DEC), 28, 4 },
    { ProtoField.ipv6("glassnic.nak.peer_gid", "peer_gid"), 32, 16 },
    { ProtoField.uint64("glassnic.nak.delay_ns", "delay_ns", base.DEC), 48, 8 },
  },
  timeout = {
    { ProtoField.uint8("glassnic.timeout.retries_left", "retries_left", base.DEC), 12, 1 },
    { ProtoField.uint8("glassnic.timeout.rnr_retries_left", "rnr_retries_left", base.DEC), 13, 1 },
    { ProtoField.uint8("glassnic.timeout.kind", "kind", base.DEC), 14, 1 },
    { ProtoField.uint32("glassnic.timeout.oldest_psn", "oldest_psn", base.HEX), 16, 4 },
    { ProtoField.uint32("glassnic.timeout.next_psn", "next_psn", base.HEX), 20, 4 },
    { ProtoField.uint64("glassnic.timeout.waited_ns", "waited_ns", base.DEC), 24, 8 },
  },
  waiting = {
    { ProtoField.uint16("glassnic.waiting.kind", "kind", base.DEC, names.ObjectKind), 12, 2 },
    { ProtoField.uint32("glassnic.waiting.events", "events", base.DEC), 16, 4 },
    { ProtoField.uint32("glassnic.waiting.thread", "thread", base.DEC), 20, 4 },
  },
  access_denied = {
    { ProtoField.uint32("glassnic.access_denied.key", "key", base.HEX), 12, 4 },
    { ProtoField.uint64("glassnic.access_denied.addr", "addr", base.HEX), 16, 8 },
    { ProtoField.uint64("glassnic.access_denied.length", "length", base.DEC), 24, 8 },
    { ProtoField.uint64("glassnic.access_denied.region_start", "region_start", base.DEC), 32, 8 },
    { ProtoField.uint64("glassnic.access_denied.region_length", "region_length", base.DEC), 40, 8 },
    { ProtoField.uint16("glassnic.access_denied.access", "access", base.HEX), 48, 2 },
    { ProtoField.uint16("glassnic.access_denied.check", "check", base.DEC, names.Check), 50, 2 },
    { ProtoField.uint8("glassnic.access_denied.region", "region", base.DEC), 52, 1 },
  },
  async_event = {
    { ProtoField.uint32("glassnic.async_event.event_type", "event_type", base.DEC, names.AsyncEventType), 12, 4 },
    { ProtoField.uint32("glassnic.async_event.handle", "handle", base.HEX), 16, 4 },
  },
  traffic = {
    { ProtoField.uint8("glassnic.traffic.opcode", "opcode", base.DEC), 12, 1 },
    { ProtoField.uint8("glassnic.traffic.side", "side", base.DEC), 13, 1 },
    { ProtoField.uint16("glassnic.traffic.cause", "cause", base.DEC, names.DropReason), 14, 2 },
    { ProtoField.uint32("glassnic.traffic.psn", "psn", base.HEX), 16, 4 },
    { ProtoField.uint32("glassnic.traffic.peer_qpn", "peer_qpn", base.HEX), 20, 4 },
    { ProtoField.uint32("glassnic.traffic.length", "length", base.DEC), 24, 4 },
    { ProtoField.ipv6("glassnic.traffic.peer_gid", "peer_gid"), 32, 16 },
    { ProtoField.uint64("glassnic.traffic.wr_id", "wr_id", base.HEX), 48, 8 },
  },
}

local bodies = {
  [0x0004] = b.create_qp, -- CREATE_QP
  [0x0005] = b.modify_qp, -- MODIFY_QP
  [0x0006] = b.query_qp, -- QUERY_QP
  [0x0007] = b.destroy_qp, -- DESTROY_QP
  [0x000a] = b.reg_mr, -- REG_MR
  [0x000b] = b.reg_mr, -- REREG_MR
  [0x000c] = b.reg_mr, -- DEREG_MR
  [0x000d] = b.alloc_mw, -- ALLOC_MW
  [0x0010] = b.create_queue, -- CREATE_CQ
  [0x0011] = b.create_queue, -- MODIFY_CQ
  [0x0012] = b.create_queue, -- RESIZE_CQ
  [0x0018] = b.create_queue, -- CREATE_SRQ
  [0x0019] = b.create_queue, -- MODIFY_SRQ
  [0x0014] = b.create_ah, -- CREATE_AH
  [0x0100] = b.state_moved, -- STATE_MOVED
  [0x0101] = b.refusal, -- REFUSAL
  [0x010d] = b.executed, -- EXECUTED
  [0x0102] = b.completion_error, -- COMPLETION_ERROR
  [0x010c] = b.completion_error, -- FIRST_ERROR
  [0x0103] = b.nak, -- NAK_SENT
  [0x0104] = b.nak, -- NAK_RECEIVED
  [0x0105] = b.timeout, -- TIMEOUT
  [0x010b] = b.timeout, -- RETRANSMIT
  [0x010e] = b.waiting, -- DESTROY_WAITS
  [0x010f] = b.waiting, -- DESTROY_WAITED
  [0x0110] = b.access_denied, -- ACCESS_DENIED
  [0x0106] = b.async_event, -- ASYNC_EVENT
  [0x0107] = b.traffic, -- FIRST_POST
  [0x0108] = b.traffic, -- FIRST_PACKET_SENT
  [0x0109] = b.traffic, -- FIRST_PACKET_RECEIVED
  [0x010a] = b.traffic, -- PACKET_DROPPED
}

record.fields = {}
for _, field in pairs(f) do table.insert(record.fields, field) end
for _, body in pairs(b) do
  for _, field in ipairs(body) do table.insert(record.fields, field[1]) end
end

local refused = ProtoExpert.new("glassnic.refused", "Refused",
  expert.group.RESPONSE_CODE, expert.severity.WARN)
local short = ProtoExpert.new("glassnic.short", "Shorter than a command record",
  expert.group.MALFORMED, expert.severity.ERROR)
record.experts = { refused, short }

function record.dissector(buffer, pinfo, tree)
  pinfo.cols.protocol = "GlassNIC"
  local top = tree:add(record, buffer())
  if buffer:reported_length_remaining() < LEN or buffer:len() < LEN then
    top:add_proto_expert_info(short)
    return buffer:len()
  end
  local opcode = buffer(0, 2):le_uint()
  local errno = buffer(2, 2):le_uint() % 0x1000
  local qpn = buffer(4, 4):le_uint()
  local name = names.Opcode[opcode] or string.format("opcode 0x%04x", opcode)
  top:add_le(f.opcode, buffer(0, 2))
  local status = top:add_le(f.status, buffer(2, 2))
  local errno_item = status:add_le(f.errno, buffer(2, 2))
  status:add_le(f.done, buffer(2, 2))
  status:add_le(f.async, buffer(2, 2))
  status:add_le(f.batch, buffer(2, 2))
  top:add_le(f.qpn, buffer(4, 4))
  top:add_le(f.pd, buffer(8, 4))
  local info = string.format("%s qpn 0x%06x pd 0x%x", name, qpn, buffer(8, 4):le_uint())
  if errno ~= 0 then
    errno_item:add_proto_expert_info(refused)
    info = info .. " " .. (names.Errno[errno] or ("errno " .. errno))
  end
  for _, field in ipairs(bodies[opcode] or {}) do
    top:add_le(field[1], buffer(field[2], field[3]))
  end
  top:add_le(f.seq, buffer(56, 8))
  top:add_le(f.timestamp_ns, buffer(64, 8))
  top:append_text(": " .. info)
  pinfo.cols.info = info
  return LEN
end

DissectorTable.get("wtap_encap"):add((wtap_encaps or wtap).USER0, record)
