//! Both ends of pairing, against peers with and without the code.

use fabricmark_trust::pairing::{Greeting, HELLO_LEN, Introduction, Keyed, PROOF_LEN, Role};
use fabricmark_trust::{Code, Fingerprint, HostName, PairError};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use spake2::{Ed25519Group, Identity, Password, Spake2};

/// The code as typed, and normalised.
const CODE: &str = "K7QM-2XVD";
const SIGNS: &[u8; 8] = b"K7QM2XVD";

const MAGIC: &[u8; 16] = b"fabricmark-pair1";

const LABELS: [&[u8]; 2] = [b"fabricmark pair: calling", b"fabricmark pair: waiting"];

/// Bytes of a proof before its HMAC: fingerprint and name.
const SAID_LEN: usize = PROOF_LEN - 32;

/// Messages to one end. The first byte selects the end, and the meaning of the others: hello and proof of a peer
/// without the code, or the introduction of a peer with the code.
pub fn pairing(bytes: &[u8]) {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    let Ok(code) = CODE.parse::<Code>() else { panic!("no code") };
    let role = if how & 1 == 0 { Role::Waiting } else { Role::Calling };
    let own = Greeting::new(role, &code);
    if how & 2 == 0 {
        let (hello, proof) = bytes.split_at(bytes.len().min(HELLO_LEN));
        let mut hello: [u8; HELLO_LEN] = padded(hello);
        if how & 4 == 4 {
            // A valid prefix, so that the curve element is reached.
            hello[..MAGIC.len()].copy_from_slice(MAGIC);
            hello[MAGIC.len()] = if role == Role::Waiting { b'A' } else { b'B' };
        }
        stranger(own, &hello, &padded(proof));
    } else {
        friend(role, own, &padded(bytes));
    }
}

fn padded<const LEN: usize>(bytes: &[u8]) -> [u8; LEN] {
    let mut padded = [0; LEN];
    let held = bytes.len().min(LEN);
    padded[..held].copy_from_slice(&bytes[..held]);
    padded
}

/// A peer without the code is never accepted.
fn stranger(own: Greeting, hello: &[u8; HELLO_LEN], proof: &[u8; PROOF_LEN]) {
    match own.on_hello(hello) {
        Ok(keyed) => {
            assert!(matches!(keyed.on_proof(proof), Err(PairError::WrongCode)));
            introduce(&keyed);
        }
        Err(error) => assert!(matches!(error, PairError::Garbage), "{error}"),
    }
}

/// A peer with the code is accepted unless its name is invalid, and its introduction is returned unchanged.
fn friend(role: Role, own: Greeting, said: &[u8; SAID_LEN]) {
    let own_hello = own.hello();
    let (hello, secret) = other(role);
    let Ok(key) = secret.finish(&own_hello[MAGIC.len()..]) else { panic!("no key") };
    let Ok(keyed) = own.on_hello(&hello) else { panic!("a hello is refused") };
    let (label, hellos) = match role {
        Role::Waiting => (LABELS[0], [&hello, &own_hello]),
        Role::Calling => (LABELS[1], [&own_hello, &hello]),
    };
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(&key) else { panic!("no key of HMAC") };
    let parts: [&[u8]; 4] = [label, hellos[0], hellos[1], said];
    let tag = parts.into_iter().fold(mac, Mac::chain_update).finalize().into_bytes();
    let mut proof = [0; PROOF_LEN];
    proof[..SAID_LEN].copy_from_slice(said);
    proof[SAID_LEN..].copy_from_slice(&tag);
    match keyed.on_proof(&proof) {
        Ok(Introduction { fingerprint, name }) => {
            assert_eq!(fingerprint.0, said[..32]);
            assert_eq!(padded::<{ HostName::MAX_LEN }>(name.as_str().as_bytes()), said[32..]);
        }
        Err(error) => assert!(matches!(error, PairError::Garbage), "{error}"),
    }
    introduce(&keyed);
}

/// The other end, implemented with the library alone.
fn other(role: Role) -> ([u8; HELLO_LEN], Spake2<Ed25519Group>) {
    let password = Password::new(SIGNS);
    let [calling, waiting] = LABELS.map(Identity::new);
    let (secret, element) = match role {
        Role::Waiting => Spake2::start_a(&password, &calling, &waiting),
        Role::Calling => Spake2::start_b(&password, &calling, &waiting),
    };
    (padded(&[MAGIC, element.as_slice()].concat()), secret)
}

/// Emitting a proof must succeed, whoever the peer is.
fn introduce(keyed: &Keyed) {
    let own = Introduction { fingerprint: Fingerprint([7; 32]), name: HostName::own() };
    assert!(keyed.proof(&own).is_ok());
}
