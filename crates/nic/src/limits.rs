//! What the device can do at most, as `ibv_query_device(3)` reports it. What is advertised is enforced.

/// Limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// QPs.
    pub max_qp: u32,
    /// Work requests on a queue.
    pub max_qp_wr: u32,
    /// Scatter/gather elements of a work request.
    pub max_sge: u32,
    /// Bytes that can be posted inline.
    pub max_inline: u32,
    /// CQs.
    pub max_cq: u32,
    /// Completions of a CQ.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Bytes of a memory region.
    pub max_mr_size: u64,
    /// Protection domains.
    pub max_pd: u32,
    /// Address handles.
    pub max_ah: u32,
    /// Reads and atomics that a QP serves at once.
    pub max_qp_rd_atom: u8,
    /// Reads and atomics that a QP has outstanding at most.
    pub max_qp_init_rd_atom: u8,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_qp: 65_536,
            max_qp_wr: 32_768,
            max_sge: glassnic_transport::wqe::MAX_SGE as u32,
            max_inline: 1024,
            max_cq: 65_536,
            max_cqe: 4_194_303,
            max_mr: 524_287,
            max_mr_size: 1 << 47,
            max_pd: 32_768,
            max_ah: 65_536,
            // As many as Linux's soft-RoCE: programs (perftest) ask for as many as their peer's device serves.
            max_qp_rd_atom: 128,
            max_qp_init_rd_atom: 128,
        }
    }
}
