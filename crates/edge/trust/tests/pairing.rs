//! Two hosts pair over loopback sockets, then use TLS.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use fabricmark_trust::pairing::{Greeting, Introduction, Role};
use fabricmark_trust::{
    Code, Fingerprint, HostName, Identity, PairError, TrustError, Trusted, client_config,
    client_connection, pair_wait, pair_with, peer_fingerprint, server_config, server_connection,
};
use rustls::Stream;
use tempfile::TempDir;

/// A host: its key and its file of trusted keys.
struct Host {
    identity: Identity,
    trusted: Trusted,
    _folder: TempDir,
}

impl Host {
    fn new() -> Host {
        let folder = tempfile::tempdir().unwrap();
        let trusted = Trusted::at(folder.path().join("trusted"));
        Host { identity: Identity::generate().unwrap(), trusted, _folder: folder }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    fn paired(&self) -> Introduction {
        Introduction { name: HostName::own(), fingerprint: self.fingerprint() }
    }

    fn calls(&self, address: SocketAddr, code: &Code) -> Result<Introduction, PairError> {
        pair_with(TcpStream::connect(address).unwrap(), code, &self.identity, &self.trusted)
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Runs `meanwhile` while `host` waits for a host with the code; returns the result of waiting.
fn waits(
    host: &Host,
    code: &Code,
    meanwhile: impl FnOnce(SocketAddr),
) -> Result<Introduction, PairError> {
    let (listener, address) = listener();
    thread::scope(|scope| {
        let (identity, trusted) = (&host.identity, &host.trusted);
        let waiting = scope
            .spawn(move || pair_wait(&listener, code, identity, trusted, &AtomicBool::new(false)));
        meanwhile(address);
        waiting.join().unwrap()
    })
}

fn code(text: &str) -> Code {
    text.parse().unwrap()
}

/// Closes without losing the last message: with unread bytes the kernel would reset the connection.
fn close(mut socket: TcpStream) {
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.read_to_end(&mut Vec::new());
}

/// One TLS connection in which the server sends first; the result at each end.
fn talk(calling: &Host, answering: &Host) -> [Result<Fingerprint, TrustError>; 2] {
    let (listener, address) = listener();
    let config = |host: &Host| Arc::new(host.trusted.clone());
    let client = client_config(&calling.identity, config(calling)).unwrap();
    let server = server_config(&answering.identity, config(answering)).unwrap();
    thread::scope(|scope| {
        let answering = scope.spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut connection = server_connection(&server).unwrap();
            let welcome = Stream::new(&mut connection, &mut socket).write_all(b"welcome");
            close(socket);
            match welcome {
                Ok(()) => peer_fingerprint(&connection),
                Err(error) => Err(TrustError::from_io(&error).unwrap()),
            }
        });
        let mut socket = TcpStream::connect(address).unwrap();
        let mut connection = client_connection(&client).unwrap();
        let mut welcome = [0; 7];
        let heard = Stream::new(&mut connection, &mut socket).read_exact(&mut welcome);
        let heard = match heard {
            Ok(()) => peer_fingerprint(&connection),
            Err(error) => Err(TrustError::from_io(&error).unwrap()),
        };
        close(socket);
        [heard, answering.join().unwrap()]
    })
}

#[test]
fn two_hosts_with_one_code_trust_each_other_and_talk() {
    let (a, b) = (Host::new(), Host::new());
    let [there, here] = talk(&a, &b);
    assert!(matches!((there, here), (Err(TrustError::Stranger), Err(TrustError::StrangerThere))));

    let code = Code::generate().unwrap();
    let met = waits(&b, &code, |address| {
        assert_eq!(a.calls(address, &code).unwrap(), b.paired());
    });
    assert_eq!(met.unwrap(), a.paired());
    assert_eq!(a.trusted.hosts().unwrap(), [(b.fingerprint(), HostName::own())]);
    assert_eq!(b.trusted.hosts().unwrap(), [(a.fingerprint(), HostName::own())]);

    let [there, here] = talk(&a, &b);
    assert_eq!([there.unwrap(), here.unwrap()], [b.fingerprint(), a.fingerprint()]);
}

#[test]
fn a_stranger_reads_over_a_socket_that_it_is_one() {
    let (a, b) = (Host::new(), Host::new());
    a.trusted.add(&b.fingerprint(), &"b".parse().unwrap()).unwrap();
    let [there, here] = talk(&a, &b);
    assert!(matches!((there, here), (Err(TrustError::StrangerThere), Err(TrustError::Stranger))));
}

#[test]
fn three_wrong_codes_end_it_and_nothing_is_stored() {
    let (a, b) = (Host::new(), Host::new());
    let ended = waits(&b, &code("K7QM-2XVD"), |address| {
        for wrong in ["K7QM-2XVE", "0000-0000", "ZZZZ-ZZZZ"] {
            assert!(matches!(a.calls(address, &code(wrong)), Err(PairError::WrongCode)));
        }
    });
    let ended = ended.unwrap_err();
    assert_eq!(ended.to_string(), "3 wrong codes were tried: start again for a new code");
    assert!(!a.trusted.path().exists() && !b.trusted.path().exists());
}

#[test]
fn two_wrong_codes_and_any_number_of_silent_or_senseless_callers_are_survived() {
    let (a, b) = (Host::new(), Host::new());
    let code = code("K7QM-2XVD");
    let met = waits(&b, &code, |address| {
        let call = || TcpStream::connect(address).unwrap();
        let silent = call();
        // Starts correctly, then is silent.
        let mut half = call();
        half.write_all(&Greeting::new(Role::Calling, &code).hello()).unwrap();
        half.read_exact(&mut [0; 49]).unwrap();
        for _ in 0..8 {
            call().write_all(&[b'x'; 4096]).unwrap();
            drop(call());
        }
        for wrong in ["0000-0000", "ZZZZ-ZZZZ"] {
            let error = a.calls(address, &wrong.parse().unwrap()).unwrap_err();
            assert!(matches!(error, PairError::WrongCode), "{error}");
        }
        assert_eq!(a.calls(address, &code).unwrap(), b.paired());
        drop((silent, half));
    });
    assert_eq!(met.unwrap(), a.paired());
}

#[test]
fn a_caller_tells_another_program_from_one_that_hangs_up() {
    let a = Host::new();
    let served = |bytes: &'static [u8]| {
        let (listener, address) = listener();
        thread::scope(|scope| {
            let serving = scope.spawn(move || {
                let (mut socket, _) = listener.accept().unwrap();
                socket.read_exact(&mut [0; 49]).unwrap();
                socket.write_all(bytes).unwrap();
            });
            let error = a.calls(address, &code("K7QM-2XVD")).unwrap_err();
            serving.join().unwrap();
            error
        })
    };
    let page = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(served(page), PairError::Garbage));
    assert!(matches!(served(b""), PairError::HungUp));
    assert!(!a.trusted.path().exists());
}

#[test]
fn pairing_again_changes_nothing() {
    let (a, b) = (Host::new(), Host::new());
    for _ in 0..2 {
        let code = Code::generate().unwrap();
        let met = waits(&b, &code, |address| drop(a.calls(address, &code).unwrap()));
        assert_eq!(met.unwrap(), a.paired());
    }
    assert_eq!(a.trusted.hosts().unwrap().len(), 1);
    assert_eq!(b.trusted.hosts().unwrap().len(), 1);
}
