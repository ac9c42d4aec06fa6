//! Messages by which two hosts that share a short code learn each other's key.
//!
//! ```text
//! calling                        waiting
//!    | -- hello ------------------> |    SPAKE2 (RFC 9382): one element of the curve each
//!    | <------------------ hello -- |    both have a session key, equal if their codes are
//!    | -- proof ------------------> |    fingerprint, name, HMAC-SHA-256 over all of the conversation
//!    | <------------------ proof -- |    the same from the waiting end
//! ```
//!
//! An attacker without the code learns from a whole conversation whether one guess was right, and nothing from
//! eavesdropping on others. The calling end proves itself first, so that the waiting end counts each guess.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use spake2::{Ed25519Group, Password, Spake2};

use crate::{Code, Fingerprint, HostName, PairError};

/// First bytes of each hello, with the version of this protocol.
const MAGIC: &[u8; 16] = b"fabricmark-pair1";

/// Length of a hello in bytes: [`MAGIC`], a byte for the role and an element of the curve.
pub const HELLO_LEN: usize = MAGIC.len() + 33;

/// Length of a proof in bytes: fingerprint, name padded with zeros, HMAC-SHA-256.
pub const PROOF_LEN: usize = 32 + HostName::MAX_LEN + 32;

/// A proof that no key can produce: the waiting end's reply to a wrong code.
pub const REFUSAL: [u8; PROOF_LEN] = [0; PROOF_LEN];

/// The two ends of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The end that connects; its user typed the code.
    Calling,
    /// The end that listens; it showed the code.
    Waiting,
}

impl Role {
    /// Part of the keys and proofs of this end, so that no message is valid in the other direction.
    fn label(self) -> &'static [u8] {
        match self {
            Role::Calling => b"fabricmark pair: calling",
            Role::Waiting => b"fabricmark pair: waiting",
        }
    }

    fn other(self) -> Role {
        if self == Role::Calling { Role::Waiting } else { Role::Calling }
    }
}

/// Key and name of an end, sent with its proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Fingerprint of its key for TLS.
    pub fingerprint: Fingerprint,
    /// Its host name.
    pub name: HostName,
}

/// An end that has made its hello and waits for the other's.
pub struct Greeting {
    role: Role,
    secret: Spake2<Ed25519Group>,
    hello: [u8; HELLO_LEN],
}

impl Greeting {
    /// Starts a conversation, with fresh random numbers.
    pub fn new(role: Role, code: &Code) -> Greeting {
        let password = Password::new(code.signs());
        let [calling, waiting] =
            [Role::Calling, Role::Waiting].map(|role| spake2::Identity::new(role.label()));
        let (secret, element) = match role {
            Role::Calling => Spake2::start_a(&password, &calling, &waiting),
            Role::Waiting => Spake2::start_b(&password, &calling, &waiting),
        };
        let mut hello = [0; HELLO_LEN];
        hello[..MAGIC.len()].copy_from_slice(MAGIC);
        hello[MAGIC.len()..].copy_from_slice(&element);
        Greeting { role, secret, hello }
    }

    /// The hello, to be sent first.
    pub fn hello(&self) -> [u8; HELLO_LEN] {
        self.hello
    }

    /// Handles the other's hello, which may be invalid ([`PairError::Garbage`]) but cannot prove the code.
    pub fn on_hello(self, theirs: &[u8; HELLO_LEN]) -> Result<Keyed, PairError> {
        let element = theirs.strip_prefix(MAGIC).ok_or(PairError::Garbage)?;
        let key = self.secret.finish(element).map_err(|_| PairError::Garbage)?;
        let hellos = match self.role {
            Role::Calling => [self.hello, *theirs],
            Role::Waiting => [*theirs, self.hello],
        };
        Ok(Keyed { role: self.role, key, hellos })
    }
}

/// An end with a session key, which the other shares if it has the code.
pub struct Keyed {
    role: Role,
    key: Vec<u8>,
    /// The calling end's first.
    hellos: [[u8; HELLO_LEN]; 2],
}

impl Keyed {
    /// Introduces this end and proves that it has the code. The waiting end sends it after checking the other's.
    pub fn proof(&self, own: &Introduction) -> Result<[u8; PROOF_LEN], PairError> {
        let mut proof = [0; PROOF_LEN];
        let (said, tag) = proof.split_at_mut(PROOF_LEN - 32);
        let (fingerprint, name) = said.split_at_mut(32);
        fingerprint.copy_from_slice(&own.fingerprint.0);
        name[..own.name.as_str().len()].copy_from_slice(own.name.as_str().as_bytes());
        tag.copy_from_slice(&self.mac(self.role, said)?.finalize().into_bytes());
        Ok(proof)
    }

    /// Introduction of the other end; [`PairError::WrongCode`] if its session key differs: one of the ends got a
    /// wrong code, or messages were modified in transit.
    pub fn on_proof(&self, theirs: &[u8; PROOF_LEN]) -> Result<Introduction, PairError> {
        let (said, tag) = theirs.split_at(PROOF_LEN - 32);
        // Compares in constant time.
        let checked = self.mac(self.role.other(), said)?.verify_slice(tag);
        checked.map_err(|_| PairError::WrongCode)?;
        let (fingerprint, name) = said.split_at(32);
        let fingerprint = fingerprint.try_into().map_err(|_| PairError::Garbage)?;
        let name = str::from_utf8(name).map_err(|_| PairError::Garbage)?.trim_end_matches('\0');
        let name = name.parse().map_err(|_| PairError::Garbage)?;
        Ok(Introduction { fingerprint: Fingerprint(fingerprint), name })
    }

