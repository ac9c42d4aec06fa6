//! Memory for packets in flight: no allocation per packet, and no more memory than a packet needs.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{Advice, MmapMut};

use crate::tun::PACKET_MAX;

/// Chunks into which packets are read one after another. A chunk is reused when the last of its packets is gone,
/// which suits links that hold packets for about the same time.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Idle,
    current: Option<Arc<Chunk>>,
    /// Bytes of the current chunk that are in use.
    used: usize,
}

/// Memory of chunks without packets.
type Idle = Arc<Mutex<Vec<MmapMut>>>;

/// Length of a chunk: thirty of the longest packets, one huge page.
const CHUNK_BYTES: usize = 2 << 20;

/// Smallest number of idle chunks that are kept: 64 MiB. Beyond that as many are kept as are in use, so that a full
/// pipe allocates no memory and an empty one returns it.
const IDLE_MIN: usize = 32;

#[derive(Debug)]
struct Chunk {
    /// Taken only when the chunk is dropped.
    memory: Mutex<Option<MmapMut>>,
    home: Idle,
}

/// The bytes of one packet.
#[derive(Clone, Debug)]
pub struct Slice {
    chunk: Arc<Chunk>,
    start: u32,
    length: u32,
}

impl Pool {
    /// Lets `read` fill memory for one packet; `None` if it has none.
    pub(crate) fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<Slice>> {
        let chunk = match self.current.take() {
            Some(chunk) if Arc::strong_count(&chunk) == 1 => {
                self.used = 0;
                chunk
            }
            Some(chunk) if self.used + PACKET_MAX <= CHUNK_BYTES => chunk,
            _ => {
                self.used = 0;
                let idle = locked(&self.idle).pop();
                let memory = idle.map_or_else(new_chunk, Ok)?;
                Arc::new(Chunk { memory: Mutex::new(Some(memory)), home: Arc::clone(&self.idle) })
            }
        };
        let start = self.used;
        let length = match &mut *locked(&chunk.memory) {
            Some(memory) => read(&mut memory[start..start + PACKET_MAX]),
            None => Ok(None),
        };
        let chunk = self.current.insert(chunk);
        let Some(length) = length? else { return Ok(None) };
        self.used += length.min(PACKET_MAX);
        let (start, length) = (start as u32, length.min(PACKET_MAX) as u32);
        Ok(Some(Slice { chunk: Arc::clone(chunk), start, length }))
    }
}

impl Slice {
    /// Whether both are the same bytes of the same packet.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunk, &other.chunk) && self.start == other.start
    }

    /// Calls `use_them` with the bytes; it must not use another packet meanwhile.
    pub(crate) fn with<R>(&self, use_them: impl FnOnce(&[u8]) -> R) -> R {
        let start = self.start as usize;
        let memory = locked(&self.chunk.memory);
        let bytes = memory.as_ref().map(|memory| &memory[start..start + self.length as usize]);
        use_them(bytes.unwrap_or_default())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // The pool has one reference; the others are those of chunks.
        let in_use = Arc::strong_count(&self.home) - 1;
        let mut home = locked(&self.home);
        if home.len() < in_use.max(IDLE_MIN) {
            home.extend(locked(&self.memory).take());
        }
    }
}

/// Huge pages of 2 MiB if the kernel has some: the packets in flight over a long fat link have more small pages
/// than the TLB holds.
fn new_chunk() -> io::Result<MmapMut> {
    let memory = MmapMut::map_anon(CHUNK_BYTES)?;
    // A kernel without huge pages gives small ones.
    let _ = memory.advise(Advice::HugePage);
    Ok(memory)
}

/// One thread has all packets of a pool, so that the lock is never contended; link elements require types that can
/// be sent to other threads.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pool: &mut Pool, length: usize, byte: u8) -> Slice {
        let fill = |bytes: &mut [u8]| {
            bytes[..length].fill(byte);
            Ok(Some(length))
        };
        pool.fill(fill).unwrap().unwrap()
    }

    #[test]
    fn packets_stand_one_behind_another_until_they_are_gone() {
        let mut pool = Pool::default();
        let (one, two) = (read(&mut pool, 60_000, 1), read(&mut pool, 52, 2));
        assert!(pool.fill(|_| Ok(None)).unwrap().is_none());
        let three = read(&mut pool, 52, 3);
        assert_eq!((one.start, two.start, three.start), (0, 60_000, 60_052));
        assert_eq!(two.with(<[u8]>::to_vec), [2; 52]);
        drop((one, two, three));
        assert_eq!(read(&mut pool, 52, 4).start, 0);
    }

    #[test]
    fn chunks_are_used_again() {
        let mut pool = Pool::default();
        let held: Vec<_> = (0..100).map(|_| read(&mut pool, 60_000, 0)).collect();
        let chunks = |pool: &Pool| locked(&pool.idle).len();
        assert_eq!(chunks(&pool), 0);
        drop(held);
        // 34 packets to a chunk; the current one is not idle.
        assert_eq!(chunks(&pool), 2);
        let _held: Vec<_> = (0..68).map(|_| read(&mut pool, 60_000, 0)).collect();
        assert_eq!(chunks(&pool), 1);
    }
}
