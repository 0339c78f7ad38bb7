//! What a program asks of a queue pair and what it hears back: opcodes, completion statuses, asynchronous events.

named_enum! {
    /// Operation of a send work request. Numbers of `enum ibv_wr_opcode`.
    pub enum WrOpcode {
        /// Write into the peer's memory.
        RdmaWrite = 0 "IBV_WR_RDMA_WRITE",
        /// Write, then consume a receive at the peer and hand over 32 bits.
        RdmaWriteWithImm = 1 "IBV_WR_RDMA_WRITE_WITH_IMM",
        /// Send into a buffer that the peer has posted.
        Send = 2 "IBV_WR_SEND",
        /// Send, and hand over 32 bits.
        SendWithImm = 3 "IBV_WR_SEND_WITH_IMM",
        /// Read from the peer's memory.
        RdmaRead = 4 "IBV_WR_RDMA_READ",
        /// Compare and swap 64 bits in the peer's memory.
        AtomicCmpAndSwp = 5 "IBV_WR_ATOMIC_CMP_AND_SWP",
        /// Fetch and add 64 bits in the peer's memory.
        AtomicFetchAndAdd = 6 "IBV_WR_ATOMIC_FETCH_AND_ADD",
        /// Invalidate a key of our own.
        LocalInv = 7 "IBV_WR_LOCAL_INV",
        /// Bind a memory window.
        BindMw = 8 "IBV_WR_BIND_MW",
        /// Send, and invalidate a key of the peer.
        SendWithInv = 9 "IBV_WR_SEND_WITH_INV",
        /// Send with TCP segmentation (raw packet).
        Tso = 10 "IBV_WR_TSO",
        /// Reserved for the driver.
        Driver1 = 11 "IBV_WR_DRIVER1",
        /// Make earlier writes visible or persistent at the peer.
        Flush = 14 "IBV_WR_FLUSH",
        /// Write 64 bits atomically.
        AtomicWrite = 15 "IBV_WR_ATOMIC_WRITE",
    }
}

named_enum! {
    /// Operation reported by a completion. Numbers of `enum ibv_wc_opcode`.
    pub enum WcOpcode {
        /// A send of any kind.
        Send = 0 "IBV_WC_SEND",
        /// A write, with or without immediate.
        RdmaWrite = 1 "IBV_WC_RDMA_WRITE",
        /// A read.
        RdmaRead = 2 "IBV_WC_RDMA_READ",
        /// A compare and swap.
        CompSwap = 3 "IBV_WC_COMP_SWAP",
        /// A fetch and add.
        FetchAdd = 4 "IBV_WC_FETCH_ADD",
        /// A bind of a memory window.
        BindMw = 5 "IBV_WC_BIND_MW",
        /// A local invalidate.
        LocalInv = 6 "IBV_WC_LOCAL_INV",
        /// A segmented send.
        Tso = 7 "IBV_WC_TSO",
        /// A flush of remote memory.
        Flush = 8 "IBV_WC_FLUSH",
        /// An atomic write.
        AtomicWrite = 9 "IBV_WC_ATOMIC_WRITE",
        /// A receive.
        Recv = 128 "IBV_WC_RECV",
        /// A receive consumed by a write with immediate.
        RecvRdmaWithImm = 129 "IBV_WC_RECV_RDMA_WITH_IMM",
    }
}

