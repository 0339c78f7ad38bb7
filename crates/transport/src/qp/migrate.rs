//! Automatic path migration (IBA 17.2.8): a second path is loaded, armed by both ends, and taken when the first one fails or a
//! program says so.
//!
//! MigReq in the BTH tells the other end: it is set while migration is not armed, so that a packet that has it set on the alternate
//! path says that its sender has migrated.

use glassnic_events::{AsyncEventType, DropReason};

use super::Qp;
use crate::attr::MigState;
use crate::device::{Device, Incoming};

impl Qp {
    /// Where migration stands.
    #[must_use]
    pub fn path_mig_state(&self) -> MigState {
        self.attr.path_mig_state
    }

    /// MigReq of what leaves. Datagrams have no path that could migrate: it is clear in them, as in those of soft-RoCE.
    pub(crate) fn mig_req(&self) -> bool {
        self.config.qp_type.is_connected() && self.attr.path_mig_state == MigState::Migrated
    }

    /// What a packet of the connected peer says of migration.
    ///
    /// # Errors
    /// It came neither by the path nor, as a request to migrate, by the alternate one.
    pub(super) fn follow_migration<D: Device>(
        &mut self,
        dev: &mut D,
        inc: &Incoming<'_>,
    ) -> Result<(), DropReason> {
        let asks = inc.headers.bth.mig_req;
        let by_path = inc.src_gid == self.attr.ah.dgid;
        match self.attr.path_mig_state {
            // The peer arms too, or has done so.
            MigState::Rearm if by_path && !asks => self.attr.path_mig_state = MigState::Armed,
            MigState::Armed if asks && self.came_by_alternate(inc) => self.migrate(dev),
            MigState::Armed if asks && !by_path => {
                if self.few.get_or_insert_default().refused_migration {
                    return Err(DropReason::WrongSource);
                }
                self.few.get_or_insert_default().refused_migration = true;
                dev.raise(AsyncEventType::PathMigErr);
                return Err(DropReason::WrongSource);
            }
            _ if !by_path => return Err(DropReason::WrongSource),
            _ => {}
        }
        Ok(())
    }

    /// The peer sent it from where the alternate path leads; where both paths lead to one address, to the alternate one of ours.
    fn came_by_alternate(&self, inc: &Incoming<'_>) -> bool {
        let alternate = self.attr().alt_ah;
        inc.src_gid == alternate.dgid && inc.src_gid != self.attr.ah.dgid
    }

    /// The alternate path becomes the path, and the program is told.
    pub(super) fn migrate<D: Device>(&mut self, dev: &mut D) {
        let attr = self.attr();
        self.attr.ah = attr.alt_ah;
        self.attr.port_num = attr.alt_port_num;
        self.attr.pkey_index = attr.alt_pkey_index;
        self.attr.timeout = attr.alt_timeout;
        self.attr.path_mig_state = MigState::Migrated;
        dev.raise(AsyncEventType::PathMig);
    }

    /// The path has failed: takes the alternate one if it is armed. True if it is to be tried.
    pub(crate) fn migrates_instead<D: Device>(&mut self, dev: &mut D) -> bool {
        let armed = self.attr.path_mig_state == MigState::Armed;
        if armed {
            self.migrate(dev);
            self.req.retry_left = self.attr.retry_cnt;
        }
        armed
    }
}
