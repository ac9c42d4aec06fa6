//! Buffers of payloads that begin at a page boundary, as those of iperf3 do, so that the offset in the page does
//! not differ from build to build. Where the allocator puts a buffer changes the rate of streams with `path = "gso"` by
//! 12 to 25 %, for a reason that is not known (`docs/notebook/measured.md`).

use std::ops::{Deref, DerefMut};

/// Size of a page on most architectures. Where pages are larger, only the alignment to cache lines remains.
const PAGE_BYTES: usize = 4096;

/// Bytes at a page boundary.
#[derive(Debug)]
pub(crate) struct Buffer {
    room: Box<[u8]>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// A buffer full of one byte. Untouched pages of zeros need no memory.
    pub(crate) fn filled_with(fill: u8, length: usize) -> Self {
        let room = vec![fill; length + PAGE_BYTES - 1].into_boxed_slice();
        let start = room.as_ptr().align_offset(PAGE_BYTES);
        Self { room, start, length }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.room[self.start..][..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.start..][..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_any_length_begins_at_a_page_also_after_a_move() {
        for length in [0, 1, 64, 4_095, 4_096, 64_512, 131_072] {
            let mut moved = [7, 9].map(|fill| (fill, Buffer::filled_with(fill, length)));
            for (fill, buffer) in &mut moved {
                assert_eq!(**buffer, vec![*fill; length][..]);
                assert_eq!(buffer.as_ptr().addr() % 4096, 0, "{length}");
                buffer.fill(1);
                assert!(buffer.iter().all(|&byte| byte == 1));
            }
        }
    }
}
