//! QEMU: its command line, and the serial ports of the guest.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Done, Guest, GuestError, Job, Program};

pub(crate) const QEMU: Program = Program { name: "qemu-system-x86_64", package: "qemu-system-x86" };

/// Memory of the guest, for the files that it writes and the buffers of both ends.
const MEMORY_MIB: u32 = 2048;

/// How often the time limit and interruption are checked.
const LOOK: Duration = Duration::from_millis(50);

/// More than the last message of a guest.
const END_BYTES_MAX: usize = 4096;

/// Lines of the console to show when a guest dies.
const CONSOLE_LINES: usize = 20;

/// Port names; each is a socket in the job's folder.
const PORTS: [&str; 3] = ["out", "err", "end"];

impl Guest {
    /// Boots and runs the command with empty standard input; its output goes to `out` and `err`.
    pub fn run(
        &self,
        job: &Job<'_>,
        out: &mut (dyn Write + Send),
        err: &mut (dyn Write + Send),
        interrupted: &AtomicBool,
    ) -> Result<Done, GuestError> {
        // In the folder for temporary files, since socket paths must be short.
        let folder = tempfile::tempdir().map_err(GuestError::system("create a folder"))?;
        let work = folder.path();
        let write = |name: &str, contents: &[u8]| {
            fs::write(work.join(name), contents).map_err(GuestError::file(&work.join(name)))
        };
        write("inside.sh", include_bytes!("inside.sh"))?;
        write("command.sh", &script(job.command)?)?;
        let program = std::env::current_exe().map_err(GuestError::system("find this program"))?;
        write("program", program.as_os_str().as_bytes())?;
        write("wire.sh", job.wire.as_bytes())?;
        let folders = job.writable.iter().map(|folder| folder.canonicalize());
        let folders: io::Result<Vec<PathBuf>> = folders.collect();
        let folders = folders.map_err(GuestError::system("find a writable folder"))?;
        let lines: Vec<u8> = folders
            .iter()
            .flat_map(|folder| [folder.as_os_str().as_bytes(), b"\n"].concat())
            .collect();
        write("writable", &lines)?;
        let listeners = PORTS.map(|port| UnixListener::bind(work.join(port)));
        let mut machine = Machine(self.start(work, &folders)?);
        let [from_out, from_err, end] = listeners
            .map(|listener| accept(&listener?, &mut machine.0))
            .map(|port| port.map_err(heard(work)));
        let (from_out, from_err, end) = (from_out?, from_err?, end?);
        let told = thread::scope(|scope| {
            scope.spawn(move || copy(from_out, out));
            scope.spawn(move || copy(from_err, err));
            let told = hear_end(end, work, job.limit, interrupted);
            // QEMU has received all output of the command before the guest reports its end.
            drop(machine);
            told
        })?;
        let numbers: Vec<u64> = told.lines().filter_map(|line| line.parse().ok()).collect();
        let [code, crossed_packets, rdma_packets] = numbers[..] else {
            return Err(ended(&told));
        };
        Ok(Done { code: u8::try_from(code).unwrap_or(u8::MAX), crossed_packets, rdma_packets })
    }

    fn start(&self, work: &Path, writable: &[PathBuf]) -> Result<Child, GuestError> {
        let log = work.join("qemu.log");
        let log = File::create(&log).map_err(GuestError::file(&log))?;
        let mut command = Command::new(QEMU.find()?);
        // KVM is never used: nested KVM may start and then hang.
        command.args("-accel tcg,thread=multi,tb-size=256 -cpu max -smp 2 -M q35".split(' '));
        command.args("-nodefaults -no-user-config -nographic -no-reboot -m".split(' '));
        command.arg(MEMORY_MIB.to_string());
        command.arg("-kernel").arg(self.image());
        command.arg("-initrd").arg(self.initrd());
        command.arg("-append").arg(joined([
            OsStr::new(
                "console=ttyS0 quiet panic=-1 oops=panic maxcpus=1 mitigations=off tsc=reliable no_timer_check \
                 rdinit=/init fabricmark.work=",
            ),
            work.as_os_str(),
            OsStr::new(" fabricmark.modules="),
            self.modules().as_os_str(),
        ]));
        let console = work.join("console");
        command.arg("-serial").arg(joined([OsStr::new("file:"), console.as_os_str()]));
        command.args(["-device", "virtio-serial-pci"]);
        // A card without a network, whose driver has settings that virtual devices lack; and without its boot program.
        command.args(["-device", "e1000e,romfile="]);
        for port in PORTS {
            let socket = work.join(port);
            command
                .arg("-chardev")
                .arg(option(&format!("socket,id={port},path="), socket.as_os_str()));
            command.args(["-device", &format!("virtserialport,chardev={port},name={port}")]);
        }
        share(&mut command, "root", OsStr::new("/"), ",readonly=on");
        for (number, folder) in writable.iter().enumerate() {
            share(&mut command, &format!("writable{number}"), folder.as_os_str(), "");
        }
        let error_log = log.try_clone().map_err(GuestError::system("duplicate a descriptor"))?;
        command.stdin(Stdio::null()).stdout(log).stderr(error_log);
        crate::sys::end_with_parent(&mut command);
        command.spawn().map_err(GuestError::system("start QEMU"))
    }
}

