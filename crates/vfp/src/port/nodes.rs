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
    nodes: Vec<Node<A>>,
    free: u32,
}

impl<A> Default for Nodes<A> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: NONE }
    }
}

pub(crate) type List<A> = SmallVec<[Node<A>; 4]>;

impl<A: Addr> Nodes<A> {
    pub(crate) fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node<A>>()
    }

    /// Keeps a list; returns its head.
    pub(crate) fn insert(&mut self, list: &[Node<A>]) -> u32 {
        let mut head = NONE;
        for node in list.iter().rev() {
            let node = Node { next: head, ..*node };
            head = if self.free == NONE {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).unwrap_or(NONE)
            } else {
                let number = self.free;
                self.free = self.nodes[number as usize].next;
                self.nodes[number as usize] = node;
                number
            };
        }
        head
    }

    /// The list of a head.
    pub(crate) fn list(&self, mut head: u32) -> List<A> {
        let mut list = List::new();
        while let Some(node) = self.nodes.get(head as usize) {
            list.push(*node);
            head = node.next;
        }
        list
    }

    /// Forgets a list; returns the NAT ports that were lent to it.
    pub(crate) fn remove(&mut self, mut head: u32) -> SmallVec<[u32; 2]> {
        let mut bindings = SmallVec::new();
        while let Some(node) = self.nodes.get_mut(head as usize) {
            let next = node.next;
            if node.binding != NONE {
                bindings.push(node.binding);
            }
            node.next = self.free;
            self.free = head;
            head = next;
        }
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
        assert_eq!(nodes.nodes.len(), 3);
    }
}
