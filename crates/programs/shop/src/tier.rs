//! The process of a tier, which `fabricmark` starts at the tier's node with a socket as its standard input. The servers that
//! it has started are killed when the coordinator closes the socket, or when this process ends.

use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fabricmark_bookstore::{Mix, Scale, Shop, Workload};
use fabricmark_proto::{FrameReader, Order, PROTOCOL_VERSION, Report, encode};
use fabricmark_record::{
    ApplicationTier, BrowserLoad, DatabaseTier, TierCounters, TierLine, TierOrder,
};
use tokio::sync::{mpsc, watch};

use crate::browse::{self, Load};
use crate::database::instance::{Instance, programs, url};
use crate::database::{audit, load};
use crate::folder::Folder;
use crate::payment::{self, Gateway};
use crate::program::{self, unprivileged};
use crate::server::session::secret;
use crate::service::Service;
use crate::{check, summary, web};

/// Why an order failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Program(#[from] program::Error),
    #[error("cannot use a folder below /var/tmp: {0}")]
    Folder(io::Error),
    #[error("cannot find a free port: {0}")]
    Port(io::Error),
    #[error("cannot get random bytes: {0}")]
    Random(io::Error),
    #[error("{0}")]
    Url(String),
    #[error("cannot load the database: {0}")]
    Load(#[from] load::Error),
    #[error("cannot check the database: {0}")]
    Audit(sqlx::Error),
    #[error("cannot start the application server: {0}")]
    Application(io::Error),
    #[error("this tier has no database")]
    NoDatabase,
    #[error("this tier has a database already")]
    Again,
    #[error(transparent)]
    Payment(#[from] payment::Error),
    #[error(transparent)]
    Check(#[from] check::Error),
}

impl Error {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Program(program::Error::Missing { .. } | program::Error::Closed(_)))
    }
}

/// File with the certificate of the payment gateway.
const CERTIFICATE: &str = "payment.der";

/// Days since 1970.
pub fn today() -> i32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() / 86_400) as i32
}

/// What a tier runs. Servers end before the folder is removed.
#[derive(Debug)]
struct Tier {
    voice: Voice,
    /// First and last port of its servers.
    ports: (u16, u16),
    instance: Option<Instance>,
    server: Option<Service>,
    gateway: Option<SocketAddr>,
    folder: Option<Folder>,
}

/// Most orders that wait: a coordinator waits for the answer to each.
const ORDERS_MAX: usize = 16;

/// An order, and the ports that are allowed for its server.
type Received = (TierOrder, Option<(u16, u16)>);

/// The socket to the coordinator.
#[derive(Clone, Debug)]
struct Voice(Arc<UnixStream>);

impl Voice {
    /// Sends a report. Whether anybody reads it shows at the input.
    fn report(&self, report: &Report) {
        let _ = (&*self.0).write_all(&encode(report));
    }

    fn say(&self, line: TierLine) {
        self.report(&Report::Tier { line: Box::new(line) });
    }
}