/// The last three lines of a guest: the command's exit code and its two packet counts.
fn hear_end(
    mut end: UnixStream,
    work: &Path,
    limit: Duration,
    interrupted: &AtomicBool,
) -> Result<String, GuestError> {
    use io::ErrorKind::{Interrupted, WouldBlock};

    let begin = Instant::now();
    end.set_read_timeout(Some(LOOK))
        .map_err(GuestError::system("set the time-out of the guest's socket"))?;
    let mut told = Vec::new();
    while told.iter().filter(|&&byte| byte == b'\n').count() < 3 && told.len() < END_BYTES_MAX {
        let mut bytes = [0; 64];
        match end.read(&mut bytes) {
            Ok(0) => return Err(ended(&console(work))),
            Ok(count) => told.extend_from_slice(&bytes[..count]),
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
            Err(error) => return Err(GuestError::system("read from the guest")(error)),
        }
        if interrupted.load(Relaxed) {
            return Err(GuestError::Interrupted);
        }
        if begin.elapsed() > limit {
            return Err(GuestError::Failed(format!(
                "the guest's command did not end within {limit:?} and was stopped"
            )));
        }
    }
    Ok(String::from_utf8_lossy(&told).into_owned())
}

/// A QEMU process that is killed when dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn share(command: &mut Command, tag: &str, folder: &OsStr, access: &str) {
    let head = format!("local,id={tag},security_model=none,multidevs=remap{access},path=");
    command.arg("-fsdev").arg(option(&head, folder));
    command.args(["-device", &format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}")]);
}

/// QEMU option that ends with a path; commas in the path are doubled.
fn option(head: &str, path: &OsStr) -> OsString {
    OsString::from_vec([head.as_bytes(), &escaped(path, b',', b",,")].concat())
}

fn joined<const N: usize>(parts: [&OsStr; N]) -> OsString {
    parts.into_iter().collect()
}

/// Shell script that restores this process's folder and environment, then runs the command.
fn script(command: &[OsString]) -> Result<Vec<u8>, GuestError> {
    let mut script = Vec::new();
    for (name, value) in std::env::vars_os() {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.as_bytes().iter().all(is_name) && !name.as_bytes()[0].is_ascii_digit() {
            script.extend([b"export ", name.as_bytes(), b"=", &quoted(&value), b"\n"].concat());
        }
    }
    let folder = std::env::current_dir().map_err(GuestError::system("find this folder"))?;
    script.extend([b"cd ", &quoted(folder.as_os_str())[..], b" || exit 67\nexec"].concat());
    for word in command {
        script.extend([b" ", &quoted(word)[..]].concat());
    }
    script.push(b'\n');
    Ok(script)
}

/// A word quoted for the shell.
fn quoted(word: &OsStr) -> Vec<u8> {
    [b"'", &escaped(word, b'\'', b"'\\''")[..], b"'"].concat()
}

/// Replaces each `byte` by `to`.
fn escaped(text: &OsStr, byte: u8, to: &[u8]) -> Vec<u8> {
    text.as_bytes().split(|&other| other == byte).collect::<Vec<_>>().join(to)
}

/// Accepts QEMU's connection to a port; QEMU connects before it boots, or ends.
fn accept(listener: &UnixListener, machine: &mut Child) -> io::Result<UnixStream> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if machine.try_wait()?.is_some() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Error for a QEMU that ended before it connected, with its console.
fn heard(work: &Path) -> impl Fn(io::Error) -> GuestError + Copy {
    move |error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ended(&console(work)),
        _ => GuestError::system("read from the guest")(error),
    }
}

fn ended(console: &str) -> GuestError {
    let message = "the guest stopped before its command ended; its console:";
    GuestError::Failed(format!("{message}\n{console}"))
}

/// Last lines of QEMU's output and of the guest's console.
fn console(work: &Path) -> String {
    let texts = ["qemu.log", "console"].map(|name| fs::read(work.join(name)).unwrap_or_default());
    let text = String::from_utf8_lossy(&texts.concat()).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(CONSOLE_LINES)..].join("\n")
}

/// Copies the output of a port until QEMU ends. What cannot be written is discarded: the guest's command would wait for
/// ever for a port that nobody reads.
fn copy(mut port: UnixStream, to: &mut (dyn Write + Send)) {
    let (mut bytes, mut is_open) = ([0; 65_536], true);
    while let Ok(count @ 1..) = port.read(&mut bytes) {
        is_open = is_open && to.write_all(&bytes[..count]).and_then(|()| to.flush()).is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_quotes_means_itself_to_a_shell() {
        for word in ["it's", "$HOME `x` \"y\" \\", "", "two words"] {
            let mut script = b"printf %s ".to_vec();
            script.extend_from_slice(&quoted(OsStr::new(word)));
            let output =
                Command::new("sh").arg("-c").arg(OsStr::from_bytes(&script)).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn commas_of_a_path_do_not_end_an_option() {
        assert_eq!(option("local,path=", OsStr::new("/a,b")), "local,path=/a,,b");
    }
}
