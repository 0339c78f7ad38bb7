//! Programs and libraries of the distribution load with this library in place of theirs, and the loader has nothing to say.

mod common;

use std::process::Command;

/// Runs a program with our library; `None` where it is not installed.
fn run(test: &str, program: &str, arguments: &[&str]) -> Option<(std::process::ExitStatus, String, String)> {
    let folder = common::library_folder(test);
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", &folder).env("LD_BIND_NOW", "1");
    let output = common::run(&mut command)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((output.status, text(&output.stdout), text(&output.stderr)))
}

fn assert_quiet(stderr: &str) {
    for complaint in ["no version information", "undefined symbol", "not found", "symbol lookup error"] {
        assert!(!stderr.contains(complaint), "{stderr}");
    }
}

#[test]
fn ibv_devices_starts() {
    let Some((status, stdout, stderr)) = run("ibv_devices", "ibv_devices", &[]) else { return };
    assert!(status.success() && stdout.contains("node GUID"), "{stdout}{stderr}");
    assert_quiet(&stderr);
}

/// perftest links to libmlx5 and libefa, which need the private names and register themselves when they are loaded.
#[test]
fn perftest_starts() {
    let Some((status, stdout, stderr)) = run("perftest", "ib_send_bw", &["--version"]) else { return };
    // Its status after --version is 1, with every library.
    assert!(status.code() == Some(1) && stdout.contains("Version"), "{stdout}{stderr}");
    assert_quiet(&stderr);
}

#[test]
fn ucx_starts() {
    let Some((status, _, stderr)) = run("ucx", "ucx_info", &["-d"]) else { return };
    assert!(status.success(), "{stderr}");
    assert_quiet(&stderr);
}

/// UCX opens its verbs transports at run time and is silent about what fails; providers are opened by name.
#[test]
fn libraries_that_import_ours_find_every_name() {
    let folder = common::library_folder("ldd");
    for name in [
        "libmlx5.so.1",
        "libmlx4.so.1",
        "libefa.so.1",
        "libmana.so.1",
        "ucx/libuct_ib.so.0",
        "libfabric.so.1",
    ] {
        let Some(library) = common::original(name) else { continue };
        let mut ldd = Command::new("ldd");
        let Some(resolved) = common::text(ldd.arg("-r").arg(&library).env("LD_LIBRARY_PATH", &folder)) else {
            return;
        };
        assert!(resolved.contains(&*folder.to_string_lossy()), "{name} does not use our library: {resolved}");
        assert_quiet(&resolved);
    }
}

#[test]
fn libfabric_starts() {
    let Some((status, _, stderr)) = run("libfabric", "fi_info", &["-l"]) else { return };
    assert!(status.success(), "{stderr}");
    assert_quiet(&stderr);
}

#[test]
fn a_program_compiled_with_the_installed_headers_links_and_runs() {
    let folder = common::library_folder("linking");
    let source = folder.join("count.c");
    let program = folder.join("count");
    std::fs::write(&source, COUNT_DEVICES).expect("a file in a new folder");
    let library = folder.join("libibverbs.so.1");
    let mut compile = Command::new("cc");
    compile.arg(&source).arg(&library).arg("-o").arg(&program);
    let Some(output) = common::run(&mut compile) else { return };
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let printed = common::text(Command::new(&program).env("LD_LIBRARY_PATH", &folder));
    assert_eq!(printed.as_deref(), Some("ended by null\n"));
    // It asks for versions, not for bare names.
    let Some(needs) = common::text(Command::new("readelf").args(["-W", "-V"]).arg(&program)) else { return };
    assert!(needs.contains("Name: IBVERBS_1.1 "), "{needs}");
}

const COUNT_DEVICES: &str = r#"
#include <infiniband/verbs.h>
#include <stdio.h>
int main(void)
{
    int n = -1;
    struct ibv_device **list = ibv_get_device_list(&n);
    if (list && n >= 0 && !list[n])
        puts("ended by null");
    ibv_free_device_list(list);
    return 0;
}
"#;
