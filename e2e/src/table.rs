//! The cases: which stock programs run, with which options.

/// Calls a macro with every case: `name "program" [options]`, separated by semicolons. Each file in
/// `tests/` makes one test of each case over its own way.
#[macro_export]
macro_rules! for_each_program {
    ($make_tests:ident) => {
        $make_tests! {
            rc_pingpong "ibv_rc_pingpong" ["-c"];
            rc_pingpong_events "ibv_rc_pingpong" ["-e"];
            rc_pingpong_extended_post "ibv_rc_pingpong" ["-N"];
            rc_pingpong_10000 "ibv_rc_pingpong" ["-n", "10000"];
            rc_pingpong_1_byte "ibv_rc_pingpong" ["-c", "-s", "1"];
            rc_pingpong_1023 "ibv_rc_pingpong" ["-c", "-s", "1023"];
            rc_pingpong_1025 "ibv_rc_pingpong" ["-c", "-s", "1025"];
            rc_pingpong_64k "ibv_rc_pingpong" ["-c", "-s", "65536"];
            rc_pingpong_1m "ibv_rc_pingpong" ["-c", "-s", "1048576", "-n", "100"];
            rc_pingpong_mtu_256 "ibv_rc_pingpong" ["-c", "-m", "256"];
            uc_pingpong "ibv_uc_pingpong" ["-c"];
            uc_pingpong_events "ibv_uc_pingpong" ["-e"];
            uc_pingpong_10000 "ibv_uc_pingpong" ["-n", "10000"];
            uc_pingpong_1_byte "ibv_uc_pingpong" ["-c", "-s", "1"];
            uc_pingpong_64k "ibv_uc_pingpong" ["-c", "-s", "65536"];
            uc_pingpong_1m "ibv_uc_pingpong" ["-c", "-s", "1048576", "-n", "100"];
            ud_pingpong "ibv_ud_pingpong" ["-c", "-s", "@mtu"];
            ud_pingpong_events "ibv_ud_pingpong" ["-e", "-s", "@mtu"];
            ud_pingpong_10000 "ibv_ud_pingpong" ["-n", "10000", "-s", "@mtu"];
            ud_pingpong_1_byte "ibv_ud_pingpong" ["-c", "-s", "1"];

            srq_pingpong "ibv_srq_pingpong" ["-c"];
            srq_pingpong_events "ibv_srq_pingpong" ["-e"];
            srq_pingpong_64_qps "ibv_srq_pingpong" ["-c", "-q", "64", "-n", "5000"];
            srq_pingpong_64k "ibv_srq_pingpong" ["-c", "-s", "65536"];

            send_lat "ib_send_lat" [];
            send_lat_all "ib_send_lat" ["-a", "-n", "100"];
            send_lat_events "ib_send_lat" ["-e"];
            send_lat_inline "ib_send_lat" ["--inline_size", "64", "-s", "64"];
            send_lat_duration "ib_send_lat" ["-D", "2"];
            send_lat_uc "ib_send_lat" ["-c", "UC"];
            send_lat_ud "ib_send_lat" ["-c", "UD"];
            send_lat_srq "ib_send_lat" ["--use-srq"];
            send_bw "ib_send_bw" [];
            send_bw_all "ib_send_bw" ["-a", "-n", "100"];
            send_bw_both_ways "ib_send_bw" ["-b"];
            send_bw_8_qps "ib_send_bw" ["-q", "8"];
            send_bw_srq "ib_send_bw" ["--use-srq"];
            send_bw_srq_8_qps "ib_send_bw" ["--use-srq", "-q", "8"];
            send_bw_srq_both_ways "ib_send_bw" ["--use-srq", "-b", "-q", "8"];
            send_bw_srq_ud "ib_send_bw" ["--use-srq", "-c", "UD", "-s", "@mtu"];
            send_bw_events "ib_send_bw" ["-e"];
            send_bw_inline "ib_send_bw" ["--inline_size", "64", "-s", "64"];
            send_bw_duration "ib_send_bw" ["-D", "2"];
            send_bw_uc "ib_send_bw" ["-c", "UC"];
            send_bw_ud "ib_send_bw" ["-c", "UD", "-s", "@mtu"];
            write_lat "ib_write_lat" [];
            write_lat_all "ib_write_lat" ["-a", "-n", "100"];
            write_lat_inline "ib_write_lat" ["--inline_size", "64", "-s", "64"];
            write_lat_duration "ib_write_lat" ["-D", "2"];
            write_lat_uc "ib_write_lat" ["-c", "UC"];
            write_bw "ib_write_bw" [];
            write_bw_all "ib_write_bw" ["-a", "-n", "100"];
            write_bw_both_ways "ib_write_bw" ["-b"];
            write_bw_8_qps "ib_write_bw" ["-q", "8"];
            write_bw_inline "ib_write_bw" ["--inline_size", "64", "-s", "64"];
            write_bw_duration "ib_write_bw" ["-D", "2"];
            write_bw_uc "ib_write_bw" ["-c", "UC"];
            read_lat "ib_read_lat" [];
            read_lat_all "ib_read_lat" ["-a", "-n", "100"];
            read_lat_events "ib_read_lat" ["-e"];
            read_lat_duration "ib_read_lat" ["-D", "2"];
            read_bw "ib_read_bw" [];
            read_bw_all "ib_read_bw" ["-a", "-n", "100"];
            read_bw_both_ways "ib_read_bw" ["-b"];
            read_bw_8_qps "ib_read_bw" ["-q", "8"];
            read_bw_events "ib_read_bw" ["-e"];
            read_bw_duration "ib_read_bw" ["-D", "2"];
            atomic_lat "ib_atomic_lat" [];
            atomic_lat_swap "ib_atomic_lat" ["-A", "CMP_AND_SWAP"];
            atomic_lat_events "ib_atomic_lat" ["-e"];
            atomic_lat_duration "ib_atomic_lat" ["-D", "2"];
            atomic_bw "ib_atomic_bw" [];
            atomic_bw_swap "ib_atomic_bw" ["-A", "CMP_AND_SWAP"];
            atomic_bw_both_ways "ib_atomic_bw" ["-b"];
            atomic_bw_8_qps "ib_atomic_bw" ["-q", "8"];
            atomic_bw_events "ib_atomic_bw" ["-e"];
            atomic_bw_duration "ib_atomic_bw" ["-D", "2"];
        }
    };
}
