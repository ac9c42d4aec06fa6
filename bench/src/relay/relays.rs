//! The relays: how each is started.

use std::error::Error;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A relay under test, or the direct path.
#[derive(Clone, Debug)]
pub struct Contender {
    name: &'static str,
    buffer_bytes: usize,
}

impl Contender {
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }
}

/// The programs that this machine has.
#[derive(Debug)]
pub struct Relays {
    program: PathBuf,
    folder: PathBuf,
    names: Vec<&'static str>,
}

const COPY: &str = "fabricmark copy";
const SPLICE: &str = "fabricmark splice";
const URING: &str = "fabricmark io-uring";
const BARE: &str = "bare loop";
const DIRECT: &str = "direct";
const HAPROXY: &str = "HAProxy";
const HAPROXY_SPLICE: &str = "HAProxy splice";
const NGINX: &str = "nginx";
const SOCAT: &str = "socat";

impl Relays {
    /// Finds the peers, and compiles the bare loop.
    pub fn find(program: &Path, folder: &Path) -> Result<Self, Box<dyn Error>> {
        for (name, text) in [
            ("relay.c", include_str!("../../bare/relay.c")),
            ("common.h", include_str!("../../bare/common.h")),
        ] {
            fs::write(folder.join(name), text)?;
        }
        let compiled = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([folder.join("relay"), folder.join("relay.c")])
            .status()?;
        if !compiled.success() {
            return Err("cc cannot compile relay.c".into());
        }
        let mut names = vec![COPY, SPLICE, URING, BARE, DIRECT];
        let has = |program: &str| {
            let version = Command::new(program).arg("-v").stderr(Stdio::null()).output();
            version.is_ok_and(|output| output.status.success())
        };
        for (program, peers) in
            [("haproxy", &[HAPROXY, HAPROXY_SPLICE][..]), ("nginx", &[NGINX]), ("socat", &[SOCAT])]
        {
            let is_there = if program == "socat" {
                Command::new(program).arg("-V").stdout(Stdio::null()).status().is_ok()
            } else {
                has(program)
            };
            if is_there {
                names.extend(peers);
            }
        }
        Ok(Self { program: program.to_owned(), folder: folder.to_owned(), names })
    }

    pub fn all(&self, buffer_bytes: usize) -> Vec<Contender> {
        self.names.iter().map(|name| Contender { name, buffer_bytes }).collect()
    }

    pub fn bare_and_copy(&self, buffer_bytes: usize) -> Vec<Contender> {
        [COPY, BARE].map(|name| Contender { name, buffer_bytes }).to_vec()
    }

    /// Starts a relay on one thread; returns when it accepts connections.
    pub fn start(&self, contender: &Contender, target: u16) -> Result<Started, Box<dyn Error>> {
        let Contender { name, buffer_bytes } = contender;
        if *name == DIRECT {
            return Ok(Started { name, port: target, child: None });
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let (listen, forward) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{target}"));
        let mut command = match *name {
            COPY | SPLICE | URING => {
                let (_, path) = name.split_once(' ').unwrap_or_default();
                let buffer = format!("{buffer_bytes}B");
                let mut command = Command::new(&self.program);
                command.args(["relay", "--listen", &listen, "--forward", &forward]);
                command.args(["--path", path, "--buffer", &buffer]);
                command
            }
            BARE => {
                let mut command = Command::new(self.folder.join("relay"));
                command.args([port.to_string(), target.to_string(), buffer_bytes.to_string()]);
                command
            }
            HAPROXY | HAPROXY_SPLICE => {
                let splice = if *name == HAPROXY_SPLICE { "option splice-auto\n" } else { "" };
                let file = self.folder.join(format!("haproxy-{port}.cfg"));
                fs::write(
                    &file,
                    format!(
                        "global\nmaxconn 1000\nnbthread 1\ntune.bufsize {buffer_bytes}\n\
                         defaults\nmode tcp\ntimeout connect 5s\ntimeout client 60s\n\
                         timeout server 60s\n{splice}\
                         listen relay\nbind {listen}\nserver target {forward}\n"
                    ),
                )?;
                let mut command = Command::new("haproxy");
                command.arg("-db").arg("-f").arg(file);
                command
            }
            NGINX => {
                let file = self.folder.join(format!("nginx-{port}.conf"));
                let folder = self.folder.display();
                let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
                let load = Path::new(module).exists();
                let load = if load { format!("load_module {module};\n") } else { String::new() };
                fs::write(
                    &file,
                    format!(
                        "{load}daemon off;\nmaster_process off;\nworker_processes 1;\n\
                         pid {folder}/nginx-{port}.pid;\nerror_log {folder}/nginx-{port}.log;\n\
                         events {{ worker_connections 4096; }}\n\
                         stream {{ server {{ listen {listen}; proxy_pass {forward};\n\
                         proxy_buffer_size {buffer_bytes}; tcp_nodelay on; }} }}\n"
                    ),
                )?;
                let mut command = Command::new("nginx");
                command.arg("-p").arg(&self.folder).arg("-c").arg(file);
                command
            }
            _ => {
                let mut command = Command::new("socat");
                command.arg("-b").arg(buffer_bytes.to_string());
                command
                    .arg(format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,backlog=4096"));
                command.arg(format!("TCP:{forward},nodelay"));
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        let started = Started { name, port, child: Some(child) };
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if began.elapsed() > Duration::from_secs(5) {
                return Err(format!("{name} does not listen").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(started)
    }
}

/// A relay that runs.
#[derive(Debug)]
pub struct Started {
    name: &'static str,
    port: u16,
    child: Option<Child>,
}

impl Started {
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether its CPU time is known: not that of socat, whose children are gone before they are read.
    pub fn has_cpu(&self) -> bool {
        self.child.is_some() && self.name != SOCAT
    }

    /// CPU time of all threads so far, in seconds.
    pub fn cpu_s(&self) -> f64 {
        let read = |child: &Child| -> Option<f64> {
            let threads = fs::read_dir(format!("/proc/{}/task", child.id())).ok()?;
            let ns = threads.filter_map(|thread| {
                let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
                text.split_whitespace().next()?.parse::<f64>().ok()
            });
            Some(ns.sum::<f64>() / 1e9)
        };
        self.child.as_ref().and_then(read).unwrap_or(0.0)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
