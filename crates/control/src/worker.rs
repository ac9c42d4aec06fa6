//! The worker process: takes orders from a local socket and carries them out on a load thread.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use fabricmark_load::{Control, Endpoint};
use fabricmark_proto::{
    Action, EndReport, Failure, FrameReader, Order, Prepare, Role, Worker, encode,
};
use rustix::event::{PollFd, PollFlags, poll};

/// A run's end under way.
struct Run {
    control: Arc<Control>,
    /// The starting end, until it may begin.
    waiting: Option<Endpoint>,
}

/// Carries out orders until the coordinator closes the socket.
pub fn work(mut socket: UnixStream) -> io::Result<()> {
    let (wake, mut woken) = UnixStream::pair()?;
    let (results, finished) = mpsc::channel();
    let mut hand = Hand { wake, results, run: None };
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
        let (has_orders, has_results) =
            (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if has_results {
            let _ = woken.read(&mut buffer)?;
            take_results(&finished, &mut conversation, &mut hand);
        }
        if has_orders {
            let bytes = socket.read(&mut buffer)?;
            if bytes == 0 {
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

/// The result of a load thread, with the control of its run, which names it.
type Outcome = (Arc<Control>, Result<EndReport, Failure>);

fn take_results(finished: &Receiver<Outcome>, conversation: &mut Worker, hand: &mut Hand) {
    for (control, result) in finished.try_iter() {
        // A thread whose run was given up says nothing about the run that followed.
        if hand.run.as_ref().is_some_and(|run| Arc::ptr_eq(&run.control, &control)) {
            hand.run = None;
            conversation.on_finished(result);
        }
    }
}

struct Hand {
    wake: UnixStream,
    results: Sender<Outcome>,
    run: Option<Run>,
}

impl Hand {
    fn act(&mut self, action: Action, conversation: &mut Worker) {
        match action {
            Action::Prepare(prepare) => match self.prepare(*prepare) {
                Ok(port) => conversation.on_prepared(port),
                Err(failure) => conversation.on_finished(Err(failure)),
            },
            Action::Begin(peer) => {
                let waiting = self.run.as_mut().and_then(|run| run.waiting.take());
                if let Some(endpoint) = waiting {
                    self.start(endpoint, Some(peer));
                }
            }
            Action::Drain { bytes, idle } => {
                if let Some(run) = &self.run {
                    run.control.drain(bytes, idle.0);
                }
            }
            Action::Abort => {
                if let Some(run) = self.run.take() {
                    run.control.give_up();
                }
            }
        }
    }

    fn prepare(&mut self, prepare: Prepare) -> Result<u16, Failure> {
        let role = prepare.role;
        let endpoint = Endpoint::prepare(prepare)?;
        let port = endpoint.port();
        self.run = Some(Run { control: Arc::default(), waiting: None });
        match role {
            Role::Answer => self.start(endpoint, None),
            Role::Start => {
                if let Some(run) = &mut self.run {
                    run.waiting = Some(endpoint);
                }
            }
        }
        Ok(port)
    }

    fn start(&mut self, endpoint: Endpoint, peer: Option<std::net::SocketAddr>) {
        let Some(run) = &self.run else { return };
        let control = Arc::clone(&run.control);
        let results = self.results.clone();
        let wake = self.wake.try_clone();
        thread::spawn(move || {
            let result = endpoint.run(peer, &control);
            // Nobody listens any more when the worker is about to end.
            let _ = results.send((control, result));
            if let Ok(mut wake) = wake {
                let _ = wake.write_all(&[0]);
            }
        });
    }
}
