//! Buffers of operations: in the cache, or larger than it.

use fabricmark_plan::Buffers;

/// Alignment: a page, as IMB allocates (`IMB_alloc_buf`), so that results do not depend on the allocator.
const ALIGN: usize = 4096;

/// Distance of the parts of a buffer that is larger than the cache, beyond their length: a cache line.
const LINE: usize = 64;

/// Memory for the payloads of an operation.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    /// Where the current part begins.
    at: usize,
    /// Where the first part begins.
    first: usize,
    /// Where the last part begins.
    last: usize,
    /// From one part to the next.
    stride: usize,
    /// Length of a part.
    length: usize,
}

impl Buffer {
    /// Memory for operations on `length` bytes, which reuses that of an earlier buffer, so that its pages are mapped.
    /// Off the cache, successive operations use different parts of at least `cache_bytes` in total.
    pub fn new(mut memory: Vec<u8>, length: usize, buffers: Buffers, cache_bytes: usize) -> Self {
        let stride = (length + LINE).next_multiple_of(LINE);
        let parts = match buffers {
            Buffers::Warm => 1,
            Buffers::OffCache => cache_bytes.div_ceil(stride).max(2),
        };
        let room = parts * stride + ALIGN;
        if memory.len() < room {
            memory.resize(room, 0);
        }
        let first = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        let last = first + (parts - 1) * stride;
        Self { memory, at: first, first, last, stride, length }
    }

    /// The memory, for the next buffer.
    pub fn into_memory(self) -> Vec<u8> {
        self.memory
    }

    /// Moves to the next part.
    #[inline]
    pub fn advance(&mut self) {
        self.at = if self.at == self.last { self.first } else { self.at + self.stride };
    }

    /// Where the current part begins, for [`Self::set`].
    pub fn at(&self) -> usize {
        self.at
    }

    /// Moves back to a part.
    pub fn set(&mut self, at: usize) {
        self.at = at;
    }

    /// The current part.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.at..self.at + self.length]
    }

    /// The current part, to be changed.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.at..self.at + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_buffers_stay_and_others_pass_through_more_than_the_cache() {
        let mut warm = Buffer::new(Vec::new(), 100, Buffers::Warm, 1 << 20);
        let begin = warm.bytes().as_ptr();
        warm.advance();
        assert_eq!((warm.bytes().as_ptr(), warm.bytes().len()), (begin, 100));
        assert_eq!(begin.align_offset(ALIGN), 0);

        let mut cold = Buffer::new(warm.into_memory(), 1000, Buffers::OffCache, 1 << 20);
        let mut seen = std::collections::BTreeSet::new();
        while seen.insert(cold.bytes_mut().as_ptr()) {
            cold.advance();
        }
        assert!(seen.len() * 1000 >= (1 << 20) * 9 / 10, "{} parts", seen.len());
    }
}
