//! A sentence for each check that can be the first cause of a queue pair's error.

use glassnic_events::{Check, FirstCause, KeyAccess, PathAttrs};

use crate::{Said, milliseconds, overrun};

/// What failed, which request it was, and what to do about it.
pub(crate) fn say(cause: &FirstCause) -> Said {
    let FirstCause { wr_id, psn, status, check } = *cause;
    let request = wr_id.map_or_else(String::new, |wr_id| format!("request wr_id={wr_id:#x}: "));
    let place = psn.map_or_else(String::new, |psn| format!(" at PSN {psn:#x}"));
    Said { what: format!("{request}{check}{place} ({status})"), remedy: remedy(check).to_string() }
}

/// Where the peer was looked for, and for how long.
pub(crate) fn path(check: Check, path: &PathAttrs) -> String {
    let PathAttrs { dgid, sgid_index, path_mtu, dest_qp_num, timeout, retry_cnt, rnr_retry, .. } = *path;
    let peer =
        format!("the peer is dest_qp_num={dest_qp_num:#x} at dgid={dgid}, from sgid_index={sgid_index}");
    match (check, path.ack_timeout_ns, path.detection_ns()) {
        (Check::RetryExhausted, Some(once), Some(all)) => format!(
            "{peer} with path_mtu={path_mtu}; timeout={timeout} ({}) x (1 + retry_cnt={retry_cnt}) gives up after {}",
            milliseconds(once),
            milliseconds(all)
        ),
        (Check::RnrExhausted, ..) => format!("{peer}; rnr_retry={rnr_retry}"),
        _ => peer,
    }
}

/// What was accessed, and what the key permits.
pub(crate) fn access(access: &KeyAccess) -> String {
    let KeyAccess { key, addr, len, pd, region, .. } = *access;
    let tried = format!("{len} bytes at {addr:#x} with key {key:#x}");
    let Some(region) = region else { return tried };
    let (start, length) = (region.start, region.len);
    let place = format!("{tried}; its region has {length} bytes at {start:#x}");
    if region.other_key {
        return format!("{tried}; that is the other key of a region: lkey and rkey differ");
    }
    match access.check {
        Check::LkeyPd | Check::RkeyPd => {
            format!("{tried}; its region is in PD {:#x}, the QP in PD {pd:#x}", region.pd)
        }
        Check::LkeyAccess | Check::RkeyAccess => {
            format!("{tried}; its region was registered with access={:#x}", region.access)
        }
        Check::LkeyBounds | Check::RkeyBounds => match overrun(access) {
            Some(over) => format!("{place}: {over} bytes too far"),
            None => place,
        },
        _ => place,
    }
}

fn remedy(check: Check) -> &'static str {
    match check {
        Check::None => "nothing is to be done",
        Check::LkeyUnknown => {
            "use the lkey of a registered region, and deregister it only after the completion"
        }
        Check::LkeyPd | Check::RkeyPd => {
            "register the memory and create the queue pair in one protection domain"
        }
        Check::LkeyBounds => "check sge.addr and sge.length against the region",
        Check::LkeyAccess => "register the memory with IBV_ACCESS_LOCAL_WRITE",
        Check::MemoryGone => "keep the memory mapped until the request has completed",
        Check::RkeyUnknown => {
            "send the peer's rkey (not its lkey), and deregister the region only after the last access"
        }
        Check::RkeyBounds => "check remote_addr and length against the peer's region",
        Check::RkeyAccess => {
            "register the peer's memory with IBV_ACCESS_REMOTE_READ, _WRITE or _ATOMIC, as the operation needs"
        }
        Check::QpAccess => "give the responder's qp_access_flags the same remote rights as its memory region",
        Check::MwOtherQp => "use a type 2 window only through the queue pair that bound it",
        Check::MwUnbound => "bind the window before its rkey is used, and invalidate it after",
        Check::AtomicUnaligned => "use an address that is a multiple of 8",
        Check::RkeyInvalidated => {
            "invalidate or deregister only after the last access, and then send the peer the new rkey"
        }
        Check::InvalidateRefused => "invalidate only keys of type 2 windows that are bound",
        Check::ReceiveTooSmall => "post receives as long as the longest message (on UD 40 bytes more)",
        Check::NoReceive => "post receives before the peer sends; writes with immediate need one too",
        Check::TooManyReads => {
            "set the requester's max_rd_atomic to at most the responder's max_dest_rd_atomic"
        }
        Check::OpcodeSequence => {
            "look for two queue pairs that send to this one, or for a PSN that was set anew"
        }
        Check::OpcodeUnsupported => "give both queue pairs the same type",
        Check::PacketLength => "give both queue pairs the same path_mtu",
        Check::MessageTooLong => "send it in pieces: at most max_msg_sz bytes, on UD at most the path MTU",
        Check::SrqUnknown => "use the number that ibv_get_srq_num gave at the peer, while that SRQ exists",
        Check::NoResources => "look at the responder: it ran out of memory or queue entries",
        Check::RetryExhausted => {
            "look at the peer: is its queue pair in RTR or RTS, is dest_qp_num its number, does rq_psn equal our \
             sq_psn, is dgid its GID, does the path carry path_mtu?"
        }
        Check::RnrExhausted => "post receives at the peer earlier, or set rnr_retry=7 to wait without end",
        Check::NakInvalidRequest | Check::NakRemoteAccess | Check::NakRemoteOperational => {
            "look at the peer's first cause: it knows which check failed"
        }
        Check::BadResponse => "look for two queue pairs that answer for one, or for a PSN that was set anew",
        Check::BadAh => "destroy the address handle only after the sends that use it, and keep to one PD",
        Check::MwBind => {
            "give the window's own rkey (ibv_inc_rkey changes the low 8 bits alone) and a region that is registered; a \
             type 1 window is never zero-based"
        }
        Check::MwBindRight => "register the region with IBV_ACCESS_MW_BIND",
        Check::MwBindLocalWrite => {
            "register the region with IBV_ACCESS_LOCAL_WRITE, or bind the window without remote write and atomics"
        }
        Check::MwBindPd => "allocate the window, the region and the queue pair in one protection domain",
        Check::MwBindBounds => "check bind_info.addr and bind_info.length against the region",
        Check::MwBound => {
            "post IBV_WR_LOCAL_INV for a type 2 window before it is bound again; a length of 0 frees type 1 alone"
        }
        Check::OwnInvalidateRefused => {
            "invalidate type 2 windows alone; a region ends with ibv_dereg_mr, a type 1 window with a bind of length 0"
        }
        Check::NoPath => "check dgid and sgid_index: no link of this device leads there",
        Check::BadOperation => {
            "use an operation that this type of queue pair carries, with max_rd_atomic above 0"
        }
        Check::ModifiedToErr => "this is what the program asked for; flushed requests are no fault",
        Check::CqOverrun => "create the CQ for all requests that can complete at once, or poll it more often",
        Check::PeerGone => "look why the peer's process ended",
        Check::DeviceFatal => "close the device and open it again",
        Check::Provoked => {
            "nothing is wrong: this shows how the program takes a fatal error of its queue pair"
        }
        Check::Flushed => "look for what came before it: a flush is never the cause",
    }
}
