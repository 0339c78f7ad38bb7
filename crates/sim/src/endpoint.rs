//! A queue pair with its queues and its device.

use glassnic_events::{AttrMask, QpState, WcStatus};
use glassnic_transport::attr::{AccessFlags, QpAttr};
use glassnic_transport::{Completion, PostError, Qp, SendFlags, SendQueue, SendRequest, Sge};

use crate::memory::Region;
use crate::world::World;

/// One of the two ends.
#[derive(Debug)]
pub struct Endpoint {
    /// The queue pair.
    pub qp: Qp,
    /// Its send queue.
    pub sq: SendQueue,
    /// All around it.
    pub world: World,
}

impl Endpoint {
    /// Registers `len` bytes of memory from `offset` on, in the queue pair's protection domain.
    pub fn register(&mut self, offset: u64, len: u64, access: AccessFlags) -> Region {
        let n = self.world.regions.len() as u32 + 1;
        let start = self.world.memory.base() + offset;
        let region = Region {
            lkey: n << 8 | 0x11,
            rkey: n << 8 | 0x8000_0022,
            pd: self.qp.pd(),
            start,
            len,
            access,
            alive: true,
        };
        self.world.regions.push(region);
        region
    }

    /// The region that holds all memory with all rights, which every endpoint begins with.
    #[must_use]
    pub fn all(&self) -> Region {
        self.world.regions[0]
    }

    /// A scatter/gather element on [`Self::all`].
    #[must_use]
    pub fn sge(&self, offset: u64, length: u32) -> Sge {
        let all = self.all();
        Sge { addr: all.start + offset, length, lkey: all.lkey }
    }

    /// Posts a send.
    ///
    /// # Errors
    /// Those of [`SendQueue::stage`].
    pub fn post(&mut self, req: &SendRequest, sges: &[Sge]) -> Result<(), PostError> {
        self.sq.stage(req, sges.iter().copied())?;
        self.sq.commit();
        Ok(())
    }

    /// Posts a send whose payload is copied now.
    ///
    /// # Errors
    /// Those of [`SendQueue::stage_inline`].
    pub fn post_inline(&mut self, req: &SendRequest, parts: &[&[u8]]) -> Result<(), PostError> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        self.sq.stage_inline(req, len as u64, |to| to.copy_from_slice(&parts.concat()))?;
        self.sq.commit();
        Ok(())
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// Those of [`glassnic_transport::RecvQueue::post`].
    pub fn post_recv(&mut self, wr_id: u64, sges: &[Sge]) -> Result<(), PostError> {
        self.world.rq.post(wr_id, sges.iter().copied())
    }

    /// Polls the completion queue of sends.
    pub fn poll_send(&mut self) -> Option<Completion> {
        let c = self.world.send_cq.pop_front()?;
        self.sq.credit().release(c.releases);
        Some(c)
    }

    /// Polls the completion queue of receives.
    pub fn poll_recv(&mut self) -> Option<Completion> {
        let c = self.world.recv_cq.pop_front()?;
        self.world.rq.credit().release(c.releases);
        Some(c)
    }

    /// Polls all completions of sends: which request, and how it ended.
    pub fn sends(&mut self) -> Vec<(u64, WcStatus)> {
        std::iter::from_fn(|| self.poll_send()).map(|c| (c.wr_id, c.status)).collect()
    }

    /// Polls all completions of receives: which request, and how it ended.
    pub fn receives(&mut self) -> Vec<(u64, WcStatus)> {
        std::iter::from_fn(|| self.poll_recv()).map(|c| (c.wr_id, c.status)).collect()
    }

    /// Modifies the queue pair, unchecked. RESET empties the receive queue and takes what was not polled out of
    /// the completion queues, as the device sees to it.
    pub fn modify(&mut self, mask: AttrMask, attr: &QpAttr) {
        self.qp.modify(&mut self.world, &mut self.sq, mask, attr);
        if self.qp.state() == QpState::Reset {
            self.world.rq.reset();
            self.world.send_cq.clear();
            self.world.recv_cq.clear();
        }
    }

    /// Moves it to `state` with no other attribute.
    pub fn move_to(&mut self, state: QpState) {
        let attr = QpAttr { qp_state: state, ..QpAttr::default() };
        self.modify(AttrMask::STATE, &attr);
    }

    /// Bytes of its memory.
    #[must_use]
    pub fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        self.world.memory.get(self.world.memory.base() + offset, len)
    }

    /// Bytes of its memory, to change.
    pub fn bytes_mut(&mut self, offset: u64, len: usize) -> &mut [u8] {
        let at = self.world.memory.base() + offset;
        self.world.memory.get_mut(at, len)
    }

    /// Eight bytes of its memory, as the number that its host sees in them.
    #[must_use]
    pub fn word(&self, offset: u64) -> u64 {
        u64::from_ne_bytes(self.bytes(offset, 8).try_into().expect("eight bytes"))
    }

    /// Sets eight bytes of its memory.
    pub fn set_word(&mut self, offset: u64, value: u64) {
        self.bytes_mut(offset, 8).copy_from_slice(&value.to_ne_bytes());
    }
}

/// A signalled request on `region` of the peer, `offset` bytes from its start.
#[must_use]
pub fn signalled(
    opcode: glassnic_transport::WrOpcode,
    wr_id: u64,
    region: &Region,
    offset: u64,
) -> SendRequest {
    SendRequest {
        wr_id,
        opcode,
        flags: SendFlags::SIGNALED,
        remote_addr: region.start + offset,
        rkey: region.rkey,
        ..SendRequest::default()
    }
}