named_enum! {
    /// Outcome of a work request. Numbers of `enum ibv_wc_status`.
    pub enum WcStatus {
        /// It was carried out.
        Success = 0 "IBV_WC_SUCCESS",
        /// The message did not fit the posted buffer, or exceeded what the service can carry.
        LocLenErr = 1 "IBV_WC_LOC_LEN_ERR",
        /// The queue pair could not carry out the operation.
        LocQpOpErr = 2 "IBV_WC_LOC_QP_OP_ERR",
        /// End-to-end context error (reliable datagram, unused).
        LocEecOpErr = 3 "IBV_WC_LOC_EEC_OP_ERR",
        /// A scatter/gather entry names memory that its lkey does not cover or permit.
        LocProtErr = 4 "IBV_WC_LOC_PROT_ERR",
        /// Thrown out because the queue pair is in error. Never the cause: see [`crate::FirstCause`].
        WrFlushErr = 5 "IBV_WC_WR_FLUSH_ERR",
        /// The memory window could not be bound.
        MwBindErr = 6 "IBV_WC_MW_BIND_ERR",
        /// The responder answered with something that makes no sense.
        BadRespErr = 7 "IBV_WC_BAD_RESP_ERR",
        /// A local buffer for an incoming operation is protected.
        LocAccessErr = 8 "IBV_WC_LOC_ACCESS_ERR",
        /// The peer found the request invalid.
        RemInvReqErr = 9 "IBV_WC_REM_INV_REQ_ERR",
        /// The peer refused access to its memory.
        RemAccessErr = 10 "IBV_WC_REM_ACCESS_ERR",
        /// The peer could not complete the request.
        RemOpErr = 11 "IBV_WC_REM_OP_ERR",
        /// No acknowledgement came, `retry_cnt` times. Seldom the cause: see [`crate::FirstCause`].
        RetryExcErr = 12 "IBV_WC_RETRY_EXC_ERR",
        /// The peer had no receive posted, `rnr_retry` times.
        RnrRetryExcErr = 13 "IBV_WC_RNR_RETRY_EXC_ERR",
        /// Reliable datagram domain violation (unused).
        LocRddViolErr = 14 "IBV_WC_LOC_RDD_VIOL_ERR",
        /// Reliable datagram request invalid (unused).
        RemInvRdReqErr = 15 "IBV_WC_REM_INV_RD_REQ_ERR",
        /// The peer aborted the operation.
        RemAbortErr = 16 "IBV_WC_REM_ABORT_ERR",
        /// Bad end-to-end context number (unused).
        InvEecnErr = 17 "IBV_WC_INV_EECN_ERR",
        /// Bad end-to-end context state (unused).
        InvEecStateErr = 18 "IBV_WC_INV_EEC_STATE_ERR",
        /// The device cannot go on.
        FatalErr = 19 "IBV_WC_FATAL_ERR",
        /// No response within the time (unused).
        RespTimeoutErr = 20 "IBV_WC_RESP_TIMEOUT_ERR",
        /// Any other error.
        GeneralErr = 21 "IBV_WC_GENERAL_ERR",
        /// Tag matching error.
        TmErr = 22 "IBV_WC_TM_ERR",
        /// Tag matching rendezvous left to software.
        TmRndvIncomplete = 23 "IBV_WC_TM_RNDV_INCOMPLETE",
    }
}

named_enum! {
    /// Asynchronous event of a device. Numbers of `enum ibv_event_type`; see `ibv_get_async_event(3)`.
    pub enum AsyncEventType {
        /// A completion queue is in error (overrun).
        CqErr = 0 "IBV_EVENT_CQ_ERR",
        /// A queue pair went to ERR.
        QpFatal = 1 "IBV_EVENT_QP_FATAL",
        /// A queue pair got an invalid request.
        QpReqErr = 2 "IBV_EVENT_QP_REQ_ERR",
        /// A queue pair got a request that violates access.
        QpAccessErr = 3 "IBV_EVENT_QP_ACCESS_ERR",
        /// The first packet came while the queue pair was in RTR.
        CommEst = 4 "IBV_EVENT_COMM_EST",
        /// The send queue is drained.
        SqDrained = 5 "IBV_EVENT_SQ_DRAINED",
        /// The path has migrated.
        PathMig = 6 "IBV_EVENT_PATH_MIG",
        /// The path could not migrate.
        PathMigErr = 7 "IBV_EVENT_PATH_MIG_ERR",
        /// The device cannot go on.
        DeviceFatal = 8 "IBV_EVENT_DEVICE_FATAL",
        /// The port came up.
        PortActive = 9 "IBV_EVENT_PORT_ACTIVE",
        /// The port went down.
        PortErr = 10 "IBV_EVENT_PORT_ERR",
        /// The local identifier changed.
        LidChange = 11 "IBV_EVENT_LID_CHANGE",
        /// The partition key table changed.
        PkeyChange = 12 "IBV_EVENT_PKEY_CHANGE",
        /// The subnet manager changed.
        SmChange = 13 "IBV_EVENT_SM_CHANGE",
        /// A shared receive queue is in error.
        SrqErr = 14 "IBV_EVENT_SRQ_ERR",
        /// A shared receive queue fell below its limit.
        SrqLimitReached = 15 "IBV_EVENT_SRQ_LIMIT_REACHED",
        /// A queue pair in ERR will take no more from its shared receive queue.
        QpLastWqeReached = 16 "IBV_EVENT_QP_LAST_WQE_REACHED",
        /// The subnet manager asks for registration again.
        ClientReregister = 17 "IBV_EVENT_CLIENT_REREGISTER",
        /// The GID table changed.
        GidChange = 18 "IBV_EVENT_GID_CHANGE",
        /// A work queue is in error.
        WqFatal = 19 "IBV_EVENT_WQ_FATAL",
    }
}