/// Carries out orders until the coordinator closes the socket.
pub async fn serve() -> io::Result<()> {
    let socket = Arc::new(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
    let voice = Voice(socket.clone());
    let (mut orders, mut ended) = orders(socket, voice.clone());
    let mut tier =
        Tier { voice, ports: PORTS, instance: None, server: None, gateway: None, folder: None };
    while let Some((order, ports)) = orders.recv().await {
        tier.ports = ports.unwrap_or(PORTS);
        let line = tokio::select! {
            line = tier.carry_out(order) => line,
            _ = ended.wait_for(|has_ended| *has_ended) => return Ok(()),
        };
        tier.voice.say(line.unwrap_or_else(|error| TierLine::Failed {
            is_missing: error.is_missing(),
            message: error.to_string(),
        }));
    }
    Ok(())
}

/// Orders from the socket, and whether it has ended. Greetings are answered.
fn orders(
    socket: Arc<UnixStream>,
    voice: Voice,
) -> (mpsc::Receiver<Received>, watch::Receiver<bool>) {
    let (sender, orders) = mpsc::channel(ORDERS_MAX);
    let (end, ended) = watch::channel(false);
    thread::spawn(move || {
        let mut frames = FrameReader::default();
        let mut buffer = [0; 16 << 10];
        while let Ok(bytes @ 1..) = (&*socket).read(&mut buffer) {
            let Ok(found) = frames.messages(&buffer[..bytes]) else { break };
            for order in found {
                match order {
                    Order::Hello { .. } => {
                        voice.report(&Report::Hello { version: PROTOCOL_VERSION });
                    }
                    Order::Tier { task, ports } => {
                        let is_taken = sender.try_send((*task, ports)).is_ok();
                        if !is_taken {
                            let _ = end.send(true);
                            return;
                        }
                    }
                    // Orders of runs are for workers.
                    _ => {}
                }
            }
        }
        let _ = end.send(true);
    });
    (orders, ended)
}

impl Tier {
    async fn carry_out(&mut self, order: TierOrder) -> Result<TierLine, Error> {
        Ok(match order {
            TierOrder::Find { engines, web } => {
                let mut wanted = Vec::new();
                for engine in engines {
                    wanted.extend(programs(engine));
                }
                wanted.extend(web.then_some(("nginx", "nginx")));
                program::find_all(&wanted)?;
                TierLine::Found
            }
            TierOrder::Database(database) => self.database(database).await?,
            TierOrder::Application(application) => self.application(&application).await?,
            TierOrder::Web { application } => self.web(application).await?,
            TierOrder::Check(load) => {
                let pages = check::check(of(load)).await?;
                TierLine::Checked { pages: pages as u32 }
            }
            TierOrder::Browse(load) => {
                let load = of(load);
                let all = (load.ramp_up + load.window).as_secs() as u32;
                let progress = |since: Duration| {
                    self.voice.say(TierLine::Progress { done: since.as_secs() as u32, of: all });
                };
                let visits = browse::browse(load, pending(), progress).await;
                TierLine::Browsed(Box::new(summary::sum_up(&visits, &load)))
            }
            TierOrder::Usage => TierLine::Usage(self.counters()),
            TierOrder::Audit => {
                let instance = self.instance.as_ref().ok_or(Error::NoDatabase)?;
                let database = instance.open(1, u32::MAX).await?;
                TierLine::Audited(audit::audit(&database).await.map_err(Error::Audit)?)
            }
        })
    }

    fn folder(&mut self) -> Result<&Folder, Error> {
        if self.folder.is_none() {
            self.folder = Some(Folder::new().map_err(Error::Folder)?);
        }
        self.folder.as_ref().ok_or(Error::NoDatabase)
    }

    async fn database(&mut self, order: DatabaseTier) -> Result<TierLine, Error> {
        if self.instance.is_some() {
            return Err(Error::Again);
        }
        let port = free_port(self.ports)?;
        let password = secret().map_err(Error::Random)?;
        let at = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let folder = self.folder()?.path().join("database");
        let instance = Instance::start(order.engine, &folder, at, &password).await?;
        let program = instance.version.clone();
        let database = instance.open(load::LOADERS, 0).await?;
        let scale = Scale { items: order.items, browsers: order.customers_for };
        let shop = Shop { scale, seed: order.seed, today: today() };
        let progress = |done: u64, of: u64| {
            self.voice.say(TierLine::Progress { done: done as u32, of: of as u32 });
        };
        load::load(&database, shop, progress).await?;
        self.instance = Some(instance);
        Ok(TierLine::Started { port, program, password: Some(password) })
    }

    async fn application(&mut self, order: &ApplicationTier) -> Result<TierLine, Error> {
        self.server = None;
        let port = free_port(self.ports)?;
        let database = url(order.engine, order.database, &order.password).map_err(Error::Url)?;
        let folder = self.folder()?.path().to_owned();
        // Its user may not be able to enter the folder of this program.
        let program = folder.join("fabricmark-shop");
        let own = std::env::current_exe();
        own.and_then(|own| std::fs::copy(own, &program)).map_err(Error::Application)?;
        let log = std::fs::File::create(folder.join("log")).map_err(Error::Folder)?;
        let mut command = unprivileged(&program, &folder);
        command.args(["serve", "--pool", &order.pool.to_string()]);
        command.args(["--listen", &format!("[::]:{port}")]);
        let gateway = self.gateway().await?;
        command.args(["--payment", &gateway.to_string(), "--payment-certificate"]);
        command.arg(folder.join(CERTIFICATE));
        command.env(crate::options::DATABASE, database.text());
        command.stdout(Stdio::null()).stderr(Stdio::from(log));
        let service = Service::start(command).map_err(Error::Application)?;
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        service.listens(port, "fabricmark-shop serve", log).await?;
        self.server = Some(service);
        let program = format!("fabricmark-shop {}", env!("CARGO_PKG_VERSION"));
        Ok(TierLine::Started { port, program, password: None })
    }

    /// Address of the payment gateway, which is on the host of the application server.
    async fn gateway(&mut self) -> Result<SocketAddr, Error> {
        if let Some(at) = self.gateway {
            return Ok(at);
        }
        let gateway = Gateway::listen((Ipv4Addr::LOCALHOST, 0).into()).await?;
        let certificate = self.folder()?.path().join(CERTIFICATE);
        std::fs::write(certificate, &gateway.certificate).map_err(Error::Folder)?;
        let at = gateway.address().map_err(Error::Port)?;
        tokio::spawn(gateway.serve());
        Ok(*self.gateway.insert(at))
    }

    async fn web(&mut self, application: SocketAddr) -> Result<TierLine, Error> {
        self.server = None;
        let port = free_port(self.ports)?;
        let folder = self.folder()?.path().to_owned();
        let service = web::start(&folder, port, application)?;
        let log = || std::fs::read_to_string(folder.join("error.log")).unwrap_or_default();
        service.listens(port, web::NGINX, log).await?;
        self.server = Some(service);
        Ok(TierLine::Started { port, program: web::version()?, password: None })
    }

    fn counters(&self) -> TierCounters {
        let servers =
            [self.instance.as_ref().map(|instance| &instance.service), self.server.as_ref()];
        let mut counters =
            devices(&std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default());
        let mut is_server = false;
        for (cpu_ns, restarts) in servers.into_iter().flatten().map(Service::counters) {
            is_server = true;
            counters.cpu_ns += cpu_ns;
            counters.restarts += restarts;
        }
        if !is_server {
            counters.cpu_ns = browse::cpu_time().as_nanos() as u64;
        }
        counters
    }
}

fn of(load: BrowserLoad) -> Load {
    let mix = Mix::ALL[load.mix as usize];
    let scale = Scale { items: load.items, browsers: load.customers_for };
    Load {
        at: load.web,
        browsers: load.browsers,
        workload: Workload { mix, scale, think: load.think_time_ns },
        arrivals_per_s: load.arrivals_per_s,
        seed: load.seed,
        ramp_up: load.ramp_up_ns.into(),
        window: load.window_ns.into(),
        images: true,
    }
}

/// Ports of servers, below those that the kernel gives to connections (`net.ipv4.ip_local_port_range`).
const PORTS: (u16, u16) = (20_000, 31_999);

/// A free port. No connection takes one of [`PORTS`] before the server does. Tiers of one host that start at the same time
/// begin their search at different ports.
fn free_port((first, last): (u16, u16)) -> Result<u16, Error> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    let all = first..=last;
    let begin = std::process::id() as usize % all.len().max(1);
    let mut ports = all.clone().skip(begin).chain(all.take(begin));
    ports.find(is_free).ok_or_else(|| Error::Port(io::ErrorKind::AddrInUse.into()))
}

