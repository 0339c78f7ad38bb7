//! The QP context (QPC): 256 bytes of context memory for each queue pair, at fixed offsets.
//!
//! Four cache lines, grouped by who writes: control and identity (the command interface), path (modify), requester,
//! responder (the engine). All numbers are little-endian. [`Field`] is the one table of offsets: the device writes
//! by it and an inspector reads by it.
//!
//! A context is consistent if the sequence word at 0x38 is even and the same before and after reading.

use crate::context::QPC_LEN;
use crate::fields::{FieldInfo, Fields, fields};
use crate::sync::{AtomicU64, Ordering, fence};

fields! {
    /// A field of the context, by name. Its cache line says who writes it: 0 the command interface, 1 modify (the path),
    /// 2 the requester, 3 the responder.
    Field in 256 {
        Qpn "qpn" @ 0x00: 4 "QP number; 0 in a free context";
        QpType "qp_type" @ 0x04: 1 "enum ibv_qp_type";
        State "state" @ 0x05: 1 "enum ibv_qp_state";
        SqSigAll "sq_sig_all" @ 0x06: 1 "1 if every send is signalled";
        SqDraining "sq_draining" @ 0x07: 1 "1 while SQD waits for work in flight";
        Pd "pd" @ 0x08: 4 "handle of the protection domain";
        SendCq "send_cq" @ 0x10: 4 "handle of the send CQ";
        RecvCq "recv_cq" @ 0x14: 4 "handle of the receive CQ";
        Srq "srq" @ 0x18: 4 "handle of the SRQ, 0 for none";
        Access "access" @ 0x1c: 4 "qp_access_flags";
        CreatedNs "created_ns" @ 0x20: 8 "time of creation, monotonic ns";
        FirstStatus "first_status" @ 0x28: 2 "enum ibv_wc_status of the first error";
        FirstCheck "first_check" @ 0x2a: 2 "the check that failed first; 0 for none";
        FirstPsn "first_psn" @ 0x2c: 4 "PSN of the first error";
        FirstWrId "first_wr_id" @ 0x30: 8 "wr_id of the first error";
        Sequence "sequence" @ 0x38: 4 "odd while the context is being written";
        Qkey "qkey" @ 0x3c: 4 "Q_Key";
        Dgid "dgid" @ 0x40: 16 "destination GID";
        DestQpn "dest_qpn" @ 0x50: 4 "destination QP number";
        SgidIndex "sgid_index" @ 0x54: 1 "index of the source GID";
        HopLimit "hop_limit" @ 0x55: 1 "hop limit";
        TrafficClass "traffic_class" @ 0x56: 1 "traffic class";
        Sl "sl" @ 0x57: 1 "service level";
        FlowLabel "flow_label" @ 0x58: 4 "flow label";
        PathMtu "path_mtu" @ 0x5c: 1 "enum ibv_mtu";
        PortNum "port_num" @ 0x5d: 1 "port";
        PkeyIndex "pkey_index" @ 0x5e: 2 "index of the P_Key";
        Timeout "timeout" @ 0x60: 1 "local ACK timeout, 4.096 us * 2^n";
        RetryCnt "retry_cnt" @ 0x61: 1 "transport retries";
        RnrRetry "rnr_retry" @ 0x62: 1 "RNR retries, 7 without end";
        MinRnrTimer "min_rnr_timer" @ 0x63: 1 "RNR timer code asked of the peer";
        MaxRdAtomic "max_rd_atomic" @ 0x64: 1 "reads and atomics outstanding as requester";
        MaxDestRdAtomic "max_dest_rd_atomic" @ 0x65: 1 "reads and atomics outstanding as responder";
        MaxSendSge "max_send_sge" @ 0x66: 2 "elements of a send";
        MaxRecvSge "max_recv_sge" @ 0x68: 2 "elements of a receive";
        PathMigState "path_mig_state" @ 0x6a: 1 "enum ibv_mig_state";
        AltSgidIndex "alt_sgid_index" @ 0x6b: 1 "index of the source GID of the alternate path";
        MaxInline "max_inline" @ 0x6c: 4 "bytes that can be posted inline";
        AltDgid "alt_dgid" @ 0x70: 16 "destination GID of the alternate path, zeros for none";
        NextPsn "next_psn" @ 0x80: 4 "PSN of the next new request";
        Unacknowledged "unacknowledged" @ 0x84: 4 "oldest PSN not acknowledged";
        SqHead "sq_head" @ 0x88: 4 "index of the oldest request not finished";
        SqTail "sq_tail" @ 0x8c: 4 "index of the next request to be posted";
        SqUsed "sq_used" @ 0x90: 4 "send queue slots in use";
        SqDepth "sq_depth" @ 0x94: 4 "send queue slots";
        RetryLeft "retry_left" @ 0x98: 1 "transport retries left";
        RnrLeft "rnr_left" @ 0x99: 1 "RNR retries left";
        RnrReceived "rnr_received" @ 0x9c: 4 "RNR NAKs that came in";
        Timeouts "timeouts" @ 0xa0: 4 "times that no acknowledgement came in time";
        Retransmits "retransmits" @ 0xa4: 4 "times that requests were sent again";
        NaksReceived "naks_received" @ 0xa8: 4 "NAKs that came in, without RNR";
        SqUnsignalled "sq_unsignalled" @ 0xac: 4 "finished requests whose slots wait for a later, signalled one";
        RnrSinceNs "rnr_since_ns" @ 0xb0: 8 "since when the peer has not been ready, monotonic ns; 0 while it is";
        ExpectedPsn "expected_psn" @ 0xc0: 4 "PSN expected next";
        Msn "msn" @ 0xc4: 4 "messages completed, 24 bits";
        RqPosted "rq_posted" @ 0xc8: 4 "receives posted and not taken";
        RqUsed "rq_used" @ 0xcc: 4 "receive queue slots in use";
        RqDepth "rq_depth" @ 0xd0: 4 "receive queue slots";
        RqTail "rq_tail" @ 0xd4: 4 "receives ever posted";
        RnrSent "rnr_sent" @ 0xd8: 4 "RNR NAKs sent: no receive was posted";
        NaksSent "naks_sent" @ 0xdc: 4 "NAKs sent, without RNR";
        Dropped "dropped" @ 0xe0: 4 "packets thrown away";
        LastDrop "last_drop" @ 0xe4: 4 "why, the last one";
        EmptySinceNs "empty_since_ns" @ 0xe8: 8 "since when messages find no receive, monotonic ns; 0 while they do";
    }
}

