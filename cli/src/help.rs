//! What `--help` and wrong use say in Chinese. In English the definitions of the commands say it.

use std::error::Error as _;
use std::num::{IntErrorKind, ParseIntError};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory};
use glassnic_explain::Lang;

use crate::{Cli, ENVIRONMENT};

/// The commands, with their texts in a language.
pub(crate) fn command(lang: Lang) -> Command {
    let mut command = Cli::command();
    if lang == Lang::Zh {
        // Adds what clap brings along: help and version.
        command.build();
        command = in_chinese(command);
    }
    command
}

fn in_chinese(mut command: Command) -> Command {
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").replace("[OPTIONS]", "[选项]").replace("COMMAND", "命令");
    let usage = usage.lines().map(str::trim).collect::<Vec<_>>().join("\n       ");
    let text = |text: Option<&StyledStr>| text.map(|text| chinese(&text.to_string()));
    let (about, long) = (text(command.get_about()), text(command.get_long_about()));
    let after = text(command.get_after_help());
    command = command
        .help_template("{before-help}{about-with-newline}\n用法：{usage}\n\n{all-args}{after-help}")
        .subcommand_help_heading("命令")
        .override_usage(usage);
    if let Some(about) = about {
        command = command.about(about);
    }
    if let Some(long) = long {
        command = command.long_about(long);
    }
    if let Some(after) = after {
        command = command.after_help(after);
    }
    command.mut_args(argument).mut_subcommands(in_chinese)
}

fn argument(mut arg: Arg) -> Arg {
    let text = |text: Option<&StyledStr>| text.map(|text| chinese(&text.to_string()));
    let (help, long) = (text(arg.get_help()), text(arg.get_long_help()));
    let heading = if arg.is_positional() { "参数" } else { "选项" };
    arg = arg.help_heading(heading);
    if let Some(help) = help {
        arg = arg.help(help);
    }
    if let Some(long) = long {
        arg = arg.long_help(long);
    }
    arg
}

/// A text paragraph by paragraph; one that has no Chinese stays English.
fn chinese(english: &str) -> String {
    if let Some(chinese) = find(english) {
        return chinese.to_owned();
    }
    let paragraphs = english.split("\n\n").map(|paragraph| find(paragraph).unwrap_or(paragraph));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn find(english: &str) -> Option<&'static str> {
    // A paragraph loses its full stop where it stands alone.
    let bare = english.trim_end_matches('.');
    TEXTS.iter().find(|(known, _)| known.trim_end_matches('.') == bare).map(|(_, chinese)| *chinese)
}

/// What is wrong with the words of a command line.
pub(crate) fn wrong_use(error: &clap::Error) -> Option<String> {
    let get = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(all) => Some(all.join("、")),
        ContextValue::StyledStrs(all) => {
            Some(all.iter().map(ToString::to_string).collect::<Vec<_>>().join("、"))
        }
        other => Some(other.to_string()),
    };
    let arg = || get(ContextKind::InvalidArg);
    let value = || get(ContextKind::InvalidValue).filter(|value| !value.is_empty());
    let suggested = get(ContextKind::SuggestedSubcommand).or_else(|| get(ContextKind::SuggestedArg));
    let suggested = suggested.map_or_else(String::new, |name| format!("；相近的有 {name}"));
    Some(match error.kind() {
        ErrorKind::InvalidSubcommand => {
            format!("没有命令 {}{suggested}", get(ContextKind::InvalidSubcommand)?)
        }
        ErrorKind::UnknownArgument => format!("不认识参数 {}{suggested}", arg()?),
        ErrorKind::MissingRequiredArgument => format!("缺少参数 {}", arg()?),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => match value() {
            Some(value) => {
                let why = error.source().map_or_else(String::new, |why| format!("：{}", bad_value(why)));
                format!("{} 的值 {value} 无效{why}", arg()?)
            }
            None => format!("{} 需要一个值", arg()?),
        },
        ErrorKind::ArgumentConflict => match get(ContextKind::PriorArg) {
            Some(prior) if Some(&prior) != arg().as_ref() => format!("{} 不能与 {prior} 同用", arg()?),
            _ => format!("{} 只能给出一次", arg()?),
        },
        ErrorKind::NoEquals => format!("{} 的值要用等号给出", arg()?),
        ErrorKind::TooManyValues | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("{} 的值的个数不对", arg()?)
        }
        ErrorKind::MissingSubcommand => "没有给出命令".into(),
        ErrorKind::InvalidUtf8 => "参数不是有效的 UTF-8 文本".into(),
        _ => return None,
    })
}

