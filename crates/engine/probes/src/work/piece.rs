//! The fixed piece of work: a chain of iterations. Each iteration needs the result of the previous
//! one.

use std::hint::black_box;

use punctual_model::Nanos;

use crate::ProbeError;
use crate::monotonic::now;

/// Distance of the nodes of the memory walk: the most common cache-line size. If the lines of a
/// machine are longer, several nodes share a line.
const LINE: usize = 64;

/// The kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Float,
    /// Walks over this many kB.
    Memory(u64),
}

/// A node of the memory walk, in a separate cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Node {
    /// The place of the next node.
    next: u32,
}

const _: () = assert!(size_of::<Node>() == LINE);

/// The work of one thread, and the result so far. The next piece of work begins with it.
pub(super) enum Piece {
    Integer(u64),
    Float(f64),
    Memory(Chain),
}

/// A closed chain of nodes in random order. The processor can neither predict nor load the next
/// node before the current one has arrived.
pub(super) struct Chain {
    nodes: Vec<Node>,
    at: u32,
}

impl Chain {
    /// Creates a chain over `kilobytes`. It is the same in each run.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn new(kilobytes: u64) -> Result<Self, ProbeError> {
        let refused = || {
            ProbeError::Unfit(format!(
                "{kilobytes} kB for the memory walk could not be allocated: give a smaller --size, \
                 or raise RLIMIT_MEMLOCK, because punctual locks its memory"
            ))
        };
        let nodes = kilobytes.saturating_mul(1_024) / LINE as u64;
        let places = u32::try_from(nodes.max(2)).map_err(|_| refused())?;
        let count = places as usize;
        let (mut nodes, mut order) = (Vec::new(), Vec::new());
        nodes.try_reserve_exact(count).map_err(|_| refused())?;
        order.try_reserve_exact(count).map_err(|_| refused())?;
        nodes.resize(count, Node { next: 0 });
        order.extend(0..places);
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        for last in (1..count).rev() {
            random = scrambled(random);
            order.swap(last, (random % (last as u64 + 1)) as usize);
        }
        let next = order.iter().cycle().skip(1);
        for (&from, &to) in order.iter().zip(next) {
            nodes[from as usize].next = to;
        }
        Ok(Self {
            nodes,
            at: order[0],
        })
    }

    /// Follows the chain, and returns the place that it reaches.
    fn walk(&self, steps: u64) -> u32 {
        let mut at = self.at;
        for _ in 0..steps {
            at = self.nodes[at as usize].next;
        }
        at
    }
}

/// Xorshift (Marsaglia 2003), which is never 0 if it was not 0 before.
const fn scrambled(mut number: u64) -> u64 {
    number ^= number << 13;
    number ^= number >> 7;
    number ^ (number << 17)
}

/// Returns the result of a chain of integer operations.
fn integers(mut number: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        number = scrambled(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

/// Returns the result of a chain of floating-point operations: the logistic map, whose values stay
/// between 0 and 1 and do not settle.
fn floats(mut number: f64, steps: u64) -> f64 {
    for _ in 0..steps {
        number = 3.9 * number * (1.0 - number);
    }
    number
}

impl Piece {
    /// Prepares the work of one thread, with all memory that it uses.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub(super) fn new(kind: Kind) -> Result<Self, ProbeError> {
        Ok(match kind {
            Kind::Integer => Self::Integer(1),
            Kind::Float => Self::Float(0.5),
            Kind::Memory(kilobytes) => Self::Memory(Chain::new(kilobytes)?),
        })
    }

    /// Does the work. It is one function for the calibration and for the measurement, so that both
    /// run the same machine code. [`black_box`] hides from the compiler the values at the beginning
    /// and the use of the result, so that it neither removes the work nor moves it beyond a clock
    /// reading.
    #[inline(never)]
    pub(super) fn run(&mut self, iterations: u64) {
        let steps = black_box(iterations);
        match black_box(self) {
            Self::Integer(number) => *number = black_box(integers(*number, steps)),
            Self::Float(number) => *number = black_box(floats(*number, steps)),
            Self::Memory(chain) => chain.at = black_box(chain.walk(steps)),
        }
    }

    /// Does the work once, and returns its execution time.
    pub(super) fn time(&mut self, iterations: u64) -> Nanos {
        let before = now();
        self.run(iterations);
        now() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_visits_each_node_once() {
        for kilobytes in [1, 3, 64, 1_000] {
            let chain = Chain::new(kilobytes).unwrap();
            assert_eq!(chain.nodes.len() as u64, kilobytes * 1_024 / 64);
            let (mut at, mut seen) = (chain.at, vec![false; chain.nodes.len()]);
            for _ in 0..seen.len() {
                assert!(!std::mem::replace(&mut seen[at as usize], true));
                at = chain.nodes[at as usize].next;
            }
            assert_eq!(at, chain.at);
        }
    }

    #[test]
    fn order_of_chain_is_random_and_repeatable() {
        let [first, second] = [(); 2].map(|()| Chain::new(64).unwrap());
        let next =
            |chain: &Chain| -> Vec<u32> { chain.nodes.iter().map(|node| node.next).collect() };
        assert_eq!(next(&first), next(&second));
        let ascending = (0..).zip(next(&first)).filter(|(at, to)| at + 1 == *to);
        assert!(ascending.count() < 20);
    }

    #[test]
    fn impossible_chain_is_refused() {
        let error = Chain::new(u64::MAX).err().unwrap().to_string();
        assert!(error.contains("--size"), "{error}");
    }

    /// The work of two pieces is that of one piece with twice the iterations, so the compiler has
    /// removed none of it, and each piece continues the one before.
    #[test]
    fn each_iteration_needs_the_one_before() {
        for kind in [Kind::Integer, Kind::Float, Kind::Memory(64)] {
            let result = |pieces: &[u64]| {
                let mut piece = Piece::new(kind).unwrap();
                pieces.iter().for_each(|steps| piece.run(*steps));
                match piece {
                    Piece::Integer(number) => number,
                    Piece::Float(number) => number.to_bits(),
                    Piece::Memory(chain) => chain.at.into(),
                }
            };
            assert_eq!(result(&[500, 300]), result(&[800]), "{kind:?}");
            assert_ne!(result(&[800]), result(&[799]), "{kind:?}");
        }
    }

    #[test]
    fn floats_stay_normal_and_keep_changing() {
        let mut number = 0.5;
        for _ in 0..100_000 {
            let next = floats(number, 1);
            assert!(next.is_normal() && next < 1.0 && next != number, "{number}");
            number = next;
        }
    }

    #[test]
    fn more_iterations_take_longer() {
        for kind in [Kind::Integer, Kind::Float, Kind::Memory(64)] {
            let mut piece = Piece::new(kind).unwrap();
            let mut fastest = |steps| (0..20).map(|_| piece.time(steps)).min().unwrap();
            let (few, many) = (fastest(1_000), fastest(100_000));
            assert!(many > few, "{kind:?}: {few} {many}");
        }
    }
}
