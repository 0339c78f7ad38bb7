//! A queue pair whose type says which move was made last, so that RESET → RTS does not compile.
//!
//! Each move takes the attributes that the state table asks for in that place, no more and no fewer; which these are for
//! the service is the table's knowledge, not the caller's. A refused move gives the queue pair back as it was.
//!
//! A queue pair may leave its state by itself, for ERR or SQE, when something fails. [`Qp::state`] asks the device.
//!
//! ```
//! use glassnic_verbs::attr::QpAttr;
//! use glassnic_verbs::typed::{Init, Qp, Refused, Reset, Rtr, Rts};
//!
//! fn bring_up(qp: Qp<Reset>, attr: &QpAttr) -> Result<Qp<Rts>, Box<dyn std::error::Error>> {
//!     Ok(qp.to_init(attr)?.to_rtr(attr)?.to_rts(attr)?)
//! }
//! ```
//!
//! What the state table does not have, the compiler does not either:
//!
//! ```compile_fail
//! use glassnic_verbs::attr::QpAttr;
//! use glassnic_verbs::typed::{Qp, Reset};
//!
//! fn jump(qp: Qp<Reset>, attr: &QpAttr) {
//!     let _ = qp.to_rts(attr);
//! }
//! ```
//!
//! ```compile_fail
//! use glassnic_verbs::typed::{Init, Qp};
//!
//! fn post_too_early(qp: &Qp<Init>) {
//!     let _ = qp.sender();
//! }
//! ```

use std::fmt;
use std::marker::PhantomData;

use glassnic_events::{AttrMask, QpState, Refusal, Rule};
use glassnic_nic::Sender;
use glassnic_transport::Sge;
use glassnic_transport::attr::QpAttr;
use glassnic_transport::state::arrow;

use crate::memory::Pd;
use crate::qp::QpInit;

mod sealed {
    pub trait State {
        const STATE: super::QpState;
    }
}

/// A state that a queue pair is brought to.
pub trait State: sealed::State {}
/// A state in which receives may be posted.
pub trait Receives: State {}

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}
            impl sealed::State for $name {
                const STATE: QpState = QpState::$name;
            }
            impl State for $name {}
        )*
    };
}

states! {
    /// Created, or reset.
    Reset
    /// Initialised: receives may be posted.
    Init
    /// Ready to receive.
    Rtr
    /// Ready to send.
    Rts
    /// The send queue drains; requests that are posted wait.
    Sqd
    /// Failed: all that is posted is flushed.
    Err
}

impl Receives for Init {}
impl Receives for Rtr {}
impl Receives for Rts {}
impl Receives for Sqd {}
impl Receives for Err {}

/// A queue pair that was last brought to `S`. See the module.
#[derive(Debug)]
pub struct Qp<S: State> {
    qp: crate::Qp,
    state: PhantomData<S>,
}

/// A move that was refused, and the queue pair as it was before.
pub struct Refused<S: State> {
    /// The queue pair: nothing has changed.
    pub qp: Qp<S>,
    /// The rule, the offered and the allowed value, the remedy.
    pub refusal: Refusal,
}

impl<S: State> fmt::Debug for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl<S: State> fmt::Display for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", glassnic_explain::explain(&self.refusal))
    }
}

impl<S: State> std::error::Error for Refused<S> {}

impl Qp<Reset> {
    /// Creates it (`ibv_create_qp(3)`).
    ///
    /// # Errors
    /// See [`Pd::create_qp`].
    pub fn create(pd: &Pd, init: &QpInit<'_>) -> Result<Self, Refusal> {
        Ok(Self { qp: pd.create_qp(init)?, state: PhantomData })
    }

    /// RESET → INIT.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn to_init(self, attr: &QpAttr) -> Result<Qp<Init>, Refused<Reset>> {
        self.moved(attr, AttrMask::empty())
    }
}

impl Qp<Init> {
    /// INIT → RTR: the path and the peer.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn to_rtr(self, attr: &QpAttr) -> Result<Qp<Rtr>, Refused<Init>> {
        self.moved(attr, AttrMask::empty())
    }
}

impl Qp<Rtr> {
    /// RTR → RTS: timers and the first sequence number.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn to_rts(self, attr: &QpAttr) -> Result<Qp<Rts>, Refused<Rtr>> {
        self.moved(attr, AttrMask::empty())
    }
}

impl Qp<Rts> {
    /// RTS → SQD: requests in flight end, later ones wait. With `en_sqd_async_notify` an asynchronous event tells when.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn to_sqd(self, attr: &QpAttr) -> Result<Qp<Sqd>, Refused<Rts>> {
        self.moved(attr, AttrMask::EN_SQD_ASYNC_NOTIFY)
    }

    /// Holds the send queue for posting; see [`crate::Qp::sender`].
    ///
    /// # Errors
    /// It has left RTS by itself for a state that takes no sends.
    pub fn sender(&self) -> Result<Sender<'_>, Rule> {
        self.qp.sender()
    }
}

impl Qp<Sqd> {
    /// SQD → RTS: sending goes on.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn to_rts(self, attr: &QpAttr) -> Result<Qp<Rts>, Refused<Sqd>> {
        self.moved(attr, AttrMask::empty())
    }
}

impl<S: Receives> Qp<S> {
    /// Posts a receive; see [`crate::Qp::post_recv`].
    ///
    /// # Errors
    /// Full queue, too many elements.
    pub fn post_recv(&self, wr_id: u64, sges: impl ExactSizeIterator<Item = Sge>) -> Result<(), Rule> {
        self.qp.post_recv(wr_id, sges)?;
        self.qp.receives_posted();
        Ok(())
    }

    /// Any state but RESET → ERR: all that is posted is flushed.
    ///
    /// # Errors
    /// The device is gone.
    pub fn to_err(self) -> Result<Qp<Err>, Refused<S>> {
        self.moved(&QpAttr::default(), AttrMask::empty())
    }
}

impl<S: State> Qp<S> {
    /// Any state → RESET: all that was posted is forgotten, without completions.
    ///
    /// # Errors
    /// The device is gone.
    pub fn to_reset(self) -> Result<Qp<Reset>, Refused<S>> {
        self.moved(&QpAttr::default(), AttrMask::empty())
    }

    /// Its number.
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.qp.qpn()
    }

    /// The state that it is in now, which need not be `S`: failures move it to ERR or SQE.
    #[must_use]
    pub fn state(&self) -> QpState {
        self.qp.state()
    }

    /// The dynamic queue pair, to query it, to let it send ([`crate::Qp::kick`]), or for moves that this module has not.
    #[must_use]
    pub fn as_dynamic(&self) -> &crate::Qp {
        &self.qp
    }

    /// Gives up the type.
    #[must_use]
    pub fn into_dynamic(self) -> crate::Qp {
        self.qp
    }

    /// Moves to `T` with what the state table requires there, and what it allows of `also`.
    fn moved<T: State>(self, attr: &QpAttr, also: AttrMask) -> Result<Qp<T>, Refused<S>> {
        let to = T::STATE;
        let mask = match arrow(self.qp.qp_type(), self.qp.state(), to) {
            Some(arrow) => AttrMask::STATE | arrow.required | arrow.optional & also,
            // The device says why: the queue pair has left its state by itself.
            None => AttrMask::STATE,
        };
        match self.qp.modify(mask, &QpAttr { qp_state: to, ..*attr }) {
            Ok(()) => Ok(Qp { qp: self.qp, state: PhantomData }),
            Err(refusal) => Err(Refused { qp: self, refusal }),
        }
    }
}
