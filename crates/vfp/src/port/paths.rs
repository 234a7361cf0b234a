//! The rules that decided for flows, each distinct sequence kept once and counted by its flows.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::flow::pair::NONE;

/// Rules in the order in which they decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    pub(crate) rules: SmallVec<[u32; 8]>,
    pub(crate) meters: SmallVec<[u32; 1]>,
    /// The last rule drops the packets.
    pub(crate) drops: bool,
}

#[derive(Default)]
pub(crate) struct Paths {
    slots: Vec<Option<(Path, u32)>>,
    numbers: FxHashMap<Path, u32>,
    free: Vec<u32>,
}

impl Paths {
    /// The number of a path, for one more flow.
    pub(crate) fn acquire(&mut self, path: &Path) -> u32 {
        if path.rules.is_empty() && path.meters.is_empty() {
            return NONE;
        }
        if let Some(&number) = self.numbers.get(path) {
            if let Some(Some((_, users))) = self.slots.get_mut(number as usize) {
                *users += 1;
            }
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
        });
        self.slots[number as usize] = Some((path.clone(), 1));
        self.numbers.insert(path.clone(), number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Path> {
        self.slots.get(number as usize)?.as_ref().map(|(path, _)| path)
    }

    /// One flow less has the path.
    pub(crate) fn release(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        if let Some((path, users)) = slot {
            *users -= 1;
            if *users == 0 {
                self.numbers.remove(path);
                *slot = None;
                self.free.push(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lives_as_long_as_its_flows() {
        let mut paths = Paths::default();
        let path = Path { rules: SmallVec::from_slice(&[1, 2]), ..Path::default() };
        let number = paths.acquire(&path);
        assert_eq!(paths.acquire(&path), number);
        assert_eq!(paths.acquire(&Path::default()), NONE);
        paths.release(number);
        assert_eq!(paths.get(number), Some(&path));
        paths.release(number);
        assert_eq!(paths.get(number), None);
        paths.release(NONE);
        assert_eq!(paths.acquire(&Path { drops: true, ..path }), number);
    }
}
