//! Expected results of operations, computed serially.

use fabricmark_plan::{Collective, Datatype};

use crate::sys::Call;

/// A small number for each rank and element: sums over 65,536 ranks are exact in every datatype but bytes, whose sums wrap
/// around. They repeat after a prime number of elements, and of ranks, which no size of a block is a multiple of.
fn value(rank: u32, element: usize) -> i64 {
    1 + (31 * i64::from(rank) + 7 * element as i64) % 251
}

/// The bytes of elements of a type.
fn bytes_of(datatype: Datatype, numbers: impl Iterator<Item = i64>) -> Vec<u8> {
    match datatype {
        Datatype::Byte => numbers.map(|number| number as u8).collect(),
        Datatype::Int => numbers.flat_map(|number| (number as i32).to_ne_bytes()).collect(),
        Datatype::Float => numbers.flat_map(|number| (number as f32).to_ne_bytes()).collect(),
        Datatype::Double => numbers.flat_map(|number| (number as f64).to_ne_bytes()).collect(),
    }
}

/// What a rank sends: `length` bytes, beginning with the element at `skip` bytes of its data.
pub fn data(datatype: Datatype, rank: u32, skip: usize, length: usize) -> Vec<u8> {
    let size = datatype.bytes() as usize;
    let first = skip / size;
    bytes_of(datatype, (first..first + length / size).map(|element| value(rank, element)))
}

/// Sums of the data of all ranks.
fn sums(datatype: Datatype, ranks: u32, skip: usize, length: usize) -> Vec<u8> {
    let size = datatype.bytes() as usize;
    let first = skip / size;
    let sum = |element| (0..ranks).map(|rank| value(rank, element)).sum();
    bytes_of(datatype, (first..first + length / size).map(sum))
}

/// Sum of what two ranks send.
pub fn sum_of_two(datatype: Datatype, ranks: [u32; 2], length: usize) -> Vec<u8> {
    let size = datatype.bytes() as usize;
    let sum = |element| ranks.iter().map(|&rank| value(rank, element)).sum();
    bytes_of(datatype, (0..length / size).map(sum))
}

/// What a rank has in its receive buffer before an operation: its own data where the operation takes them from there.
pub fn before(call: &Call, rank: u32, ranks: u32) -> Vec<u8> {
    let (datatype, payload) = (call.elements.datatype, call.payload);
    let [_, room] = Call::room(call.collective, payload, ranks as usize);
    let mut buffer = vec![0; room];
    let is_root = rank == call.root;
    let own = |skip: usize, length: usize| data(datatype, rank, skip, length);
    match call.collective {
        Collective::Bcast if is_root => buffer = own(0, payload),
        Collective::Reduce if call.in_place && is_root => buffer = own(0, payload),
        Collective::Gather | Collective::Gatherv if call.in_place && is_root => {
            let at = rank as usize * payload;
            buffer[at..at + payload].copy_from_slice(&own(0, payload));
        }
        Collective::Allgather | Collective::Allgatherv if call.in_place => {
            let at = rank as usize * payload;
            buffer[at..at + payload].copy_from_slice(&own(0, payload));
        }
        Collective::Allreduce
        | Collective::ReduceScatter
        | Collective::ReduceScatterBlock
        | Collective::Alltoall
        | Collective::Alltoallv
            if call.in_place =>
        {
            buffer = own(0, room);
        }
        _ => {}
    }
    buffer
}

/// What a rank has in its receive buffer after an operation, from its first byte; empty if nothing is defined.
pub fn expected(call: &Call, rank: u32, ranks: u32) -> Vec<u8> {
    let (datatype, payload) = (call.elements.datatype, call.payload);
    let is_root = rank == call.root;
    let of_all = |skip: usize| -> Vec<u8> {
        (0..ranks).flat_map(|from| data(datatype, from, skip, payload)).collect()
    };
    let own_block = rank as usize * payload;
    match call.collective {
        Collective::Bcast => data(datatype, call.root, 0, payload),
        Collective::Reduce if is_root => sums(datatype, ranks, 0, payload),
        Collective::Allreduce => sums(datatype, ranks, 0, payload),
        Collective::ReduceScatter | Collective::ReduceScatterBlock => {
            sums(datatype, ranks, own_block, payload)
        }
        Collective::Gather | Collective::Gatherv if is_root => of_all(0),
        Collective::Scatter | Collective::Scatterv if !(is_root && call.in_place) => {
            data(datatype, call.root, own_block, payload)
        }
        Collective::Allgather | Collective::Allgatherv => of_all(0),
        Collective::Alltoall | Collective::Alltoallv => of_all(own_block),
        Collective::Barrier
        | Collective::Reduce
        | Collective::Gather
        | Collective::Gatherv
        | Collective::Scatter
        | Collective::Scatterv => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Elements;

    fn call(collective: Collective, payload: usize) -> Call {
        let elements = Elements { datatype: Datatype::Int, are_added: true };
        Call { collective, payload, elements, root: 1, in_place: false }
    }

    fn ints(bytes: &[u8]) -> Vec<i32> {
        bytes.chunks(4).map(|chunk| i32::from_ne_bytes(chunk.try_into().unwrap())).collect()
    }

    #[test]
    fn expected_results_are_those_of_the_standard() {
        // Ranks 0, 1 and 2 send 1, 8, 15, ...; 32, 39, 46, ...; 63, 70, 77, ...
        let of = |collective, rank| ints(&expected(&call(collective, 8), rank, 3));
        assert_eq!(of(Collective::Bcast, 0), [32, 39]);
        assert_eq!(of(Collective::Reduce, 1), [96, 117]);
        assert_eq!(of(Collective::Reduce, 0), [0; 0]);
        assert_eq!(of(Collective::Allreduce, 2), [96, 117]);
        assert_eq!(of(Collective::ReduceScatter, 1), [138, 159]);
        assert_eq!(of(Collective::ReduceScatterBlock, 1), [138, 159]);
        assert_eq!(of(Collective::Gather, 1), [1, 8, 32, 39, 63, 70]);
        assert_eq!(of(Collective::Scatter, 2), [60, 67]);
        assert_eq!(of(Collective::Alltoall, 1), [15, 22, 46, 53, 77, 84]);
    }
}