/// Why a value is none, of those that clap reads itself.
fn bad_value(why: &(dyn std::error::Error + 'static)) -> String {
    if let Some(number) = why.downcast_ref::<ParseIntError>() {
        return match number.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "超出整数的范围".into(),
            _ => "不是整数".into(),
        };
    }
    let text = why.to_string();
    match text.split_once(" is not in ") {
        Some((_, range)) => format!("应在 {range} 之内"),
        None => text,
    }
}

/// Paragraphs of the definitions, and what they are in Chinese.
const TEXTS: &[(&str, &str)] = &[
    (
        "Let an asynchronous event happen on NICs of programs that run",
        "让正在运行的程序的 NIC 上发生异步事件",
    ),
    (
        "The program reads it as with hardware, by ibv_get_async_event(3): a port that goes down, a GID table that changes, a device that fails. Prints a line for each NIC where it happened.",
        "程序像在硬件上一样用 ibv_get_async_event(3) 读到它：端口断开、GID 表改变、设备故障。每个发生了事件的 NIC 输出一行。",
    ),
    (
        "The event, as in port-err, port-active, gid-change, device-fatal, qp-fatal, cq-err",
        "事件，例如 port-err、port-active、gid-change、device-fatal、qp-fatal、cq-err",
    ),
    (
        "port-err takes the port down until port-active: nothing leaves and nothing comes in. device-fatal stops the device, qp-fatal moves a QP to ERR, cq-err makes a CQ overrun. The others are told to the program, and nothing else happens: gid-change, lid-change, pkey-change, sm-change, client-reregister; qp-req-err, qp-access-err, comm-est, sq-drained, path-mig, path-mig-err.",
        "port-err 使端口断开，直到 port-active：不收也不发。device-fatal 停止设备，qp-fatal 把 QP 移到 ERR，cq-err 使 CQ 溢出。其余事件只告知程序，不发生别的：gid-change、lid-change、pkey-change、sm-change、client-reregister；qp-req-err、qp-access-err、comm-est、sq-drained、path-mig、path-mig-err。",
    ),
    (
        "The QP's number or the CQ's handle, where the event is about one; decimal or 0x…",
        "事件所针对的 QP 编号或 CQ 句柄；十进制或 0x…",
    ),
    (
        "Only the NICs of this process; otherwise of all processes of this user",
        "只针对这个进程的 NIC；否则针对当前用户的所有进程",
    ),
    ("Only NICs of this device, as in glass0", "只针对这个设备的 NIC，例如 glass0"),
    (
        "Run unmodified RDMA programs on a NIC made of software, and see inside it",
        "在软件实现的 NIC 上运行未经修改的 RDMA 程序，并看到它的内部",
    ),
    (
        "No RDMA hardware, kernel module, root or daemon is needed: programs find GlassNIC's own libibverbs.so.1 through LD_LIBRARY_PATH, which `glassnic run` sets for them.",
        "不需要 RDMA 硬件、内核模块、root 权限或守护进程：程序通过 LD_LIBRARY_PATH 找到 GlassNIC 自己的 libibverbs.so.1，`glassnic run` 会为它们设置好。",
    ),
    (ENVIRONMENT, ENVIRONMENT_IN_CHINESE),
    ("Print help", "显示帮助"),
    ("Print help (see more with '--help')", "显示帮助（--help 更详细）"),
    ("Print help (see a summary with '-h')", "显示帮助（-h 为摘要）"),
    ("Print version", "显示版本"),
    ("Print this message or the help of the given subcommand(s)", "显示本帮助，或所给命令的帮助"),
    ("Print JSON", "输出 JSON"),
    ("The folder", "文件夹"),
    (
        "A program and its arguments, which runs as with glassnic run",
        "程序及其参数，如同用 glassnic run 运行",
    ),
    // run
    ("Run a program on GlassNIC", "在 GlassNIC 上运行程序"),
    (
        "Refusals are explained on standard error. Signals and the exit status are the program's own; it is 127 if there is no such program and 126 if it cannot be run, as in a shell.",
        "被拒绝的调用会在标准错误上得到解释。信号和退出状态都是程序自己的；没有这个程序时状态为 127，不能运行时为 126，与 shell 一样。",
    ),
    (
        "Let the program find the device below /sys/class/infiniband and /dev/infiniband too, in namespaces of its own",
        "让程序在自己的命名空间中，也能在 /sys/class/infiniband 和 /dev/infiniband 下找到设备",
    ),
    ("The program and its arguments", "程序及其参数"),
    // devices
    ("Show the devices, their GIDs and the reason for each", "显示设备、它们的 GID，以及各自的原因"),
    (
        "Like ibv_devinfo(1), and why: why this interface, why this MTU, why a GID stands at its index, which ways packets may take, and what is in their way.",
        "类似 ibv_devinfo(1)，并说明原因：为什么是这个接口、这个 MTU，为什么某个 GID 在它的下标处，报文可以走哪些路，路上有什么障碍。",
    ),
    // capture
    (
        "Capture packets and command records of programs on one clock, for Wireshark",
        "以同一时钟捕获程序的报文和命令记录，供 Wireshark 查看",
    ),
    (
        "Packets between processes of this host, which no interface sees, are written as they would look on a wire; each once, by the process that sends it, or that gets it from another host. Command records are the capture's second interface (link type USER0); wireshark/glassnic.lua dissects them. Where something was refused, a packet comment says what.",
        "本机进程之间的报文不经过任何网络接口，它们按在线路上的样子写出；每个报文写一次，由发送它的进程、或从其他主机收到它的进程写。命令记录是捕获文件的第二个接口（链路类型 USER0），由 wireshark/glassnic.lua 解析。被拒绝之处有报文注释说明。",
    ),
    ("The pcapng file", "pcapng 文件"),
    (
        "A process that runs, and that opened a device; may be given several times",
        "正在运行并已打开设备的进程；可以给出多次",
    ),
    (
        "With --pid: end after so many seconds, else with the processes",
        "与 --pid 同用：若干秒后结束；否则随进程结束",
    ),
    // decode
    (
        "Say what a frame is, byte for byte: a hexadecimal dump, or a pcap or pcapng file",
        "逐字节说明一帧是什么：来自十六进制转储，或 pcap、pcapng 文件",
    ),
    (
        "RoCEv2 packets: every header, the length of the payload, and whether the ICRC is right. Command records: opcode, QPN, handle and the opcode's fields. And what is odd about a frame. One frame is shown in full, several with a line for each; JSON has one object a line.",
        "RoCEv2 报文：每个头部、负载的长度，以及 ICRC 是否正确。命令记录：操作码、QPN、句柄和该操作码的字段。还有帧的异常之处。只有一帧时完整显示，多帧时每帧一行；JSON 每行一个对象。",
    ),
    ("The file; - is standard input", "文件；- 为标准输入"),
    // doctor
    (
        "Say what is wrong with the NICs of running and crashed programs, and what to change",
        "说明运行中和已崩溃的程序的 NIC 有什么问题，以及应当改什么",
    ),
    (
        "Heaviest first: what is wrong, how that is known, and what to change. Without a PID or a program all NICs of this user are looked at, both ends of a connection together. A program runs as with glassnic run, and is looked at until its end. The exit status is 0 if nothing is wrong, 1 if something is, and 2 if the command was used wrongly.",
        "最严重的在前：有什么问题、何以得知、应当改什么。不给出 PID 或程序时，查看当前用户的所有 NIC，连接的两端放在一起看。程序如同用 glassnic run 运行，并一直查看到它结束。没有问题时退出状态为 0，有问题时为 1，命令用错时为 2。",
    ),
    ("Only what concerns this process", "只看与这个进程有关的"),
    (
        "Look only at what is left of processes that crashed, ended, or closed their NIC",
        "只看已崩溃、已结束或已关闭 NIC 的进程所留下的",
    ),
    (
        "With a program: look after so many seconds if it still runs, and leave it running",
        "与程序同用：若干秒后如果它还在运行就查看，并让它继续运行",
    ),
    ("With --after: end the program then", "与 --after 同用：届时结束程序"),
    // demo
    (
        "Let two stock programs talk and tell what their queue pairs do",
        "让两个现成的程序通信，并讲述它们的 QP 做了什么",
    ),
    (
        "A server and a client run side by side. Each line is an entry that one of their NICs made in its flight recorder, read from outside while they run: the time since the first, the side, the object, what became of it, and by which call.",
        "服务端和客户端并排运行。每一行是其中一方的 NIC 写入飞行记录器的一项，在运行时从外部读取：距第一项的时间、哪一方、对象、变化，以及由哪个调用引起。",
    ),
    // profiles
    (
        "List the devices that GlassNIC can pass for, or print the file of one",
        "列出 GlassNIC 可以模仿的设备，或打印其中一个的文件",
    ),
    (
        "A profile sets a device's limits and manners: GLASSNIC_PROFILE=irdma refuses what Intel's E810 refuses. Each is a small file; copy one, change it, and name its path.",
        "配置决定设备的上限和脾气：GLASSNIC_PROFILE=irdma 会拒绝 Intel E810 所拒绝的。每个配置是一个小文件；复制一个，修改它，再给出它的路径。",
    ),
    ("The profile, or the path of your own to check it", "配置名；或您自己的配置的路径，用于检查"),
    // ps and the lists
    ("List the processes with a NIC", "列出有 NIC 的进程"),
    (
        "All of this user, from outside: a program is not disturbed. Processes that died with their NIC open stay in the list, marked as crashed, and so do their objects, until eight newer ones did the same.",
        "当前用户的所有进程，从外部读取：不打扰程序。NIC 打开时死去的进程连同它们的对象留在列表中，标为已崩溃，直到又有八个更新的同样死去。",
    ),
    ("Look at queue pairs", "查看 QP"),
    ("Look at completion queues", "查看 CQ"),
    ("Look at memory regions", "查看 MR"),
    ("Look at memory windows", "查看 MW"),
    ("Look at protection domains", "查看 PD"),
    ("Look at shared receive queues", "查看 SRQ"),
    ("Look at address handles", "查看 AH"),
    ("List them", "列出它们"),
    (
        "Look again each second, until interrupted; with --json, a line each time",
        "每秒再看一次，直到被中断；与 --json 同用时每次一行",
    ),
    ("Only the NICs of this process", "只看这个进程的 NIC"),
    (
        "List the QPs: number, type, state, peer, use of the queues, first error",
        "列出 QP：号、类型、状态、对端、队列的使用、首个错误",
    ),
    ("Show all that the device and the driver know of a QP", "显示设备和驱动对一个 QP 所知的一切"),
    (
        "The first line is for scripts: QPN: 0x1234 State: RTS SQ WQE count: 8/16 Last error: None",
        "第一行供脚本使用：QPN: 0x1234 State: RTS SQ WQE count: 8/16 Last error: None",
    ),
    (
        "Show the 256 bytes of a QP's context, and each field in them",
        "显示 QP 上下文的 256 字节，以及其中的每个字段",
    ),
    (
        "Tell what happened to a QP, and to its peer if that is on this host",
        "讲述一个 QP 的经历；如果对端在本机，也讲述对端的",
    ),
    (
        "Commands with their threads and times, transitions, the first post and packet, NAKs, errors, as far back as the flight recorder goes. QPs that were destroyed are told of too.",
        "命令及其线程和时间、状态转换、首次提交和首个报文、NAK、错误，只要飞行记录器里还有。已销毁的 QP 也会讲述。",
    ),
    ("Number of the QP, decimal or 0x…", "QP 号，十进制或 0x…"),
    // trace
    (
        "Tell each control verb as it happens: record, doorbell, device, what changed in the context",
        "逐个讲述控制 verb：记录、门铃、设备，以及上下文中的变化",
    ),
    (
        "From outside, out of the flight recorders: of a program that is run for it, whose exit status it ends with; of a process; or of all processes that run, until interrupted. Records that were overwritten before they could be read are counted.",
        "从外部读取飞行记录器：所运行的程序的，并以它的退出状态结束；某个进程的；或所有运行中的进程的，直到被中断。来不及读取就被覆盖的记录会计数。",
    ),
    (
        "Only the NICs of this process, from as far back as its recorder goes to its end",
        "只看这个进程的 NIC，从记录器中最早的一项直到它结束",
    ),
    (
        "Print JSON, an object a line; standard output of the program then goes to standard error",
        "输出 JSON，每行一个对象；此时程序的标准输出转到标准错误",
    ),
    ("Show the 72 bytes of each record", "显示每条记录的 72 字节"),
    (
        "Tell also what happened besides the verbs: first packets, NAKs, errors",
        "也讲述 verb 之外发生的事：首个报文、NAK、错误",
    ),
    ("Write to this file instead of standard output", "写到这个文件，而不是标准输出"),
    // draw
    ("Draw the life of a program's queue pairs, as SVG", "把程序的 QP 的一生画成 SVG"),
    (
        "Their states and traffic over time, and the four operations as operations on a list, beside what driver and device did: of a program that is run for it, of a process as far back as its recorder goes, or of all that there is. QPs that did the same are drawn as one. With --dot the state machine itself, for Graphviz.",
        "随时间变化的状态和流量，以及看作链表操作的四种操作，旁边是驱动和设备所做的：所运行的程序的、某个进程的（只要记录器里还有），或现有全部的。经历相同的 QP 画成一个。用 --dot 画状态机本身，供 Graphviz 使用。",
    ),
    ("Only the NICs of this process; one that crashed, too", "只看这个进程的 NIC；已崩溃的也可以"),
    ("The SVG file; with --dot the default is standard output", "SVG 文件；与 --dot 同用时默认为标准输出"),
    (
        "Draw the state machine of a type of QP, with all moves and their attributes, in Graphviz's language",
        "用 Graphviz 的语言画出一种 QP 的状态机，包括所有转换及其属性",
    ),
    // The rest
    (
        "Print the folder of GlassNIC's libraries, for LD_LIBRARY_PATH",
        "打印 GlassNIC 的库所在的文件夹，用于 LD_LIBRARY_PATH",
    ),
    (
        "Write the catalogue of explanations into a folder, a page a language",
        "把解释目录写入文件夹，每种语言一页",
    ),
    ("Write the man pages into a folder", "把手册页写入文件夹"),
];