    /// All parts have a fixed length, so that none can be mistaken for another.
    fn mac(&self, from: Role, said: &[u8]) -> Result<Hmac<Sha256>, PairError> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.key).map_err(|_| PairError::Garbage)?;
        let [calling, waiting] = &self.hellos;
        let parts = [from.label(), calling, waiting, said];
        Ok(parts.into_iter().fold(mac, Mac::chain_update))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(text: &str) -> Code {
        text.parse().unwrap()
    }

    fn introduction(number: u8) -> Introduction {
        let name = format!("node-{number}").parse().unwrap();
        Introduction { fingerprint: Fingerprint([number; 32]), name }
    }

    /// Both ends after their hellos.
    fn keyed(calling: &Code, waiting: &Code) -> (Keyed, Keyed) {
        let calling = Greeting::new(Role::Calling, calling);
        let waiting = Greeting::new(Role::Waiting, waiting);
        let (hello, reply) = (calling.hello(), waiting.hello());
        (calling.on_hello(&reply).unwrap(), waiting.on_hello(&hello).unwrap())
    }

    #[test]
    fn two_ends_with_one_code_know_each_other() {
        let (calling, waiting) = keyed(&code("K7QM-2XVD"), &code("k7qm2xvd"));
        let proof = calling.proof(&introduction(1)).unwrap();
        assert_eq!(waiting.on_proof(&proof).unwrap(), introduction(1));
        let proof = waiting.proof(&introduction(2)).unwrap();
        assert_eq!(calling.on_proof(&proof).unwrap(), introduction(2));
    }

    #[test]
    fn another_code_proves_nothing_to_either_end() {
        let (calling, waiting) = keyed(&code("K7QM-2XVD"), &code("K7QM-2XVE"));
        let proofs =
            [calling.proof(&introduction(1)).unwrap(), waiting.proof(&introduction(2)).unwrap()];
        assert!(matches!(waiting.on_proof(&proofs[0]), Err(PairError::WrongCode)));
        assert!(matches!(calling.on_proof(&proofs[1]), Err(PairError::WrongCode)));
        assert!(matches!(calling.on_proof(&REFUSAL), Err(PairError::WrongCode)));
    }

    #[test]
    fn a_changed_bit_anywhere_in_a_proof_is_noticed() {
        let (calling, waiting) = keyed(&code("K7QM-2XVD"), &code("K7QM-2XVD"));
        let proof = calling.proof(&introduction(1)).unwrap();
        for place in 0..PROOF_LEN {
            let mut changed = proof;
            changed[place] ^= 1;
            assert!(matches!(waiting.on_proof(&changed), Err(PairError::WrongCode)), "{place}");
        }
    }

    #[test]
    fn a_proof_serves_no_other_way_and_no_other_conversation() {
        let one = code("K7QM-2XVD");
        let (calling, waiting) = keyed(&one, &one);
        let proof = calling.proof(&introduction(1)).unwrap();
        assert!(matches!(calling.on_proof(&proof), Err(PairError::WrongCode)));
        let (_, again) = keyed(&one, &one);
        assert!(matches!(again.on_proof(&proof), Err(PairError::WrongCode)));
        assert!(waiting.on_proof(&proof).is_ok());
    }

    #[test]
    fn an_echo_and_another_version_are_garbage() {
        let calling = Greeting::new(Role::Calling, &code("K7QM-2XVD"));
        let echo = calling.hello();
        assert!(matches!(calling.on_hello(&echo), Err(PairError::Garbage)));
        let mut newer = Greeting::new(Role::Waiting, &code("K7QM-2XVD")).hello();
        newer[15] = b'2';
        let calling = Greeting::new(Role::Calling, &code("K7QM-2XVD"));
        assert!(matches!(calling.on_hello(&newer), Err(PairError::Garbage)));
    }

    proptest! {
        #[test]
        fn garbage_convinces_nobody(
            hello in prop::array::uniform::<_, HELLO_LEN>(any::<u8>()),
            element in prop::array::uniform32(any::<u8>()),
            proof in prop::array::uniform::<_, PROOF_LEN>(any::<u8>()),
        ) {
            let begin = || Greeting::new(Role::Waiting, &code("K7QM-2XVD"));
            prop_assert!(matches!(begin().on_hello(&hello), Err(PairError::Garbage)));
            let mut shaped = Greeting::new(Role::Calling, &code("0000-0000")).hello();
            shaped[HELLO_LEN - 32..].copy_from_slice(&element);
            match begin().on_hello(&shaped) {
                Ok(keyed) => {
                    prop_assert!(matches!(keyed.on_proof(&proof), Err(PairError::WrongCode)));
                }
                Err(error) => prop_assert!(matches!(error, PairError::Garbage)),
            }
        }
    }
}
