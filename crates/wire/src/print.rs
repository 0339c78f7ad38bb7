//! One line for a packet: `RC SEND_ONLY qp 0x000012 psn 5 ack_req len 64`.

use core::fmt;

use crate::headers::Headers;
use crate::packet::Packet;

impl fmt::Display for Headers {
    /// Opcode, destination QP, PSN, then only what is set or present.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bth = &self.bth;
        write!(f, "{} qp {} psn {}", bth.opcode, bth.dest_qp, bth.psn)?;
        for (set, name) in [
            (bth.ack_req, "ack_req"),
            (bth.solicited, "solicited"),
            (bth.mig_req, "mig_req"),
            (bth.fecn, "fecn"),
            (bth.becn, "becn"),
        ] {
            if set {
                write!(f, " {name}")?;
            }
        }
        if bth.pkey != 0xffff {
            write!(f, " pkey {:#06x}", bth.pkey)?;
        }
        if bth.tver != 0 {
            write!(f, " tver {}", bth.tver)?;
        }
        if let Some(deth) = &self.deth {
            write!(f, " src_qp {} qkey {:#010x}", deth.src_qp, deth.qkey)?;
        }
        if let Some(xrceth) = &self.xrceth {
            write!(f, " srqn {:#08x}", xrceth.srqn)?;
        }
        if let Some(feth) = &self.feth {
            write!(f, " flush {:#x}", feth.0)?;
        }
        if let Some(reth) = &self.reth {
            write!(f, " va {:#x} rkey {:#010x} dma_len {}", reth.va, reth.rkey, reth.dma_len)?;
        }
        if let Some(atomic) = &self.atomic {
            write!(f, " va {:#x} rkey {:#010x}", atomic.va, atomic.rkey)?;
            write!(f, " swap_add {:#x} compare {:#x}", atomic.swap_add, atomic.compare)?;
        }
        if let Some(aeth) = &self.aeth {
            write!(f, " {} msn {}", aeth.syndrome, aeth.msn)?;
        }
        if let Some(atomic_ack) = &self.atomic_ack {
            write!(f, " original {:#x}", atomic_ack.original)?;
        }
        if let Some(imm) = self.imm {
            write!(f, " imm {imm:#010x}")?;
        }
        if let Some(rkey) = self.ieth {
            write!(f, " invalidate {rkey:#010x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.headers.fmt(f)?;
        if self.headers.bth.opcode.info().is_some_and(|info| info.payload) {
            write!(f, " len {}", self.payload.len())?;
        }
        Ok(())
    }
}