const ENVIRONMENT_IN_CHINESE: &str = "\
环境变量：
  GLASSNIC_DEVICES  设备和它们的接口，如 glass0=eth0,glass1=lo
  GLASSNIC_PROFILE  要模仿的设备：见 glassnic profiles
  GLASSNIC_LINK     udp 或 shm：报文只能走的路
  GLASSNIC_EXPLAIN  1 或 json：程序说明它为何被拒绝、留下了什么；0：不说明
  GLASSNIC_LANG     en 或 zh：解释和各种显示所用的语言；默认随 locale
  GLASSNIC_LIBDIR   libibverbs.so.1 和 librdmacm.so.1 所在的文件夹
  GLASSNIC_DIR      进程彼此发现所用的文件夹
  GLASSNIC_CAPTURE  进程把报文写成 pcapng 的文件夹；由 glassnic capture 设置
  GLASSNIC_KEEP     1：程序关闭 NIC 之后，仍保留它的经历以供查看
  GLASSNIC_UCX      0：不理会 UCX；它于是找不到 /dev/infiniband/uverbs0
  GLASSNIC_RECORDER 0：没有飞行记录器，用于看它的代价";

#[cfg(test)]
mod tests {
    use super::*;

    /// All paragraphs of a command and those below it.
    fn paragraphs(command: &Command, all: &mut Vec<String>) {
        let own = [command.get_about(), command.get_long_about(), command.get_after_help()];
        let args = command.get_arguments().flat_map(|arg| [arg.get_help(), arg.get_long_help()]);
        for text in own.into_iter().chain(args).flatten().map(ToString::to_string) {
            match text == ENVIRONMENT {
                true => all.push(text),
                false => all.extend(text.split("\n\n").map(str::to_owned)),
            }
        }
        command.get_subcommands().for_each(|command| paragraphs(command, all));
    }