/// Words of the sequence number and its neighbour.
const SEQUENCE_WORD: usize = 0x38 / 8;

/// The word that what lies in a word begins in: of a field of several words, the first.
const BEGINS_IN: [usize; QPC_LEN / 8] = {
    let mut words = [0; QPC_LEN / 8];
    let mut i = 0;
    while i < words.len() {
        words[i] = i;
        i += 1;
    }
    i = 0;
    while i < <Field as Fields>::ALL.len() {
        let f = <Field as Fields>::ALL[i];
        let mut word = f.offset / 8 + 1;
        while word * 8 < f.offset + f.width {
            words[word] = f.offset / 8;
            word += 1;
        }
        i += 1;
    }
    words
};

/// The first field that begins in each word or behind it; the table is sorted by offset.
const FIRST_FIELD: [usize; QPC_LEN / 8 + 1] = {
    let mut first = [0; QPC_LEN / 8 + 1];
    let mut word = 0;
    let mut i = 0;
    while word < first.len() {
        while i < <Field as Fields>::ALL.len() && <Field as Fields>::ALL[i].offset < word * 8 {
            assert!(i == 0 || <Field as Fields>::ALL[i - 1].offset < <Field as Fields>::ALL[i].offset);
            i += 1;
        }
        first[word] = i;
        word += 1;
    }
    first
};

// Each field lies in one cache line.
const _: () = {
    let mut i = 0;
    while i < <Field as Fields>::ALL.len() {
        let f = <Field as Fields>::ALL[i];
        assert!((f.offset + f.width - 1) / 64 == f.offset / 64);
        i += 1;
    }
};

/// A context outside of context memory: made to be written, or read in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image([u8; QPC_LEN]);

impl Default for Image {
    fn default() -> Self {
        Self([0; QPC_LEN])
    }
}

