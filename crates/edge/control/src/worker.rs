//! The worker process: takes orders from a local socket and carries them out on a load thread.

use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use fabricmark_host::{UsageMeter, interfaces};
use fabricmark_load::{Control, Endpoint, Event, caught, own_descriptors};
use fabricmark_plan::{Role, Transport};
use fabricmark_proto::{
    Action, EndReport, Failure, FrameReader, Order, Prepare, Report, Worker, encode,
};
use fabricmark_record::{Counts, Interval};
use fabricmark_relay::Stop;
use rustix::event::{PollFd, PollFlags, poll};

use crate::interfaces::device_of;
use crate::relay;
use crate::settings::InForce;

/// An end of a run in progress, or the relay between the ends.
struct Run {
    load: Load,
    voice: Arc<Voice>,
    /// Settings of this host that are put back when the run is over.
    settings: Option<InForce>,
    thread: JoinHandle<()>,
}

/// What an end does in a run.
enum Load {
    /// It opens flows or accepts them; `begin` tells a client, which waits for it, the address of the server.
    Flows { control: Arc<Control>, begin: Sender<SocketAddr> },
    /// It passes flows on.
    Relay(Arc<Stop>),
}

/// Carries out orders until the coordinator closes the socket.
pub fn work(socket: UnixStream) -> io::Result<()> {
    match carry_out_orders(socket) {
        // The coordinator has closed the socket before it read all reports.
        Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Ok(()),
        result => result,
    }
}