    fn english() -> Vec<String> {
        let (mut command, mut all) = (Cli::command(), Vec::new());
        command.build();
        paragraphs(&command, &mut all);
        all
    }

    #[test]
    fn every_command_argument_and_paragraph_has_its_chinese() {
        let english = english();
        assert!(english.len() > 100);
        for text in &english {
            assert!(find(text).is_some_and(|chinese| !chinese.is_ascii()), "{text}");
        }
        // None is left over from a text that has gone or says something else now.
        for (known, _) in TEXTS {
            let bare = known.trim_end_matches('.');
            assert!(english.iter().any(|text| text.trim_end_matches('.') == bare), "{known}");
        }
    }

    #[test]
    fn every_argument_of_every_command_is_described() {
        fn check(command: &Command) {
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
            }
            assert!(command.get_about().is_some(), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    fn pages(command: &mut Command, all: &mut Vec<String>) {
        all.push(command.render_long_help().to_string());
        all.push(command.render_help().to_string());
        command.get_subcommands_mut().for_each(|command| pages(command, all));
    }

    #[test]
    fn no_line_of_help_is_english_in_chinese() {
        let mut all = Vec::new();
        pages(&mut command(Lang::Zh), &mut all);
        assert!(all.len() > 50);
        for page in &all {
            for line in page.lines() {
                // What a sentence of English has and a name or an option has not.
                let sentence =
                    line.split_whitespace().filter(|word| word.chars().all(|c| c.is_ascii_lowercase()));
                let names_only = line.trim_start().starts_with(['-', '<', '[']) || sentence.count() < 3;
                assert!(!line.is_ascii() || names_only, "{line:?} in\n{page}");
            }
            assert!(page.contains("用法：glassnic"), "{page}");
            for english in ["Usage", "Options:", "Commands:", "Arguments:", "Print ", "[OPTIONS]"] {
                assert!(!page.contains(english), "{english} in\n{page}");
            }
        }
    }

    #[test]
    fn wrong_use_is_said_in_chinese() {
        let said = |words: &[&str]| {
            let words = ["glassnic"].into_iter().chain(words.iter().copied());
            wrong_use(&command(Lang::Zh).try_get_matches_from(words).unwrap_err()).unwrap_or_default()
        };
        let cases: &[(&[&str], &str)] = &[
            (&["bogus"], "没有命令 bogus"),
            (&["devces"], "没有命令 devces；相近的有 event、decode、devices"),
            (&["--bogus"], "不认识参数 --bogus"),
            (&["devices", "--jsn"], "不认识参数 --jsn；相近的有 --json"),
            (&["run"], "缺少参数 <CMD>..."),
            (&["doctor", "twelve"], "[PID] 的值 twelve 无效：不是整数"),
            (&["doctor", "99999999999"], "[PID] 的值 99999999999 无效：应在 0..=4294967295 之内"),
            (&["capture", "-o"], "--output <FILE> 需要一个值"),
            (&["capture", "-o", "x", "--pid", "1", "true"], "--pid <PID> 不能与 [CMD]... 同用"),
            (&["ps", "--json", "--json"], "--json 只能给出一次"),
            (&["qp"], ""),
        ];
        for (words, expected) in cases {
            assert_eq!(said(words), *expected, "{words:?}");
        }
    }

    #[test]
    fn what_is_parsed_is_the_same_in_both_languages() {
        for words in
            [&["qp", "show", "0x12", "--json"][..], &["capture", "-o", "x", "--", "sh", "-c", "-x"], &["ps"]]
        {
            let parsed = Lang::ALL.iter().map(|lang| {
                let words = ["glassnic"].into_iter().chain(words.iter().copied());
                format!("{:?}", command(*lang).try_get_matches_from(words).unwrap())
            });
            let parsed: Vec<String> = parsed.collect();
            assert!(parsed.iter().all(|one| one.len() > 20), "{parsed:?}");
        }
    }
}
