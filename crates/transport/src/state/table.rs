//! The table itself, and the questions that it answers alone.

use glassnic_events::{AttrMask, Field, QpState, QpType, Rule, StateSet, Transition, TransitionSet};

/// What a move needs and allows beside `IBV_QP_STATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Attributes that must be given.
    pub required: AttrMask,
    /// Attributes that may be given.
    pub optional: AttrMask,
}

impl Arrow {
    /// Attributes that may stand in the mask: required, optional, and the state itself, which Linux lets a program
    /// leave out when the state stays the same.
    pub const fn allowed(self) -> AttrMask {
        self.required.union(self.optional).union(AttrMask::STATE)
    }
}

type Row = (QpState, QpState, Arrow);
type ByState = [[Option<Arrow>; QpState::COUNT]; QpState::COUNT];

/// `attrs!(A B)` is the mask of both.
macro_rules! attrs {
    ($($name:ident)*) => { AttrMask::empty()$(.union(AttrMask::$name))* };
}

/// A row reads as the table in the specification does: from, to, what is required, what is optional.
macro_rules! rows {
    ($($from:ident -> $to:ident: [$($required:ident)*] [$($optional:ident)*];)*) => {
        &[$((QpState::$from, QpState::$to, Arrow { required: attrs!($($required)*), optional: attrs!($($optional)*) }),)*]
    };
}

/// Moves that every type has: any state can be reset, and any but RESET be put in error. Nothing else may be said.
const EVERY_TYPE: &[Row] = rows! {
    Reset -> Reset: [] [];
    Init -> Reset: [] [];
    Rtr -> Reset: [] [];
    Rts -> Reset: [] [];
    Sqd -> Reset: [] [];
    Sqe -> Reset: [] [];
    Err -> Reset: [] [];
    Init -> Err: [] [];
    Rtr -> Err: [] [];
    Rts -> Err: [] [];
    Sqd -> Err: [] [];
    Sqe -> Err: [] [];
    Err -> Err: [] [];
};

const RC: &[Row] = rows! {
    Reset -> Init: [PKEY_INDEX PORT ACCESS_FLAGS] [];
    Init -> Init: [] [PKEY_INDEX PORT ACCESS_FLAGS];
    Init -> Rtr: [AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER] [ALT_PATH ACCESS_FLAGS PKEY_INDEX];
    Rtr -> Rts: [TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC]
                [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER];
    Rts -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER];
    Rts -> Sqd: [] [EN_SQD_ASYNC_NOTIFY];
    Sqd -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER];
    Sqd -> Sqd: [] [PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS
                    PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE];
    Sqe -> Rts: [] [];
};

const UC: &[Row] = rows! {
    Reset -> Init: [PKEY_INDEX PORT ACCESS_FLAGS] [];
    Init -> Init: [] [PKEY_INDEX PORT ACCESS_FLAGS];
    Init -> Rtr: [AV PATH_MTU DEST_QPN RQ_PSN] [ALT_PATH ACCESS_FLAGS PKEY_INDEX];
    Rtr -> Rts: [SQ_PSN] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE];
    Rts -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE];
    Rts -> Sqd: [] [EN_SQD_ASYNC_NOTIFY];
    Sqd -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE];
    Sqd -> Sqd: [] [AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE];
    Sqe -> Rts: [] [CUR_STATE ACCESS_FLAGS];
};

const UD: &[Row] = rows! {
    Reset -> Init: [PKEY_INDEX PORT QKEY] [];
    Init -> Init: [] [PKEY_INDEX PORT QKEY];
    Init -> Rtr: [] [PKEY_INDEX QKEY];
    Rtr -> Rts: [SQ_PSN] [CUR_STATE QKEY];
    Rts -> Rts: [] [CUR_STATE QKEY];
    Rts -> Sqd: [] [EN_SQD_ASYNC_NOTIFY];
    Sqd -> Rts: [] [CUR_STATE QKEY];
    Sqd -> Sqd: [] [PKEY_INDEX QKEY];
    Sqe -> Rts: [] [CUR_STATE QKEY];
};

const XRC_SEND: &[Row] = rows! {
    Reset -> Init: [PKEY_INDEX PORT ACCESS_FLAGS] [];
    Init -> Init: [] [PKEY_INDEX PORT ACCESS_FLAGS];
    Init -> Rtr: [AV PATH_MTU DEST_QPN RQ_PSN] [ALT_PATH ACCESS_FLAGS PKEY_INDEX];
    Rtr -> Rts: [TIMEOUT RETRY_CNT RNR_RETRY SQ_PSN MAX_QP_RD_ATOMIC]
                [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE];
    Rts -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE];
    Rts -> Sqd: [] [EN_SQD_ASYNC_NOTIFY];
    Sqd -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE];
    Sqd -> Sqd: [] [PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX
                    PATH_MIG_STATE];
    Sqe -> Rts: [] [];
};

