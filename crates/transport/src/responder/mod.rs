//! The responder: executes requests in PSN order, and answers.
//!
//! A request passes a line of checks (`checks.rs`), each of which either lets it on or names the fault; only
//! then is memory touched (`execute.rs`). Answers wait in a queue and leave in PSN order (`answer.rs`).

mod answer;
mod checks;
mod execute;

pub(crate) use checks::Fault;
pub(crate) use execute::scatter;

use std::collections::VecDeque;

use glassnic_wire::{Decoded, NakCode, Psn, Syndrome};

use crate::lazy::{Idle, Lazy};
use crate::wqe::ReceiveWqe;

/// A message whose last packet has not arrived.
#[derive(Debug, Default)]
#[expect(
    clippy::large_enum_variant,
    reason = "one per QP in use; boxing the receive would allocate for each message"
)]
pub(crate) enum Message {
    /// None: a First or Only packet is expected.
    #[default]
    None,
    /// A SEND, into this receive.
    Send { receive: ReceiveWqe, received: u64 },
    /// An RDMA WRITE.
    Write { va: u64, rkey: u32, left: u32, total: u32 },
    /// UC: the rest of a message of which a part was lost is ignored.
    Discard,
}

/// An answer that waits for the link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// ACK or NAK.
    Ack { psn: Psn, syndrome: Syndrome, msn: u32 },
    /// The old value that an atomic found; `repeat` if it was sent before.
    Atomic { psn: Psn, original: u64, msn: u32, repeat: bool },
    /// A READ: from `psn` on, `left` bytes at `va`; `first` until its first packet has left, `repeat` if all of it
    /// was sent before.
    Read { psn: Psn, va: u64, rkey: u32, left: u32, first: bool, msn: u32, repeat: bool },
}

impl Answer {
    /// A READ of nothing, which answers FLUSH and ATOMIC WRITE.
    pub(crate) fn empty(psn: Psn, msn: u32, repeat: bool) -> Self {
        Self::Read { psn, va: 0, rkey: 0, left: 0, first: true, msn, repeat }
    }

    pub(crate) fn psn(&self) -> Psn {
        match self {
            Self::Ack { psn, .. } | Self::Atomic { psn, .. } | Self::Read { psn, .. } => *psn,
        }
    }

    /// It is the RNR NAK of the request at `at`.
    pub(crate) fn is_rnr_at(&self, at: Psn) -> bool {
        matches!(self, Self::Ack { psn, syndrome, .. }
            if *psn == at && matches!(syndrome.decode(), Decoded::Rnr { .. }))
    }

    /// It tells the requester to go back: an RNR NAK, or a NAK for a gap.
    fn sends_back(&self) -> bool {
        matches!(self, Self::Ack { syndrome, .. }
            if matches!(syndrome.decode(), Decoded::Rnr { .. } | Decoded::Nak(NakCode::PsnSequence)))
    }

    /// It is data that the requester waits for and never had.
    fn is_owed(&self) -> bool {
        matches!(self, Self::Atomic { repeat: false, .. } | Self::Read { repeat: false, .. })
    }
}

/// An executed atomic, kept to answer its duplicates (IBA 9.4.5: executed once).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedAtomic {
    pub psn: Psn,
    pub original: u64,
}

/// A value whose memory is taken when it is first put, and then kept: of many QPs most have none.
#[derive(Debug, Default)]
pub(crate) struct OnUse<T>(Option<Box<T>>);

impl<T: Default> OnUse<T> {
    /// `None` as long as nothing was ever put.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    pub(crate) fn take(&mut self) -> T {
        self.0.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(crate) fn put(&mut self, value: T) {
        match &mut self.0 {
            Some(place) => **place = value,
            None => self.0 = Some(Box::new(value)),
        }
    }
}

/// What a responder has in hand.
#[derive(Debug)]
pub(crate) struct Work {
    pub message: OnUse<Message>,
    /// A receive that was taken and not filled; it is the next to be used.
    pub spare: OnUse<Option<ReceiveWqe>>,
    pub answers: VecDeque<Answer>,
    pub atomics: VecDeque<SavedAtomic>,
}

impl Default for Work {
    fn default() -> Self {
        Self::NONE
    }
}

impl Work {
    const NONE: Self =
        Self { message: OnUse(None), spare: OnUse(None), answers: VecDeque::new(), atomics: VecDeque::new() };
}

impl Idle for Work {
    fn idle() -> &'static Self {
        static NONE: Work = Work::NONE;
        &NONE
    }
}

