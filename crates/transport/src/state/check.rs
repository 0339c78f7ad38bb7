//! Are the values right? A line of named checks, each for one group of attributes.

use glassnic_events::{AttrMask, Field, IndexSet, Limit, QpState, QpType, Rule, Transition};

use super::table::check_transition;
use crate::attr::{AccessFlags, AddressVector, MigState, Mtu, QpAttr};

/// What the checks need to know of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Greatest payload that the port carries now.
    pub active_mtu: Mtu,
    /// Length of the partition key table.
    pub pkey_count: u16,
    /// Length of the GID table, empty entries included.
    pub gid_count: u8,
    /// The entries of the GID table that hold a GID; entries from 64 on cannot be told and pass.
    pub gids: IndexSet,
}

/// A port with one GID and one partition key, and an MTU of 1024.
impl Default for PortFacts {
    fn default() -> Self {
        Self { active_mtu: Mtu::M1024, pkey_count: 1, gid_count: 1, gids: IndexSet(1) }
    }
}

/// What the checks need to know of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFacts<'a> {
    /// Its ports; port 1 comes first.
    pub ports: &'a [PortFacts],
    /// `max_qp_init_rd_atom`: reads and atomics that a queue pair may have outstanding as initiator.
    pub max_qp_init_rd_atom: u8,
    /// `max_qp_rd_atom`: reads and atomics that a queue pair can serve at once.
    pub max_qp_rd_atom: u8,
    /// `atomic_cap` is not `IBV_ATOMIC_NONE`.
    pub atomics: bool,
}

/// A device without ports that has atomics and 16 reads each way.
impl Default for DeviceFacts<'_> {
    fn default() -> Self {
        Self { ports: &[], max_qp_init_rd_atom: 16, max_qp_rd_atom: 16, atomics: true }
    }
}

impl DeviceFacts<'_> {
    /// The port with this number, which a program gave in `what`.
    fn port(&self, number: u8, what: Field) -> Result<&PortFacts, Rule> {
        let index = usize::from(number).checked_sub(1);
        index.and_then(|index| self.ports.get(index)).ok_or(Rule::OutOfRange {
            what,
            offered: u64::from(number),
            min: 1,
            max: self.ports.len() as u64,
        })
    }
}

/// Checks a whole `ibv_modify_qp(3)` against what the queue pair holds now, and says which move it is.
///
/// The queue pair's own state decides. `cur_qp_state` is a program's belief (it may not have seen RTS→SQE yet);
/// Linux passes it on to the hardware, which refuses a wrong one, and so do we. Without `IBV_QP_STATE` the state
/// stays.
///
/// # Errors
///
/// The first rule that the call breaks; then nothing may be applied.
pub fn check_modify(
    facts: &DeviceFacts<'_>,
    qp_type: QpType,
    current: &QpAttr,
    mask: AttrMask,
    offered: &QpAttr,
) -> Result<Transition, Rule> {
    let from = current.qp_state;
    let to = if mask.contains(AttrMask::STATE) { offered.qp_state } else { from };
    if mask.contains(AttrMask::CUR_STATE) && offered.cur_qp_state != from {
        return Err(Rule::StateMismatch { given: offered.cur_qp_state, actual: from });
    }
    check_transition(qp_type, from, to, mask)?;
    let at = Transition { qp_type, from, to };
    check_attrs(facts, at, mask, offered, current)?;
    Ok(at)
}

/// Checks the values of the attributes that `mask` names, for a move that [`check_transition`] has accepted.
///
/// Sequence numbers are not checked: see [`super::apply()`].
///
/// # Errors
///
/// The first rule that a value breaks.
pub fn check_attrs(
    facts: &DeviceFacts<'_>,
    at: Transition,
    mask: AttrMask,
    offered: &QpAttr,
    current: &QpAttr,
) -> Result<(), Rule> {
    check_drained(at, mask, current)?;
    check_port_and_pkey(facts, mask, offered, current)?;
    check_access(facts, mask, offered)?;
    check_path(facts, at, mask, offered, current)?;
    check_alternate_path(facts, mask, offered)?;
    check_migration(at, mask, offered, current)?;
    check_mtu(facts, mask, offered, current)?;
    check_read_depths(facts, mask, offered)?;
    check_codes(mask, offered)
}