fn carry_out_orders(mut socket: UnixStream) -> io::Result<()> {
    let (wake, mut woken) = UnixStream::pair()?;
    let (words, said) = mpsc::channel();
    let mut hand = Hand { wake: Arc::new(wake), words, runs: 0, run: None, aborted: None };
    let mut conversation = Worker::default();
    let mut frames = FrameReader::default();
    let mut buffer = [0; 16 << 10];
    loop {
        while let Some(report) = conversation.poll_output() {
            socket.write_all(&encode(&report))?;
        }
        let mut ready = [PollFd::new(&socket, PollFlags::IN), PollFd::new(&woken, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let (has_orders, has_words) =
            (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if has_words {
            let _ = woken.read(&mut buffer)?;
            listen(&said, &mut conversation, &mut hand);
        }
        if has_orders {
            let bytes = socket.read(&mut buffer)?;
            if bytes == 0 {
                // Ends the load before settings are put back.
                hand.act(Action::Abort, &mut conversation);
                return Ok(());
            }
            frames.push(&buffer[..bytes]).map_err(io::Error::other)?;
            while let Some(order) = frames.next_message::<Order>().map_err(io::Error::other)? {
                if let Some(action) = conversation.on_order(order) {
                    hand.act(action, &mut conversation);
                }
            }
        }
    }
}

/// A message of the threads of a run, with the number of the run in this worker.
type Said = (u64, Word);

enum Word {
    /// The flows are open, and the sender waits for its start.
    Opened,
    /// The clock of the run has started.
    Begun,
    /// The receiver has postponed its count.
    Held,
    /// A postponed count has started.
    Counting,
    /// A slice has ended.
    Slice(Counts),
    /// An interval has ended.
    Interval(Box<Interval>),
    /// This end of the run has ended.
    Ended(Result<Box<EndReport>, Failure>),
}

/// Sends messages about one run, from any thread, to the thread with the conversation.
struct Voice {
    run: u64,
    words: Sender<Said>,
    wake: Arc<UnixStream>,
}

impl Voice {
    fn say(&self, word: Word) {
        // The receiver is gone if the worker is about to exit.
        let _ = self.words.send((self.run, word));
        let _ = (&*self.wake).write_all(&[0]);
    }
}

fn listen(words: &Receiver<Said>, conversation: &mut Worker, hand: &mut Hand) {
    for (run, word) in words.try_iter() {
        // Messages of a thread whose run was aborted do not concern the next run.
        if hand.run.as_ref().is_none_or(|current| current.voice.run != run) {
            continue;
        }
        match word {
            Word::Opened => conversation.on_progress(|run| Report::Opened { run }),
            Word::Begun => conversation.on_progress(|run| Report::Begun { run }),
            Word::Held => conversation.on_progress(|run| Report::Holds { run }),
            Word::Counting => conversation.on_progress(|run| Report::Counts { run }),
            Word::Slice(counts) => conversation.on_progress(|run| Report::Slice { run, counts }),
            Word::Interval(interval) => {
                conversation.on_progress(|run| Report::Interval { run, interval });
            }
            Word::Ended(result) => {
                let settings = hand.run.take().and_then(|run| run.settings);
                let put_back = settings.map_or(Ok(()), InForce::end);
                conversation.on_finished(result.and_then(|end| put_back.map(|()| *end)));
            }
        }
    }
}

struct Hand {
    wake: Arc<UnixStream>,
    words: Sender<Said>,
    /// Number of runs prepared so far.
    runs: u64,
    run: Option<Run>,
    /// The thread of an aborted run, which ends within milliseconds.
    aborted: Option<JoinHandle<()>>,
}

impl Hand {
    fn act(&mut self, action: Action, conversation: &mut Worker) {
        match (action, &mut self.run) {
            (Action::Prepare(prepare), _) => match self.prepare(*prepare) {
                Ok(port) => conversation.on_prepared(port),
                Err(failure) => conversation.on_finished(Err(failure)),
            },
            // The run is over.
            (_, None) => {}
            (Action::Abort, Some(run)) => {
                match &run.load {
                    Load::Flows { control, .. } => control.give_up(),
                    Load::Relay(stop) => stop.aborts.store(true, Relaxed),
                }
                self.aborted = self.run.take().map(|run| run.thread);
            }
            (action, Some(Run { load: Load::Relay(stop), .. })) => {
                if action == Action::Stop {
                    stop.drains.store(true, Relaxed);
                }
            }
            (action, Some(Run { load: Load::Flows { control, begin }, .. })) => {
                match action {
                    Action::Begin(peer) => {
                        // The thread is gone if it panicked, and has said so.
                        let _ = begin.send(peer);
                    }
                    Action::Start { at_ns } => control.start(at_ns),
                    Action::Drain { bytes, idle } => control.drain(bytes, idle.0),
                    Action::Slice { counts } => control.slice(counts),
                    Action::EndSlice { bytes, idle, counts } => {
                        control.end_slice(bytes, idle.0, counts);
                    }
                    Action::Hold => control.hold(),
                    Action::Stop => control.end(),
                    Action::Prepare(_) | Action::Abort => {}
                }
            }
        }
    }

    fn prepare(&mut self, mut prepare: Prepare) -> Result<u16, Failure> {
        if let Some(thread) = self.aborted.take() {
            // It may still hold the port.
            let _ = thread.join();
        }
        self.runs += 1;
        let wake = Arc::clone(&self.wake);
        let voice = Arc::new(Voice { run: self.runs, words: self.words.clone(), wake });
        if let Some(forward) = prepare.forward {
            return self.relay(&prepare, forward, voice);
        }
        // The coordinator may know only the device of the control connection. Whose settings a run changes, it must not say.
        let device = device_of(prepare.address).name;
        if !device.is_empty() || !prepare.host_settings.is_empty() {
            prepare.device = device;
        }
        let settings = InForce::begin(&prepare)?;
        let teller = Arc::clone(&voice);
        let control = Control::telling(move |event| {
            teller.say(match event {
                Event::Opened => Word::Opened,
                Event::Begun => Word::Begun,
                Event::Held => Word::Held,
                Event::Counting => Word::Counting,
                Event::Slice(counts) => Word::Slice(counts),
                Event::Interval(interval) => Word::Interval(Box::new(interval.clone())),
            });
        });
        let control = Arc::new(control);
        let (begin, begun) = mpsc::channel();
        let (prepared, port) = mpsc::channel();
        let shared = (Arc::clone(&control), Arc::clone(&voice));
        let carry = move || carry(prepare, &prepared, &begun, &shared.0, &shared.1);
        let thread = thread::spawn(carry);
        let panicked = |_| Failure::System("a load thread panicked".to_owned());
        let port = match port.recv().map_err(panicked).flatten() {
            Ok(port) => port,
            Err(failure) => {
                settings.map_or(Ok(()), InForce::end)?;
                return Err(failure);
            }
        };
        self.run = Some(Run { load: Load::Flows { control, begin }, voice, settings, thread });
        Ok(port)
    }

    /// Relays flows to an address until it is stopped; returns the port at which it listens.
    fn relay(
        &mut self,
        prepare: &Prepare,
        forward: SocketAddr,
        voice: Arc<Voice>,
    ) -> Result<u16, Failure> {
        let relay = relay::listen(prepare, forward)?;
        let at = relay.address().map_err(|error| Failure::System(error.to_string()))?;
        let stop = Arc::new(Stop::default());
        let (point, told, teller) = (prepare.point.clone(), Arc::clone(&stop), Arc::clone(&voice));
        let thread = thread::spawn(move || {
            let result = caught(|| relay::serve(relay, &point, &told));
            teller.say(Word::Ended(result.map(Box::new)));
        });
        self.run = Some(Run { load: Load::Relay(stop), voice, settings: None, thread });
        Ok(at.port())
    }
}

/// One end of a run, on a thread of its own. It opens and closes all descriptors of the run, since the main thread may
/// have another table of them. A client begins when it gets the address of the server; without one, the run was aborted.
fn carry(
    prepare: Prepare,
    prepared: &Sender<Result<u16, Failure>>,
    begun: &Receiver<SocketAddr>,
    control: &Control,
    voice: &Voice,
) {
    let (role, transport) = (prepare.role, prepare.point.transport);
    // The libraries for RDMA keep descriptors open for later runs.
    if !transport.is_verbs() && transport != Transport::Rsocket {
        own_descriptors();
    }
    let endpoint = match caught(|| Endpoint::prepare(prepare)) {
        Ok(endpoint) => endpoint,
        Err(failure) => {
            let _ = prepared.send(Err(failure));
            return;
        }
    };
    let _ = prepared.send(Ok(endpoint.port()));
    let peer = match role {
        Role::Server => None,
        Role::Client => match begun.recv() {
            Ok(peer) => Some(peer),
            Err(_) => return,
        },
    };
    let device = endpoint.device().to_owned();
    let meter = UsageMeter::start();
    let mut result = caught(|| endpoint.run(peer, control));
    if let Ok(end) = &mut result {
        end.usage = Some(meter.finish());
        end.interface = interfaces::facts(&device);
        end.device = device;
    }
    voice.say(Word::Ended(result.map(Box::new)));
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, UdpSocket};

    use fabricmark_proto::PROTOCOL_VERSION;
    use fabricmark_testkit::prepare;

    use super::*;

    #[test]
    fn the_port_of_an_aborted_run_is_free_for_the_next_one() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let (mut coordinator, socket) = UnixStream::pair().unwrap();
        let worker = thread::spawn(|| work(socket));
        let levels = "pattern=stream,transport=udp,family=4,link=loopback,payload=64";
        let order = |run| {
            let prepare = Prepare { run, port, ..prepare(Role::Server, levels) };
            encode(&Order::Prepare(Box::new(prepare)))
        };
        coordinator.write_all(&encode(&Order::Hello { version: PROTOCOL_VERSION })).unwrap();
        coordinator.write_all(&order(1)).unwrap();
        let mut frames = FrameReader::default();
        let mut hear = |coordinator: &mut UnixStream| loop {
            if let Some(report) = frames.next_message::<Report>().unwrap() {
                return report;
            }
            let mut buffer = [0; 4096];
            let bytes = coordinator.read(&mut buffer).unwrap();
            frames.push(&buffer[..bytes]).unwrap();
        };
        assert_eq!(hear(&mut coordinator), Report::Hello { version: PROTOCOL_VERSION });
        assert_eq!(hear(&mut coordinator), Report::Ready { run: 1, port });
        let both = [encode(&Order::Abort { run: 1 }), order(2)].concat();
        coordinator.write_all(&both).unwrap();
        let told = [hear(&mut coordinator), hear(&mut coordinator)];
        let aborted = Report::Failed { run: 1, failure: Failure::Aborted };
        assert_eq!(told, [aborted, Report::Ready { run: 2, port }]);
        // The thread of the run has a copy of the socket.
        coordinator.shutdown(Shutdown::Both).unwrap();
        worker.join().unwrap().unwrap();
    }
}
