//! The process that holds a lab.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use fabricmark_host::allow_files;
use fabricmark_link::LinkOptions;
use fabricmark_wire::Family;

use super::HeldError;
use super::message::{self, NodeReport, Order, PathReport, Reply, Report, Request, SharedReport};
use super::place::{Named, Place, unusable};
use super::remnant;
use crate::network::Lab;
use crate::privilege;
use crate::route::carries;

/// Time for a client to send its request and to read the answer; others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);

/// Holds a lab until a client ends it: reads from `parent` what to build, builds it, tells `parent` that it is up
/// or why it is not, and then answers at its socket.
///
/// Must be called while the process has one thread.
pub fn hold(parent: &UnixStream) -> Result<(), HeldError> {
    let order: Order = message::read(parent)?;
    let built = build(&order);
    let reply = match &built {
        Ok(_) => Reply::Done,
        Err(error) => Reply::of(error),
    };
    message::write(parent, &reply)?;
    let (place, listener, network) = built?;
    // The parent sends and receives nothing more.
    parent.shutdown(std::net::Shutdown::Both)?;
    Holder { lab: order.lab, place, network }.serve(&listener)
}

fn build(order: &Order) -> Result<(Place, UnixListener, Lab), HeldError> {
    // Signals of the terminal in which it was started are not meant for it.
    let _ = rustix::process::setsid();
    let topology = order.topology.topology();
    let topology = topology.map_err(|error| HeldError::Refused(error.to_string()))?;
    privilege::acquire()?;
    allow_files();
    let network = Lab::build(topology, order.seed, None)?;
    let place = Place::in_folder(order.folder.clone())?;
    let path = place.socket(&order.lab);
    // A socket that refuses connections is that of a lab that is gone, so it gets its name once it listens.
    let unfinished = path.with_extension("new");
    let listener = UnixListener::bind(&unfinished).map_err(unusable(&unfinished))?;
    fs::rename(&unfinished, &path)
        .inspect_err(|_| drop(fs::remove_file(&unfinished)))
        .map_err(unusable(&path))?;
    Ok((place, listener, network))
}

struct Holder {
    lab: Named,
    place: Place,
    network: Lab,
}

impl Holder {
    fn serve(mut self, listener: &UnixListener) -> Result<(), HeldError> {
        loop {
            let (stream, _) = listener.accept()?;
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.set_write_timeout(Some(PATIENCE));
            // A client that has gone needs no answer; one that only checks for a listener sends no request.
            let Ok(request) = message::read::<Request>(&stream) else { continue };
            if matches!(request, Request::Down) {
                remnant::end(&self.lab);
                let path = self.place.socket(&self.lab);
                drop(self.network);
                let _ = fs::remove_file(path);
                let _ = message::write(&stream, &Reply::Done);
                return Ok(());
            }
            self.answer(&stream, request);
        }
    }

    fn answer(&mut self, stream: &UnixStream, request: Request) {
        let reply = match request {
            Request::Show => self.report().map(Reply::Report),
            Request::Enter { node } => match self.enter(stream, &node) {
                Ok(()) => return,
                Err(error) => Err(error),
            },
            Request::Change { link, from, options, traces } => {
                self.change(&link, from.as_deref(), &options, &traces).map(|()| Reply::Done)
            }
            Request::Down => return,
        };
        let reply = reply.unwrap_or_else(|error| Reply::of(&error));
        let _ = message::write(stream, &reply);
    }

    fn enter(&self, stream: &UnixStream, node: &str) -> Result<(), HeldError> {
        let names = self.network.topology().nodes.keys().map(String::as_str);
        let namespace = self.network.namespace(node);
        let namespace =
            namespace.ok_or_else(|| HeldError::Refused(unknown("node", node, names)))?;
        let user = File::open("/proc/self/ns/user");
        let user = user.map_err(|error| HeldError::Refused(error.to_string()))?;
        message::write(stream, &Reply::Done)?;
        Ok(message::send_descriptors(stream, [user.as_fd(), namespace.as_fd()])?)
    }

    fn change(
        &mut self,
        link: &str,
        from: Option<&str>,
        options: &str,
        traces: &BTreeMap<String, String>,
    ) -> Result<(), HeldError> {
        let links = &self.network.topology().links;
        let refused = HeldError::Refused;
        let place = links.iter().position(|wire| wire.name == link).ok_or_else(|| {
            refused(unknown("link", link, links.iter().map(|wire| wire.name.as_str())))
        })?;
        let ends = &links[place].between;
        let end = |node: &str| {
            ends.iter().position(|end| end == node).ok_or_else(|| {
                refused(unknown("end of the link", node, ends.iter().map(String::as_str)))
            })
        };
        let end = from.map(end).transpose()?;
        let mut options: LinkOptions =
            options.parse().map_err(|error| refused(format!("{error}")))?;
        let read =
            |file: &str| traces.get(file).cloned().ok_or_else(|| "it was not sent".to_owned());
        options.read_files(read).map_err(refused)?;
        Ok(self.network.change(place, end, &options)?)
    }

    fn report(&self) -> Result<Report, HeldError> {
        let topology = self.network.topology();
        let nodes = topology.nodes.iter().map(|(name, node)| NodeReport {
            name: name.clone(),
            kind: if node.is_router { "router" } else { "host" }.to_owned(),
            addresses: topology
                .ends(name)
                .map(|(link, end)| {
                    let families = [Family::V4, Family::V6].into_iter();
                    let families = families.filter(|&family| carries(topology, link, family));
                    families.map(|family| topology.address(link, end, family)).collect()
                })
                .collect(),
        });
        let junctions = topology.junctions.iter().map(|(name, junction)| NodeReport {
            name: name.clone(),
            kind: junction.kind().to_owned(),
            addresses: Vec::new(),
        });
        let buses = topology.buses().map(|(_, bus)| format!("bus={bus}"));
        let does = topology.junctions.values().map(ToString::to_string).chain(buses);
        let shared = self.network.shared_traffic()?.into_iter().zip(does);
        let shared = shared.map(|(traffic, does)| SharedReport {
            does,
            packets: (&traffic).into(),
            name: traffic.name,
        });
        let ends = topology.links.iter().flat_map(|wire| [(wire, 0), (wire, 1)]);
        let paths = ends.zip(self.network.traffic()?).map(|((wire, end), traffic)| PathReport {
            link: wire.name.clone(),
            from: wire.between[end].clone(),
            to: wire.between[1 - end].clone(),
            backend: wire.backend,
            options: wire.options[end].to_string(),
            packets: (&traffic).into(),
            duplicated: traffic.duplicated.packets,
            device_drops: traffic.device_drops,
            paused_ns: traffic.paused.0,
            trains: traffic.trains,
        });
        Ok(Report {
            name: self.lab.name.clone(),
            title: topology.title.clone(),
            holder_pid: std::process::id(),
            nodes: nodes.chain(junctions).collect(),
            shared: shared.collect(),
            paths: paths.collect(),
        })
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    format!("no {what} `{name}`: there are {}", known.collect::<Vec<_>>().join(", "))
}
