//! What each layer decided for a connection: the layer flows.
//!
//! They are kept below the unified flow, so that a change in one layer leaves the choices of the others (a
//! destination, a NAT port) as they were. 32 bytes each for IPv4, in a list per connection.

use smallvec::SmallVec;

use crate::flow::key::{Addr, Ends};
use crate::flow::pair::NONE;

/// One layer's decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node<A> {
    /// The layer's serial.
    pub(crate) layer: u16,
    /// A layer flow: replies follow it. Otherwise only the change of ends is remembered.
    pub(crate) stateful: bool,
    /// The decision was a load balancer's.
    pub(crate) balanced: bool,
    /// The layer's generation when it was asked.
    pub(crate) generation: u32,
    /// The rule's serial.
    pub(crate) rule: u32,
    /// The next node, or [`NONE`].
    pub(crate) next: u32,
    /// The lent NAT port, or [`NONE`].
    pub(crate) binding: u32,
    /// The ends behind the layer.
    pub(crate) ends: Ends<A>,
}

/// All layer flows of one family on a port.
#[derive(Clone, Debug)]
pub(crate) struct Nodes<A> {
    /// Never moved or given back: growth copies nothing and wastes little.
    blocks: Vec<Box<[Node<A>]>>,
    /// Nodes ever used.
    used: u32,
    free: u32,
}

const BLOCK: usize = 1024;

impl<A> Default for Nodes<A> {
    fn default() -> Self {
        Self { blocks: Vec::new(), used: 0, free: NONE }
    }
}

pub(crate) type List<A> = SmallVec<[Node<A>; 4]>;

impl<A: Addr> Nodes<A> {
    pub(crate) fn memory(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<Node<A>>()
    }

    fn get(&self, number: u32) -> Option<&Node<A>> {
        self.blocks.get(number as usize / BLOCK)?.get(number as usize % BLOCK)
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Node<A>> {
        self.blocks.get_mut(number as usize / BLOCK)?.get_mut(number as usize % BLOCK)
    }

    /// Keeps a list; returns its head.
    pub(crate) fn insert(&mut self, list: &[Node<A>]) -> u32 {
        let mut head = NONE;
        for node in list.iter().rev() {
            let node = Node { next: head, ..*node };
            let number = if self.free == NONE {
                self.used += 1;
                if self.used as usize > self.blocks.len() * BLOCK {
                    self.blocks.push(vec![Node::default(); BLOCK].into_boxed_slice());
                }
                self.used - 1
            } else {
                self.free
            };
            let again = number == self.free;
            if let Some(place) = self.get_mut(number) {
                let old = std::mem::replace(place, node);
                if again {
                    self.free = old.next;
                }
            }
            head = number;
        }
        head
    }

    /// The list of a head.
    pub(crate) fn list(&self, mut head: u32) -> List<A> {
        let mut list = List::new();
        while let Some(node) = self.get(head) {
            list.push(*node);
            head = node.next;
        }
        list
    }

    /// Forgets a list; returns the NAT ports that were lent to it.
    pub(crate) fn remove(&mut self, mut head: u32) -> SmallVec<[u32; 2]> {
        let mut bindings = SmallVec::new();
        let mut free = self.free;
        while let Some(node) = self.get_mut(head) {
            let next = std::mem::replace(&mut node.next, free);
            if node.binding != NONE {
                bindings.push(node.binding);
            }
            free = head;
            head = next;
        }
        self.free = free;
        bindings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_and_places_are_used_again() {
        assert_eq!(size_of::<Node<[u8; 4]>>(), 32);
        let node = |rule, binding| Node::<[u8; 4]> { rule, binding, ..Node::default() };
        let mut nodes = Nodes::default();
        let first = nodes.insert(&[node(1, NONE), node(2, 7)]);
        let second = nodes.insert(&[node(3, NONE)]);
        assert_eq!(nodes.insert(&[]), NONE);
        assert_eq!(nodes.list(first).iter().map(|node| node.rule).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(nodes.remove(first).as_slice(), [7]);
        assert_eq!(nodes.list(second).len(), 1);
        let third = nodes.insert(&[node(4, NONE), node(5, NONE)]);
        assert_eq!(nodes.list(third).iter().map(|node| node.rule).collect::<Vec<_>>(), [4, 5]);
        assert_eq!(nodes.used, 3);
    }
}