const XRC_RECV: &[Row] = rows! {
    Reset -> Init: [PKEY_INDEX PORT ACCESS_FLAGS] [];
    Init -> Init: [] [PKEY_INDEX PORT ACCESS_FLAGS];
    Init -> Rtr: [AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER] [ALT_PATH ACCESS_FLAGS PKEY_INDEX];
    Rtr -> Rts: [TIMEOUT SQ_PSN] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER];
    Rts -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER];
    Rts -> Sqd: [] [EN_SQD_ASYNC_NOTIFY];
    Sqd -> Rts: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE MIN_RNR_TIMER];
    Sqd -> Sqd: [] [PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER
                    PATH_MIG_STATE];
    Sqe -> Rts: [] [];
};

const RAW_PACKET: &[Row] = rows! {
    Reset -> Init: [PORT] [];
    Init -> Init: [] [];
    Init -> Rtr: [] [];
    Rtr -> Rts: [] [RATE_LIMIT];
    Rts -> Rts: [] [RATE_LIMIT];
    Rts -> Sqd: [] [];
    Sqd -> Rts: [] [];
    Sqd -> Sqd: [] [];
};

/// QP 0 and QP 1: they belong to a port from the start.
const SPECIAL: &[Row] = rows! {
    Reset -> Init: [PKEY_INDEX QKEY] [];
    Init -> Init: [] [PKEY_INDEX QKEY];
    Init -> Rtr: [] [PKEY_INDEX QKEY];
    Rtr -> Rts: [SQ_PSN] [CUR_STATE QKEY];
    Rts -> Rts: [] [CUR_STATE QKEY];
    Rts -> Sqd: [] [EN_SQD_ASYNC_NOTIFY];
    Sqd -> Rts: [] [CUR_STATE QKEY];
    Sqd -> Sqd: [] [PKEY_INDEX QKEY];
    Sqe -> Rts: [] [CUR_STATE QKEY];
};

const TABLE: [ByState; QpType::COUNT] = {
    let mut table = [[[None; QpState::COUNT]; QpState::COUNT]; QpType::COUNT];
    table[QpType::Rc.index()] = by_state(RC);
    table[QpType::Uc.index()] = by_state(UC);
    table[QpType::Ud.index()] = by_state(UD);
    table[QpType::XrcSend.index()] = by_state(XRC_SEND);
    table[QpType::XrcRecv.index()] = by_state(XRC_RECV);
    table[QpType::RawPacket.index()] = by_state(RAW_PACKET);
    table[QpType::Gsi.index()] = by_state(SPECIAL);
    table[QpType::Smi.index()] = by_state(SPECIAL);
    table
};

const fn by_state(own: &[Row]) -> ByState {
    let mut table = [[None; QpState::COUNT]; QpState::COUNT];
    let lists = [EVERY_TYPE, own];
    let mut l = 0;
    while l < lists.len() {
        let mut i = 0;
        while i < lists[l].len() {
            let (from, to, arrow) = lists[l][i];
            let entry = &mut table[from.index()][to.index()];
            assert!(entry.is_none(), "a move is listed twice");
            *entry = Some(arrow);
            i += 1;
        }
        l += 1;
    }
    table
}

/// What a move of a queue pair of this type needs and allows; `None` if there is no such move.
pub const fn arrow(qp_type: QpType, from: QpState, to: QpState) -> Option<Arrow> {
    TABLE[qp_type.index()][from.index()][to.index()]
}

/// The states that a queue pair of this type can be moved to from `from`.
pub fn reachable(qp_type: QpType, from: QpState) -> StateSet {
    let ends = QpState::ALL.iter().filter(|to| arrow(qp_type, from, **to).is_some());
    ends.fold(StateSet::default(), |set, to| set.with(*to))
}

/// The moves of this type in which every attribute of `mask` may be given.
pub fn moves_allowing(qp_type: QpType, mask: AttrMask) -> TransitionSet {
    let mut moves = TransitionSet::default();
    for &from in QpState::ALL {
        for &to in QpState::ALL {
            if arrow(qp_type, from, to).is_some_and(|arrow| arrow.allowed().contains(mask)) {
                moves = moves.with(from, to);
            }
        }
    }
    moves
}

/// May a queue pair of this type go from one state to another with these attributes?
///
/// # Errors
///
/// [`Rule::UnknownBits`], [`Rule::NotListedTransition`], [`Rule::MissingAttrs`] or [`Rule::ForbiddenAttrs`]. Of
/// the last two the first is reported first: who names a wrong target state has both, and what is missing says
/// more.
pub fn check_transition(qp_type: QpType, from: QpState, to: QpState, mask: AttrMask) -> Result<(), Rule> {
    let at = Transition { qp_type, from, to };
    let unknown = mask.difference(AttrMask::all());
    if !unknown.is_empty() {
        return Err(Rule::UnknownBits { what: Field::AttrMask, bits: u64::from(unknown.bits()) });
    }
    let Some(arrow) = arrow(qp_type, from, to) else {
        return Err(Rule::NotListedTransition { at, reachable: reachable(qp_type, from) });
    };
    let missing = arrow.required.difference(mask);
    if !missing.is_empty() {
        return Err(Rule::MissingAttrs { at, missing });
    }
    let forbidden = mask.difference(arrow.allowed());
    if !forbidden.is_empty() {
        let first = forbidden.iter().next().unwrap_or_default();
        let [allowed_in, first_in] = [forbidden, first].map(|bits| moves_allowing(qp_type, bits));
        return Err(Rule::ForbiddenAttrs { at, forbidden, allowed_in, first_in });
    }
    Ok(())
}
