//! Ctrl-C while a command watches: what was gathered is written, what was kept is removed, and the status tells of it.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use glassnic_e2e::process::{Finished, Program, Running};
use glassnic_e2e::{free_port, product, slot};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

/// A folder of the test's own, in which its processes find each other.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let folder = product::scratch().join(format!("interrupted-{test}"));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn program(&self, words: &[&str]) -> Program {
        let command = product::glassnic().display().to_string();
        // A group of its own, as a terminal's; and whoever runs the tests may ignore its hanging up (nohup(1)).
        let program = Program::plain(["env", "--default-signal=HUP", "setsid", command.as_str()])
            .args(words.iter().copied());
        program.env("GLASSNIC_DIR", &self.file("nics")).env("GLASSNIC_LANG", "en")
    }

    fn assert_nothing_is_kept(&self) {
        let entries = std::fs::read_dir(self.0.join("nics")).unwrap().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let kept: Vec<_> = names.filter(|name| name.starts_with("nic-")).collect();
        assert_eq!(kept, Vec::<String>::new());
    }
}

/// A server that waits for its client.
fn server(port: &str) -> [&str; 5] {
    ["ibv_rc_pingpong", "-g", "0", "-p", port]
}

/// Starts a command that runs such a server, and waits until that has its QP.
fn with_a_server(place: &Place, words: &[&str]) -> Running {
    let port = free_port().to_string();
    let words: Vec<&str> = words.iter().copied().chain(["--"]).chain(server(&port)).collect();
    let mut running = place.program(&words).start();
    running.wait_listening(port.parse().unwrap()).unwrap_or_else(|why| panic!("{why}"));
    running
}

fn press_ctrl_c(running: &Running) {
    let group = Pid::from_raw(running.pid().cast_signed()).unwrap();
    kill_process_group(group, Signal::INT).unwrap();
}

fn interrupted(running: Running) -> Finished {
    press_ctrl_c(&running);
    let finished = running.wait();
    assert_eq!(finished.code(), Some(130), "{finished}");
    finished
}

fn decoded(place: &Place, file: &str) -> Vec<Value> {
    let decoded = place.program(&["decode", file, "--json"]).run();
    assert!(decoded.succeeded(), "{decoded}");
    decoded.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_capture_of_programs_is_written() {
    let _slot = slot::take();
    let place = Place::new("capture");
    let (file, port, waits) = (place.file("talk.pcapng"), free_port(), free_port());
    // Two that have talked, and one that waits in the foreground.
    let one = format!("ibv_rc_pingpong -g 0 -n 20 -p {port}");
    let talk = format!("{one} & sleep 1; {one} 127.0.0.1; wait; ibv_rc_pingpong -g 0 -p {waits}");
    let mut running = place.program(&["capture", "-o", &file, "--", "sh", "-c", &talk]).start();
    running.wait_listening(waits).unwrap_or_else(|why| panic!("{why}"));
    let finished = interrupted(running);
    assert!(finished.stderr.contains("packets and "), "{finished}");
    let frames = decoded(&place, &file);
    let creates = frames.iter().filter(|frame| frame["command"]["opcode"] == "CREATE_QP").count();
    let packets = frames.iter().filter(|frame| frame["roce"]["icrc"]["verdict"] == "good").count();
    assert!(creates == 3 && packets >= 40, "{creates} and {packets}: {finished}");
    place.assert_nothing_is_kept();
}

#[test]
fn a_capture_of_a_process_is_written_and_the_process_goes_on() {
    let _slot = slot::take();
    let place = Place::new("capture-pid");
    let (file, port) = (place.file("process.pcapng"), free_port().to_string());
    let mut process = place.program(&["run"]).args(server(&port)).start();
    process.wait_listening(port.parse().unwrap()).unwrap_or_else(|why| panic!("{why}"));
    let pid = process.pid().to_string();
    for words in
        [&["capture", "-o", &file, "--pid", &pid][..], &["trace", "--json", "--pid", &pid], &["trace"]]
    {
        let running = place.program(words).start();
        std::thread::sleep(Duration::from_secs(1));
        let finished = interrupted(running);
        let told = finished.stdout.contains("CREATE_QP");
        assert!(words[0] == "capture" || told, "{finished}");
    }
    assert!(decoded(&place, &file).iter().any(|frame| frame["command"]["opcode"] == "CREATE_QP"));
    let listed = place.program(&["ps", "--json"]).run();
    assert!(listed.stdout.contains(&pid), "{listed}");
    process.signal(Signal::KILL);
    process.wait();
}

#[test]
fn a_trace_tells_what_there_was() {
    let _slot = slot::take();
    let place = Place::new("trace");
    let finished = interrupted(with_a_server(&place, &["trace", "--json"]));
    let verbs = finished.stdout.lines().map(serde_json::from_str::<Value>);
    let verbs: Vec<Value> = verbs.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e}: {finished}"));
    assert!(verbs.iter().any(|verb| verb["call"] == "ibv_create_qp"), "{finished}");
    place.assert_nothing_is_kept();
}