/// While the send queue drains, the requester still uses the attributes: they cannot change, nor can sending be
/// resumed (IBA C10-37 and the table for SQD).
fn check_drained(at: Transition, mask: AttrMask, current: &QpAttr) -> Result<(), Rule> {
    let draining = at.from == QpState::Sqd && current.sq_draining;
    let changes =
        at.to == QpState::Rts || at.to == QpState::Sqd && !mask.difference(AttrMask::STATE).is_empty();
    if draining && changes { Err(Rule::StillDraining { at }) } else { Ok(()) }
}

fn check_port_and_pkey(
    facts: &DeviceFacts<'_>,
    mask: AttrMask,
    offered: &QpAttr,
    current: &QpAttr,
) -> Result<(), Rule> {
    if mask.contains(AttrMask::PORT) {
        facts.port(offered.port_num, Field::PortNum)?;
    }
    if mask.contains(AttrMask::PKEY_INDEX) {
        let port = facts.port(qp_port(mask, offered, current), Field::PortNum)?;
        check_pkey_index(Field::PkeyIndex, offered.pkey_index, port)?;
    }
    Ok(())
}

fn check_pkey_index(what: Field, index: u16, port: &PortFacts) -> Result<(), Rule> {
    at_most(what, index, port.pkey_count.saturating_sub(1))
}

fn check_access(facts: &DeviceFacts<'_>, mask: AttrMask, offered: &QpAttr) -> Result<(), Rule> {
    if !mask.contains(AttrMask::ACCESS_FLAGS) {
        return Ok(());
    }
    // Bits of the optional range are hints that a device may ignore (verbs.h, IBV_ACCESS_OPTIONAL_RANGE).
    let unknown = offered.access.bits() & !(AccessFlags::all().bits() | AccessFlags::OPTIONAL_RANGE);
    if unknown != 0 {
        return Err(Rule::UnknownBits { what: Field::QpAccessFlags, bits: u64::from(unknown) });
    }
    if offered.access.contains(AccessFlags::REMOTE_ATOMIC) && !facts.atomics {
        return Err(Rule::AtomicsUnsupported { what: Field::QpAccessFlags });
    }
    Ok(())
}

/// The fields of an address vector by name: of the primary or of the alternate path.
struct PathFields {
    is_global: Field,
    dgid: Field,
    port_num: Field,
}

const PRIMARY: PathFields =
    PathFields { is_global: Field::AhIsGlobal, dgid: Field::AhDgid, port_num: Field::AhPortNum };

const ALTERNATE: PathFields =
    PathFields { is_global: Field::AltAhIsGlobal, dgid: Field::AltAhDgid, port_num: Field::AltAhPortNum };

fn check_path(
    facts: &DeviceFacts<'_>,
    at: Transition,
    mask: AttrMask,
    offered: &QpAttr,
    current: &QpAttr,
) -> Result<(), Rule> {
    if mask.contains(AttrMask::AV) {
        let given = offered.ah.port_num;
        check_address_vector(facts, &PRIMARY, &offered.ah)?;
        // In SQD an address vector may move the queue pair to another port; if both are given they must agree.
        let must_match = at.to == QpState::Rtr || mask.contains(AttrMask::PORT);
        let qp_port = qp_port(mask, offered, current);
        if must_match && given != qp_port {
            return Err(Rule::PortMismatch { what: PRIMARY.port_num, given, qp_port });
        }
    }
    if mask.contains(AttrMask::DEST_QPN) {
        at_most(Field::DestQpNum, offered.dest_qp_num, 0xff_ffff_u32)?;
    }
    Ok(())
}

fn check_alternate_path(facts: &DeviceFacts<'_>, mask: AttrMask, offered: &QpAttr) -> Result<(), Rule> {
    if !mask.contains(AttrMask::ALT_PATH) {
        return Ok(());
    }
    let port = facts.port(offered.alt_port_num, Field::AltPortNum)?;
    check_address_vector(facts, &ALTERNATE, &offered.alt_ah)?;
    if offered.alt_ah.port_num != offered.alt_port_num {
        return Err(Rule::PortMismatch {
            what: ALTERNATE.port_num,
            given: offered.alt_ah.port_num,
            qp_port: offered.alt_port_num,
        });
    }
    check_pkey_index(Field::AltPkeyIndex, offered.alt_pkey_index, port)?;
    at_most(Field::AltTimeout, offered.alt_timeout, 31)
}

