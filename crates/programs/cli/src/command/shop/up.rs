//! `shop up` and `shop down`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use fabricmark_control::{Progress, Shop, Watch, Workers};
use fabricmark_lab::Namespace;
use fabricmark_lab::held::Place;

use super::{UNUSED, parsed, placed, plan_text};
use crate::command::run::this_program;
use crate::exit::{Code, Failure};
use crate::interrupt::interruptions;
use crate::options::shop::Up;
use crate::output;
use crate::progress::Line;

/// How often a signal is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long `shop down` waits for the tiers to end.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Starts the tiers, and serves until a signal.
pub(super) fn up(options: &Up) -> Result<(), Failure> {
    let levels: Vec<_> =
        options.tiers.levels().into_iter().map(|(factor, level)| (factor, vec![level])).collect();
    let plan = parsed(&plan_text("Bookstore", &levels, UNUSED))?;
    let (plan, peer) = placed(&options.tiers, plan)?;
    let _lock = Lock::take()?;
    let listener = TcpListener::bind(options.listen).map_err(|error| {
        let message = format!("cannot listen at {}: {error}; use another --listen", options.listen);
        Failure::new(Code::Missing, message)
    })?;
    let at = listener.local_addr().map_err(|error| {
        Failure::internal(format!("cannot find the address of a socket: {error}"))
    })?;
    let interrupted = interruptions()?;
    let mut line = Line::new();
    let progress = &mut |what: &str, done, of| line.prepares(what, done, of);
    let mut watch = Watch { interrupted: &interrupted, progress };
    let began = Instant::now();
    let workers = Workers { program: &this_program()?, peer: &peer, calibration: None };
    let mut shop = Shop::start(&plan.points, &workers, None, &mut watch)?;
    let load = shop.prepare(&plan.points[0], &mut watch)?;
    let pages = shop.check(&load, &mut watch)?;
    line.clear();
    for (node, program) in shop.programs(&load) {
        note!("{node:7} {program}");
    }
    note!("all {pages} pages checked after {:.1} s", began.elapsed().as_secs_f64());
    note!("sign in as OG with the password og; Ctrl-C or `fabricmark shop down` ends the shop");
    output::print(&format!("http://{at}\n"))?;
    let namespace = shop.client_namespace();
    listener
        .set_nonblocking(true)
        .map_err(|error| Failure::internal(format!("cannot wait for connections: {error}")))?;
    while !interrupted.load(Relaxed) {
        match listener.accept() {
            Ok((client, _)) => forward(client, load.browsers.web, namespace),
            Err(_) => thread::sleep(LOOK_EVERY),
        }
    }
    Ok(())
}

/// Connects a client on this host with the web server, through the namespace of the browsers. A connection that fails
/// ends; the browser says so.
fn forward(client: TcpStream, web: SocketAddr, namespace: Option<&Namespace>) {
    let connect = || TcpStream::connect_timeout(&web, Duration::from_secs(5));
    let connected = match namespace {
        Some(namespace) => namespace.within(connect),
        None => connect(),
    };
    let pairs = connected.and_then(|server| {
        client.set_nonblocking(false)?;
        Ok([(client.try_clone()?, server.try_clone()?), (server, client)])
    });
    for (mut from, mut to) in pairs.into_iter().flatten() {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// Ends the shop that is up.
pub(super) fn down() -> Result<(), Failure> {
    let path = Lock::path()?;
    let Ok(mut file) = File::open(&path) else { return Err(none()) };
    let mut text = String::new();
    let id = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
    let Some(id) = id.and_then(rustix::process::Pid::from_raw).filter(|_| is_held(&file)) else {
        return Err(none());
    };
    rustix::process::kill_process(id, rustix::process::Signal::TERM)
        .map_err(|error| Failure::new(Code::RunFailed, format!("cannot end the shop: {error}")))?;
    let until = Instant::now() + ENDS_WITHIN;
    while is_held(&file) {
        if Instant::now() > until {
            return Err(Failure::new(Code::RunFailed, "the shop has not ended after 60 s"));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn none() -> Failure {
    Failure::new(Code::Input, "no shop is up: start one with `fabricmark shop up`")
}

fn is_held(file: &File) -> bool {
    matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock))
}

/// The file that a running `shop up` has locked; it contains the process id.
struct Lock(File);

impl Lock {
    fn path() -> Result<PathBuf, Failure> {
        Ok(Place::find()?.folder().join("shop.lock"))
    }

    fn take() -> Result<Self, Failure> {
        let path = Self::path()?;
        let open = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(Failure::output(path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let message = "a shop is up already: `fabricmark shop down` ends it";
                return Err(Failure::new(Code::Input, message));
            }
            Err(fs::TryLockError::Error(error)) => {
                return Err(Failure::output(path.display())(error));
            }
        }
        let written = file.set_len(0).and_then(|()| file.rewind());
        let written = written.and_then(|()| write!(file, "{}", std::process::id()));
        written.map_err(Failure::output(path.display()))?;
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}