#[test]
fn a_picture_is_drawn_of_what_there_was() {
    let _slot = slot::take();
    let place = Place::new("draw");
    let file = place.file("life.svg");
    interrupted(with_a_server(&place, &["draw", "-o", &file]));
    let svg = std::fs::read_to_string(file).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let texts: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(texts.iter().any(|text| text.starts_with("QP 0x")), "{texts:?}");
    place.assert_nothing_is_kept();
}

#[test]
fn the_doctor_says_what_it_found() {
    let _slot = slot::take();
    let place = Place::new("doctor");
    let finished = interrupted(with_a_server(&place, &["doctor", "--json"]));
    let begin = finished.stdout.find('[').unwrap_or_else(|| panic!("{finished}"));
    let found: Value =
        serde_json::from_str(&finished.stdout[begin..]).unwrap_or_else(|e| panic!("{e}: {finished}"));
    assert!(found.is_array());
}

/// Its segment is kept for the doctor as long as that is there.
#[test]
fn a_program_that_goes_on_without_its_doctor_leaves_nothing() {
    let _slot = slot::take();
    let place = Place::new("left-alone");
    let later = "sleep 2; exec ibv_devinfo";
    let finished = place.program(&["doctor", "--after", "1", "--", "sh", "-c", later]).run();
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(finished.stdout.contains("nothing wrong") && finished.stdout.contains("glass0"), "{finished}");
    place.assert_nothing_is_kept();
}

#[test]
fn a_demonstration_leaves_nothing() {
    let _slot = slot::take();
    let place = Place::new("demo");
    // Its client takes its time, which the true one does not.
    let bin = place.file("ibv_rc_pingpong");
    let script =
        "#!/bin/sh\ncase \"$*\" in *127.0.0.1) exec sleep 30;; esac\nexec /usr/bin/ibv_rc_pingpong \"$@\"\n";
    std::fs::write(&bin, script).unwrap();
    std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.0.display(), std::env::var("PATH").unwrap_or_default());
    let running = place.program(&["demo"]).env("PATH", &path).start();
    std::thread::sleep(Duration::from_secs(2));
    let finished = interrupted(running);
    assert!(finished.stdout.contains("created        ibv_create_qp"), "{finished}");
    place.assert_nothing_is_kept();
}

/// As kill(1) and service managers do it: the program does not get it by itself.
#[test]
fn a_signal_for_us_alone_is_passed_on() {
    let _slot = slot::take();
    let place = Place::new("passed-on");
    let file = place.file("server.pcapng");
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let running = with_a_server(&place, &["capture", "-o", &file]);
        running.signal(signal);
        let finished = running.wait();
        assert_eq!(finished.code(), Some(status), "{finished}");
        assert!(decoded(&place, &file).iter().any(|frame| frame["command"]["opcode"] == "CREATE_QP"));
        place.assert_nothing_is_kept();
    }
}
