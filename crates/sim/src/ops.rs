//! What tests of many operations share: the operations, what is true of them, and messages in slots of memory.

use glassnic_events::WcStatus;
use glassnic_transport::{SendFlags, WrOpcode};

use crate::network::{Faults, Side};
use crate::pair::Pair;

/// One packet takes this long in [`Faults::NONE`].
pub const TRIP: u64 = Faults::NONE.delay_ns;

/// The operations that move a message of any length.
pub const DATA_OPS: [WrOpcode; 6] = [
    WrOpcode::Send,
    WrOpcode::SendWithImm,
    WrOpcode::SendWithInv,
    WrOpcode::RdmaWrite,
    WrOpcode::RdmaWriteWithImm,
    WrOpcode::RdmaRead,
];

/// Every operation of RC.
pub const EVERY_OP: [WrOpcode; 8] = [
    WrOpcode::Send,
    WrOpcode::SendWithImm,
    WrOpcode::SendWithInv,
    WrOpcode::RdmaWrite,
    WrOpcode::RdmaWriteWithImm,
    WrOpcode::RdmaRead,
    WrOpcode::AtomicFetchAndAdd,
    WrOpcode::AtomicCmpAndSwp,
];

/// It works on eight bytes.
#[must_use]
pub fn is_atomic(op: WrOpcode) -> bool {
    matches!(op, WrOpcode::AtomicFetchAndAdd | WrOpcode::AtomicCmpAndSwp)
}

/// It is answered with data.
#[must_use]
pub fn is_answered(op: WrOpcode) -> bool {
    is_atomic(op) || op == WrOpcode::RdmaRead
}

/// It takes a receive of the peer's.
#[must_use]
pub fn consumes_receive(op: WrOpcode) -> bool {
    !is_answered(op) && op != WrOpcode::RdmaWrite
}

/// The completions of these requests if all went well, as [`crate::Endpoint::sends`] gives them.
pub fn successes(ids: impl IntoIterator<Item = u64>) -> Vec<(u64, WcStatus)> {
    ids.into_iter().map(|i| (i, WcStatus::Success)).collect()
}

/// Bytes of a slot, in which [`Pair::post_slot`] has request `n` at `n * SLOT`.
pub const SLOT: u64 = 4096;

impl Pair {
    /// `side` posts a request of `len` bytes with these flags, in the slot `wr_id` of both memories.
    ///
    /// # Panics
    /// If the send queue is full.
    pub fn post_slot(&mut self, side: Side, op: WrOpcode, wr_id: u64, len: u32, flags: SendFlags) {
        let mut req = self.request(side, op, wr_id, wr_id * SLOT);
        req.flags = flags;
        if op == WrOpcode::SendWithInv {
            let peer = self.end(side.other());
            req.imm = peer.register(0, 8, peer.all().access).rkey;
        }
        let end = self.end(side);
        let sge = end.sge(wr_id * SLOT, if is_atomic(op) { 8 } else { len });
        end.post(&req, &[sge]).expect("room");
    }

    /// (time, slot) of each request of A that says where it goes.
    #[must_use]
    pub fn starts(&self) -> Vec<(u64, u64)> {
        let start = self.b.all().start;
        self.sent_by(Side::A)
            .filter_map(|s| {
                let va = s.headers.reth.map(|r| r.va).or(s.headers.atomic.map(|a| a.va))?;
                Some((s.at, (va - start) / SLOT))
            })
            .collect()
    }
}
