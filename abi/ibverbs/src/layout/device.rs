//! Devices, ports, GIDs and asynchronous events: `ibv_get_device_list(3)`, `ibv_query_device_ex(3)`, `ibv_query_port(3)`,
//! `ibv_get_async_event(3)`.

use super::describe::{c_enums, c_structs};
use super::{Opaque, Slot};
use core::ffi::{c_char, c_int, c_uint, c_void};

/// `IBV_SYSFS_NAME_MAX`, bytes with the final NUL.
pub(crate) const SYSFS_NAME_MAX: usize = 64;
/// `IBV_SYSFS_PATH_MAX`, bytes with the final NUL.
pub(crate) const SYSFS_PATH_MAX: usize = 256;

c_enums! {
    /// The kind of node; signed, as one value is negative.
    enum ibv_node_type: c_int {
        IBV_NODE_UNKNOWN = -1, IBV_NODE_CA = 1, IBV_NODE_SWITCH = 2, IBV_NODE_ROUTER = 3, IBV_NODE_RNIC = 4, IBV_NODE_USNIC = 5,
        IBV_NODE_USNIC_UDP = 6, IBV_NODE_UNSPECIFIED = 7,
    }
    /// The transport; signed, as one value is negative.
    enum ibv_transport_type: c_int {
        IBV_TRANSPORT_UNKNOWN = -1, IBV_TRANSPORT_IB = 0, IBV_TRANSPORT_IWARP = 1, IBV_TRANSPORT_USNIC = 2,
        IBV_TRANSPORT_USNIC_UDP = 3, IBV_TRANSPORT_UNSPECIFIED = 4,
    }
    /// The type of a GID as `ibv_query_gid_ex` gives it.
    enum ibv_gid_type: c_uint { IBV_GID_TYPE_IB = 0, IBV_GID_TYPE_ROCE_V1 = 1, IBV_GID_TYPE_ROCE_V2 = 2 }
    /// `device_cap_flags`.
    enum ibv_device_cap_flags: c_uint {
        IBV_DEVICE_RESIZE_MAX_WR = 1, IBV_DEVICE_BAD_PKEY_CNTR = 1 << 1, IBV_DEVICE_BAD_QKEY_CNTR = 1 << 2,
        IBV_DEVICE_RAW_MULTI = 1 << 3, IBV_DEVICE_AUTO_PATH_MIG = 1 << 4, IBV_DEVICE_CHANGE_PHY_PORT = 1 << 5,
        IBV_DEVICE_UD_AV_PORT_ENFORCE = 1 << 6, IBV_DEVICE_CURR_QP_STATE_MOD = 1 << 7, IBV_DEVICE_SHUTDOWN_PORT = 1 << 8,
        IBV_DEVICE_INIT_TYPE = 1 << 9, IBV_DEVICE_PORT_ACTIVE_EVENT = 1 << 10, IBV_DEVICE_SYS_IMAGE_GUID = 1 << 11,
        IBV_DEVICE_RC_RNR_NAK_GEN = 1 << 12, IBV_DEVICE_SRQ_RESIZE = 1 << 13, IBV_DEVICE_N_NOTIFY_CQ = 1 << 14,
        IBV_DEVICE_MEM_WINDOW = 1 << 17, IBV_DEVICE_UD_IP_CSUM = 1 << 18, IBV_DEVICE_XRC = 1 << 20,
        IBV_DEVICE_MEM_MGT_EXTENSIONS = 1 << 21, IBV_DEVICE_MEM_WINDOW_TYPE_2A = 1 << 23,
        IBV_DEVICE_MEM_WINDOW_TYPE_2B = 1 << 24, IBV_DEVICE_RC_IP_CSUM = 1 << 25, IBV_DEVICE_RAW_IP_CSUM = 1 << 26,
        IBV_DEVICE_MANAGED_FLOW_STEERING = 1 << 29,
    }
    /// What atomics are atomic against.
    enum ibv_atomic_cap: c_uint { IBV_ATOMIC_NONE = 0, IBV_ATOMIC_HCA = 1, IBV_ATOMIC_GLOB = 2 }
    /// What `ibv_fork_init` has to do.
    enum ibv_fork_status: c_uint { IBV_FORK_DISABLED = 0, IBV_FORK_ENABLED = 1, IBV_FORK_UNNEEDED = 2 }
    /// Path MTU code.
    enum ibv_mtu: c_uint { IBV_MTU_256 = 1, IBV_MTU_512 = 2, IBV_MTU_1024 = 3, IBV_MTU_2048 = 4, IBV_MTU_4096 = 5 }
    /// Logical port state.
    enum ibv_port_state: c_uint {
        IBV_PORT_NOP = 0, IBV_PORT_DOWN = 1, IBV_PORT_INIT = 2, IBV_PORT_ARMED = 3, IBV_PORT_ACTIVE = 4, IBV_PORT_ACTIVE_DEFER = 5,
    }
    /// `link_layer` of a port (unnamed in the header).
    enum link_layer: u8 { IBV_LINK_LAYER_UNSPECIFIED = 0, IBV_LINK_LAYER_INFINIBAND = 1, IBV_LINK_LAYER_ETHERNET = 2 }
    /// `port_cap_flags`.
    enum ibv_port_cap_flags: c_uint {
        IBV_PORT_SM = 1 << 1, IBV_PORT_EXTENDED_SPEEDS_SUP = 1 << 14, IBV_PORT_CAP_MASK2_SUP = 1 << 15, IBV_PORT_CM_SUP = 1 << 16,
        IBV_PORT_REINIT_SUP = 1 << 18, IBV_PORT_DEVICE_MGMT_SUP = 1 << 19, IBV_PORT_VENDOR_CLASS_SUP = 1 << 20,
        IBV_PORT_IP_BASED_GIDS = 1 << 26,
    }
    /// `flags` of a port.
    enum ibv_port_flags: u8 { IBV_QPF_GRH_REQUIRED = 1 }
    /// The kind of an asynchronous event.
    enum ibv_event_type: c_uint {
        IBV_EVENT_CQ_ERR = 0, IBV_EVENT_QP_FATAL = 1, IBV_EVENT_QP_REQ_ERR = 2, IBV_EVENT_QP_ACCESS_ERR = 3, IBV_EVENT_COMM_EST = 4,
        IBV_EVENT_SQ_DRAINED = 5, IBV_EVENT_PATH_MIG = 6, IBV_EVENT_PATH_MIG_ERR = 7, IBV_EVENT_DEVICE_FATAL = 8,
        IBV_EVENT_PORT_ACTIVE = 9, IBV_EVENT_PORT_ERR = 10, IBV_EVENT_LID_CHANGE = 11, IBV_EVENT_PKEY_CHANGE = 12,
        IBV_EVENT_SM_CHANGE = 13, IBV_EVENT_SRQ_ERR = 14, IBV_EVENT_SRQ_LIMIT_REACHED = 15, IBV_EVENT_QP_LAST_WQE_REACHED = 16,
        IBV_EVENT_CLIENT_REREGISTER = 17, IBV_EVENT_GID_CHANGE = 18, IBV_EVENT_WQ_FATAL = 19,
    }
    /// On-demand paging, general.
    enum ibv_odp_general_caps: u64 { IBV_ODP_SUPPORT = 1, IBV_ODP_SUPPORT_IMPLICIT = 1 << 1 }
    /// On-demand paging, per operation of a transport.
    enum ibv_odp_transport_cap_bits: c_uint {
        IBV_ODP_SUPPORT_SEND = 1, IBV_ODP_SUPPORT_RECV = 1 << 1, IBV_ODP_SUPPORT_WRITE = 1 << 2, IBV_ODP_SUPPORT_READ = 1 << 3,
        IBV_ODP_SUPPORT_ATOMIC = 1 << 4, IBV_ODP_SUPPORT_SRQ_RECV = 1 << 5,
    }
    /// `comp_mask` of `ibv_query_rt_values_ex`.
    enum ibv_values_mask: c_uint { IBV_VALUES_MASK_RAW_CLOCK = 1, IBV_VALUES_MASK_RESERVED = 1 << 1 }
}