impl Image {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; QPC_LEN] {
        &self.0
    }

    /// Sets a number.
    #[inline]
    pub fn set(&mut self, field: Field, value: u64) {
        field.info().set(&mut self.0, value);
    }

    /// Sets the destination GID.
    pub fn set_dgid(&mut self, gid: [u8; 16]) {
        self.set_gid(Field::Dgid, gid);
    }

    /// Sets a GID, of a field of 16 bytes.
    pub(crate) fn set_gid(&mut self, field: Field, gid: [u8; 16]) {
        let at = field.info().offset;
        self.0[at..at + 16].copy_from_slice(&gid);
    }

    /// A number (of a GID, its first eight bytes).
    #[must_use]
    pub fn get(&self, field: Field) -> u64 {
        field.info().value(&self.0)
    }

    /// The destination GID.
    #[must_use]
    pub fn dgid(&self) -> [u8; 16] {
        self.gid(Field::Dgid)
    }

    /// A GID, of a field of 16 bytes.
    #[must_use]
    pub fn gid(&self, field: Field) -> [u8; 16] {
        let mut gid = [0; 16];
        gid.iter_mut().zip(field.info().bytes(&self.0)).for_each(|(to, from)| *to = *from);
        gid
    }

    /// The fields that differ in a later image. The sequence number, which always does, is left out.
    pub fn changes<'a>(&'a self, later: &'a Self) -> impl Iterator<Item = &'static FieldInfo> + 'a {
        // Words first: of the many fields most are as they were.
        let mut left = 0u32;
        for (i, begins) in BEGINS_IN.into_iter().enumerate() {
            let word = i * 8..i * 8 + 8;
            left |= u32::from(self.0[word.clone()] != later.0[word]) << begins;
        }
        let words = std::iter::from_fn(move || {
            let word = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            Field::ALL.get(*FIRST_FIELD.get(word)?..*FIRST_FIELD.get(word + 1)?)
        });
        let known = |f: &&FieldInfo| f.offset != Field::Sequence.info().offset;
        words.flatten().filter(known).filter(|f| f.bytes(&self.0) != f.bytes(&later.0))
    }

    /// Writes the lines `from_line ..` to a context. There is one writer at a time, the holder of the NIC.
    pub fn store(&self, words: &[AtomicU64], from_line: usize) {
        let Some(sequence) = words.get(SEQUENCE_WORD) else { return };
        let old = sequence.load(Ordering::Relaxed);
        let next = (old as u32 | 1).wrapping_add(1);
        let keep = if from_line == 0 { self.get(Field::Qkey) << 32 } else { old & !0xffff_ffff };
        sequence.store(old & !0xffff_ffff | u64::from(old as u32 | 1), Ordering::Relaxed);
        fence(Ordering::Release);
        let values = self.0.as_chunks::<8>().0;
        let len = words.len().min(values.len());
        let (words, values) = (&words[..len], &values[..len]);
        for i in from_line * 8..len {
            if i != SEQUENCE_WORD {
                words[i].store(u64::from_le_bytes(values[i]), Ordering::Relaxed);
            }
        }
        sequence.store(keep | u64::from(next), Ordering::Release);
    }

    /// Reads a context in one piece; `None` if it did not stand still for `tries` attempts.
    #[must_use]
    pub fn load(words: &[AtomicU64], tries: u32) -> Option<Self> {
        let sequence = words.get(SEQUENCE_WORD)?;
        for _ in 0..tries {
            let before = sequence.load(Ordering::Acquire);
            if before & 1 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let mut image = Self::default();
            for (bytes, word) in image.0.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *bytes = word.load(Ordering::Relaxed).to_le_bytes();
            }
            fence(Ordering::Acquire);
            if sequence.load(Ordering::Relaxed) == before {
                return Some(image);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{ContextMemory, Layout};

    #[test]
    fn every_byte_of_a_field_is_a_change_of_it_alone() {
        for field in <Field as Fields>::ALL {
            for at in field.offset..field.offset + field.width {
                let mut later = Image::default();
                later.0[at] = 0x80;
                let found: Vec<_> = Image::default().changes(&later).map(|f| f.name).collect();
                let expected = if field.name == "sequence" { vec![] } else { vec![field.name] };
                assert_eq!(found, expected, "byte {at:#x}");
            }
        }
        let all = Image([0xff; QPC_LEN]);
        assert_eq!(Image::default().changes(&all).count(), <Field as Fields>::ALL.len() - 1);
    }

    #[test]
    fn what_is_written_is_read() {
        let memory = ContextMemory::private(Layout::bare(3, 0));
        let mut image = Image::default();
        image.set(Field::Qpn, 0x1234);
        image.set(Field::Qkey, 0x1111_1111);
        image.set(Field::NextPsn, 77);
        image.set_dgid([9; 16]);
        image.store(memory.qpc(1).unwrap(), 0);
        image.set(Field::Qpn, 9);
        image.set(Field::NextPsn, 78);
        image.store(memory.qpc(1).unwrap(), 2);
        let got = Image::load(memory.qpc(1).unwrap(), 3).unwrap();
        assert_eq!((got.get(Field::Qpn), got.get(Field::NextPsn)), (0x1234, 78));
        assert_eq!((got.get(Field::Qkey), got.dgid()), (0x1111_1111, [9; 16]));
        assert_eq!(got.get(Field::Sequence), 4);
        assert_eq!(Image::load(memory.qpc(0).unwrap(), 1), Some(Image::default()));
        assert!(memory.qpc(3).is_none());
    }

    #[test]
    fn a_reader_never_sees_a_torn_context() {
        let memory = ContextMemory::private(Layout::bare(1, 0));
        let writer = memory.clone();
        let thread = std::thread::spawn(move || {
            let mut image = Image::default();
            for n in 0..20_000u64 {
                image.set(Field::Qpn, n & 0xff_ffff);
                image.set(Field::Msn, n & 0xff_ffff);
                image.store(writer.qpc(0).unwrap(), 0);
            }
        });
        while !thread.is_finished() {
            if let Some(image) = Image::load(memory.qpc(0).unwrap(), 100) {
                assert_eq!(image.get(Field::Qpn), image.get(Field::Msn));
            }
        }
        thread.join().unwrap();
    }
}