/// State of the responder.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    /// The PSN that comes next.
    pub expected: Psn,
    /// Messages completed, 24 bits.
    pub msn: u32,
    pub work: Lazy<Work>,
    /// The present gap, or the present lack of a receive, was reported; what follows is dropped silently.
    pub nak_sent: bool,
    pub saw_packet: bool,
    /// Receives are to be flushed, which [`crate::Qp::transmit`] does.
    pub flush: bool,
    /// READs and atomics that may be answered at once (`max_dest_rd_atomic`).
    pub depth: u8,
}

impl Responder {
    pub(crate) fn set_depth(&mut self, depth: u8) {
        self.depth = depth;
    }

    /// Memory is taken with the first packet, so that later ones take none: duplicates of READs may double the queue.
    pub(crate) fn reserve(&mut self) {
        let depth = usize::from(self.depth);
        self.work.answers.reserve(depth * 2 + 4);
        self.work.atomics.reserve(depth + 1);
    }

    /// Nothing more is executed. Answers that are due still leave: among them the NAK that says why.
    pub(crate) fn enter_error(&mut self) {
        self.nak_sent = true;
    }

    /// The receive that an unfinished SEND occupies.
    pub(crate) fn take_current_receive(&mut self) -> Option<ReceiveWqe> {
        self.work.message.get()?;
        match self.work.message.take() {
            Message::Send { receive, .. } => Some(receive),
            _ => None,
        }
    }

    /// The receive that was taken and not filled.
    pub(crate) fn take_spare(&mut self) -> Option<ReceiveWqe> {
        self.work.spare.get().and_then(Option::as_ref)?;
        self.work.spare.take()
    }

    /// No answer is due any more.
    pub(crate) fn drop_answers(&mut self) {
        if !self.work.answers.is_empty() {
            self.work.answers.clear();
        }
    }

    /// READs and atomics that are not answered yet. What is answered once more takes no resources of a new
    /// request: its requester may have had the first answer by now.
    pub(crate) fn reads_due(&self) -> usize {
        self.work.answers.iter().filter(|a| a.is_owed()).count()
    }

    /// Most answers that may wait at once, but for NAKs: duplicates beyond are dropped, and come again if they
    /// matter.
    fn answer_limit(&self) -> usize {
        usize::from(self.depth) * 2 + 2
    }

    /// An answer that was given before is due again, at its place in the order of PSNs: what is due after it
    /// stays due, for a network that duplicates one request has not taken back the next.
    pub(crate) fn answer_again(&mut self, answer: Answer) {
        if self.work.answers.len() >= self.answer_limit() {
            return;
        }
        let at = self.work.answers.iter().position(|a| a.psn().is_after(answer.psn()));
        let at = at.unwrap_or(self.work.answers.len());
        self.work.answers.insert(at, answer);
    }

    /// Acknowledges a duplicate.
    pub(crate) fn acknowledge_again(&mut self, psn: Psn, syndrome: Syndrome) {
        if self.work.answers.len() < self.answer_limit() {
            self.acknowledge(psn, syndrome);
        }
    }

    /// Tells the requester to go back to `psn`. Only the newest such answer is due.
    pub(crate) fn send_back(&mut self, psn: Psn, syndrome: Syndrome) {
        self.work.answers.retain(|a| !a.sends_back());
        self.work.answers.push_back(Answer::Ack { psn, syndrome, msn: self.msn });
    }

    pub(crate) fn count_message(&mut self) {
        self.msn = (self.msn + 1) & 0x00ff_ffff;
    }

    pub(crate) fn remember(&mut self, psn: Psn, original: u64) {
        if self.work.atomics.len() >= usize::from(self.depth.max(1)) {
            self.work.atomics.pop_front();
        }
        self.work.atomics.push_back(SavedAtomic { psn, original });
    }

    /// One answer is due, and it is a positive acknowledgement.
    pub(crate) fn owes_only_ack(&self) -> bool {
        self.work.answers.len() == 1
            && matches!(self.work.answers.front(), Some(Answer::Ack { syndrome, .. })
                if matches!(syndrome.decode(), Decoded::Ack { .. }))
    }

    /// Queues an acknowledgement; one that waits already is widened (coalescing, IBA 9.7.5.1.3).
    pub(crate) fn acknowledge(&mut self, psn: Psn, syndrome: Syndrome) {
        let msn = self.msn;
        if let Some(Answer::Ack { psn: p, syndrome: s, msn: m }) = self.work.answers.back_mut()
            && matches!(s.decode(), Decoded::Ack { .. })
        {
            (*p, *s, *m) = (psn, syndrome, msn);
            return;
        }
        self.work.answers.push_back(Answer::Ack { psn, syndrome, msn });
    }
}
