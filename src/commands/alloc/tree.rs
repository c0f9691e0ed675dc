//! Stacks as a tree: comms at the top, each function below its caller.

use std::collections::HashMap;
use std::sync::Arc;

use super::folded::{OTHER, comm as frame};
use crate::analysis::profile::sums::Profile;

/// Maximum depth of functions below a comm, as in the kernel (PERF_MAX_STACK_DEPTH).
const DEEPEST: usize = 127;

/// A comm, or a function called by its parent node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Name of the comm or function, printable; an address if the function is unknown.
    pub name: Arc<str>,
    /// Samples with this function as the innermost.
    pub own: u64,
    /// Samples of this node and all nodes below.
    pub total: u64,
    /// Called functions, largest first; of a comm, its outermost functions.
    pub children: Vec<Node>,
}

/// All kept stacks of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Number of samples.
    pub total: u64,
    /// The comms, largest first.
    pub comms: Vec<Node>,
}

/// A node while the tree is built.
#[derive(Default)]
struct Growing {
    own: u64,
    children: HashMap<Arc<str>, Growing>,
}

impl Tree {
    /// Tree of the kept stacks.
    pub fn new(profile: &Profile) -> Self {
        let mut root = Growing::default();
        let mut comms: HashMap<&[u8], Arc<str>> = HashMap::new();
        for (comm, stack, samples) in profile.stacks() {
            let name = comms.entry(comm).or_insert_with(|| frame(comm).into());
            let mut at = root.children.entry(Arc::clone(name)).or_default();
            for function in stack.names().iter().take(DEEPEST) {
                at = at.children.entry(Arc::clone(function)).or_default();
            }
            at.own += samples;
        }
        if profile.other() > 0 {
            root.children.entry(OTHER.into()).or_default().own += profile.other();
        }
        let grown = grown(Arc::default(), root);
        Self { total: grown.total, comms: grown.children }
    }
}

/// Sorts a node and all nodes below. Recurses at most `DEEPEST` + 2 levels.
fn grown(name: Arc<str>, node: Growing) -> Node {
    let mut children: Vec<Node> =
        node.children.into_iter().map(|(name, child)| grown(name, child)).collect();
    children.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
    Node {
        name,
        own: node.own,
        total: node.own + children.iter().map(|c| c.total).sum::<u64>(),
        children,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{DEEPEST, Node, Tree};
    use crate::analysis::profile::sums::tests::{of, seed};

    fn owned(nodes: &[Node]) -> u64 {
        nodes.iter().map(|n| n.own + owned(&n.children)).sum()
    }

    fn holds(node: &Node) -> bool {
        let below: u64 = node.children.iter().map(|c| c.total).sum();
        node.total == node.own + below
            && node.children.is_sorted_by(|a, b| a.total >= b.total)
            && node.children.iter().all(holds)
    }

    fn depth(nodes: &[Node]) -> usize {
        nodes.iter().map(|n| 1 + depth(&n.children)).max().unwrap_or(0)
    }

    #[test]
    fn seed_profile_as_a_tree() {
        let tree = Tree::new(&seed());
        assert_eq!(tree.total, 100);
        assert_eq!((&*tree.comms[0].name, tree.comms[0].total), ("kworker/u4:1", 90));
        let mut at = &tree.comms[0];
        while let [only] = &at.children[..] {
            at = only;
        }
        assert_eq!((&*at.name, at.own, at.total), ("ext4_mb_regular_allocator", 1, 90));
        assert_eq!((&*at.children[0].name, at.children[0].own), ("ext4_mb_good_group", 80));
    }

    #[test]
    fn a_tree_is_no_deeper_than_a_stack() {
        let long = vec!["f"; 1000].join(";");
        let tree = Tree::new(&of(&[(0, 1, "x", &long, 1)]));
        assert_eq!((depth(&tree.comms), tree.total), (DEEPEST + 1, 1));
    }

    #[test]
    fn own_samples_add_up_to_the_total() {
        let functions = ["a", "b", "c"];
        let stack = proptest::collection::vec(0usize..3, 1..6);
        let all = proptest::collection::vec((0usize..3, stack, 1u64..4), 0..30);
        proptest!(|(all in all)| {
            let lines: Vec<String> = all
                .iter()
                .map(|(_, stack, _)| stack.iter().map(|f| functions[*f]).collect::<Vec<_>>().join(";"))
                .collect();
            let samples: Vec<_> = all
                .iter()
                .zip(&lines)
                .map(|((comm, _, n), line)| (0, 1, functions[*comm], line.as_str(), *n))
                .collect();
            let tree = Tree::new(&of(&samples));
            let total: u64 = samples.iter().map(|s| s.4).sum();
            prop_assert_eq!(tree.total, total);
            prop_assert_eq!(owned(&tree.comms), total);
            prop_assert!(tree.comms.iter().all(holds));
        });
    }
}