/// 16 bytes in network order. The header's union with two 64-bit numbers has an alignment of eight.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ibv_gid {
    /// The bytes, most significant first.
    pub(crate) raw: [u8; 16],
}

c_structs! {
    /// One row of the GID table.
    struct ibv_gid_entry { gid: ibv_gid, gid_index: u32, port_num: u32, gid_type: u32, ndev_ifindex: u32 }
    /// Two obsolete slots at the head of a device.
    struct _ibv_device_ops { _dummy1: Slot, _dummy2: Slot }
    /// What programs see of a device.
    struct ibv_device {
        _ops: _ibv_device_ops,
        node_type: ibv_node_type,
        transport_type: ibv_transport_type,
        name: [c_char; SYSFS_NAME_MAX],
        dev_name: [c_char; SYSFS_NAME_MAX],
        dev_path: [c_char; SYSFS_PATH_MAX],
        ibdev_path: [c_char; SYSFS_PATH_MAX],
    }
    /// The limits of a device.
    struct ibv_device_attr {
        fw_ver: [c_char; 64],
        /// Network byte order.
        node_guid: u64,
        /// Network byte order.
        sys_image_guid: u64,
        max_mr_size: u64,
        page_size_cap: u64,
        vendor_id: u32,
        vendor_part_id: u32,
        hw_ver: u32,
        max_qp: c_int,
        max_qp_wr: c_int,
        device_cap_flags: c_uint,
        max_sge: c_int,
        max_sge_rd: c_int,
        max_cq: c_int,
        max_cqe: c_int,
        max_mr: c_int,
        max_pd: c_int,
        max_qp_rd_atom: c_int,
        max_ee_rd_atom: c_int,
        max_res_rd_atom: c_int,
        max_qp_init_rd_atom: c_int,
        max_ee_init_rd_atom: c_int,
        atomic_cap: ibv_atomic_cap,
        max_ee: c_int,
        max_rdd: c_int,
        max_mw: c_int,
        max_raw_ipv6_qp: c_int,
        max_raw_ethy_qp: c_int,
        max_mcast_grp: c_int,
        max_mcast_qp_attach: c_int,
        max_total_mcast_qp_attach: c_int,
        max_ah: c_int,
        max_fmr: c_int,
        max_map_per_fmr: c_int,
        max_srq: c_int,
        max_srq_wr: c_int,
        max_srq_sge: c_int,
        max_pkeys: u16,
        local_ca_ack_delay: u8,
        phys_port_cnt: u8,
    }
    /// Input of `ibv_query_device_ex`.
    struct ibv_query_device_ex_input { comp_mask: u32 }
    /// On-demand paging; the header nests the last three in `per_transport_caps`.
    struct ibv_odp_caps { general_caps: u64, rc_odp_caps: u32, uc_odp_caps: u32, ud_odp_caps: u32 }
    /// TCP segmentation offload.
    struct ibv_tso_caps { max_tso: u32, supported_qpts: u32 }
    /// Receive-side scaling.
    struct ibv_rss_caps {
        supported_qpts: u32,
        max_rwq_indirection_tables: u32,
        max_rwq_indirection_table_size: u32,
        rx_hash_fields_mask: u64,
        rx_hash_function: u8,
    }
    /// Rate limits, kbit/s.
    struct ibv_packet_pacing_caps { qp_rate_limit_min: u32, qp_rate_limit_max: u32, supported_qpts: u32 }
    /// Tag matching.
    struct ibv_tm_caps { max_rndv_hdr_size: u32, max_num_tags: u32, flags: u32, max_ops: u32, max_sge: u32 }
    /// CQ moderation.
    struct ibv_cq_moderation_caps { max_cq_count: u16, max_cq_period: u16 }
    /// PCI atomics.
    struct ibv_pci_atomic_caps { fetch_add: u16, swap: u16, compare_swap: u16 }
    /// The limits of a device, extended.
    struct ibv_device_attr_ex {
        orig_attr: ibv_device_attr,
        comp_mask: u32,
        odp_caps: ibv_odp_caps,
        completion_timestamp_mask: u64,
        /// kHz.
        hca_core_clock: u64,
        device_cap_flags_ex: u64,
        tso_caps: ibv_tso_caps,
        rss_caps: ibv_rss_caps,
        max_wq_type_rq: u32,
        packet_pacing_caps: ibv_packet_pacing_caps,
        raw_packet_caps: u32,
        tm_caps: ibv_tm_caps,
        cq_mod_caps: ibv_cq_moderation_caps,
        max_dm_size: u64,
        pci_atomic_caps: ibv_pci_atomic_caps,
        xrc_odp_caps: u32,
        phys_port_cnt_ex: u32,
    }
    /// A port. The exported `ibv_query_port` writes no further than `flags`; the operation of the same name is told how far.
    struct ibv_port_attr {
        state: ibv_port_state,
        max_mtu: ibv_mtu,
        active_mtu: ibv_mtu,
        gid_tbl_len: c_int,
        port_cap_flags: u32,
        max_msg_sz: u32,
        bad_pkey_cntr: u32,
        qkey_viol_cntr: u32,
        pkey_tbl_len: u16,
        lid: u16,
        sm_lid: u16,
        lmc: u8,
        max_vl_num: u8,
        sm_sl: u8,
        subnet_timeout: u8,
        init_type_reply: u8,
        active_width: u8,
        active_speed: u8,
        phys_state: u8,
        link_layer: u8,
        flags: u8,
        port_cap_flags2: u16,
        active_speed_ex: u32,
    }
    /// An asynchronous event.
    struct ibv_async_event { element: async_element, event_type: ibv_event_type }
    /// `ibv_query_rt_values_ex`.
    struct ibv_values_ex { comp_mask: u32, raw_clock: libc::timespec }
    /// `driver.h`: what providers see of a device. They compare `ops` with their own table, so it must not be null.
    struct verbs_device {
        device: ibv_device,
        ops: *const verbs_device_ops,
        refcount: c_int,
        entry: [Opaque; 2],
        sysfs: Opaque,
        core_support: u64,
    }
    /// `driver.h`: what a provider registers.
    struct verbs_device_ops {
        name: *const c_char,
        match_min_abi_version: u32,
        match_max_abi_version: u32,
        match_table: Opaque,
        static_providers: Opaque,
        match_device: Slot,
        alloc_context: Slot,
        import_context: Slot,
        alloc_device: Slot,
        uninit_device: Slot,
    }
}

/// What an asynchronous event is about: a pointer to a CQ, QP, SRQ or WQ, or a port number.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union async_element {
    /// The object.
    pub(crate) object: *mut c_void,
    /// The port.
    pub(crate) port_num: c_int,
}
