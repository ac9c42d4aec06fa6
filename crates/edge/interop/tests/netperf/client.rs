//! A server on a loopback port, and a minimal client.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fabricmark_interop::{Guard, netperf};
use fabricmark_proto::netperf::{MESSAGE_BYTES, Message, Request, Response, Results};

/// Time-out of reads, longer than any operation here takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server; dropping it stops it and waits for its threads.
pub struct Port {
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Port {
    pub fn open(address: &str, guard: Guard) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread =
            thread::spawn(move || netperf::serve(&listener, &guard, &stopped).expect("a listener"));
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let joined = self.thread.take().unwrap().join();
        assert!(joined.is_ok() || thread::panicking());
    }
}

/// The recorded request of netperf 2.7.1 for a test.
pub fn frozen(name: &str) -> Message {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/proto/tests/netperf");
    let text = std::fs::read_to_string(folder.join(format!("{name}.txt"))).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix('>')).unwrap();
    let mut bytes = [0; MESSAGE_BYTES];
    for (word, at) in line.split_whitespace().zip(bytes.chunks_exact_mut(4)) {
        at.copy_from_slice(&u32::from_str_radix(word, 16).unwrap().to_be_bytes());
    }
    Message(bytes)
}

/// A client with its control connection.
pub struct Client {
    pub control: TcpStream,
    server: IpAddr,
}

impl Client {
    pub fn of(port: &Port) -> Self {
        let control = TcpStream::connect(port.address).unwrap();
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { control, server: port.address.ip() }
    }

    /// Requests a test; returns the response and the address of the data socket.
    pub fn ask(&mut self, request: &Message) -> (Response, SocketAddr) {
        let answer = self.ask_for_any(request);
        assert_eq!((answer.kind(), answer.second()), (Message::OMNI_RESPONSE, 0));
        let response = Response::of(&answer);
        let port = response.data_port.try_into().unwrap();
        (response, SocketAddr::new(self.server, port))
    }

    /// Sends any message; returns the answer.
    pub fn ask_for_any(&mut self, request: &Message) -> Message {
        self.control.write_all(&request.0).unwrap();
        self.hear()
    }

    pub fn hear(&mut self) -> Message {
        let mut bytes = [0; MESSAGE_BYTES];
        self.control.read_exact(&mut bytes).unwrap();
        Message(bytes)
    }

    pub fn results(&mut self) -> Results {
        let message = self.hear();
        assert_eq!((message.kind(), message.second()), (Message::OMNI_RESULTS, 0));
        Results::of(&message)
    }

    pub fn connect(at: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    pub fn datagrams(&self) -> UdpSocket {
        let socket = UdpSocket::bind((self.server, 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

/// The recorded request of a test, with the family of an address.
pub fn request_for(name: &str, address: SocketAddr) -> Message {
    let family = if address.is_ipv4() { 4 } else { 6 };
    Request { family, ..Request::of(&frozen(name)) }.message()
}