/// Bytes of all devices but loopback: fields 1 and 9 after the name of a device (`proc_net_dev(5)`).
fn devices(text: &str) -> TierCounters {
    let mut counters = TierCounters::default();
    let lines = text.lines().filter_map(|line| line.trim().split_once(':'));
    for (_, fields) in lines.filter(|(name, _)| *name != "lo") {
        let fields: Vec<u64> =
            fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        counters.received_bytes += fields.first().unwrap_or(&0);
        counters.sent_bytes += fields.get(8).unwrap_or(&0);
    }
    counters
}

#[cfg(test)]
mod tests {
    use fabricmark_plan::Mix as Level;

    use super::*;

    #[test]
    fn mixes_of_plans_and_of_the_workload_have_the_same_names() {
        for mix in Level::ALL {
            assert_eq!(Mix::ALL[*mix as usize].name(), mix.word());
        }
    }

    #[test]
    fn bytes_are_those_of_devices_other_than_loopback() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n    \
                    lo:       9       0    0    0    0     0          0         0        9       0\n   \
                    web: 10245     153    0    0    0     0          0         0  2349807     149 0\n   \
                    app:     5       1    0    0    0     0          0         0        3       1 0\n";
        let counted = TierCounters {
            received_bytes: 10_250,
            sent_bytes: 2_349_810,
            ..TierCounters::default()
        };
        assert_eq!(devices(text), counted);
    }
}
