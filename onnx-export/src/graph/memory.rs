//! How much memory a graph takes while it runs, beside what is bound to it.
//!
//! An estimate for planning: values live from the node that makes them to the last node that uses them, as in a
//! compiler that plans memory ahead. It neither fuses operators nor reuses an input's memory for a result, so a good
//! compiler stays below it. What follows from weights alone, such as a weight in another type, counts from the
//! beginning: compilers order nodes as they like, and these wait for nothing.

use std::collections::{HashMap, HashSet};

use super::{DataType, Port};
use crate::proto::{NodeProto, TensorProto};

/// What devices align each value to.
const ALIGNMENT: u64 = 512;

/// Operators that hand on the memory of their first input.
const VIEWS: [&str; 5] = ["Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"];

/// Memory of a compiled graph, in bytes. Inputs, weights and results are not part of it: they are bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphMemory {
    /// Constants, which the compiled graph brings along.
    pub constants: u64,
    /// The most that values inside the graph take at one time.
    pub workspace: u64,
    /// The largest of them.
    pub largest: u64,
}

impl GraphMemory {
    /// What a graph was found to take, of which nothing is estimated any more.
    pub fn measured(bytes: u64) -> Self {
        Self { constants: bytes, ..Self::default() }
    }

    /// Of a graph whose nodes are in the order in which they run; `sizes` has the bytes of each node's result.
    pub(super) fn of(
        nodes: &[NodeProto],
        constants: &[TensorProto],
        inputs: &[Port],
        outputs: &[Port],
        sizes: &HashMap<String, u64>,
    ) -> Self {
        let stored = |tensor: &TensorProto| tensor.raw_data.as_ref().map_or(0, |raw| raw.len() as u64);
        let constants = constants.iter().map(|tensor| aligned(stored(tensor))).sum();

        let lives = Lives::of(nodes);
        let bound: HashSet<&str> = outputs.iter().map(|port| &*port.name).collect();
        // What depends on an activation.
        let mut active: HashSet<&str> = inputs.iter().map(|port| &*port.name).collect();
        let (mut begun, mut ended) = (vec![0; nodes.len()], vec![0; nodes.len()]);
        let mut largest = 0;
        for (i, node) in nodes.iter().enumerate() {
            let is_active = node.input.iter().any(|name| active.contains(name.as_str()));
            for name in node.output.iter().map(String::as_str) {
                if is_active {
                    active.insert(name);
                }
                if bound.contains(name) || lives.root(name) != name {
                    continue;
                }
                let bytes = aligned(sizes.get(name).copied().unwrap_or(0));
                largest = largest.max(bytes);
                begun[if is_active { i } else { 0 }] += bytes;
                ended[lives.last_use[name]] += bytes;
            }
        }
        let (mut now, mut workspace) = (0, 0);
        for (begun, ended) in begun.into_iter().zip(ended) {
            now += begun;
            workspace = workspace.max(now);
            now -= ended;
        }
        Self { constants, workspace, largest }
    }
}

/// Bytes a value occupies on a device.
pub fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

impl DataType {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::I64 => 8,
        }
    }
}

impl Port {
    /// Bytes of its values, back to back.
    pub fn bytes(&self) -> u64 {
        (self.dtype.size() * self.shape.iter().product::<usize>()) as u64
    }
}

/// In whose memory values lie, and by which node that memory is last used.
struct Lives<'a> {
    roots: HashMap<&'a str, &'a str>,
    last_use: HashMap<&'a str, usize>,
}

impl<'a> Lives<'a> {
    fn of(nodes: &'a [NodeProto]) -> Self {
        let mut lives = Self { roots: HashMap::new(), last_use: HashMap::new() };
        for (i, node) in nodes.iter().enumerate() {
            for name in &node.output {
                if VIEWS.contains(&node.op_type()) {
                    let root = lives.root(&node.input[0]);
                    lives.roots.insert(name, root);
                }
                lives.last_use.insert(lives.root(name), i);
            }
            for name in &node.input {
                lives.last_use.insert(lives.root(name), i);
            }
        }
        lives
    }

    fn root(&self, name: &'a str) -> &'a str {
        self.roots.get(name).copied().unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::DataType::F32;
    use super::super::{Builder, CpuLowering};
    use super::*;

    #[test]
    fn values_count_while_they_live_and_views_and_results_do_not() {
        let mut g = Builder::new(&CpuLowering, &|_| F32);
        let x = g.input("x", F32, &[256]); // 1 KiB
        let a = g.add(&x, &x); // 1 KiB
        let b = g.mul(&a, &a); // 1 KiB, and the last use of `a`
        let c = g.reshape(&b, &[16, 16]); // the memory of `b`; its shape is a constant of 16 bytes
        let row = g.constant_f32(&[1.0; 16], &[16]);
        let d = g.add(&c, &row); // 1 KiB, the last use of `b`
        g.output("y", &d); // bound
        let memory = g.finish("graph").memory;
        assert_eq!(memory, GraphMemory { constants: 2 * 512, workspace: 2 * 1024, largest: 1024 });
    }

    #[test]
    fn what_is_used_late_counts_until_then() {
        let mut g = Builder::new(&CpuLowering, &|_| F32);
        let x = g.input("x", F32, &[128]);
        let kept = g.add(&x, &x);
        let mut y = g.mul(&kept, &x);
        for _ in 0..3 {
            y = g.mul(&y, &x);
        }
        let y = g.add(&y, &kept);
        g.output("y", &y);
        assert_eq!(g.finish("graph").memory.workspace, 3 * 512);
    }

    #[test]
    fn what_follows_from_weights_alone_counts_from_the_beginning() {
        let mut g = Builder::new(&CpuLowering, &|_| DataType::F16);
        let x = g.input("x", F32, &[128]);
        let mut y = x.clone();
        for _ in 0..3 {
            y = g.mul(&y, &x); // 512 bytes; two of them exist at a time
        }
        let weight = g.weight("w", &[1024]);
        let weight = g.cast(&weight, F32); // 4 KiB
        let weight = g.slice(&weight, 0, 0, 128); // 512 bytes
        let y = g.mul(&y, &weight);
        g.output("y", &y);
        assert_eq!(g.finish("graph").memory.workspace, 2 * 512 + 4096 + 512);
    }
}
