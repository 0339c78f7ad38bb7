//! What does a person see? One model of a NIC, read from its segment, and words for all that is in it.
//!
//! [`Host::read`] is the only part that reads anything. A [`NicModel`] is plain data, the same for text, JSON and whatever
//! else shows it; [`text`] makes lines of it, and [`timeline`] puts the flight recorder's records in order.
//!
//! All of it comes from memory of other processes: a number that is no value is shown as its number.
#![forbid(unsafe_code)]

mod chinese;
mod decode;
pub mod doctor;
pub mod draw;
mod model;
mod objects;
pub mod qp_text;
mod read;
pub mod text;
pub mod timeline;
pub mod trace;
mod words;

pub use decode::{FieldModel, decode};
pub use model::{
    AhModel, AsyncModel, ChannelModel, CqModel, ErrorModel, ForkedUse, GidModel, LimitsModel, MrModel,
    MwModel, NicModel, NicState, ObjectModel, PdModel, PeerModel, QpModel, QueueModel, Site, SrqModel,
};
pub use read::{Host, NicReading};
pub use words::{Repeats, Told, tell};

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