/// A program may ask for REARM, once an alternate path is loaded, and for MIGRATED; ARMED is what the two ends come to by
/// themselves (IBA 17.2.8.1).
fn check_migration(at: Transition, mask: AttrMask, offered: &QpAttr, current: &QpAttr) -> Result<(), Rule> {
    if !mask.contains(AttrMask::PATH_MIG_STATE) {
        return Ok(());
    }
    at_most(Field::PathMigState, offered.path_mig_state as u32, MigState::Rearm as u32)?;
    let loaded = mask.contains(AttrMask::ALT_PATH) || current.alt_port_num != 0;
    if offered.path_mig_state == MigState::Rearm && !loaded {
        return Err(Rule::MissingAttrs { at, missing: AttrMask::ALT_PATH });
    }
    Ok(())
}

/// RoCE has no local identifiers: only a global route says where to go (IBA annex A17.4.2).
fn check_address_vector(
    facts: &DeviceFacts<'_>,
    fields: &PathFields,
    ah: &AddressVector,
) -> Result<(), Rule> {
    let port = facts.port(ah.port_num, fields.port_num)?;
    if !ah.is_global {
        return Err(Rule::NoGrh { what: fields.is_global, port: ah.port_num });
    }
    if ah.sgid_index >= port.gid_count {
        let (index, len, valid) = (ah.sgid_index, port.gid_count, port.gids);
        return Err(Rule::GidIndexBeyond { port: ah.port_num, index, len, valid });
    }
    if ah.sgid_index < 64 && !port.gids.contains(ah.sgid_index) {
        return Err(Rule::GidIndexEmpty { port: ah.port_num, index: ah.sgid_index, valid: port.gids });
    }
    if ah.dgid == [0; 16] {
        return Err(Rule::GidZero { what: fields.dgid });
    }
    Ok(())
}

fn check_mtu(
    facts: &DeviceFacts<'_>,
    mask: AttrMask,
    offered: &QpAttr,
    current: &QpAttr,
) -> Result<(), Rule> {
    if !mask.contains(AttrMask::PATH_MTU) {
        return Ok(());
    }
    let number = qp_port(mask, offered, current);
    let active = facts.port(number, Field::PortNum)?.active_mtu;
    if offered.path_mtu > active {
        return Err(Rule::MtuAbovePort {
            offered: offered.path_mtu.bytes(),
            active_mtu: active.bytes(),
            port: number,
        });
    }
    Ok(())
}

fn check_read_depths(facts: &DeviceFacts<'_>, mask: AttrMask, offered: &QpAttr) -> Result<(), Rule> {
    let depths = [
        (
            AttrMask::MAX_QP_RD_ATOMIC,
            Field::MaxRdAtomic,
            offered.max_rd_atomic,
            facts.max_qp_init_rd_atom,
            Limit::MaxQpInitRdAtom,
        ),
        (
            AttrMask::MAX_DEST_RD_ATOMIC,
            Field::MaxDestRdAtomic,
            offered.max_dest_rd_atomic,
            facts.max_qp_rd_atom,
            Limit::MaxQpRdAtom,
        ),
    ];
    for (bit, what, depth, limit, limit_name) in depths {
        if mask.contains(bit) && depth > limit {
            return Err(Rule::ExceedsLimit { what, offered: depth.into(), limit: limit.into(), limit_name });
        }
    }
    Ok(())
}

/// Fields of three and five bits: timers and counters.
fn check_codes(mask: AttrMask, offered: &QpAttr) -> Result<(), Rule> {
    let codes = [
        (AttrMask::TIMEOUT, Field::Timeout, offered.timeout, 31),
        (AttrMask::RETRY_CNT, Field::RetryCnt, offered.retry_cnt, 7),
        (AttrMask::RNR_RETRY, Field::RnrRetry, offered.rnr_retry, 7),
        (AttrMask::MIN_RNR_TIMER, Field::MinRnrTimer, offered.min_rnr_timer, 31),
    ];
    for (bit, what, value, max) in codes {
        if mask.contains(bit) {
            at_most(what, value, max)?;
        }
    }
    Ok(())
}

/// The port that the queue pair is on once the call is applied.
fn qp_port(mask: AttrMask, offered: &QpAttr, current: &QpAttr) -> u8 {
    if mask.contains(AttrMask::PORT) { offered.port_num } else { current.port_num }
}

fn at_most<T: Into<u64>>(what: Field, offered: T, max: T) -> Result<(), Rule> {
    let (offered, max) = (offered.into(), max.into());
    if offered > max { Err(Rule::OutOfRange { what, offered, min: 0, max }) } else { Ok(()) }
}
