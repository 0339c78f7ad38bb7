//! Address handles and rates: `ibv_create_ah(3)`, `ibv_rate_to_mbps(3)`.

use super::describe::{c_enums, c_structs};
use super::{ibv_context, ibv_gid, ibv_pd};
use core::ffi::c_uint;

c_enums! {
    /// Static rate code (IBA 12.7.1 and later speeds).
    enum ibv_rate: c_uint {
        IBV_RATE_MAX = 0, IBV_RATE_2_5_GBPS = 2, IBV_RATE_5_GBPS = 5, IBV_RATE_10_GBPS = 3, IBV_RATE_20_GBPS = 6,
        IBV_RATE_30_GBPS = 4, IBV_RATE_40_GBPS = 7, IBV_RATE_60_GBPS = 8, IBV_RATE_80_GBPS = 9, IBV_RATE_120_GBPS = 10,
        IBV_RATE_14_GBPS = 11, IBV_RATE_56_GBPS = 12, IBV_RATE_112_GBPS = 13, IBV_RATE_168_GBPS = 14, IBV_RATE_25_GBPS = 15,
        IBV_RATE_100_GBPS = 16, IBV_RATE_200_GBPS = 17, IBV_RATE_300_GBPS = 18, IBV_RATE_28_GBPS = 19, IBV_RATE_50_GBPS = 20,
        IBV_RATE_400_GBPS = 21, IBV_RATE_600_GBPS = 22, IBV_RATE_800_GBPS = 23, IBV_RATE_1200_GBPS = 24,
    }
}

c_structs! {
    /// Where a packet goes, layer three.
    struct ibv_global_route { dgid: ibv_gid, flow_label: u32, sgid_index: u8, hop_limit: u8, traffic_class: u8 }
    /// The 40 bytes in front of a received datagram; for an IPv4 sender the last 20 of them are its IP header.
    struct ibv_grh {
        /// Network byte order.
        version_tclass_flow: u32,
        /// Network byte order.
        paylen: u16,
        next_hdr: u8,
        hop_limit: u8,
        sgid: ibv_gid,
        dgid: ibv_gid,
    }
    /// Where a packet goes.
    struct ibv_ah_attr {
        grh: ibv_global_route,
        dlid: u16,
        sl: u8,
        src_path_bits: u8,
        static_rate: u8,
        is_global: u8,
        port_num: u8,
    }
    /// An address handle.
    struct ibv_ah { context: *mut ibv_context, pd: *mut ibv_pd, handle: u32 }
}
