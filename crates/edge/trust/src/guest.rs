//! A caller at the waiting end.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::meeting::{PATIENCE, conversation};
use crate::pairing::{Greeting, HELLO_LEN, Introduction, Keyed, PROOF_LEN, REFUSAL, Role};
use crate::{Code, PairError};

/// A caller at the waiting end, of whom nothing is known yet.
pub(crate) struct Guest {
    pub(crate) stream: TcpStream,
    until: Instant,
    /// The message that is coming; no more is read than it has.
    message: [u8; PROOF_LEN],
    have: usize,
    /// After the hellos.
    keyed: Option<Keyed>,
}

impl Guest {
    /// A socket that does not block.
    pub(crate) fn new(stream: TcpStream) -> Guest {
        let until = Instant::now() + PATIENCE;
        Guest { stream, until, message: [0; PROOF_LEN], have: 0, keyed: None }
    }

    /// Takes what has come and answers; who it is, once it has proved the code and has been told.
    pub(crate) fn turn(
        &mut self,
        code: &Code,
        own: &Introduction,
    ) -> Result<Option<Introduction>, PairError> {
        if self.keyed.is_none() {
            let Some(hello) = self.read::<HELLO_LEN>()? else { return Ok(None) };
            let greeting = Greeting::new(Role::Waiting, code);
            let reply = greeting.hello();
            self.keyed = Some(greeting.on_hello(&hello)?);
            self.write(&reply)?;
        }
        let Some(proof) = self.read::<PROOF_LEN>()? else { return Ok(None) };
        let Some(keyed) = &self.keyed else { return Ok(None) };
        match keyed.on_proof(&proof) {
            Ok(other) => {
                let reply = keyed.proof(own)?;
                self.write(&reply)?;
                Ok(Some(other))
            }
            Err(error) => {
                // It is told if it still listens; what was found stands either way.
                let _ = self.write(&REFUSAL);
                Err(error)
            }
        }
    }

    /// A whole message, once it is there.
    fn read<const LEN: usize>(&mut self) -> Result<Option<[u8; LEN]>, PairError> {
        while self.have < LEN {
            match self.stream.read(&mut self.message[self.have..LEN]) {
                Ok(0) => return Err(PairError::HungUp),
                Ok(read) => self.have += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let late = Instant::now() >= self.until;
                    return if late { Err(PairError::Silent) } else { Ok(None) };
                }
                Err(error) => return Err(conversation(error)),
            }
        }
        self.have = 0;
        Ok(self.message.first_chunk().copied())
    }

    /// A short message into an empty buffer: it fits at once, or something is wrong with the guest.
    fn write(&mut self, message: &[u8]) -> Result<(), PairError> {
        self.stream.write_all(message).map_err(conversation)
    }
}
